"""Loads what export.py wrote, in a process without MindFormers: the same logits, and the tokens of transformers?

python check.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mindspore import Tensor
from networks import PROMPTS

from ms_ascend_ops import load


def main() -> None:
    folder = Path(sys.argv[1])
    expected = json.loads((folder / "tokens.json").read_text())["float32"][0][len(PROMPTS[0]) :]
    for name in ("prefill", "prefill_fused", "decode", "decode_fused"):
        arrays = np.load(folder / f"{name.partition('_')[0]}.npz")
        inputs = [Tensor(arrays[f"input_{i}"]) for i in range(len(arrays) - 1)]
        logits = load(folder / f"{name}.mindir")(*inputs)
        logits = logits[0] if isinstance(logits, tuple) else logits
        error = np.abs(logits.asnumpy() - arrays["logits"]).max() / np.abs(arrays["logits"]).max()
        token = int(logits.asnumpy().reshape(-1, logits.shape[-1])[-1].argmax())
        print(f"{name}: logits within {error:.1e} of the network's, token {token}")
        if not error < 1e-5 or token != expected[name.startswith("decode")]:
            sys.exit(1)


if __name__ == "__main__":
    main()
