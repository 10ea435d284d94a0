"""The generated op_host code, compiled against the stand-in for CANN and run."""

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.shapes import infer_shapes, infer_types
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import draw

NAMES = sorted(module.kernels())
CORES = (40, 48)  # vector cores of 910B3 and B4, of 910B1 and B2; each kernel takes any number between
ROUNDS = 300  # random inputs for each kernel


def seed(name):
    return np.random.default_rng(sum(name.encode()))


@pytest.mark.parametrize("name", NAMES)
def test_tiling_is_that_of_the_host_library(name):
    rng, kernel = seed(name), module.kernels()[name]
    for _ in range(ROUNDS):
        shapes, dtypes, attributes = draw(rng, kernel.signature, 1 << 28)
        cores = int(rng.integers(CORES[0], CORES[1] + 1))
        if all(0 in shape for shape in infer_shapes(kernel.signature, shapes, attributes)):
            tiling = module.tile(name, shapes, dtypes, attributes, cores)
            assert (tiling.ok, tiling.block_dim, set(tiling.fields.values())) == (True, 1, {0})
            continue
        expected = _C.tiling(name, shapes, dtypes, attributes, core_num=cores, ub_bytes=module.KERNEL_UB_BYTES)
        tiling = module.tile(name, shapes, dtypes, attributes, cores)
        where = f"{shapes} {dtypes} {attributes} {cores}"
        assert tiling.ok, where
        assert tiling.block_dim == expected.pop("block_dim"), where
        assert tiling.workspace_bytes == expected.pop("workspace_bytes") + module.LIBRARY_WORKSPACE, where
        assert tiling.fields == pytest.approx(expected, rel=0, abs=0), where
        assert 1 <= tiling.block_dim <= cores, where
        assert tiling.tiling_key == 1
        assert tiling.schedule_mode == int(kernel.synchronizes)
        assert len(tiling.data) % 8 == 0


@pytest.mark.parametrize("reported", [192 * 1024, 192 * 1024 - 256], ids=["all", "less what CANN keeps"])
def test_the_unified_buffer_is_the_same_whatever_part_cann_reports(reported):
    shapes, dtypes = [(5, 30000), (30000,)], ["float32", "float32"]
    attributes = {"epsilon": 1e-6, "scheme": "llama"}
    expected = _C.tiling("rms_norm", shapes, dtypes, attributes, core_num=40, ub_bytes=module.KERNEL_UB_BYTES)
    assert module.tile("rms_norm", shapes, dtypes, attributes, 40, reported).fields["tileCols"] == expected["tileCols"]


@pytest.mark.parametrize("name", NAMES)
def test_inference_is_that_of_python(name):
    rng, signature = seed(name), module.kernels()[name].signature
    for round_ in range(50):
        shapes, dtypes, attributes = draw(rng, signature, 1 << 28)
        if round_ % 2:  # as a dynamic graph knows them
            shapes = [tuple(-1 if rng.random() < 0.5 else size for size in shape) for shape in shapes]
        inferred, types = module.infer(name, shapes, dtypes, attributes)
        assert inferred == infer_shapes(signature, shapes, attributes)
        assert types == infer_types(signature, dtypes)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_norms_meet_at_a_barrier_and_other_kernels_do_not(name):
    """What asks for it starts all cores together, which costs; group_norm shares a group out over cores."""
    meets = name == "group_norm" or name.endswith("norm_grad")
    assert module.kernels()[name].synchronizes == meets


def test_a_wrong_shape_is_refused_and_said(capfd):
    attributes = {"epsilon": 1e-6, "scheme": "llama"}
    assert not module.tile("rms_norm", [(4, 8), (7,)], ["float32"] * 2, attributes, 40).ok
    assert "rms_norm: gamma.shape[0] must equal x.shape[-1] (8), got (7,)" in capfd.readouterr().err
    assert module.infer("rms_norm", [(4, 8), (7,)], ["float32", "float16"], attributes) == (None, None)
    assert "gamma.dtype must be float32 when x.dtype is float32" in capfd.readouterr().err


def test_a_wrong_attribute_is_refused_and_said(capfd):
    shapes, dtypes = [(4, 8), (8,)], ["float32"] * 2
    assert not module.tile("rms_norm", shapes, dtypes, {"epsilon": 0.0, "scheme": "llama"}, 40).ok
    assert "rms_norm: epsilon must be > 0" in capfd.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_registration_follows_the_definition(name):
    signature, described = module.kernels()[name].signature, module.describe(name)
    for side, tensors in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        assert [tensor["name"] for tensor in described[side]] == [tensor.name for tensor in tensors]
        for tensor, spec in zip(described[side], tensors, strict=True):
            dtypes = [module.CANN_DTYPES[row.get(spec.dtype, spec.dtype)] for row in signature.types]
            assert tensor["dtypes"] == dtypes
            assert tensor["formats"] == [2] * len(dtypes)
    assert all(tensor["contiguous"] for tensor in described["inputs"])
    kinds = {"string": "int"}  # a choice travels as the index of its text
    expected = [(attribute.name, kinds.get(attribute.type, attribute.type)) for attribute in signature.attributes]
    assert [(attribute["name"], attribute["type"]) for attribute in described["attributes"]] == expected
    assert all(attribute["kind"] == module.REQUIRED for attribute in described["attributes"])
    assert list(described["chips"]) == ["ascend910b"]


def test_every_operator_of_the_registry_has_its_package_operator():
    assert sorted(signature.name for signature in module.signatures()) == NAMES
    types = [kernel.signature.cann_type for kernel in module.kernels().values()]
    assert len(set(types)) == len(types)
    assert all(kind.startswith("MsAscendOps") for kind in types)  # CANN has a RmsNorm and a SwiGlu of its own
