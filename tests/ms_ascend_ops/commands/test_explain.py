import pytest
from click.testing import CliRunner

from ms_ascend_ops import explain, registry
from ms_ascend_ops.__main__ import main
from ms_ascend_ops.library import native


def run(*arguments):
    return CliRunner().invoke(main, ["explain", *arguments])


def explained(name, *shapes, dtypes=("float32",), target="ascend910b", **attributes):
    return explain.explain(registry.signature(name), shapes, dtypes, attributes, explain.find_target(target))


def test_what_follows_from_the_first_input():
    found = explained("rms_norm_grad", (6, 16), dtypes=("bfloat16",))
    assert [shape for _, _, shape in found.inputs] == [(6, 16), (6, 1), (6, 16), (6, 1), (16,)]
    assert [dtype for _, dtype, _ in found.inputs] == ["bfloat16", "float32", "bfloat16", "float32", "bfloat16"]
    assert found.outputs == (("dx", "bfloat16", (6, 16)), ("dgamma", "bfloat16", (16,)))
    assert (found.bytes_in, found.bytes_out) == (2 * 192 + 2 * 24 + 32, 192 + 32)
    assert found.instance == "RmsNormGradKernel<bfloat16, bfloat16>"


@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_grad", "silu_mul", "swiglu", "swiglu_grad"])
def test_the_tiling_is_that_of_the_launch(name):
    """For the host; the plan of the kernel and of its tiling are known, also those that primitives/ has."""
    signature = registry.signature(name)
    found = explained(name, (64, 256), target="cpu")
    direct = native().tiling(name, [i[2] for i in found.inputs], [i[1] for i in found.inputs], dict(found.attributes))
    assert {**found.tiling, "block_dim": found.block_dim, "workspace_bytes": found.workspace_bytes} == direct
    assert found.notes["kernel"].endswith("_kernel.h")
    assert found.notes["plan"]
    assert found.notes["tiling_plan"]
    assert found.instance.startswith(signature.entry)


def test_who_computes_it_on_a_host():
    """A library in the place of the kernel, where it has one that is faster; never with the tiles of a chip."""
    arguments = ("conv2d", "--shape", "2,16,9,9", "--shape", "16,16,3,3", "--dtype", "float32", "--target", "cpu")
    library = explained("conv2d", (2, 16, 9, 9), (16, 16, 3, 3), target="cpu").library
    assert library.startswith("oneDNN") or not library
    assert (f"by {library} in the place of the kernel" in run(*arguments).output) == bool(library)
    native().set_ub_bytes(188160)
    try:
        assert not explained("conv2d", (2, 16, 9, 9), (16, 16, 3, 3), target="cpu").library
    finally:
        native().set_ub_bytes(0)
    assert not explained("rms_norm", (8, 64), target="cpu").library
    assert not explained("conv2d", (2, 16, 9, 9), (16, 16, 3, 3)).library


@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_grad"])
def test_who_computes_it_on_a_chip(name, monkeypatch):
    """This kernel, or CANN's operator where the user prefers that and it can do the same; for a gradient, too."""
    assert explained(name, (8, 64)).choice.implementation == "ours"
    assert explained(name, (8, 64), target="cpu").choice is None
    monkeypatch.setenv("MS_ASCEND_OPS_PREFER", "cann")
    assert explained(name, (8, 64)).choice.implementation == "cann"
    assert (
        explained(name, (8, 64), scheme="one_plus_gamma").choice.reason
        == "CANN's RmsNorm has no scheme='one_plus_gamma'"
    )
    assert "CANN's RmsNorm through mindspore.ops.rms_norm is preferred" in run(
        name, "--shape", "8,64", "--target", "ascend910b"
    ).output.replace("\n" + " " * 11, " ")


def test_cores():
    assert explained("rms_norm", (4096, 4096)).reasons[0] == "48 of 48 cores"
    assert "no more independent pieces" in explained("rms_norm", (3, 8192)).reasons[0]
    assert "too little data" in explained("silu_mul", (1, 5000)).reasons[0]
    assert "even split" in explained("rms_norm", (50, 12800)).reasons[0]
    host = explained("rms_norm", (4096, 4096), target="cpu")
    assert host.reasons[0] == f"{native().get_thread_num()} of {native().get_thread_num()} cores"


def test_unified_buffer():
    assert "room in the Unified Buffer; with twice of it the same" in explained("rms_norm", (8, 64)).reasons[1]
    long_rows = explained("rms_norm", (64, 100_000)).reasons[1]
    assert "as large as the Unified Buffer allows; with twice of it tileCols" in long_rows


def test_command():
    arguments = ["rms_norm", "--shape", "2048,4096", "--dtype", "bfloat16", "--target", "ascend910b"]
    short, done = run(*arguments), run(*arguments, "--verbose")
    assert short.exit_code == done.exit_code == 0, short.output + done.output
    assert len(short.output.splitlines()) <= 20
    assert "tileRows 2," in short.output
    assert "rows in a tile" not in short.output
    assert max(map(len, (short.output + done.output).splitlines())) <= 80
    for part in (
        "RmsNormKernel<bfloat16, bfloat16>, kernels/rms_norm/rms_norm_kernel.h",
        "gamma bfloat16 (4096,), epsilon=1e-06,",
        "ascend910b: 48 cores, 188,160 bytes of Unified Buffer each",
        "48 cores, workspace of 0 bytes",
        "16,785,408 bytes in",
        "rows in a tile",  # the comment behind tileRows
    ):
        assert part in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["warp", "--shape", "1"], "there is no operator 'warp'; the operators are "),
        (["swiglu", "--shape", "3,7"], "swiglu: x.shape[-1] must be even"),
        (["swiglu", "--shape", "3,8", "--dtype", "int32"], "x.dtype must be float16, bfloat16 or float32, got int32"),
        (["swiglu", "--shape", "3,8", "--attr", "axes=1"], "there is no attribute axes; it has axis, interleaved"),
        (["swiglu", "--shape", "3,8", "--attr", "axis=one"], "axis must be a int, got 'one'"),
        (["swiglu", "--shape", "3,8", "--target", "gpu"], "there is no target 'gpu'; the targets are cpu, "),
        (["swiglu", "--shape", "3,b"], "must be of the form 2048,4096, got 3,b"),
    ],
)
def test_messages(arguments, message):
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert "Traceback" not in done.output
