"""Provides rotary position embedding as a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from mindspore import Tensor, nn
from mindspore import ops as stock
from ms_ascend_ops.cells.in_float32 import InFloat32

from ms_ascend_ops import registry
from ms_ascend_ops.ops.rotary_embedding import rotary_embedding

__all__ = ["RotaryEmbedding"]

_SCALING = {
    "linear": ("factor",),
    "ntk": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position"),
}


def rotary_frequencies(dim: int, base: float, scaling: Mapping[str, Any] | None = None) -> npt.NDArray[np.float64]:
    """Return the angle of one position for each of dim / 2 pairs, in float64: base^(-2 i / dim), scaled."""
    kind = scaling["type"] if scaling else None
    if scaling and kind == "ntk":
        base = base * scaling["factor"] ** (dim / (dim - 2))
    frequencies: npt.NDArray[np.float64] = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    if scaling and kind == "linear":
        frequencies = frequencies / float(scaling["factor"])
    if scaling and kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        # Angles that make many turns within the original context keep their frequency, those with few are stretched; in
        # between both are mixed.
        turns = scaling["original_max_position"] * frequencies / (2 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        frequencies = frequencies * (kept + (1 - kept) / float(scaling["factor"]))
    return frequencies


def _rows_of(table: Tensor, positions: Tensor) -> Tensor:
    return stock.gather(table, positions, 0)


class RotaryEmbedding(nn.Cell):  # type: ignore[misc]
    r"""Applies rotary position embedding to queries and keys.

    .. math::
        y_1 = x_1 \cos(p f_i) - x_2 \sin(p f_i), \quad y_2 = x_2 \cos(p f_i) + x_1 \sin(p f_i), \quad f_i = b^{-2i/r}

    Args:
        head_dim: size of a head.
        max_position: positions in the tables.
        base: b.
        mode: which elements are a pair: "half" or "interleave"; see `ops.rotary_embedding`.
        layout: "BSND" or "BNSD".
        rotary_dim: r, the elements of a head that are rotated, even; 0: all.
        scaling: for contexts longer than those of training: {"type": "linear", "factor": f} divides positions by f;
            {"type": "ntk", "factor": f} raises the base; {"type": "llama3", "factor", "low_freq_factor",
            "high_freq_factor", "original_max_position"} stretches low frequencies only.

    Inputs:
        q: Tensor[float16 | bfloat16 | float32], shape (batch, seq, heads, head_dim) or (batch, heads, seq, head_dim).
        k: the same with any number of heads; optional.
        positions: Tensor[int32], shape (seq,) or (batch, seq), all below max_position: those of the new tokens in
            decoding; optional, 0, 1, 2 ... without it.

    Outputs:
        q rotated, or q and k.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed.

    The tables are float32, rounded once from angles in float64; the rotation is computed in float32.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """

    def __init__(
        self,
        head_dim: int,
        max_position: int,
        base: float = 10000.0,
        mode: str = "half",
        layout: str = "BSND",
        rotary_dim: int = 0,
        scaling: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        for name, value in (("head_dim", head_dim), ("max_position", max_position), ("rotary_dim", rotary_dim)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"RotaryEmbedding: {name} must be an int, got {type(value).__name__}")
        rotated = rotary_dim or head_dim
        if rotated < 2 or rotated % 2 or rotated > head_dim:
            raise ValueError(
                "RotaryEmbedding: rotary_dim (or head_dim) must be even and at most head_dim "
                f"({head_dim}), got {rotated}"
            )
        if max_position < 1:
            raise ValueError(f"RotaryEmbedding: max_position must be >= 1, got {max_position}")
        if not base > 0:
            raise ValueError(f"RotaryEmbedding: base must be > 0, got {base}")
        if layout not in ("BSND", "BNSD"):
            raise ValueError(f"RotaryEmbedding: layout must be 'BSND' or 'BNSD', got {layout!r}")
        if scaling is not None:
            kind = scaling.get("type")
            if kind not in _SCALING:
                raise ValueError(f"RotaryEmbedding: scaling['type'] must be one of {', '.join(_SCALING)}, got {kind!r}")
            missing = [key for key in _SCALING[kind] if key not in scaling]
            if missing:  # no := here: MindSpore reads this source
                raise ValueError(f"RotaryEmbedding: scaling of type '{kind}' needs {', '.join(missing)}")
            if kind == "ntk" and rotated == 2:
                raise ValueError("RotaryEmbedding: scaling of type 'ntk' needs more than one pair")
        self.mode = registry.signature("rotary_embedding").attribute("mode").check("RotaryEmbedding", mode)
        self.layout = layout
        self.seq_axis = 1 if layout == "BSND" else 2
        self.rotary_dim = rotated
        self.max_position = max_position
        angles = np.arange(max_position, dtype=np.float64)[:, None] * rotary_frequencies(rotated, base, scaling)
        self.cos = Tensor(np.cos(angles).astype(np.float32))
        self.sin = Tensor(np.sin(angles).astype(np.float32))
        self.rows_of = InFloat32(_rows_of)

    def construct(self, q: Tensor, k: Tensor | None = None, positions: Tensor | None = None) -> Any:
        if positions is None:
            cos, sin = self.cos[: q.shape[self.seq_axis]], self.sin[: q.shape[self.seq_axis]]
        else:
            cos, sin = self.rows_of(self.cos, positions), self.rows_of(self.sin, positions)
        q = rotary_embedding(q, cos, sin, self.mode, self.layout, self.rotary_dim)
        if k is None:
            return q
        return q, rotary_embedding(k, cos, sin, self.mode, self.layout, self.rotary_dim)

    def extend_repr(self) -> str:
        return f"rotary_dim={self.rotary_dim}, max_position={self.max_position}, mode='{self.mode}'"
