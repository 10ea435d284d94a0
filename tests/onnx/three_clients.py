"""Every operator in MindSpore, PyTorch and ONNX Runtime, on the same inputs: the same bits.

    python -m tests.onnx.three_clients docs/clients.md

writes the table of docs/clients.md, which test_three_clients.py compares.
"""

import sys
from pathlib import Path

import numpy as np
from ms_ascend_ops.samples.network import flat
from ms_ascend_ops.samples.operators import names

from ms_ascend_ops.library import native
from ms_ascend_ops.onnx.runtime import run
from tests.dtypes import FLOATS
from tests.onnx.models import Example as OnnxExample
from tests.onnx.test_runtime import given, start
from tests.torch.examples import array, examples

CLIENTS = ("kernel", "MindSpore", "PyTorch", "ONNX Runtime")


def _list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _bits(arrays):
    return [np.ascontiguousarray(value).tobytes() for value in arrays]


def _values(mindspore, dtype):
    """Bits of what a function of MindSpore gives, bfloat16 as float32."""
    return (mindspore.astype("float32") if dtype == "bfloat16" else mindspore).asnumpy()


def agreement(example, dtype):
    """Which clients have the bits of PyTorch: {client: bool}.

    The kernel and ONNX Runtime as the operator, with all of its outputs and what it writes in place; MindSpore as the
    function of `ms_ascend_ops.ops`, against that of `ms_ascend_ops.torch`.
    """
    arguments = example.arguments(dtype)
    results = _list(example.operator(*arguments))
    inputs = [spec.name for spec in example.signature.inputs]
    written = [arguments[inputs.index(name)] for name in example.signature.writes]
    expected = _bits(map(array, results + written))

    launch = example.case(dtype).launches[0]
    native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    changed = [launch.inputs[inputs.index(name)] for name in example.signature.writes]
    found = {"kernel": _bits([*launch.outputs, *changed]) == expected, "PyTorch": True}

    of_onnx = OnnxExample(example.name, example.variant)
    found["ONNX Runtime"] = _bits(run(start(of_onnx.model(dtype)), given(of_onnx, dtype))) == expected

    of_mindspore = flat(example.of_mindspore(dtype))
    values = [(a.float() if dtype == "bfloat16" else a).numpy() for a in example.of_torch(dtype)]
    found["MindSpore"] = _bits(_values(a, dtype) for a in of_mindspore) == _bits(values)
    return found


def table(agreements):
    """As Markdown, of {(example, dtype): agreement}."""
    lines = [f"| Operator | cases | {' | '.join(CLIENTS)} |", "| --- |" + " --- |" * (len(CLIENTS) + 1)]
    for name in names():
        mine = [found for (example, _), found in agreements.items() if example.name == name]
        cells = [f"{sum(found[client] for found in mine)}" for client in CLIENTS]
        lines.append(f"| `{name}` | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(path):
    """Write the table into a document, behind its text."""
    agreements = {(example, dtype): agreement(example, dtype) for example in examples() for dtype in FLOATS}
    text = Path(path).read_text(encoding="utf-8")
    Path(path).write_text(text[: text.index("| Operator |")] + table(agreements), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
