import re
from pathlib import Path

import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native

DEFINITION = """
name: scale
summary: Scales a tensor.
attributes:
  factor: {type: float, default: 2.0, exclusive_minimum: 0}
types:
  - {T: float16}
  - {T: float32}
forward:
  inputs:
    x: T[*b d]
  outputs:
    y: T[*b d]
"""


def load(tmp_path, text, name="scale"):
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return registry.load(path)


def test_load(tmp_path):
    spec = load(tmp_path, DEFINITION)
    assert spec.gradient is None
    assert spec.signatures == (spec.forward,)
    assert spec.forward.entry == "Scale"
    assert [tensor.name for tensor in spec.forward.inputs] == ["x"]
    assert spec.forward.check_attributes({}) == {"factor": 2.0}


GRADIENT = """
gradient:
  inputs:
    dy: T[*b d]
  outputs:
    dx: T[*b d]
"""


def test_an_output_of_a_gradient_that_is_the_gradient_of_nothing(tmp_path):
    assert load(tmp_path, DEFINITION + GRADIENT).differentiable == ("x",)
    wrong = DEFINITION + GRADIENT.replace("dx:", "dfoo:")
    with pytest.raises(ValueError, match=r"scale.yaml: gradient: the output 'dfoo' must be the gradient of an input, "):
        load(tmp_path, wrong)
    assert load(tmp_path, wrong + "differentiable: [x]\n").differentiable == ("x",)  # the function makes dx of it


@pytest.mark.parametrize(
    ("old", "new"),
    [("x: T[*b d]", "x: T[*b e]"), ("default: 2.0", "default: 3.0"), ("minimum: 0", "minimum: 1"), ("x:", "z:")],
)
def test_the_fingerprint_changes_with_what_is_built(tmp_path, old, new):
    text = DEFINITION.replace("y: T[*b d]", "y: T[*b]")
    before, after = load(tmp_path, text), load(tmp_path, text.replace(old, new))
    assert before.forward.fingerprint != after.forward.fingerprint
    assert before.forward.fingerprint == load(tmp_path, text.replace("Scales", "Multiplies")).forward.fingerprint


def test_entries_of_the_gradient():
    assert registry.signature("rms_norm_grad").entry == "RmsNormGrad"
    assert registry.signature("rms_norm_grad").variables == ("T", "G")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: scale", "name: other", "name 'other' must be the file's stem"),
        ("summary: Scales a tensor.", "", "'summary' is missing"),
        ("summary", "sumary", "unknown keys ['sumary']"),
        ("x: T[*b d]", "x: U[*b d]", "tensor 'x': 'U' is neither a dtype nor a dtype variable"),
        ("x: T[*b d]", "x: T", "tensor 'x' must be written DTYPE[shape rule], got 'T'"),
        ("y: T[*b d]", "y: T[*b e]", "scale: 'e' of y stands in no input"),
        ("y: T[*b d]", "y: T[b d]", "scale: 'b' is used with and without '*'"),
        ("y: T[*b d]", "y: T[~b d]", "scale: '~b' of y needs an earlier input's '*b' or 'b'"),
        ("x: T[*b d]", "x: T[~b d]", "scale: '~b' of x needs an earlier input's '*b' or 'b'"),
        ("y: T[*b d]", "y: T[*b d@factor]", "scale: '@factor' must name an int attribute"),
        ("T: float32", "T: float8", "unknown dtypes ['float8']"),
        (
            "T: float32",
            "G: float32",
            "every row of 'types' must name the same variables, at least one, in the same order",
        ),
        ("type: float,", "type: double,", "attribute 'factor': type must be 'int', 'float', 'bool' or 'string'"),
        ("types:", "writes: [y]\ntypes:", "'writes' must name inputs, got ['y']"),
        ("types:", "limits: {d: 0}\ntypes:", "'limits' must be whole numbers from 1 on, got {'d': 0}"),
        ("default: 2.0", "default: 0.0", "scale: factor must be > 0 in float32, got 0.0"),
        ("x: T[*b d]", "x: T[*b *d]", "scale: no other input tells the lengths of the '*' tokens of x"),
        ("y: T[*b d]", "y: T[*b =factor]", "scale: '=factor' must name an int attribute"),
        ("x: T[*b d]", "x: T[*b d =factor+factor]", "scale: '=factor+factor' must name an int attribute"),
        ("x: T[*b d]\n", "x: T[*b d]\n    z: T[d ones(d)]\n", "scale: 'd' is used with and without '*'"),
        ("types:", "multiples: {d: factor}\ntypes:", "scale: multiples: 'factor' must be an int attribute > 0"),
        ("exclusive_minimum: 0", "axes: [1]", "attribute 'factor': 'axes' must give an axis for each choice"),
    ],
)
def test_wrong_definitions(tmp_path, old, new, message):
    assert old in DEFINITION
    with pytest.raises(ValueError, match=re.escape(f"scale.yaml: {message}")):
        load(tmp_path, DEFINITION.replace(old, new))


def test_unknown_operator():
    with pytest.raises(ValueError, match=r"^there is no operator 'sotfmax'; did you mean softmax\?"):
        registry.op_spec("sotfmax")


def test_numpy_scalars_are_numbers():
    assert registry.signature("rms_norm").check_attributes({"epsilon": np.float32(0.5)})["epsilon"] == 0.5
    axis = registry.signature("swiglu").check_attributes({"axis": np.int64(1)})["axis"]
    assert (axis, type(axis)) == (1, int)


def test_the_library_has_the_same_signatures():
    built = {signature["name"]: signature for signature in native().signatures()}
    specs = [signature for name in registry.names() for signature in registry.op_spec(name).signatures]
    assert built.keys() == {spec.name for spec in specs}
    for spec in specs:
        signature = built[spec.name]
        assert signature["entry"] == spec.entry
        assert signature["types"] == list(spec.types)
        for side, tensors in (("inputs", spec.inputs), ("outputs", spec.outputs)):
            assert signature[side] == [{"name": t.name, "dtype": t.dtype, "shape": t.rule.text} for t in tensors]
        assert {a["name"]: a["default"] for a in signature["attributes"]} == spec.check_attributes({})


KERNELS = Path(__file__).parents[2] / "kernels"


def stops_itself(folder: Path) -> bool:
    """Whether the kernels of an operator call Trap, in the headers of primitives that they include, too."""
    waiting, read = list(folder.glob("*.h")), set()
    while waiting:
        header = waiting.pop()
        read.add(header)
        names = re.findall(r'#include "(primitives/\w+\.h)"', header.read_text(encoding="utf-8"))
        waiting += {KERNELS / name for name in names} - read
    return any("AscendC::Trap()" in header.read_text(encoding="utf-8") for header in read)


@pytest.mark.parametrize("name", registry.names())
def test_a_kernel_that_may_stop_itself_has_rules_for_values(name):
    assert bool(registry.op_spec(name).forward.values) == stops_itself(KERNELS / name)
