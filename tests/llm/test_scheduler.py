"""Requests that share steps get what they get alone."""

import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.executor import BLOCK, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.sampling import Sampling
from ms_ascend_ops.llm.scheduler import Request, Scheduler
from ms_ascend_ops.llm.tokenizer import Tokenizer
from tests.llm import reference, tiny

WEIGHTS = tiny.random_weights(tiny.CONFIG)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return load_network(open_checkpoint(tiny.write_directory(tmp_path_factory.mktemp("m"), weights=WEIGHTS)))


def scheduler(network, blocks=64, batch=4, chunk=32, context=256):
    return Scheduler(ProgramExecutor(network, blocks, context, chunk), Tokenizer(tiny.backend()), batch)


def prompt(count, seed=0):
    return np.random.default_rng(seed).integers(0, len(tiny.TOKENS) - 2, count).tolist()


def ran(own, *requests):
    """The scheduler, when it has done these."""
    for request in requests:
        own.submit(request)
    own.run()
    return own


def alone(network, request):
    copy = Request(request.prompt, request.max_tokens, request.sampling, request.stop, request.stop_tokens)
    ran(scheduler(network), copy)
    return copy


def test_greedy_tokens(network):
    """Those of the reference: 50 tokens of prompt in two pieces, 12 behind it."""
    request = Request(prompt(50), 12)
    own = ran(scheduler(network), request)
    assert request.tokens == reference.greedy(tiny.CONFIG, tiny.doubles(WEIGHTS), request.prompt, 12)
    assert request.finish_reason == "length"
    assert own.pool.free == 64


def test_requests_of_different_lengths(network):
    """They join and leave at different times, more than the batch has places; each has the tokens it has alone."""
    requests = [
        Request(prompt(count, count), 5 + count % 7, Sampling(temperature=1.0, seed=count) if count % 2 else Sampling())
        for count in (3, 40, 1, 71, 33, 12, 100)
    ]
    shared = scheduler(network)
    for request in requests[:3]:
        shared.submit(request)
    for _ in range(4):
        shared.step()
    for request in requests[3:]:
        shared.submit(request)
    shared.run()
    for request in requests:
        assert request.tokens == alone(network, request).tokens
        assert request.finish_reason == "length"
        assert len(request.tokens) == request.max_tokens
    assert shared.pool.free == 64


def test_a_cache_that_is_too_small_for_all(network):
    """The sequence that came last waits and is calculated again, with the tokens it would have had."""
    requests = [Request(prompt(20, seed), 40, Sampling(temperature=0.9, seed=seed)) for seed in range(4)]
    small = scheduler(network, blocks=5)
    ran(small, *requests)
    for request in requests:
        assert request.tokens == alone(network, request).tokens
    assert small.pool.free == 5


def test_a_cache_that_is_too_small_for_one(network):
    request = Request(prompt(40), 100)
    ran(scheduler(network, blocks=2), request)
    assert request.finish_reason == "length"
    assert len(request.prompt) + len(request.tokens) == 2 * BLOCK + 1


def test_the_context_ends(network):
    request = Request(prompt(60), 100)
    ran(scheduler(network, context=64), request)
    assert request.finish_reason == "length"
    assert len(request.tokens) == 4


def test_a_common_prompt_is_calculated_once(network):
    own = scheduler(network)
    common = prompt(80)
    requests = [Request([*common, token], 6) for token in (1, 2)]
    for request in requests:
        own.submit(request)
        own.run()
    assert [request.reused for request in requests] == [0, 64]
    assert requests[1].tokens == alone(network, requests[1]).tokens


def test_a_conversation_goes_on_where_it_was(network):
    own = scheduler(network)
    first = Request(prompt(30), 10)
    ran(own, first)
    second = Request([*first.prompt, *first.tokens, 5, 6], 4)
    ran(own, second)
    assert second.reused == BLOCK
    assert second.tokens == alone(network, second).tokens


def test_stop_token(network):
    request = Request(prompt(9), 30, Sampling(temperature=3.0, seed=0))
    tokens = alone(network, request).tokens
    request.stop_tokens = [tokens[4]]
    ran(scheduler(network), request)
    assert request.finish_reason == "stop"
    assert request.tokens == tokens[: tokens.index(tokens[4]) + 1]


def test_stop_text_and_pieces(network):
    """Pieces add up to the text; the stop text is not in them, although it comes in several tokens."""
    full = alone(network, Request(prompt(9), 30, Sampling(temperature=3.0, seed=0)))
    middle = full.text[10:13]
    pieces = []
    request = Request(prompt(9), 30, Sampling(temperature=3.0, seed=0), stop=[middle], on_text=pieces.append)
    ran(scheduler(network), request)
    assert request.finish_reason == "stop"
    assert request.text == "".join(pieces) == full.text[: full.text.index(middle)]


def test_cancel(network):
    own = scheduler(network)
    requests = [Request(prompt(9, seed), 50) for seed in range(6)]  # four run, two wait
    for request in requests:
        own.submit(request)
    for _ in range(6):
        own.step()
    own.cancel(requests[0])
    own.cancel(requests[5])
    own.run()
    assert [request.finish_reason for request in requests] == ["cancelled", *["length"] * 4, "cancelled"]
    assert own.pool.free == 64


def test_a_callback_that_raises_ends_its_request_only(network):
    def fails(text):
        raise OSError("the client has gone")

    own = scheduler(network)
    requests = [Request(prompt(9), 12, on_text=fails), Request(prompt(20), 12)]
    ran(own, *requests)
    assert requests[0].finish_reason == "error"
    assert requests[0].error == "OSError: the client has gone"
    assert requests[1].tokens == alone(network, requests[1]).tokens
    assert own.pool.free == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": []}, "prompt must have at least 1 token"),
        ({"prompt": [0] * 256}, r"fewer tokens than the context \(256\), got 256"),
        ({"prompt": [-1]}, "tokens of prompt must be >= 0 and < 264, got -1"),
        ({"prompt": [len(tiny.TOKENS)]}, "got 264"),
        ({"prompt": [1], "max_tokens": 0}, "max_tokens must be at least 1"),
    ],
)
def test_bad_requests(network, arguments, message):
    with pytest.raises(ValueError, match=message):
        scheduler(network).submit(Request(**arguments))


def test_bad_batch(network):
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        scheduler(network, batch=0)
