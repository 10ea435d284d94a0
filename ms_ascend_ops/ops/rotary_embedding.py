"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.deprecation import warn_renamed
from ms_ascend_ops.gradients import needs_gradient, or_zeros, size_of
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["apply_rotary_pos_emb", "rotary_embedding"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    of_tables = table_gradients(**grad.attributes)

    def bprop(x, cos, sin, out, dout):  # type: ignore[no-untyped-def]
        dcos, dsin = zeros_like(cos), zeros_like(sin)
        if needs_gradient(cos) or needs_gradient(sin):
            dcos, dsin = of_tables(x, dout, cos, sin)
        return grad(dout, cos, sin), dcos, dsin

    return bprop


def table_gradients(seq_axis: int, mode: str, rotary_dim: int, separate_halves: bool = False) -> Callable[..., Any]:
    """Gradients of cos and sin: sums over the heads, and over the dims that the tables broadcast in, in float32."""

    def pairs(x: Tensor, half: int) -> tuple[Tensor, Tensor]:
        # The first and second elements of the pairs, as (*b, s, *n as one dim, half); heads are summed over.
        x = x.astype(ms.float32)
        shape = stock.shape(x)
        # A graph adds tuples of unknown length, and unpacks none.
        x = x.reshape(shape[: seq_axis + 1] + (-1, shape[-1]))[..., : 2 * half]  # noqa: RUF005
        if mode == "half":
            return x[..., :half], x[..., half:]
        return x[..., 0::2], x[..., 1::2]

    def first(table: Tensor, half: int) -> Tensor:
        # Of angles that stand twice the first is read.
        if separate_halves:
            return table
        if mode == "half":
            return table[..., :half]
        return table.reshape(stock.shape(table)[:-1] + (half, -1))[..., 0]  # noqa: RUF005

    def total(cos: Tensor, sin: Tensor, dcos: Tensor, dsin: Tensor, half: int) -> Tensor:
        return (first(cos, half) * dcos).sum() + (first(sin, half) * dsin).sum()

    gradient = ms.grad(total, (0, 1))

    def joined(first: Tensor, second: Tensor) -> Tensor:
        # Return what belongs to the first and to the second elements of the pairs; one value for both, unless
        # separate_halves.
        if not separate_halves:
            return first + second
        if mode == "half":
            return stock.concat((first, second), -1)
        return stock.stack((first, second), -1).reshape(stock.shape(first)[:-1] + (-1,))  # noqa: RUF005

    def gradients(x: Tensor, dy: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        if size_of(x) == 0:
            return zeros_like(cos), zeros_like(sin)
        half = (rotary_dim or x.shape[-1]) // 2
        (x1, x2), (dy1, dy2) = pairs(x, half), pairs(dy, half)
        dcos, dsin = joined(x1 * dy1, x2 * dy2).sum(-2), joined(-(x2 * dy1), x1 * dy2).sum(-2)
        tables = cos.astype(ms.float32), sin.astype(ms.float32)
        dcos, dsin = gradient(*tables, dcos, dsin, half)
        return or_zeros(dcos, x).astype(cos.dtype), or_zeros(dsin, x).astype(sin.dtype)

    return gradients


# Runs in Python while a graph is compiled: MindSpore's own `raise` in a graph changes messages.
@ms.constexpr  # type: ignore[untyped-decorator]
def _seq_axis(layout: str) -> int:
    if layout not in ("BSND", "BNSD", "SND"):
        raise ValueError(f"rotary_embedding: layout must be 'BSND', 'BNSD' or 'SND', got {layout!r}")
    return layout.index("S")  # type: ignore[no-any-return]


@ms.constexpr  # type: ignore[untyped-decorator]
def renamed_halves(op: str, own_angles: bool) -> bool:
    """The value of the argument by its old name, also while a graph is compiled; with a warning."""
    warn_renamed(f"{op}: own_angles", "separate_halves", stacklevel=5)
    return own_angles


_select = Selector("rotary_embedding", _bprop)


def _call(
    x: Tensor, cos: Tensor, sin: Tensor, seq_axis: int, mode: str, rotary_dim: int, separate_halves: bool
) -> Tensor:
    return _select(x, cos, sin, seq_axis, mode, rotary_dim, separate_halves)(x, cos, sin)  # type: ignore[no-any-return]


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    mode: str = "half",
    layout: str = "BSND",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> Tensor:
    r"""Rotate pairs of elements of queries or keys by the angle of their position.

    .. math::
        y_1 = x_1 \cos\theta_1 - x_2 \sin\theta_1, \qquad y_2 = x_2 \cos\theta_2 + x_1 \sin\theta_2

    The two elements of a pair have the same angle, unless `separate_halves`. With r elements of a head rotated,
    :math:`x_1, x_2` are the elements i and i + r / 2 in mode "half" (GPT-NeoX, LLaMA in its usual form), 2 i and
    2 i + 1 in mode "interleave" (GPT-J, ChatGLM). Elements from r on are copied.

    Differentiable in `x`, whose gradient goes the other way, and in the tables. Gradients of tables are composed of
    stock operators, in several passes over x and dy. A graph has them only if they are used, and PyNative if a table
    depends on a Parameter or on an input of the differentiated function; `ops.stop_gradient` keeps them away.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (batch, seq, heads, d) or, with layout "BNSD",
            (batch, heads, seq, d), or, with layout "SND", (seq, heads, d).
        cos: Tensor[dtype of x | float32], shape (seq, w) or, with tables for every sequence, (batch, seq, w). w is
            r / 2, or r if every angle stands in it twice: as two equal halves in mode "half", as equal neighbours in
            mode "interleave". Of two equal values the first is read. Rows are those of the positions of x: take them
            out of a longer table for decoding.
        sin: as cos.
        mode: "half" or "interleave".
        layout: "BSND", "BNSD" or "SND".
        rotary_dim: r, even; 0: the whole head.
        separate_halves: whether the second element of a pair has another cos and sin than the first: w is r, and all of
            a table is read, whatever it holds.
        own_angles: the old name of `separate_halves`.

    Returns:
        Tensor[dtype of x], shape of x.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: a shape, the mode, the layout or rotary_dim is not allowed.

    NaN and Inf reach the two elements of their pair and nothing else. An empty x gives an empty y.

    Computed in float32 and rounded once.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """
    if own_angles is not None:
        separate_halves = renamed_halves("rotary_embedding", own_angles)
    seq_axis = _seq_axis(layout)
    if seq_axis == 2 and isinstance(cos, Tensor) and isinstance(sin, Tensor) and cos.ndim == 3 and sin.ndim == 3:
        if cos.dtype == ms.bfloat16:  # stock MindSpore cannot reshape it on a CPU
            cos, sin = cos.astype(ms.float32), sin.astype(ms.float32)
        cos = cos.reshape((-1, 1, cos.shape[1], cos.shape[2]))
        sin = sin.reshape((-1, 1, sin.shape[1], sin.shape[2]))
    return _call(x, cos, sin, seq_axis, mode, rotary_dim, separate_halves)


def apply_rotary_pos_emb(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    mode: str = "half",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Rotary position embedding of queries and keys, whose numbers of heads may differ.

    Args:
        q: as x of `rotary_embedding`.
        k: as x of `rotary_embedding`.
        cos: as there.
        sin: as there.
        layout: as there.
        mode: as there.
        rotary_dim: as there.
        separate_halves: as there.
        own_angles: the old name of `separate_halves`.

    Returns:
        q and k, rotated.

    Raises:
        TypeError: as there.
        ValueError: as there.
    """
    if own_angles is not None:
        separate_halves = renamed_halves("apply_rotary_pos_emb", own_angles)
    return (
        rotary_embedding(q, cos, sin, mode, layout, rotary_dim, separate_halves),
        rotary_embedding(k, cos, sin, mode, layout, rotary_dim, separate_halves),
    )


def halves_of_pairs(values: Tensor, mode: str) -> Tensors:
    """First and second elements of the pairs."""
    half = values.shape[-1] // 2
    return (values[..., :half], values[..., half:]) if mode == "half" else (values[..., 0::2], values[..., 1::2])


def composition(
    x: Tensor, cos: Tensor, sin: Tensor, seq_axis: int, mode: str, rotary_dim: int, separate_halves: bool
) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    rotated = rotary_dim or x.shape[-1]
    tables = []
    for given in (cos, sin):
        table = given.astype(ms.float32)
        between = (1,) * (x.ndim - seq_axis - 2)
        table = table.reshape(table.shape[:-1] + between + (table.shape[-1],))
        if table.shape[-1] == rotated:  # a value for either element of a pair
            of_first, of_second = halves_of_pairs(table, mode)
            tables.append((of_first, of_second if separate_halves else of_first))
        else:
            tables.append((table, table))
    (cos1, cos2), (sin1, sin2) = tables
    values = x.astype(ms.float32)
    head = values[..., :rotated]
    first, second = halves_of_pairs(head, mode)
    both = (first * cos1 - second * sin1, second * cos2 + first * sin2)
    y = stock.cat(both, -1) if mode == "half" else stock.stack(both, -1).reshape(head.shape)
    if rotated < x.shape[-1]:
        y = stock.cat((y, values[..., rotated:]), -1)
    return y.astype(x.dtype)
