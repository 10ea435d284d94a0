"""Gradients for PyTorch. Most follow from the names in a definition; some are composed here.

The gradient kernel of an operator names what it takes: inputs and outputs of the operator, and `d<output>`; what it
gives is `d<input>`. What a definition cannot say is a row of `_COMPOSED`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ms_ascend_ops import registry
from ms_ascend_ops.convolution import gradient_of_x
from ms_ascend_ops.registry import Signature

__all__ = ["formula"]

Gradients = dict[str, Tensor]


class Call:
    """One call that is differentiated: its inputs, outputs and attributes by name, and the gradients of its outputs."""

    def __init__(self, tensors: dict[str, Any], attributes: dict[str, Any], douts: dict[str, Tensor], needs: set[str]):
        self._tensors = tensors
        self.attributes = attributes
        self.douts = douts
        self._needs = needs

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def needs(self, *names: str) -> bool:
        """Tell whether the gradient of one of these inputs is wanted."""
        return not self._needs.isdisjoint(names)


def formula(signature: Signature) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return what `torch.library.register_autograd` takes: the backward function, and what keeps tensors for it."""
    inputs = [tensor.name for tensor in signature.inputs]
    outputs = [tensor.name for tensor in signature.outputs]
    attributes = [attribute.name for attribute in signature.attributes]
    spec = None if signature.name.endswith("_grad") else registry.op_spec(signature.name)
    gradient = None if spec is None else spec.gradient
    compose = _COMPOSED.get(signature.name) or (None if gradient is None else _by_names(signature, gradient))
    fixed = _fixed(signature, gradient) if signature.name not in _COMPOSED else set()
    kept = _KEPT.get(signature.name) or _kept(signature, gradient)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = dict(zip((*names, *outputs), (*inputs[: len(names)], *results), strict=True))
        ctx.mark_non_differentiable(*(values[name] for name in fixed))
        ctx.save_for_backward(*(values[name] for name in kept))
        ctx.attributes = dict(zip(attributes, inputs[len(names) :], strict=True))

    def backward(ctx: Any, *douts: Any) -> tuple[Any, ...]:
        if compose is None:
            raise RuntimeError(f"{signature.name}: {'it has no gradient' if spec is None else spec.no_gradient}")
        needs = {name for name, needed in zip(names, ctx.needs_input_grad, strict=False) if needed}
        given = {name: dout for name, dout in zip(outputs, douts, strict=True) if name not in fixed}
        call = Call(dict(zip(kept, ctx.saved_tensors, strict=True)), ctx.attributes, given, needs)
        found = compose(call)
        return (*(found.get(name) if name in needs else None for name in names), *[None] * len(attributes))

    names = inputs
    return backward, setup_context


def _kernel(name: str) -> Any:
    return getattr(torch.ops.ms_ascend_ops, name).default


def _kept(signature: Signature, gradient: Signature | None) -> list[str]:
    """The tensors that the gradient kernel takes."""
    names = [tensor.name for tensor in signature.inputs + signature.outputs]
    return [tensor.name for tensor in gradient.inputs if tensor.name in names] if gradient else []


def _fixed(signature: Signature, gradient: Signature | None) -> set[str]:
    """The outputs that no gradient goes through."""
    if gradient is None:
        return set()
    known = {tensor.name for tensor in gradient.inputs}
    through = known | ({"dx"} if "dresidual" in known else set())
    return {tensor.name for tensor in signature.outputs if f"d{tensor.name}" not in through}


def _by_names(signature: Signature, gradient: Signature) -> Callable[[Call], Gradients]:
    takes = [tensor.name for tensor in gradient.inputs]
    douts = {f"d{tensor.name}": tensor.name for tensor in signature.outputs}
    given = [tensor.name for tensor in gradient.outputs]
    if "dresidual" in takes:  # through the sum x, which is an output, too
        douts["dresidual"] = "x"

    def compose(call: Call) -> Gradients:
        tensors = [call.douts[douts[name]] if name in douts else call[name] for name in takes]
        results = _kernel(gradient.name)(*tensors, *call.attributes.values())
        found = dict(zip(given, results if isinstance(results, (tuple, list)) else (results,), strict=True))
        found = {name.removeprefix("d"): value for name, value in found.items()}
        if "dresidual" in takes:
            found["x1"] = found["x2"] = found.pop("x")
        return found

    return compose


