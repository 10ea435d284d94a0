"""The schemas that are registered with onnx: the checker and shape inference."""

import onnx
import pytest
from onnx import helper

from ms_ascend_ops import registry
from ms_ascend_ops.onnx import DOMAIN, VERSION
from ms_ascend_ops.onnx.graphs import shape_of
from tests.dtypes import FLOATS
from tests.onnx.models import every_operator, model


def inferred(made, strict=True):
    result = onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=strict)
    return {value.name: shape_of(value) for value in (*result.graph.value_info, *result.graph.output)}


def test_every_operator_has_one():
    for name in registry.names():
        signature, schema = registry.signature(name), onnx.defs.get_schema(name, VERSION, DOMAIN)
        assert [p.name for p in schema.inputs] == [t.name for t in signature.inputs]
        assert [p.name for p in schema.outputs] == [t.name for t in signature.cann_outputs]
        old = {a.formerly for a in signature.attributes if a.formerly}
        assert set(schema.attributes) == {a.name for a in signature.attributes} | old
        assert schema.since_version == signature.version
        assert schema.doc == registry.op_spec(name).summary


@every_operator
def test_shapes_and_dtypes(example):
    for dtype in FLOATS:
        onnx.checker.check_model(example.model(dtype), full_check=True)
        found = inferred(example.model(dtype, typed=False, open_dims=False))
        for name, (output_dtype, shape) in example.outputs(dtype).items():
            assert found[name] == (tuple(shape), ("",) * len(shape), output_dtype)
    assert_of_unknown_ranks(example)


def assert_of_unknown_ranks(example):
    """Nothing is claimed that the rules do not say, and nothing fails."""
    made = example.model("float32", typed=False)
    for value in made.graph.input:
        value.type.tensor_type.ClearField("shape")
    for name, (dtype, _) in example.outputs("float32").items():
        assert inferred(made)[name][2] == dtype


def test_names_of_open_dims():
    node = helper.make_node("flash_attention", ["q", "k", "v"], ["y", "lse"], domain=DOMAIN, layout="BSND")
    inputs = {
        "q": ("float32", ["batch", "queries", 8, 16]),
        "k": ("float32", ["batch", "keys", 2, 16]),
        "v": ("float32", ["batch", "keys", 2, 32]),
    }
    found = inferred(model([node], inputs, {"y": ("float32", None), "lse": ("float32", None)}))
    assert found["y"] == ((-1, -1, 8, 32), ("batch", "queries", "", ""), "float32")
    assert found["lse"] == ((-1, 8, -1), ("batch", "", "queries"), "float32")


def test_what_is_calculated_of_an_open_dim_has_no_name():
    node = helper.make_node("swiglu", ["x"], ["y"], domain=DOMAIN)
    found = inferred(model([node], {"x": ("float32", ["n", "wide"])}, {"y": ("float32", None)}))
    shape, (first, last), dtype = found["y"]
    assert (shape, first, dtype) == ((-1, -1), "n", "float32")
    assert last != "wide"


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        (([2, 8], [7]), {}, "gamma.shape"),
        (([2, 8], [8]), {"scheme": "gpt"}, "scheme must be 'round_then_scale' or 'one_plus_gamma'"),
        (([2, 8], [8]), {"epsilon": 0.0}, "epsilon must be > 0"),
    ],
)
def test_what_the_rules_refuse(shapes, attributes, message):
    node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=DOMAIN, **attributes)
    made = model([node], dict(zip(("x", "gamma"), (("float32", s) for s in shapes))), {"y": ("float32", None)})
    with pytest.raises(onnx.shape_inference.InferenceError, match=message):
        inferred(made)


def test_the_checker_refuses_wrong_nodes():
    for attributes in ({"epsilon": 1}, {"eps": 1.0}):
        node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=DOMAIN, **attributes)
        inputs = {"x": ("float32", [2, 8]), "gamma": ("float32", [8])}
        with pytest.raises(onnx.checker.ValidationError, match="eps"):
            model([node], inputs, {"y": ("float32", [2, 8])})


def test_checks_that_rules_cannot_say():
    node = helper.make_node("rotary_embedding", ["x", "cos", "sin"], ["y"], domain=DOMAIN)
    inputs = {"x": ("float32", [1, 4, 2, 7]), "cos": ("float32", [4, 7]), "sin": ("float32", [4, 7])}
    with pytest.raises(onnx.shape_inference.InferenceError, match="must be even"):
        inferred(model([node], inputs, {"y": ("float32", None)}))
