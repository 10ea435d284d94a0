"""Gradients of products with a weight, with an activation or a gate."""

from __future__ import annotations

from collections.abc import Callable

from ms_ascend_ops.torch.gradients.composed import Call, Gradients, as_rows, composed, kernel, through_activation


@composed("matmul", keeps=["x", "weight", "bias", "y"])
def _matmul(call: Call) -> Gradients:
    matmul, attributes = kernel("matmul"), call.attributes
    x, weight, bias = call["x"], call["weight"], call["bias"]
    transpose_x, transpose_weight = attributes["transpose_x"], attributes["transpose_weight"]
    dz = through_activation(call, lambda: matmul(x, weight, bias, transpose_x, transpose_weight))
    found = {}
    if call.needs("x"):
        dx = matmul(dz, weight, None, False, not transpose_weight)
        found["x"] = dx.transpose(-1, -2) if transpose_x else dx
    if call.needs("weight"):
        rows = x.transpose(-1, -2) if transpose_x else x
        left, right = (dz, rows) if transpose_weight else (rows, dz)
        if weight.dim() == 2:
            left, right = as_rows(left), as_rows(right)
        found["weight"] = matmul(left, right, None, True)
    if bias is not None and call.needs("bias"):
        found["bias"] = as_rows(dz.float()).sum(0).to(bias.dtype)
    return found


def _gated_products(gated_grad: str) -> Callable[[Call], Gradients]:
    """Differentiate act(x gate_weight^T) * (x up_weight^T): both products again, rather than keep twice the output."""

    def compose(call: Call) -> Gradients:
        matmul, x = kernel("matmul"), call["x"]
        rows = as_rows(x)
        gate, up = (matmul(rows, call[name], None, False, True) for name in ("gate_weight", "up_weight"))
        dy = as_rows(call.douts["y"])
        dgate, dup = kernel(gated_grad)(dy, gate, up, *call.attributes.values())
        found = {}
        if call.needs("x"):
            dx = matmul(dgate, call["gate_weight"], None) + matmul(dup, call["up_weight"], None)
            found["x"] = dx.reshape(x.shape)
        for name, of in (("gate_weight", dgate), ("up_weight", dup)):
            if call.needs(name):
                found[name] = matmul(of, rows, None, True)
        return found

    return compose


composed("linear_gelu_mul", keeps=["x", "gate_weight", "up_weight"])(_gated_products("gelu_mul_grad"))
composed("linear_silu_mul", keeps=["x", "gate_weight", "up_weight"])(_gated_products("silu_mul_grad"))
