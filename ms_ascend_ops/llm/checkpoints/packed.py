"""Reads matrices that a directory of safetensors holds as several tensors: integers in words, scales, zero points.

The layouts are those of AutoAWQ (GEMM), of AutoGPTQ and GPTQModel, of compressed-tensors, and that of `llm convert`.
Each becomes a `QuantizedMatrix`, or floats where the groups of a matrix are not runs of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import Place

__all__ = ["QUANTIZATION", "PackedMatrix", "Tensors", "packed_matrices"]

Array = np.ndarray[Any, Any]

# quant_method in config.json of directories that `llm convert` and `llm quantize` write: a matrix is `<name>.codes`,
# `.scale` and, where it has them, `.minimum` or `.zero` (quantized.py).
QUANTIZATION = "ms_ascend_ops"

_INT32, _INT64, _INT8, _UINT8 = (np.dtype(kind) for kind in ("<i4", "<i8", "i1", "u1"))
_FLOATS = ("float16", "bfloat16", "float32")
_PACKED_ROWS = 8  # numbers of 4 bits in a word

# AutoAWQ's kernels want the even columns of eight in the lower half of a word, the odd ones in the upper half: where
# column i of eight lies, in units of 4 bits.
_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


@dataclass(frozen=True)
class Tensors:
    """Holds the tensors of all files of a directory."""

    path: str  # of the directory, for messages
    places: Mapping[str, Place]
    read: Callable[[str], Array]

    def __contains__(self, name: str) -> bool:
        return name in self.places

    def part(self, name: str, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        """Check that a tensor is there, with one of these dtypes and this shape.

        Raises:
            ValueError: it is not.
        """
        if name not in self.places:
            raise ValueError(f"{self.path}: the tensor {name} is missing")
        place = self.places[name]
        if place.dtype.name not in dtypes or place.shape != shape:
            raise ValueError(
                f"{self.path}: the tensor {name} must be {' or '.join(dtypes)} of shape {shape}, got "
                f"{place.dtype.name} of shape {place.shape}"
            )

    def matrix(self, name: str, dtype: np.dtype[Any]) -> tuple[int, int]:
        """Return the shape of a matrix of this dtype.

        Raises:
            ValueError: it is no such matrix.
        """
        place = self.places[name]
        if place.dtype != dtype or len(place.shape) != 2 or 0 in place.shape:
            raise ValueError(
                f"{self.path}: the tensor {name} must be a matrix of {dtype.name}, got {place.dtype.name} of shape "
                f"{place.shape}"
            )
        return place.shape[0], place.shape[1]

    def named(self, ending: str) -> list[str]:
        """Return what stands in front of `ending` in the names of tensors."""
        return [name.removesuffix(ending) for name in self.places if name.endswith(ending)]


@dataclass(frozen=True)
class PackedMatrix:
    """Reads a matrix of several tensors."""

    shape: tuple[int, int]
    read: Callable[[], QuantizedMatrix | Array]


def packed_matrices(source: str, quantization: object, tensors: Tensors) -> dict[str, PackedMatrix]:
    """Return the matrices that a quantization keeps in several tensors, by the names of weights.

    Args:
        source: the file with the configuration, for messages.
        quantization: what it says under `quantization_config`, or None.
        tensors: of all files.

    Raises:
        ValueError: the method, or one of its settings, is not supported; a tensor is missing, or does not fit the
            others.
    """
    if quantization is None:
        return {}
    method = quantization.get("quant_method") if isinstance(quantization, Mapping) else quantization
    if not isinstance(quantization, Mapping) or not isinstance(method, str) or method not in _METHODS:
        raise ValueError(
            f"{source}: quant_method of quantization_config is {method!r:.60}, weights that cannot be read; those that "
            f"can be read are {', '.join(_METHODS)}"
        )
    return _METHODS[method](_Settings(source, quantization), tensors)


@dataclass(frozen=True)
class _Settings:
    source: str
    values: Mapping[str, Any]

    def integer(self, key: str, allowed: Callable[[int], bool], rule: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not allowed(value):
            raise ValueError(f"{self.source}: quantization_config.{key} must be {rule}, got {value!r:.60}")
        return value

    def choice(self, key: str, allowed: tuple[Any, ...], default: Any) -> Any:
        value = self.values.get(key)
        value = default if value is None else value
        value = value.lower() if isinstance(value, str) else value
        if value not in allowed:
            choices = " or ".join(map(str, allowed))
            raise ValueError(f"{self.source}: quantization_config.{key} must be {choices}, got {value!r:.60}")
        return value

    def bits(self) -> int:
        return self.integer("bits", (4, 8).__contains__, "4 or 8")

    def group(self) -> int:
        return self.integer("group_size", lambda value: value == -1 or value > 0, "-1 or at least 1", 128)


def _awq(settings: _Settings, tensors: Tensors) -> dict[str, PackedMatrix]:
    """Read AutoAWQ: qweight int32 (k, n / 8), qzeros int32 (k / group, n / 8), scales (k / group, n); w = (q - z) s."""
    settings.choice("version", ("gemm",), "gemm")
    settings.integer("bits", (4).__eq__, "4", 4)
    group = settings.group()

    def matrix(name: str) -> PackedMatrix:
        columns, words = tensors.matrix(f"{name}.qweight", _INT32)
        rows = words * _PACKED_ROWS
        groups = _groups(tensors, name, columns, group)
        tensors.part(f"{name}.qzeros", ("int32",), (groups, words))
        tensors.part(f"{name}.scales", _FLOATS, (groups, rows))

        def read() -> QuantizedMatrix:
            codes = _awq_columns(tensors.read(f"{name}.qweight")).T  # (rows, columns)
            zero = np.ascontiguousarray(_awq_columns(tensors.read(f"{name}.qzeros")).T, np.int16)
            scale = np.ascontiguousarray(tensors.read(f"{name}.scales").T)
            return QuantizedMatrix(_nibbles(codes), scale, zero=zero)

        return PackedMatrix((rows, columns), read)

    return {f"{name}.weight": matrix(name) for name in tensors.named(".qweight")}


def _awq_columns(words: Array) -> Array:
    """Unpack int32 (m, n) to uint8 (m, 8 n) in AWQ's order."""
    shifts = np.array(_AWQ_PLACES, np.uint32) * 4
    numbers = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts & np.uint32(15)
    return numbers.astype(np.uint8).reshape(len(words), -1)


