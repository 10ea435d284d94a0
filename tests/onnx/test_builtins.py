"""Operators that ONNX and ONNX Runtime have fused already: what becomes of them, and that results stay."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from ms_ascend_ops.onnx import DOMAIN, optimize
from ms_ascend_ops.onnx.runtime import run, session
from tests.acceptance import assert_close
from tests.onnx.models import model

ORT = "com.microsoft"
X = ("float32", [2, 6, 32])
VECTOR = ("float32", [32])
HEADS = ("float32", [2, 4, 6, 8])
TABLE = np.linspace(0, 3, 10 * 4).reshape(10, 4)
TABLES = {"cos": np.cos(TABLE).astype(np.float32), "sin": np.sin(TABLE).astype(np.float32)}
POSITIONS = {"positions": np.array([[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9]])}
MASK = np.tril(np.ones((6, 6), bool))

# Name: domain, operator, inputs, outputs, attributes, constants, the operator of this package.
CASES = {
    "RMSNormalization": ("", "RMSNormalization", {"x": X, "g": VECTOR}, {"y": X}, {"epsilon": 1e-3}, {}, "rms_norm"),
    "SimplifiedLayerNormalization": (
        "", "SimplifiedLayerNormalization", {"x": X, "g": VECTOR}, {"y": X}, {"epsilon": 1e-3, "axis": -1}, {},
        "rms_norm",
    ),
    "SkipSimplifiedLayerNormalization": (
        ORT, "SkipSimplifiedLayerNormalization", {"x": X, "r": X, "g": VECTOR, "b": VECTOR},
        {"y": X, "": X, " ": X, "t": X}, {"epsilon": 1e-3}, {}, "add_rms_norm",
    ),
    "SkipLayerNormalization": (
        ORT, "SkipLayerNormalization", {"x": X, "r": X, "g": VECTOR, "b": VECTOR}, {"y": X}, {"epsilon": 1e-3}, {},
        "add_layer_norm",
    ),
    "FastGelu": (ORT, "FastGelu", {"x": X, "b": VECTOR}, {"y": X}, {}, {}, "gelu"),
    "BiasGelu": (ORT, "BiasGelu", {"x": X, "b": VECTOR}, {"y": X}, {}, {}, "gelu"),
    "Gelu": (ORT, "Gelu", {"x": X}, {"y": X}, {}, {}, "gelu"),
    "RotaryEmbedding of 4 dims": (
        "", "RotaryEmbedding", {"x": HEADS}, {"y": HEADS}, {}, {**TABLES, **POSITIONS}, "rotary_embedding",
    ),
    "RotaryEmbedding of 3 dims, in pairs": (
        "", "RotaryEmbedding", {"x": X}, {"y": X}, {"num_heads": 4, "interleaved": 1}, {**TABLES, **POSITIONS},
        "rotary_embedding",
    ),
    "RotaryEmbedding of ONNX Runtime": (
        ORT, "RotaryEmbedding", {"x": X}, {"y": X}, {"num_heads": 4}, {**POSITIONS, **TABLES}, "rotary_embedding",
    ),
    "Attention": ("", "Attention", dict.fromkeys("qkv", HEADS), {"y": HEADS}, {}, {}, "flash_attention"),
    "Attention, causal, of 3 dims with shared heads": (
        "", "Attention", {"q": X, "k": ("float32", [2, 6, 16]), "v": ("float32", [2, 6, 16])}, {"y": X},
        {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "scale": 0.5}, {}, "flash_attention",
    ),
    "Attention with a mask of bools": (
        "", "Attention", dict.fromkeys("qkv", HEADS), {"y": HEADS}, {}, {"mask": MASK}, "flash_attention",
    ),
    "Attention with past keys": (
        "", "Attention",
        {"q": ("float32", [2, 4, 2, 8]), "k": ("float32", [2, 4, 2, 8]), "v": ("float32", [2, 4, 2, 8]), "": None,
         "pk": HEADS, "pv": HEADS},
        {"y": ("float32", [2, 4, 2, 8]), "nk": ("float32", [2, 4, 8, 8]), "nv": ("float32", [2, 4, 8, 8])}, {}, {},
        "flash_attention",
    ),
}  # fmt: skip


def make(domain, op, inputs, outputs, attributes, constants, opset=23):
    results = ["" if name == " " else name for name in outputs]
    node = helper.make_node(op, [*inputs, *constants], results, f"the_{op}", domain=domain, **attributes)
    given = {name: about for name, about in inputs.items() if name}
    wanted = {name: about for name, about in outputs.items() if name.strip()}
    return model([node], given, wanted, constants, opset, check=False)


def values(inputs):
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal(about[1]).astype(about[0]) for n, about in inputs.items() if n}


@pytest.mark.parametrize("name", CASES)
def test_what_it_becomes(name, tmp_path):
    *case, ours = CASES[name]
    path, output = tmp_path / "model.onnx", tmp_path / "fused.onnx"
    onnx.save_model(make(*case), path)
    report = optimize(path, output, level="O1")
    assert [entry.place for entry in report.replaced] == [f"the_{case[1]}"], report
    fused = onnx.load(output)
    onnx.checker.check_model(fused, full_check=True)
    assert [n.op_type for n in fused.graph.node if n.domain == DOMAIN] == [ours]
    assert not [n for n in fused.graph.node if n.domain == ORT]
    given = values(case[2])
    stock = onnxruntime.InferenceSession(str(path)).run(None, given)
    for one, other in zip(stock, run(session(output), given)):
        assert_close(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("Attention", {"softcap": 30.0}, "it caps its scores"),
        ("RotaryEmbedding of ONNX Runtime", {"scale": 2.0}, "it scales, or packs sequences"),
        ("RMSNormalization", {"axis": 1}, "it normalizes over several axes"),
    ],
)
def test_what_stays(name, changes, reason, tmp_path):
    domain, op, inputs, outputs, attributes, constants, _ = CASES[name]
    path = tmp_path / "model.onnx"
    onnx.save_model(make(domain, op, inputs, outputs, attributes | changes, constants), path)
    report = optimize(path, tmp_path / "fused.onnx", verify=False)
    assert not report.replaced
    assert reason in " ".join(str(report).split())  # its lines are broken


def group_query_attention(batch, past):
    attributes = {"num_heads": 4, "kv_num_heads": 2}
    q, k = ("float32", [batch, 6, 32]), ("float32", [batch, 6, 16])
    cache = ("float32", [batch, 2, past, 8])
    inputs = {"q": q, "k": k, "v": k, **({"pk": cache, "pv": cache} if past else {})}
    names = ["q", "k", "v", *(("pk", "pv") if past else ("", "")), "lengths", "total"]
    total = ("float32", [batch, 2, past + 6, 8])
    constants = {"lengths": np.full(batch, past + 5, np.int32), "total": np.array(past + 6, np.int32)}
    node = helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], "gqa", domain=ORT, **attributes)
    return model([node], inputs, {"y": q, "nk": total, "nv": total}, constants, 23), inputs


def test_group_query_attention(tmp_path):
    made, inputs = group_query_attention(1, 0)
    path = tmp_path / "model.onnx"
    onnx.save_model(made, path)
    report = optimize(path, tmp_path / "fused.onnx")
    assert [entry.text for entry in report.replaced] == ["scale 0.353553, BSND, causal"], report
    given = values(inputs)
    for one, other in zip(
        onnxruntime.InferenceSession(str(path)).run(None, given), run(session(tmp_path / "fused.onnx"), given)
    ):
        assert_close(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("batch", "past", "reason"), [(2, 0, "may have different lengths"), (1, 4, "it has past keys, in a buffer")]
)
def test_group_query_attention_that_stays(batch, past, reason, tmp_path):
    onnx.save_model(group_query_attention(batch, past)[0], tmp_path / "model.onnx")
    assert reason in str(optimize(tmp_path / "model.onnx", tmp_path / "fused.onnx", verify=False))
