import inspect
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_ascend_ops import cells, ops, registry
from ms_ascend_ops.__main__ import main
from ms_ascend_ops.operator_table import BEGIN, END, replace_table

PAGE = Path(__file__).parents[3] / "docs/operators.md"


def operators(*arguments):
    return CliRunner().invoke(main, ["operators", *map(str, arguments)])


def test_the_page_is_up_to_date():
    result = operators("--check", PAGE)
    assert result.exit_code == 0, result.output


# Arguments of functions that stand for an attribute of another form.
REQUIRED = {
    ("group_norm", "num_groups"),
    ("moe_token_permute", "num_experts"),
    ("qkv_rotary_embedding", "q_heads"),
}
# None: as the argument before it, or by the size of a head.
FOLLOW = {
    ("qkv_rotary_embedding", "k_heads"),
    ("qkv_rotary_embedding", "v_heads"),
    ("flash_attention", "scale"),
    ("flash_attention_varlen", "scale"),
    ("paged_attention", "scale"),
}
OTHERWISE = {("rotary_embedding", "seq_axis")}  # the function has a layout
# Pairs of numbers there, and no rows and columns that are left out.
for convolution in ("conv2d", "conv2d_batch_norm", "conv2d_group_norm"):
    OTHERWISE |= {(convolution, f"{name}_{side}") for name in ("stride", "dilation") for side in "hw"}
    OTHERWISE |= {(convolution, f"pad_{side}") for side in ("top", "bottom", "left", "right")}
OTHERWISE |= {("conv2d", f"{how}_weight") for how in ("flip", "transposed")}  # of gradients, like gaps
OTHERWISE |= {("conv2d", f"gap_{side}") for side in "hw"}
# Defaults of the stock layer that ours takes the place of.
STOCK = {
    ("LayerNorm", "epsilon"): 1e-7,
    ("GELU", "approximate"): True,
    ("MoEFeedForward", "k"): 2,
    ("Dense", "activation"): None,
    ("Conv2dGroupNorm", "num_groups"): inspect.Parameter.empty,
}


@pytest.mark.parametrize("name", registry.names())
def test_definition_function_and_layer_agree(name):
    """What it replaces and a layer that exists; what it makes of special and of no values; the same defaults."""
    spec, text = registry.op_spec(name), inspect.getdoc(getattr(ops, name))
    assert spec.replaces, f"{name}.yaml needs `replaces`"
    assert not spec.layer or hasattr(cells, spec.layer)
    assert "NaN" in text
    assert "empty" in text
    function = inspect.signature(getattr(ops, name)).parameters
    layer = inspect.signature(getattr(cells, spec.layer)).parameters if spec.layer else {}
    for attribute in spec.forward.attributes:
        if (name, attribute.name) in OTHERWISE:
            assert attribute.name not in function
            continue
        default = attribute.default
        if (name, attribute.name) in REQUIRED:
            default = inspect.Parameter.empty
        if (name, attribute.name) in FOLLOW:
            default = None
        assert function[attribute.name].default == default
        if attribute.name in layer:
            assert layer[attribute.name].default == STOCK.get((spec.layer, attribute.name), default)


def test_the_list_fits_a_terminal():
    lines = operators().output.splitlines()
    assert max(map(len, lines)) <= 80
    entries = re.split(r"\n(?! )", "\n".join(lines[:-2]))
    texts = {name: " ".join(text.split()) for name, _, text in (entry.partition(" ") for entry in entries)}
    assert tuple(texts) == registry.names()
    for name, text in texts.items():
        spec = registry.op_spec(name)
        assert text == spec.summary.rstrip(".") + ("" if spec.differentiable else "; no gradient")


def test_the_table_has_what_the_functions_have():
    table = operators("--markdown").output.splitlines()
    for name in registry.names():
        row = next(line for line in table if line.startswith(f"| `{name}("))
        called = [part.partition("=")[0] for part in row.split("(", 1)[1].split(")`", 1)[0].split(", ")]
        old = [attribute.formerly for attribute in registry.signature(name).attributes if attribute.formerly]
        assert called + old == list(inspect.signature(getattr(ops, name)).parameters)


def test_a_row_holds_the_definition():
    rows = [line.split(" | ") for line in operators("--markdown").output.splitlines() if line.startswith("| `geglu(")]
    assert [cell.strip("| ") for cell in rows[0]] == [
        '`geglu(x, axis=-1, activate_left=False, approximate="none")`',
        "GELU-gated linear unit of one tensor that holds both halves",
        "`GEGLU`",
        "`x[*a 2*d@axis *c]`",
        "float16, bfloat16, float32",
        "`x`",
        "`ops.chunk`, `ops.gelu`, `mul`",
    ]


def test_an_old_table_is_noticed_and_renewed(tmp_path):
    path = tmp_path / "operators.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    result = operators("--check", path)
    assert result.exit_code == 1
    assert "is not up to date. Run `python -m ms_ascend_ops operators --write" in " ".join(result.output.split())
    assert operators("--write", path).exit_code == 0
    assert operators("--check", path).exit_code == 0
    text = path.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\n| Operator |")
    assert text.endswith(f"{END}\nafter\n")


def test_a_file_without_the_marks():
    with pytest.raises(ValueError, match=r"^there is no table to write"):
        replace_table("nothing")
