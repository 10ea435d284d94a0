"""Weights in the layouts of AutoAWQ, AutoGPTQ and compressed-tensors, number by number, by the rules of these tools."""

import ml_dtypes
import numpy as np

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def quantized(weight, bits, group, symmetric=False, index=None, dtype=np.float16):
    """Integers from 0 to 2^bits - 1, scales and zero points of (rows, groups), the group of each column, the matrix."""
    rows, columns = weight.shape
    size = columns if group == -1 else group
    index = np.arange(columns) // size if index is None else index
    most = 2**bits - 1
    numbers = np.empty((rows, columns), np.int64)
    scale, zero = np.empty((rows, columns // size), np.float64), np.empty((rows, columns // size), np.int64)
    for one in range(columns // size):
        part = weight[:, index == one].astype(np.float64)
        if symmetric:
            step, shift = np.abs(part).max(1) / (most // 2), np.full(rows, (most + 1) // 2)
        else:
            low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
            step = (high - low) / most
            shift = np.maximum(np.rint(-low / step), 1).astype(np.int64)  # GPTQ's first format has no 0
        step = step.astype(dtype).astype(np.float64)
        scale[:, one], zero[:, one] = step, shift
        numbers[:, index == one] = np.clip(np.rint(part / step[:, None]) + shift[:, None], 0, most)
    matrix = (numbers - zero[:, index]) * scale[:, index]
    return numbers, scale.astype(dtype), zero, index, matrix


def words(numbers, bits, places=None):
    """Rows of integers without sign as rows of int32; place i of a word is that of number i, unless `places` differ."""
    per_word = 32 // bits
    places = places or range(per_word)
    rows, count = numbers.shape
    result = np.zeros((rows, -(-count // per_word)), np.uint32)
    for column in range(count):
        place = bits * places[column % per_word]
        result[:, column // per_word] |= (numbers[:, column] << place).astype(np.uint32)
    return result.view(np.int32)


def awq(name, weight, group=32):
    """Word j of a row of the transposed matrix has its columns 8 j + (0 2 4 6 1 3 5 7), from the lowest bits on."""
    numbers, scale, zero, _, matrix = quantized(weight, 4, group)
    places = [(0, 2, 4, 6, 1, 3, 5, 7).index(column) for column in range(8)]
    return {
        f"{name}.qweight": words(numbers.T, 4, places),
        f"{name}.qzeros": words(zero.T, 4, places),
        f"{name}.scales": np.ascontiguousarray(scale.T),
    }, matrix


def gptq(name, weight, group=32, bits=4, version=1, order=None, symmetric=False, index=True):
    """Words go down the columns of the transposed matrix; zero points go along its rows, less 1 in version 1."""
    columns = weight.shape[1]
    groups = None
    if order is not None:  # the i-th column of `order` belongs to the group i / size
        groups = np.empty(columns, np.int64)
        groups[order] = np.arange(columns) // group
    numbers, scale, zero, groups, matrix = quantized(weight, bits, group, symmetric, groups)
    parts = {
        f"{name}.qweight": np.ascontiguousarray(words(numbers, bits).T),
        f"{name}.qzeros": words(zero.T - (version == 1), bits),
        f"{name}.scales": np.ascontiguousarray(scale.T),
    }
    if index:
        parts[f"{name}.g_idx"] = groups.astype(np.int32)
    return parts, matrix


def compressed(name, weight, group=32, bits=4, symmetric=True, order=None, old=False, dtype=ml_dtypes.bfloat16):
    """Numbers with sign, of which words hold q + 2^(bits - 1); zero points are packed along the rows of the matrix."""
    columns = weight.shape[1]
    groups = None
    if order is not None:
        groups = np.empty(columns, np.int64)
        groups[order] = np.arange(columns) // group
    numbers, scale, zero, groups, matrix = quantized(weight, bits, group, symmetric, groups, dtype)
    parts = {
        f"{name}.weight_packed": words(numbers, bits),
        f"{name}.weight_shape": np.array(weight.shape, np.int64),
        f"{name}.weight_scale": scale,
    }
    if not symmetric:
        signed = (zero - 2 ** (bits - 1)).astype(np.int8)
        parts[f"{name}.weight_zero_point"] = signed if old else np.ascontiguousarray(words(zero.T, bits).T)
    if order is not None:
        parts[f"{name}.weight_g_idx"] = groups.astype(np.int32)
    return parts, matrix


def integers(name, weight, symmetric=True):
    """int-quantized: int8 as such, a scale for each row."""
    numbers, scale, zero, _, matrix = quantized(weight, 8, -1, symmetric, dtype=np.float32)
    parts = {f"{name}.weight": (numbers - 128).astype(np.int8), f"{name}.weight_scale": scale}
    if not symmetric:
        parts[f"{name}.weight_zero_point"] = (zero - 128).astype(np.int8)
    return parts, matrix


def model(weights, pack):
    """The tensors of a file with the linear layers of a model packed, and its weights in float64 as they are then."""
    tensors, matrices = {}, {}
    for name, value in weights.items():
        base, _, last = name.rpartition(".")
        if last == "weight" and base.endswith(LINEAR):
            parts, matrices[name] = pack(base, value)
            tensors |= parts
        else:
            tensors[name], matrices[name] = value, value.astype(np.float64)
    return tensors, matrices