def _add(call: Call) -> Gradients:
    return {"x": call.douts["z"], "y": call.douts["z"]}


# Behind every logarithm of a sum of exponentials. A query that sees no key has -inf; with a number above all scores in
# its place, the probabilities that the gradient calculates again are 0.
_HUGE = 3.0e38


def _flash_attention(call: Call) -> Gradients:
    out, lse = call["out"], call["lse"]
    dout, dlse = call.douts["out"], call.douts["lse"]
    # The probabilities' share of their own gradient: the sum of p * dp over the keys is that of out * dout.
    delta = (out.float() * dout.float()).sum(-1)
    delta = (delta if call.attributes["layout"] == "BNSD" else delta.transpose(1, 2)) - dlse
    lse = torch.where(lse > -_HUGE, lse, torch.full_like(lse, _HUGE))
    tensors = dout, call["query"], call["key"], call["value"], lse, delta, call["mask"]
    results = _kernel("flash_attention_grad")(*tensors, *call.attributes.values())
    found = dict(zip(("query", "key", "value"), results, strict=True))
    if call.needs("mask"):
        found["mask"] = _mask_gradient(*tensors, **call.attributes)
    return found


def _mask_gradient(
    dout: Tensor, query: Tensor, key: Tensor, value: Tensor, lse: Tensor, delta: Tensor, mask: Tensor,
    scale: float, causal: bool, window: int, layout: str,
) -> Tensor:  # fmt: skip
    """Compute the gradient of flash_attention's mask by torch's operators: scores and softmax are in memory then."""

    def products(x: Tensor, y: Tensor) -> Tensor:
        """x y^T for each head of x, of which consecutive ones share one of y, in float32."""
        x, y = (t.float() if layout == "BNSD" else t.float().transpose(1, 2) for t in (x, y))
        return x @ y.repeat_interleave(x.shape[1] // y.shape[1], 1).transpose(-1, -2)

    scores = products(query, key) * scale + mask.float()
    dscores = torch.exp(scores - lse.unsqueeze(-1)) * (products(dout, value) - delta.unsqueeze(-1))
    if causal or window:
        s, t = scores.shape[-2:]
        queries, keys = (torch.arange(n, device=scores.device) for n in (s, t))
        behind = queries.unsqueeze(-1) + (t - s) - keys  # how many positions a key is behind a query
        hidden = (behind < 0) & causal
        dscores = dscores.masked_fill(hidden | (behind >= window) if window else hidden, 0.0)
    return dscores.sum_to_size(mask.shape).to(mask.dtype)


def _flash_attention_varlen(call: Call) -> Gradients:
    out, lse = call["out"], call["lse"]
    delta = (out.float() * call.douts["out"].float()).sum(-1).transpose(0, 1) - call.douts["lse"]
    lse = torch.where(lse > -_HUGE, lse, torch.full_like(lse, _HUGE))
    tensors = call.douts["out"], call["query"], call["key"], call["value"], lse, delta.contiguous()
    lengths = call["query_lengths"], call["key_lengths"]
    results = _kernel("flash_attention_varlen_grad")(*tensors, *lengths, *call.attributes.values())
    return dict(zip(("query", "key", "value"), results, strict=True))


def _grouped_matmul(call: Call) -> Gradients:
    x, weight, ends, dy = call["x"], call["weight"], call["group_list"], call.douts["y"]
    transposed, found = call.attributes["transpose_weight"], {}
    if call.needs("x"):
        found["x"] = _kernel("grouped_matmul")(dy, weight, ends, not transposed)
    if call.needs("weight"):
        found["weight"] = _kernel("grouped_matmul_grad")(dy, x, ends, transposed)
    return found


def _moe_token_permute(call: Call) -> Gradients:
    return {"tokens": _kernel("moe_token_unpermute")(call.douts["permuted"], call["sorted_indices"], None)}


def _moe_token_unpermute(call: Call) -> Gradients:
    probs, tensors = call["probs"], (call["permuted"], call["sorted_indices"])
    dpermuted, dprobs = _kernel("moe_token_unpermute_grad")(call.douts["tokens"], *tensors, probs)
    return {"permuted": dpermuted} | ({} if probs is None else {"probs": dprobs.to(probs.dtype)})


def _sparse_product(values: str, side: int) -> Callable[[Call], Gradients]:
    """Return gradients of values, or of blocks of side x side, and of the dense factor."""

    def compose(call: Call) -> Gradients:
        name = "sparse_matmul" if side == 1 else "block_sparse_matmul"
        ends, indices, sparse, dense = call["row_ends"], call["indices"], call[values], call["dense"]
        dy, found = call.douts["y"], {}
        if call.needs(values):
            found[values] = _kernel(f"{name}_grad")(dy, ends, indices, dense)
        if call.needs("dense"):  # the product with the transposed matrix
            columns, order = torch.sort(indices, stable=True)
            positions = torch.arange(len(indices), dtype=torch.int32, device=dy.device)
            rows = torch.searchsorted(ends, positions, right=True).to(torch.int32)
            bounds = torch.arange(len(dense) // side, dtype=torch.int32, device=dy.device)
            column_ends = torch.searchsorted(columns, bounds, right=True).to(torch.int32)
            transposed = sparse[order] if side == 1 else sparse[order].transpose(1, 2).contiguous()
            found["dense"] = _kernel(name)(column_ends, rows[order], transposed, dy)
        return found

    return compose


def _rows(tensor: Tensor) -> Tensor:
    """Reshape to one matrix, also of rows without elements."""
    return tensor.flatten(0, -2) if tensor.dim() > 1 else tensor.unsqueeze(0)


def _gated_products(gated_grad: str) -> Callable[[Call], Gradients]:
    """Differentiate act(x gate_weight^T) * (x up_weight^T): both products again, rather than keep twice the output."""

    def compose(call: Call) -> Gradients:
        matmul, x = _kernel("matmul"), call["x"]
        rows = _rows(x)
        gate, up = (matmul(rows, call[name], None, False, True) for name in ("gate_weight", "up_weight"))
        dy = _rows(call.douts["y"])
        dgate, dup = _kernel(gated_grad)(dy, gate, up, *call.attributes.values())
        found = {}
        if call.needs("x"):
            dx = matmul(dgate, call["gate_weight"], None) + matmul(dup, call["up_weight"], None)
            found["x"] = dx.reshape(x.shape)
        for name, of in (("gate_weight", dgate), ("up_weight", dup)):
            if call.needs(name):
                found[name] = matmul(of, rows, None, True)
        return found

    return compose


def _through_activation(call: Call, before: Callable[[], Tensor]) -> Tensor:
    """The gradient of what the activation was applied to, which `before` calculates again where the output does not
    tell: keeping it would take as much memory as the output.
    """
    dy, activation = call.douts["y"], call.attributes["activation"]
    if activation == "none":
        return dy
    if activation == "relu":
        return torch.where(call["y"] > 0, dy, torch.zeros_like(dy))
    z = before()
    if activation == "silu":
        return _kernel("silu_mul_grad")(dy, z, torch.ones_like(z))[0]  # type: ignore[no-any-return]
    return _kernel("gelu_grad")(dy, z, "tanh" if activation == "gelu_tanh" else "none")  # type: ignore[no-any-return]


def _conv2d(call: Call) -> Gradients:
    attributes, conv2d = call.attributes, _kernel("conv2d")
    x, weight, bias = call["x"], call["weight"], call["bias"]

    def convolution(*tensors: Any, **changed: Any) -> Any:
        return conv2d(*tensors, *{**attributes, **changed}.values())

    dz = _through_activation(call, lambda: convolution(x, weight, bias, activation="none"))
    return _of_convolution(call, dz, attributes)


def _of_convolution(call: Call, dz: Tensor, attributes: dict[str, Any]) -> Gradients:
    """Return gradients of x, weight and bias; `attributes` are those of conv2d."""
    x, weight, bias, conv2d = call["x"], call["weight"], call["bias"], _kernel("conv2d")

    def convolution(*tensors: Any, **changed: Any) -> Any:
        return conv2d(*tensors, *{**attributes, **changed}.values())

    found = {}
    if call.needs("x"):
        found["x"] = _of_x(dz, x, weight, attributes, convolution)
    if call.needs("weight") or (bias is not None and call.needs("bias")):
        found["weight"], dbias = _kernel("conv2d_grad")(dz, x, weight, *attributes.values())
        if bias is not None:
            found["bias"] = dbias.to(bias.dtype)
    return found


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda z: z,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "relu6": torch.nn.functional.relu6,
    "hard_swish": torch.nn.functional.hardswish,
}


def _conv2d_batch_norm(call: Call) -> Gradients:
    """Differentiate what is behind the convolution, which is calculated again, by PyTorch."""
    known = {name: value for name, value in call.attributes.items() if name != "epsilon"}
    attributes = registry.signature("conv2d").check_attributes({**known, "activation": "none"})
    shape = (1, 1, 1, -1) if attributes["data_format"] == "NHWC" else (1, -1, 1, 1)
    z = _kernel("conv2d")(call["x"], call["weight"], call["bias"], *attributes.values())
    rstd = (call["variance"].float() + call.attributes["epsilon"]).rsqrt()

    def behind(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        normal = (z - call["mean"].float().reshape(shape)) * rstd.reshape(shape)
        return _ACTIVATIONS[call.attributes["activation"]](normal * gamma.reshape(shape) + beta.reshape(shape))

    _, differentiate = torch.func.vjp(behind, z.float(), call["gamma"].float(), call["beta"].float())
    dz, dgamma, dbeta = differentiate(call.douts["y"].float())
    dtype = call["gamma"].dtype
    found = _of_convolution(call, dz.to(call["x"].dtype), attributes)
    return {**found, "gamma": dgamma.to(dtype), "beta": dbeta.to(dtype)}


def _conv2d_group_norm(call: Call) -> Gradients:
    norm = [call.attributes[name] for name in ("num_groups", "epsilon", "activation", "data_format")]
    known = {name: value for name, value in call.attributes.items() if name not in ("num_groups", "epsilon")}
    attributes = registry.signature("conv2d").check_attributes({**known, "activation": "none"})
    douts = [call.douts[name] for name in ("y", "mean", "rstd")]
    through, dgamma, dbeta = _kernel("group_norm_grad")(
        *douts, call["z"], call["mean"], call["rstd"], call["gamma"], call["beta"], *norm
    )
    dz = through + call.douts["z"]
    found = {**_of_convolution(call, dz, attributes), "gamma": dgamma, "beta": dbeta, "residual": dz}
    if call.needs("shift"):
        # dz is added up as it was before it was rounded: otherwise many roundings would be added up, too.
        wide = through.float() + call.douts["z"].float()
        dims = (1, 2) if call.attributes["data_format"] == "NHWC" else (2, 3)
        found["shift"] = wide.sum(dims).to(dz.dtype)
    return found


def _of_x(dy: Tensor, x: Tensor, weight: Tensor, attributes: dict[str, Any], convolution: Callable[..., Any]) -> Tensor:
    """Put together convolutions of dy with the kernel elements that reach every stride-th pixel of x."""
    last, groups = attributes["data_format"] == "NHWC", attributes["groups"]
    dim = 1 if last else 2  # of rows
    outs, ins = weight.shape[0] // groups, weight.shape[3 if last else 1] * groups
    # A traced graph is for kernels of this size: how many convolutions there are depends on it.
    rows, cols = (int(size) for size in weight.shape[dim : dim + 2])
    parts = gradient_of_x(attributes, lambda **changed: changed)(rows, cols)
    strides = attributes["stride_h"], attributes["stride_w"]
    dx: Tensor | None = None
    for index, part in enumerate(parts):
        if part is None:
            continue
        row, row_step, col, col_step, changed = part
        elements = weight[:, row::row_step, col::col_step] if last else weight[:, :, row::row_step, col::col_step]
        # The shape that it had with input channels before output channels; the kernel reads it as it lies.
        swapped = (ins, *elements.shape[1:3], outs) if last else (ins, outs, *elements.shape[2:])
        elements = elements.contiguous().view(swapped)
        found = convolution(dy, elements, None, **{**changed, "stride_h": 1, "stride_w": 1, "activation": "none"})
        if strides == (1, 1):
            return found  # type: ignore[no-any-return]
        if dx is None:
            sizes = [count * stride for count, stride in zip(found.shape[dim : dim + 2], strides, strict=True)]
            shape = list(found.shape)
            shape[dim : dim + 2] = sizes
            dx = found.new_zeros(shape)
        i, j = divmod(index, strides[1])
        if last:
            dx[:, i :: strides[0], j :: strides[1]] = found
        else:
            dx[:, :, i :: strides[0], j :: strides[1]] = found
    assert dx is not None
    return dx.narrow(dim, 0, x.shape[dim]).narrow(dim + 1, 0, x.shape[dim + 1]).contiguous()


def _matmul(call: Call) -> Gradients:
    matmul, attributes = _kernel("matmul"), call.attributes
    x, weight, bias = call["x"], call["weight"], call["bias"]
    transpose_x, transpose_weight = attributes["transpose_x"], attributes["transpose_weight"]
    dz = _through_activation(call, lambda: matmul(x, weight, bias, transpose_x, transpose_weight))
    found = {}
    if call.needs("x"):
        dx = matmul(dz, weight, None, False, not transpose_weight)
        found["x"] = dx.transpose(-1, -2) if transpose_x else dx
    if call.needs("weight"):
        rows = x.transpose(-1, -2) if transpose_x else x
        left, right = (dz, rows) if transpose_weight else (rows, dz)
        if weight.dim() == 2:
            left, right = _rows(left), _rows(right)
        found["weight"] = matmul(left, right, None, True)
    if bias is not None and call.needs("bias"):
        found["bias"] = _rows(dz.float()).sum(0).to(bias.dtype)
    return found


def _scaled_masked_softmax(call: Call) -> Gradients:
    dy, y = call.douts["y"], call["y"]
    found = {}
    if call.needs("x"):
        found["x"] = _kernel("scaled_masked_softmax_grad")(dy, y, *call.attributes.values())
    if call.needs("mask"):
        mask = call["mask"]
        dscores = _kernel("softmax_grad")(dy.float(), y.float())
        found["mask"] = dscores.sum_to_size(mask.shape).to(mask.dtype)
    return found


def _tables(x: Tensor, dy: Tensor, cos: Tensor, sin: Tensor, seq_axis: int, attributes: dict[str, Any]) -> Gradients:
    """Gradients of cos and sin: sums over the heads, and over the dims that the tables broadcast in, in float32."""
    halves, own = attributes["mode"] == "half", attributes["separate_halves"]
    half = (attributes["rotary_dim"] or x.shape[-1]) // 2

    def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
        # The first and second elements of the pairs, as (*b, s, *n as one dim, half); heads are summed over.
        x = x.float().flatten(seq_axis + 1, -2) if x.dim() > seq_axis + 2 else x.float().unsqueeze(-2)
        x = x[..., : 2 * half]
        return (x[..., :half], x[..., half:]) if halves else (x[..., 0::2], x[..., 1::2])

    def of(table: Tensor, first: Tensor, second: Tensor) -> Tensor:
        both = [v.sum(-2).sum_to_size((*table.shape[:-1], half)) for v in (first, second)]
        if not own:
            both = [both[0] + both[1], torch.zeros_like(both[0])]  # of angles that stand twice the first is read
        if table.shape[-1] == half:
            return both[0].to(table.dtype)
        return (torch.cat(both, -1) if halves else torch.stack(both, -1).flatten(-2)).to(table.dtype)

    (x1, x2), (dy1, dy2) = pairs(x), pairs(dy)
    return {"cos": of(cos, x1 * dy1, x2 * dy2), "sin": of(sin, -(x2 * dy1), x1 * dy2)}


def _rotary_embedding(call: Call) -> Gradients:
    cos, sin, dy = call["cos"], call["sin"], call.douts["y"]
    found = {}
    if call.needs("x"):
        found["x"] = _kernel("rotary_embedding_grad")(dy, cos, sin, *call.attributes.values())
    if call.needs("cos", "sin"):
        found |= _tables(call["x"], dy, cos, sin, call.attributes["seq_axis"], call.attributes)
    return found


def _qkv_rotary_embedding(call: Call) -> Gradients:
    cos, sin = call["cos"], call["sin"]
    douts = [call.douts[name] for name in ("q", "k", "v")]
    found = {}
    if call.needs("qkv"):
        found["qkv"] = _kernel("qkv_rotary_embedding_grad")(*douts, cos, sin, *call.attributes.values())
    if call.needs("cos", "sin"):
        rotated = call.attributes["q_heads"] + call.attributes["k_heads"]
        heads_first = call.attributes["layout"] == "BNSD"
        dy = torch.cat([d.float().transpose(1, 2) if heads_first else d.float() for d in douts[:2]], 2)
        found |= _tables(call["qkv"][:, :, :rotated], dy, cos, sin, 1, call.attributes)
    return found


_COMPOSED: dict[str, Callable[[Call], Gradients]] = {
    "add": _add,
    "conv2d": _conv2d,
    "conv2d_batch_norm": _conv2d_batch_norm,
    "conv2d_group_norm": _conv2d_group_norm,
    "block_sparse_matmul": _sparse_product("blocks", 16),
    "flash_attention": _flash_attention,
    "flash_attention_varlen": _flash_attention_varlen,
    "grouped_matmul": _grouped_matmul,
    "linear_gelu_mul": _gated_products("gelu_mul_grad"),
    "linear_silu_mul": _gated_products("silu_mul_grad"),
    "matmul": _matmul,
    "moe_token_permute": _moe_token_permute,
    "moe_token_unpermute": _moe_token_unpermute,
    "qkv_rotary_embedding": _qkv_rotary_embedding,
    "rotary_embedding": _rotary_embedding,
    "scaled_masked_softmax": _scaled_masked_softmax,
    "sparse_matmul": _sparse_product("values", 1),
}

# These operators keep for their gradient what is named here; others keep what their gradient kernel takes.
_KEPT: dict[str, list[str]] = {
    "conv2d": ["x", "weight", "bias", "y"],
    "conv2d_batch_norm": ["x", "weight", "gamma", "beta", "mean", "variance", "bias"],
    "conv2d_group_norm": ["x", "weight", "gamma", "beta", "bias", "z", "mean", "rstd"],
    "block_sparse_matmul": ["row_ends", "indices", "blocks", "dense"],
    "flash_attention": ["query", "key", "value", "mask", "out", "lse"],
    "flash_attention_varlen": ["query", "key", "value", "query_lengths", "key_lengths", "out", "lse"],
    "grouped_matmul": ["x", "weight", "group_list"],
    "linear_gelu_mul": ["x", "gate_weight", "up_weight"],
    "linear_silu_mul": ["x", "gate_weight", "up_weight"],
    "matmul": ["x", "weight", "bias", "y"],
    "moe_token_permute": ["sorted_indices"],
    "moe_token_unpermute": ["permuted", "sorted_indices", "probs"],
    "qkv_rotary_embedding": ["qkv", "cos", "sin"],
    "rotary_embedding": ["x", "cos", "sin"],
    "scaled_masked_softmax": ["mask", "y"],
    "sparse_matmul": ["row_ends", "indices", "values", "dense"],
}
