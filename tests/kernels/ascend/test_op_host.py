"""The generated op_host code, compiled against the headers of the emulated device and run."""

import re

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import HUGE, draw

NAMES = sorted(module.kernels())
CORES = (40, 48)  # vector cores of 910B3 and B4, of 910B1 and B2; each kernel takes any number between
ROUNDS = 100, 300  # random inputs for each kernel; thoroughly
# Kernels that count in 32 bits what a huge dim gives them: some of them, to see that there are huge dims.
COUNT = ("cross_entropy", "group_norm", "matmul", "rms_norm", "softmax")


@pytest.fixture
def rounds(request):
    """`--cases all` makes more."""
    return range(ROUNDS[request.config.getoption("cases") == "all"])


def without_depth(fields):
    """Without baseK, which is CANN's choice."""
    return {name: value for name, value in fields.items() if not name.endswith(".baseK")}


def seed(name):
    return np.random.default_rng(sum(name.encode()))


@pytest.mark.parametrize("name", NAMES)
def test_tiling_is_that_of_the_host_library(name, rounds):
    rng, kernel = seed(name), module.kernels()[name]
    for _ in rounds[::2]:
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
        block_dim = expected.pop("block_dim")
        assert tiling.block_dim == ((block_dim + 1) // 2 if kernel.multiplies else block_dim), where
        assert tiling.workspace_bytes == expected.pop("workspace_bytes") + module.LIBRARY_WORKSPACE, where
        assert without_depth(tiling.fields) == pytest.approx(without_depth(expected), rel=0, abs=0), where
        assert 1 <= tiling.block_dim <= cores, where
        assert tiling.tiling_key == 1
        used = tiling.workspace_bytes > module.LIBRARY_WORKSPACE
        assert tiling.schedule_mode == int(kernel.synchronizes and used)
        assert len(tiling.data) % 8 == 0


# What a tiling says of a dim that is too large: the rule, and a size or a shape.
TOO_LARGE = r"(be fewer than 2\^31|be at most \d+|have at most \d+ slots)"
VALUE = r"(\d+|(key_cache of shape )?\([\d, ]+\))"


@pytest.mark.parametrize("name", NAMES)
def test_a_huge_dim_is_tiled_or_refused(name, rounds, capfd):
    """Nothing is narrowed: the casts of the tilings are checked here. No memory is needed for that."""
    rng, kernel = seed(name), module.kernels()[name]
    refused = 0
    for _ in rounds:
        shapes, dtypes, attributes = draw(rng, kernel.signature, 1 << 55, HUGE)
        tiling = module.tile(name, shapes, dtypes, attributes, CORES[0])
        said = capfd.readouterr().err
        assert tiling.ok or re.search(rf"{name}: .* must {TOO_LARGE}, got {VALUE}$", said), (
            f"{shapes} {dtypes} {attributes}: {said}"
        )
        refused += not tiling.ok
    assert refused or name.removesuffix("_grad") not in COUNT


@pytest.mark.parametrize("reported", [192 * 1024, 192 * 1024 - 256], ids=["all", "less what CANN keeps"])
def test_the_unified_buffer_is_the_same_whatever_part_cann_reports(reported):
    shapes, dtypes = [(5, 30000), (30000,)], ["float32", "float32"]
    attributes = {"epsilon": 1e-6, "scheme": "round_then_scale"}
    expected = _C.tiling("rms_norm", shapes, dtypes, attributes, core_num=40, ub_bytes=module.KERNEL_UB_BYTES)
    assert module.tile("rms_norm", shapes, dtypes, attributes, 40, reported).fields["tileCols"] == expected["tileCols"]


@pytest.mark.parametrize("name", NAMES)
def test_inference_is_that_of_python(name):
    rng, signature = seed(name), module.kernels()[name].signature
    for round_ in range(50):
        shapes, dtypes, attributes = draw(rng, signature, 1 << 28)
        if round_ % 2:  # as a dynamic graph knows them
            shapes = [s and tuple(-1 if rng.random() < 0.5 else size for size in s) for s in shapes]
        inferred, types = module.infer(name, shapes, dtypes, attributes)
        changed = [i for i, tensor in enumerate(signature.inputs) if tensor.name in signature.writes]
        assert inferred == [*infer_shapes(signature, shapes, attributes), *(shapes[i] for i in changed)]
        assert types == [*infer_types(signature, dtypes), *(dtypes[i] for i in changed)]


def test_some_kernels_may_meet_at_a_barrier_and_others_do_not():
    """Sums over samples and groups, pieces of long rows, parts of a context, counts of the tokens of experts ..."""
    kernels = module.kernels()
    assert kernels["softmax"].synchronizes
    assert kernels["conv2d_group_norm"].synchronizes
    assert not kernels["swiglu"].synchronizes
    assert not kernels["sparse_matmul_grad"].synchronizes


@pytest.mark.parametrize(
    ("name", "shape", "meets"),
    [
        ("softmax", (4096, 4096), 0),
        ("softmax", (1, 64000), 1),
        ("rms_norm", (40, 262144), 0),
        ("rms_norm", (4, 262144), 1),
        ("cross_entropy_grad", (4096, 4096), 0),
        ("cross_entropy_grad", (8, 128256), 1),
    ],
)
def test_only_a_launch_that_needs_the_barrier_starts_all_cores_together(name, shape, meets):
    rows, cols = shape[:1], shape[1:]
    shapes, attributes = {
        "softmax": ([shape], {"axis": -1}),
        "rms_norm": ([shape, cols], {"epsilon": 1e-6, "scheme": "round_then_scale"}),
        "cross_entropy_grad": ([rows, shape, rows, rows], {"ignore_index": -100}),
    }[name]
    dtypes = ["float32"] * len(shapes)
    if name == "cross_entropy_grad":
        dtypes[2] = "int32"  # labels
    tiling = module.tile(name, shapes, dtypes, attributes, 40)
    assert tiling.schedule_mode == meets
    assert tiling.block_dim >= 32


def test_a_wrong_shape_is_refused_and_said(capfd):
    attributes = {"epsilon": 1e-6, "scheme": "round_then_scale"}
    assert not module.tile("rms_norm", [(4, 8), (7,)], ["float32"] * 2, attributes, 40).ok
    assert "rms_norm: gamma.shape[0] must equal x.shape[-1] (8), got (7,)" in capfd.readouterr().err
    assert module.infer("rms_norm", [(4, 8), (7,)], ["float32", "float16"], attributes) == (None, None)
    assert "gamma.dtype must be float32 when x.dtype is float32" in capfd.readouterr().err


def test_a_wrong_attribute_is_refused_and_said(capfd):
    shapes, dtypes = [(4, 8), (8,)], ["float32"] * 2
    assert not module.tile("rms_norm", shapes, dtypes, {"epsilon": 0.0, "scheme": "round_then_scale"}, 40).ok
    assert "rms_norm: epsilon must be > 0" in capfd.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_registration_follows_the_definition(name):
    signature, described = module.kernels()[name].signature, module.describe(name)
    for side, tensors in (("inputs", signature.inputs), ("outputs", signature.cann_outputs)):
        assert [tensor["name"] for tensor in described[side]] == [tensor.name for tensor in tensors]
        for tensor, spec in zip(described[side], tensors, strict=True):
            dtypes = [module.CANN_DTYPES[row.get(spec.dtype, spec.dtype)] for row in signature.types]
            assert tensor["dtypes"] == dtypes
            assert tensor["formats"] == [2] * len(dtypes)
            assert tensor["kind"] == (module.OPTIONAL if spec.optional else module.REQUIRED)
    assert all(tensor["contiguous"] for tensor in described["inputs"])
    kinds = {"string": "int"}  # a choice travels as the index of its text
    expected = [(attribute.name, kinds.get(attribute.type, attribute.type)) for attribute in signature.attributes]
    assert [(attribute["name"], attribute["type"]) for attribute in described["attributes"]] == expected
    assert all(attribute["kind"] == module.REQUIRED for attribute in described["attributes"])
    assert list(described["chips"]) == ["ascend910b"]


def test_what_is_changed_in_place_is_an_input_and_an_output_of_one_name():
    """As CANN's KvRmsNormRopeCache and ScatterUpdate: aclnn copies the changes to a cache that is a view back."""
    described = module.describe("kv_cache_update")
    inputs = {tensor["name"]: tensor for tensor in described["inputs"]}
    outputs = {tensor["name"]: tensor for tensor in described["outputs"]}
    assert list(inputs) == ["key", "value", "key_cache", "value_cache", "slot_mapping"]
    assert list(outputs) == ["status", "key_cache", "value_cache"]
    for cache in ("key_cache", "value_cache"):
        assert inputs[cache]["contiguous"]
        assert inputs[cache]["dtypes"] == outputs[cache]["dtypes"]


def test_every_operator_of_the_registry_has_its_package_operator():
    assert sorted(signature.name for signature in module.signatures()) == NAMES
    types = [kernel.signature.cann_type for kernel in module.kernels().values()]
    assert len(set(types)) == len(types)
    assert all(kind.startswith("MsAscendOps") for kind in types)  # CANN has a RmsNorm and a SwiGlu of its own


@pytest.mark.parametrize("k", [1, 16, 17, 33, 48, 64, 65, 80, 97, 112, 128, 129])
def test_products_of_any_depth(k):
    """How deep base blocks are is the choice of the tiling class, which refuses another; K of floats is in fractals."""
    shapes = [(3, k), (40, k), (40,), None, None]
    tiling = module.tile("quant_matmul", shapes, ["int8", "int8", "float32", "", ""], {}, 40)
    assert tiling.ok
    assert tiling.fields["product.singleCoreK"] == k
    attributes = {"transpose_x": False, "transpose_weight": True, "activation": "none"}
    tiling = module.tile("matmul", [(3, k), (40, k), None], ["float32", "float32", ""], attributes, 40)
    assert tiling.ok
    assert tiling.fields["product.singleCoreK"] == -(-k // 16) * 16
