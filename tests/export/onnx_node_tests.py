"""Runs the node tests of the `onnx` package on convert: `python -m tests.export.onnx_node_tests [part of a name]`.

They take some minutes, so pytest has no part in them. Each counts as right, refused with a reason when it is
converted, refused by MindSpore when it runs (no kernel for a dtype), without tensors, or wrong. What the tests give as
inputs and a file has as constants (axes, sizes) becomes a constant where the operator is refused otherwise.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from ms_ascend_ops.export.from_onnx.convert import convert_onnx
from onnx import ModelProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from ms_ascend_ops import load


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def with_constants(model, values):
    """The model with values for some of its inputs."""
    made = ModelProto()
    made.CopyFrom(model)
    left = [given for given in made.graph.input if given.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(left)
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return made


def is_right(result, value):
    if result.shape != value.shape or (result.dtype != value.dtype and value.dtype.name != "bfloat16"):
        return False
    small = value.dtype.itemsize <= 2 and value.dtype.kind in "fV"
    bound = {"rtol": 2e-2, "atol": 1e-2} if small else {"rtol": 1e-3, "atol": 1e-5}  # as ONNX's own runner has them
    return np.allclose(np.asarray(result, np.float64), np.asarray(value, np.float64), equal_nan=True, **bound)


def run(model, inputs, outputs):
    """Whether the MindIR gives the outputs; a ValueError if the model is refused."""
    shapes = {given.name: inputs[given.name].shape for given in model.graph.input}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        network = load(convert_onnx(path, Path(folder, "model"), shapes=shapes))
        results = network(*(inputs[name] for name in shapes))
    results = results if isinstance(results, tuple | list) else [results]
    arrays = [(result.float() if str(result.dtype) == "BFloat16" else result).asnumpy() for result in results]
    return len(arrays) == len(outputs) and all(map(is_right, arrays, outputs))


def verdict(test):
    model, (inputs, outputs) = test.model, test.data_sets[0]
    constants = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in constants]
    if any(value.type.WhichOneof("value") != "tensor_type" for value in [*given, *model.graph.output]):
        return "without tensors", ""
    values = {value.name: array(one) for value, one in zip(given, inputs, strict=True)}
    behind = dict(list(values.items())[1:])
    short = {name: value for name, value in behind.items() if value.dtype.kind in "iub" and value.ndim < 2}
    reason = ""
    for fixed in ({}, short, behind):
        try:
            right = run(with_constants(model, fixed), values, [array(one) for one in outputs])
        except ValueError as error:
            reason = str(error)
        except (RuntimeError, TypeError) as error:
            return "refused by MindSpore", " ".join(str(error).replace("-", "").split())[:120]
        else:
            return ("right" if right else "wrong"), ""
    return "refused", reason


def main(part=""):
    counts = Counter()
    for test in load_model_tests(kind="node"):
        if part in test.name:
            found, reason = verdict(test)
            counts[found] += 1
            if found in ("wrong", "refused by MindSpore"):
                print(f"{test.name}: {found} {reason}", flush=True)
    print(dict(counts))
    return counts["wrong"]


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
