"""Load the MindIRs of `llama.py` in a process that knows nothing about the network, generate text, measure it.

Needs ms_ascend_ops, MindSpore and NumPy only: this is what a deployment does. `train.py` calls it; by hand:

    python examples/generate.py demo_output/fused.mindir --prompt "def "
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np

import ms_ascend_ops


def main() -> None:
    arguments = parse_arguments()
    ms.set_context(mode=ms.GRAPH_MODE)
    network = Network(arguments.mindir)
    result: dict[str, Any] = {"modules": sorted(name for name in sys.modules if name in ("llama", "train"))}
    result["text"] = generate(network, arguments.prompt, arguments.tokens, arguments.temperature, arguments.seed)
    if arguments.against:
        result |= compare({"stock": Network(arguments.against), "fused": network}, arguments.rounds)
    print(json.dumps(result) if arguments.json else arguments.prompt + result["text"])


class Network:
    """Holds the two graphs of a network, one for prompts of any length and one for a single token, and a cache.

    Both give the scores of the next token, of shape (vocabulary,).
    """

    def __init__(self, path: str) -> None:
        self._any = ms_ascend_ops.load(path)
        self._one = ms_ascend_ops.load(Path(path).with_suffix(".decode.mindir"))
        self.cache = np.zeros(self._one.inputs[1].shape, np.float32)  # (layers, 2, batch, heads, room, head_dim)
        self.room = self.cache.shape[4]
        self.length = 0

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Read a prompt, of shape (1, length)."""
        self.length = 0
        logits, new = self.read_any(ids, self.cache[:, :, :, :, :0])
        self._append(new)
        return logits

    def read_one(self, token: int) -> np.ndarray:
        """Read one more token."""
        logits, new = self._one(np.array([[token]], np.int32), self.cache, np.array([self.length], np.int32))
        self._append(new.asnumpy())
        return logits.asnumpy()[0, -1]

    def read_any(self, ids: np.ndarray, cache: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read any number of tokens behind those of a cache, which is returned with them; for comparison."""
        logits, cache = self._any(ids, cache)
        return logits.asnumpy()[0, -1], cache.asnumpy()

    def _append(self, new: np.ndarray) -> None:
        length = self.length + new.shape[4]
        if length > self.room:
            raise SystemExit(f"the cache of this network has room for {self.room} tokens: ask for fewer")
        self.cache[:, :, :, :, self.length : length] = new
        self.length = length


def generate(network: Network, prompt: str, count: int, temperature: float, seed: int) -> str:
    """Continue a prompt byte by byte: one call for the prompt, then one for each byte."""
    random = np.random.default_rng(seed)
    logits = network.read(encode(prompt))
    produced = bytearray()
    while len(produced) < count:
        scores = logits.astype(np.float64) / max(temperature, 1e-6)
        weights = np.exp(scores - scores.max())
        produced.append(int(random.choice(weights.size, p=weights / weights.sum())))
        if len(produced) < count:
            logits = network.read_one(produced[-1])
    return produced.decode("utf-8", errors="replace")


def compare(networks: dict[str, Network], rounds: int) -> dict[str, Any]:
    """Compare prefill and decode speed of two networks by medians of alternating `rounds`: both see the same machine.

    Also the largest difference between scores: of the two networks, and of the two ways to decode.
    """
    prompt = np.random.default_rng(0).integers(32, 127, (1, 256)).astype(np.int32)
    steps = 8
    kinds = {"prefill": prompt.size, "decode": steps, "decode_any_size": steps}
    seconds: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in kinds} for name in networks}
    scores: dict[str, list[np.ndarray]] = {}
    for index in range(rounds + 1):  # the first one compiles
        for name, network in networks.items():
            start = time.perf_counter()
            first = network.read(prompt)
            times = [time.perf_counter() - start]
            cache = network.cache[:, :, :, :, : network.length].copy()
            start = time.perf_counter()
            for token in prompt[0, :steps]:
                last = network.read_one(token)
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
            for token in prompt[0, :steps]:
                same, cache = network.read_any(np.array([[token]], np.int32), cache)
            times.append(time.perf_counter() - start)
            scores[name] = [first, last, same]
            if index:
                for kind, second in zip(kinds, times, strict=True):
                    seconds[name][kind].append(second)
    speed = {
        kind: {name: count / statistics.median(times[kind]) for name, times in seconds.items()}
        for kind, count in kinds.items()
    }
    stock, fused = scores.values()
    pairs = [*zip(stock, fused, strict=True), *((last, same) for _, last, same in scores.values())]
    return {"tokens_per_second": speed, "difference": max(float(np.abs(a - b).max()) for a, b in pairs)}


def encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)[None]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mindir", help="a file that examples/train.py wrote; its .decode.mindir is beside it")
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