def _gptq(settings: _Settings, tensors: Tensors) -> dict[str, PackedMatrix]:
    """Read AutoGPTQ: qweight int32 (k bits / 32, n), qzeros int32 (k / group, n bits / 32), scales (k / group, n).

    w = (q - z) s, where z is one more than what stands in the file, but for the format gptq_v2. `g_idx` (k) has the
    group of each column.
    """
    bits, group = settings.bits(), settings.group()
    more = 0 if settings.choice("checkpoint_format", ("gptq", "gptq_v2"), "gptq") == "gptq_v2" else 1
    settings.choice("is_marlin_format", (False,), False)
    for rule in _keys(settings, "dynamic"):
        if not rule.startswith("-:"):  # such a rule leaves modules as floats
            raise ValueError(f"{settings.source}: quantization_config.dynamic: {rule!r:.60}: other settings of single "
                             "modules are not supported")  # fmt: skip
    per_word = 32 // bits

    def matrix(name: str) -> PackedMatrix:
        words, rows = tensors.matrix(f"{name}.qweight", _INT32)
        columns = words * per_word
        groups = _groups(tensors, name, columns, group)
        tensors.part(f"{name}.qzeros", ("int32",), (groups, -(-rows // per_word)))
        tensors.part(f"{name}.scales", _FLOATS, (groups, rows))
        ordered = f"{name}.g_idx" in tensors
        if ordered:
            tensors.part(f"{name}.g_idx", ("int32",), (columns,))

        def read() -> QuantizedMatrix | Array:
            # Bytes of a word are columns that follow each other, of 4 bits two in a byte, the first in the low half.
            codes = _bytes(np.ascontiguousarray(tensors.read(f"{name}.qweight").T))
            zero = _numbers(_bytes(tensors.read(f"{name}.qzeros")), bits)[:, :rows].T + np.int16(more)
            scale = np.ascontiguousarray(tensors.read(f"{name}.scales").T)
            index = tensors.read(f"{name}.g_idx") if ordered else None
            return _matrix(tensors, f"{name}.g_idx", columns, codes, scale, zero, bits, index)

        return PackedMatrix((rows, columns), read)

    return {f"{name}.weight": matrix(name) for name in tensors.named(".qweight")}


def _compressed_tensors(settings: _Settings, tensors: Tensors) -> dict[str, PackedMatrix]:
    """Read compressed-tensors, formats pack-quantized and int-quantized; w = (q - z) s, of numbers with sign.

    pack-quantized: weight_packed int32 (n, k bits / 32), of q + 2^(bits - 1); weight_shape; weight_scale (n, groups);
    weight_zero_point int32 (n bits / 32, groups), packed along its rows, or int8 (n, groups); weight_g_idx (k).
    int-quantized: weight int8 (n, k), weight_scale and weight_zero_point as above. Activations are not rounded.
    """
    form = settings.choice("format", ("pack-quantized", "int-quantized"), "pack-quantized")
    for name, group in _keys(settings, "config_groups").items():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        where = f"{settings.source}: quantization_config.config_groups.{name}.weights"
        if not isinstance(weights, Mapping):
            raise ValueError(f"{where} must be an object, got {weights!r:.60}")
        for key, allowed in (
            ("num_bits", (4, 8)), ("type", ("int",)), ("strategy", ("group", "channel", None))
        ):  # fmt: skip
            value = weights.get(key, "int" if key == "type" else None)
            if value not in allowed:
                raise ValueError(f"{where}.{key} must be {' or '.join(map(str, allowed))}, got {value!r:.60}")

    def packed(name: str) -> PackedMatrix:
        rows, columns, bits = _packed_shape(tensors, name)
        scale_name, zero_name = f"{name}.weight_scale", f"{name}.weight_zero_point"
        groups = _scale_groups(tensors, scale_name, rows, columns)
        ordered = f"{name}.weight_g_idx" in tensors
        if ordered:
            tensors.part(f"{name}.weight_g_idx", ("int32", "int64"), (columns,))
        _check_zero(tensors, zero_name, rows, groups, bits)

        def read() -> QuantizedMatrix | Array:
            half = 1 << bits - 1
            zero = np.full((rows, groups), half, np.int16)
            if zero_name in tensors:
                stored = tensors.read(zero_name)
                if stored.dtype == _INT8:
                    zero = stored.astype(np.int16) + np.int16(half)
                else:
                    zero = _numbers(_bytes(np.ascontiguousarray(stored.T)), bits)[:, :rows].T
            codes = _bytes(tensors.read(f"{name}.weight_packed"))
            index = tensors.read(f"{name}.weight_g_idx") if ordered else None
            scale = tensors.read(scale_name).reshape(rows, groups)
            return _matrix(tensors, f"{name}.weight_g_idx", columns, codes, scale, zero, bits, index)

        return PackedMatrix((rows, columns), read)

    def plain(name: str) -> PackedMatrix:
        rows, columns = tensors.matrix(f"{name}.weight", _INT8)
        scale_name, zero_name = f"{name}.weight_scale", f"{name}.weight_zero_point"
        groups = _scale_groups(tensors, scale_name, rows, columns)
        if zero_name in tensors:
            tensors.part(zero_name, ("int8",), (rows, groups))

        def read() -> QuantizedMatrix:
            zero = tensors.read(zero_name).astype(np.int16) if zero_name in tensors else None
            return QuantizedMatrix(
                tensors.read(f"{name}.weight"), tensors.read(scale_name).reshape(rows, groups), zero=zero
            )

        return PackedMatrix((rows, columns), read)

    if form == "int-quantized":
        return {f"{name}.weight": plain(name) for name in tensors.named(".weight") if f"{name}.weight_scale" in tensors}
    return {f"{name}.weight": packed(name) for name in tensors.named(".weight_packed")}


def _packed_shape(tensors: Tensors, name: str) -> tuple[int, int, int]:
    """Return rows, columns and bits."""
    stored, words = tensors.matrix(f"{name}.weight_packed", _INT32)
    tensors.part(f"{name}.weight_shape", ("int32", "int64"), (2,))
    rows, columns = map(int, tensors.read(f"{name}.weight_shape"))
    bits = next((bits for bits in (4, 8) if columns % 2 == 0 and -(-columns * bits // 32) == words), None)
    if stored != rows or bits is None:
        raise ValueError(
            f"{tensors.path}: the tensor {name}.weight_packed of shape {(stored, words)} does not fit "
            f"{name}.weight_shape, {(rows, columns)}, with 4 or 8 bits"
        )
    return rows, columns, bits


def _scale_groups(tensors: Tensors, name: str, rows: int, columns: int) -> int:
    """Return the groups of a row, each of which has a scale."""
    if name not in tensors:
        raise ValueError(f"{tensors.path}: the tensor {name} is missing")
    place = tensors.places[name]
    groups = place.shape[1] if len(place.shape) == 2 else 1
    if place.shape not in ((rows,), (rows, groups)) or place.dtype.name not in _FLOATS or columns % max(groups, 1):
        raise ValueError(
            f"{tensors.path}: the tensor {name} must be {' or '.join(_FLOATS)} of shape ({rows}, groups), where the "
            f"number of groups divides {columns}, got {place.dtype.name} of shape {place.shape}"
        )
    if groups == 0:
        raise ValueError(f"{tensors.path}: the tensor {name} must have elements, got shape {place.shape}")
    return groups


def _check_zero(tensors: Tensors, name: str, rows: int, groups: int, bits: int) -> None:
    if name not in tensors:
        return
    if tensors.places[name].dtype == _INT8:  # of older versions
        tensors.part(name, ("int8",), (rows, groups))
    else:
        tensors.part(name, ("int32",), (-(-rows * bits // 32), groups))


def _own(settings: _Settings, tensors: Tensors) -> dict[str, PackedMatrix]:
    def matrix(name: str) -> PackedMatrix:
        place = tensors.places[f"{name}.codes"]
        if place.dtype not in (_INT8, _UINT8) or len(place.shape) != 2 or 0 in place.shape:
            raise ValueError(f"{tensors.path}: the tensor {name}.codes must be a matrix of int8 or uint8, got "
                             f"{place.dtype.name} of shape {place.shape}")  # fmt: skip
        rows, columns = place.shape[0], place.shape[1] * (2 if place.dtype == _UINT8 else 1)
        groups = _scale_groups(tensors, f"{name}.scale", rows, columns)
        others = {}
        for part, dtypes in (("minimum", ("float16", "float32")), ("zero", ("int8", "int16"))):
            if f"{name}.{part}" in tensors:
                tensors.part(f"{name}.{part}", dtypes, (rows, groups))
                others[part] = f"{name}.{part}"

        def read() -> QuantizedMatrix:
            return QuantizedMatrix(
                tensors.read(f"{name}.codes"), tensors.read(f"{name}.scale"),
                **{part: tensors.read(tensor) for part, tensor in others.items()},
            )  # fmt: skip

        return PackedMatrix((rows, columns), read)

    return {name: matrix(name) for name in tensors.named(".codes")}


_METHODS: Mapping[str, Callable[[_Settings, Tensors], dict[str, PackedMatrix]]] = {
    "awq": _awq, "compressed-tensors": _compressed_tensors, "gptq": _gptq, QUANTIZATION: _own
}  # fmt: skip


def _keys(settings: _Settings, key: str) -> Mapping[str, Any]:
    value = settings.values.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{settings.source}: quantization_config.{key} must be an object, got {value!r:.60}")
    return value


def _groups(tensors: Tensors, name: str, columns: int, group: int) -> int:
    size = columns if group == -1 else group
    if columns % size:
        raise ValueError(
            f"{tensors.path}: {name}: group_size must divide the columns of the matrix, got {size} and {columns}"
        )
    return columns // size


def _bytes(words: Array) -> Array:
    """Return int32 (m, n) as uint8 (m, 4 n), the lowest first."""
    return np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)


def _numbers(data: Array, bits: int) -> Array:
    """Unpack to int16 (m, n), or of 4 bits (m, 2 n)."""
    if bits == 8:
        return data.astype(np.int16)
    numbers: Array = np.stack([data & 15, data >> 4], -1).reshape(len(data), -1).astype(np.int16)
    return numbers


def _nibbles(numbers: Array) -> Array:
    """Pack uint8 (m, 2 n) of at most 15 as (m, n), the first of two in the low half."""
    packed: Array = numbers[:, 0::2] | numbers[:, 1::2] << 4
    return np.ascontiguousarray(packed)


def _matrix(
    tensors: Tensors, index_name: str, columns: int, codes: Array, scale: Array, zero: Array, bits: int,
    index: Array | None,
) -> QuantizedMatrix | Array:  # fmt: skip
    """Return a matrix of numbers without sign; as floats if its groups are no runs of columns.

    Raises:
        ValueError: a group that there is not.
    """
    if bits == 8:
        codes, zero = (codes ^ np.uint8(128)).view(np.int8), zero - np.int16(128)
    codes = np.ascontiguousarray(codes[:, : columns * bits // 8])  # without what fills the last word
    matrix = QuantizedMatrix(codes, scale, zero=np.ascontiguousarray(zero))
    if index is None:
        return matrix
    groups = scale.shape[1]
    if index.size and not (index.min() >= 0 and index.max() < groups):
        raise ValueError(
            f"{tensors.path}: the tensor {index_name} must be from 0 to {groups - 1}, got {index.min()} to "
            f"{index.max()}"
        )
    if (index == np.arange(columns) // (columns // groups)).all():
        return matrix
    # Columns in the order of their activations ("act-order"): neighbours have different scales.
    floats = matrix.integers().astype(np.float32)
    floats -= zero.astype(np.float32)[:, index]
    with np.errstate(over="ignore", invalid="ignore"):  # of scales that are none; the logits will say so
        floats *= scale.astype(np.float32)[:, index]
    return floats
