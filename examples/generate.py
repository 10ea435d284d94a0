"""Load a MindIR of `llama.py` in a process that knows nothing about the network, generate text, measure it.

Needs ms_ascend_ops, MindSpore and NumPy only: this is what a deployment does. `demo.py` calls it; by hand:

    python examples/generate.py demo_output/fused.mindir --prompt "def "
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np

import ms_ascend_ops

Network = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def main() -> None:
    arguments = parse_arguments()
    ms.set_context(mode=ms.GRAPH_MODE)
    network, empty = open_network(arguments.mindir)
    result: dict[str, Any] = {"modules": sorted(name for name in sys.modules if name in ("llama", "demo"))}
    result["text"] = generate(network, empty, arguments.prompt, arguments.tokens, arguments.temperature, arguments.seed)
    if arguments.against:
        other, _ = open_network(arguments.against)
        result |= compare({"stock": other, "fused": network}, empty, arguments.rounds)
    print(json.dumps(result) if arguments.json else arguments.prompt + result["text"])


def open_network(path: str) -> tuple[Network, np.ndarray]:
    """The network, which takes (token ids, cache) and returns (logits, cache), and a cache without tokens."""
    loaded = ms_ascend_ops.load(path)
    layers, pair, _, heads, _, head_dim = loaded.inputs[1].shape

    def network(ids: np.ndarray, cache: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits, cache = loaded(ids, cache)
        return logits.asnumpy(), cache.asnumpy()

    return network, np.zeros((layers, pair, 1, heads, 0, head_dim), np.float32)


def generate(network: Network, cache: np.ndarray, prompt: str, count: int, temperature: float, seed: int) -> str:
    """Continue a prompt byte by byte: one call for the prompt, then one for each byte."""
    random = np.random.default_rng(seed)
    ids = encode(prompt)
    produced = bytearray()
    for _ in range(count):
        logits, cache = network(ids, cache)
        scores = logits[0, -1].astype(np.float64) / max(temperature, 1e-6)
        weights = np.exp(scores - scores.max())
        token = int(random.choice(weights.size, p=weights / weights.sum()))
        produced.append(token)
        ids = np.array([[token]], np.int32)
    return produced.decode("utf-8", errors="replace")


def compare(networks: dict[str, Network], empty: np.ndarray, rounds: int) -> dict[str, Any]:
    """Prefill and decode speed of two networks in turn, so that both see the same machine; medians of `rounds`."""
    prompt = np.random.default_rng(0).integers(32, 127, (1, 256)).astype(np.int32)
    steps = 8
    seconds: dict[str, dict[str, list[float]]] = {name: {"prefill": [], "decode": []} for name in networks}
    logits = {}
    for index in range(rounds + 1):  # the first one compiles
        for name, network in networks.items():
            start = time.perf_counter()
            logits[name], cache = network(prompt, empty)
            middle = time.perf_counter()
            for step in range(steps):
                _, cache = network(prompt[:, step : step + 1], cache)
            if index:
                seconds[name]["prefill"].append(middle - start)
                seconds[name]["decode"].append(time.perf_counter() - middle)
    tokens = {"prefill": prompt.size, "decode": steps}
    speed = {
        kind: {name: tokens[kind] / statistics.median(times[kind]) for name, times in seconds.items()}
        for kind in tokens
    }
    first, second = logits.values()
    return {"tokens_per_second": speed, "difference": float(np.abs(first - second).max())}


def encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)[None]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mindir", help="a file that examples/demo.py wrote")
    parser.add_argument("--prompt", default="def ", help="text to continue (default: %(default)r)")
    parser.add_argument("--tokens", type=int, default=120, help="bytes to generate (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.6, help="0 takes the likeliest (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice (default: %(default)s)")
    parser.add_argument("--against", metavar="MINDIR", help="compare the speed with this one, alternating")
    parser.add_argument("--rounds", type=int, default=15, help="of the comparison (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    main()
