import pytest
from codegen.tiling_header import read_fields

HEADER = """
// struct OtherTilingData { half x; };
struct RmsNormTilingData {
    uint32_t rows;      // of x; at least one
    int64_t offset = 0;
    /* float unused; */
    float epsilon{1e-6f};
};
struct RmsNormGradTilingData {
    uint64_t total;
};
"""


@pytest.fixture
def header(tmp_path):
    def write(text):
        path = tmp_path / "rms_norm_tiling.h"
        path.write_text(text)
        return path

    return write


def test_fields_of_parts(header):
    text = HEADER + "struct OtherTilingData {\n    uint32_t own;\n    RmsNormTilingData norm;  // of the sums\n};\n"
    assert read_fields(header(text), "OtherTilingData") == [
        ("uint32_t", "own"), ("uint32_t", "norm.rows"), ("int64_t", "norm.offset"), ("float", "norm.epsilon"),
    ]  # fmt: skip


def test_fields(header):
    fields = read_fields(header(HEADER), "RmsNormTilingData")
    assert fields == [("uint32_t", "rows"), ("int64_t", "offset"), ("float", "epsilon")]
    assert read_fields(header(HEADER), "RmsNormGradTilingData") == [("uint64_t", "total")]
    alias = HEADER + "using SwigluTilingData = RmsNormTilingData;"
    assert read_fields(header(alias), "SwigluTilingData") == fields


def test_missing_struct(header):
    with pytest.raises(ValueError, match="there is no 'struct SwigluTilingData'"):
        read_fields(header(HEADER), "SwigluTilingData")


@pytest.mark.parametrize("field", ["double x;", "uint32_t x[2];", "uint32_t a, b;", "half x;"])
def test_fields_that_a_kernel_cannot_read(header, field):
    with pytest.raises(ValueError, match="RmsNormTilingData must hold plain fields of uint32_t, "):
        read_fields(header(HEADER.replace("uint32_t rows;", field)), "RmsNormTilingData")
