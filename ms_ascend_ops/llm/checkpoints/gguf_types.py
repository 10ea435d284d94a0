"""Reads types of tensors in GGUF files: which of them are integers with a scale, and a minimum, for groups of a row.

Sizes and names of types, and numbers of those that are no such integers, come from the package gguf. Blocks have 32
elements, those of the types with K 256, in which groups of 32 or 16 have a scale of few bits beside that of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import gguf
import ml_dtypes
import numpy as np
from gguf.quants import dequantize

from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix

__all__ = ["FLOATS", "floats_of", "matrix_of", "readable", "stays_quantized", "type_name", "type_size"]

Array = np.ndarray[Any, Any]
# Blocks hold these, a block a row: integers (int8, or uint8 with two of 4 bits), scale, minimum and zero of groups.
Parts = tuple[Array, Array, Array | None, Array | None]

FLOATS: Mapping[str, Any] = {
    "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip


def type_name(kind: int) -> str:
    """Return what the package calls a type."""
    try:
        return gguf.GGMLQuantizationType(kind).name
    except ValueError:
        return f"type {kind}"


def type_size(kind: int) -> tuple[int, int]:
    """Return elements and bytes of a block."""
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    return elements, size


@cache
def readable() -> tuple[str, ...]:
    """Return the types that can be read."""
    others = [one.name for one in gguf.GGMLQuantizationType if one.name not in FLOATS and _dequantizes(one)]
    return (*FLOATS, *others)


def _dequantizes(kind: gguf.GGMLQuantizationType) -> bool:
    try:
        dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def stays_quantized(name: str) -> bool:
    """Tell whether tensors of a type become a `QuantizedMatrix`, which says exactly what the file does."""
    return name in _PARTS


def floats_of(name: str, data: Array) -> Array:
    """Convert rows of bytes of any type to float32."""
    floats: Array = dequantize(data, gguf.GGMLQuantizationType[name])
    return floats


def matrix_of(name: str, data: Array) -> QuantizedMatrix:
    """Return rows of bytes of a type that stays quantized as a matrix."""
    rows, size = len(data), gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = np.ascontiguousarray(data).reshape(-1, size)
    codes, scale, minimum, zero = (
        None if part is None else part.reshape(rows, part.size // rows if rows else 0) for part in _PARTS[name](blocks)
    )
    assert codes is not None
    assert scale is not None
    return QuantizedMatrix(codes, scale, minimum, zero)


def _half(blocks: Array, at: int) -> Array:
    """Return the float16 at a byte, shape (blocks, 1)."""
    half: Array = np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")
    return half


def _nibbles(data: Array, half: int) -> Array:
    """Unpack bytes i that hold the elements i and i + half of 2 half: the elements, one in a byte."""
    chunks = data.reshape(-1, half)
    elements: Array = np.stack([chunks & 15, chunks >> 4], 1).reshape(len(data), -1)
    return elements


def _packed(elements: Array) -> Array:
    """Pack elements 2 i and 2 i + 1 into byte i."""
    packed: Array = elements[:, 0::2] | elements[:, 1::2] << 4
    return packed


def _bits(data: Array, width: int, chunk: int) -> Array:
    """Unpack elements of `width` bits, of which byte i of a chunk has i, i + chunk, i + 2 chunk and so on, to
    bytes.
    """
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    elements: Array = (data.reshape(-1, 1, chunk) >> shifts & ((1 << width) - 1)).reshape(len(data), -1)
    return elements


def _q8_0(blocks: Array) -> Parts:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8), _half(blocks, 0), None, None


def _q4_0(blocks: Array) -> Parts:
    scale = _half(blocks, 0)
    return _packed(_nibbles(blocks[:, 2:], 16)), scale, scale * np.float16(-8), None


def _q4_1(blocks: Array) -> Parts:
    return _packed(_nibbles(blocks[:, 4:], 16)), _half(blocks, 0), _half(blocks, 2), None


def _q5(blocks: Array, at: int) -> Array:
    high = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    codes: Array = (_nibbles(blocks[:, at + 4 :], 16) | high << 4).view(np.int8)
    return codes


def _q5_0(blocks: Array) -> Parts:
    return _q5(blocks, 2) - np.int8(16), _half(blocks, 0), None, None


def _q5_1(blocks: Array) -> Parts:
    return _q5(blocks, 4), _half(blocks, 0), _half(blocks, 2), None


def _scales_and_minima(blocks: Array) -> tuple[Array, Array]:
    """Return scales and minima of Q4_K and Q5_K: six bits each for eight groups, times those of the block."""
    first, second, both = (blocks[:, at : at + 4] for at in (4, 8, 12))
    scales = np.concatenate([first & 63, both & 15 | first >> 2 & 48], 1)
    minima = np.concatenate([second & 63, both >> 4 | second >> 2 & 48], 1)
    d, least = (_half(blocks, at).astype(np.float32) for at in (0, 2))
    return d * scales, -(least * minima)


def _q4_k(blocks: Array) -> Parts:
    return _packed(_nibbles(blocks[:, 16:], 32)), *_scales_and_minima(blocks), None


def _q5_k(blocks: Array) -> Parts:
    high = _bits(blocks[:, 16:48], 1, 32)
    return (_nibbles(blocks[:, 48:], 32) | high << 4).view(np.int8), *_scales_and_minima(blocks), None


def _q6_k(blocks: Array) -> Parts:
    codes = _nibbles(blocks[:, :128], 64) | _bits(blocks[:, 128:192], 2, 32) << 4
    scale = _half(blocks, 208).astype(np.float32) * blocks[:, 192:208].view(np.int8)
    return codes.view(np.int8) - np.int8(32), scale, None, None


def _q2_k(blocks: Array) -> Parts:
    d, least = (_half(blocks, at).astype(np.float32) for at in (80, 82))
    scales = blocks[:, :16]
    return _packed(_bits(blocks[:, 16:80], 2, 32)), d * (scales & 15), -(least * (scales >> 4)), None


def _q3_k(blocks: Array) -> Parts:
    codes = _bits(blocks[:, 32:96], 2, 32) | _bits(blocks[:, :32], 1, 32) << 2  # 4 more than they mean
    scales = _nibbles(blocks[:, 96:104], 8) | _bits(blocks[:, 104:108], 2, 4) << 4
    scale = _half(blocks, 108).astype(np.float32) * (scales.view(np.int8) - np.int8(32))
    return _packed(codes), scale, None, np.full(scale.shape, 4, np.int8)


_NONLINEAR = np.array(gguf.quants.IQ4_NL.kvalues, np.int8)


def _iq4_nl(blocks: Array) -> Parts:
    return _NONLINEAR[_nibbles(blocks[:, 2:], 16)], _half(blocks, 0), None, None


def _iq4_xs(blocks: Array) -> Parts:
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], -1).reshape(len(blocks), -1)
    high = np.stack([blocks[:, 2:4] >> shift & 3 for shift in (0, 2, 4, 6)], -1).reshape(len(blocks), -1)
    scale = _half(blocks, 0).astype(np.float32) * ((low | high << 4).view(np.int8) - np.int8(32))
    return _NONLINEAR[_nibbles(blocks[:, 8:], 16)], scale, None, None


_PARTS: Mapping[str, Callable[[Array], Parts]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q2_K": _q2_k, "Q3_K": _q3_k,
    "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k, "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs,
}  # fmt: skip
