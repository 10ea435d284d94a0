"""Computes products of matrices, accumulated in float32 (floats of 16 bits come as float32)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def matmul(self: Array, other: Array) -> Array:
    return np.matmul(self, other)


def addmm(self: Array, one: Array, other: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """Compute batches, too. With beta = 0 `self` may hold anything."""
    product = alpha * np.matmul(one, other)
    return product + beta * self if beta != 0 else product


def addbmm(self: Array, one: Array, other: Array, beta: Any, alpha: Any) -> Array:
    product = alpha * np.matmul(one, other).sum(0)
    return product + beta * self if beta != 0 else product


def addmv(self: Array, matrix: Array, vector: Array, alpha: Any, beta: Any) -> Array:
    return addmm(self, matrix, vector, beta, alpha)


def addr(self: Array, one: Array, other: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return (1 if beta is None else beta) * self + (1 if alpha is None else alpha) * np.outer(one, other)


def dense(self: Array, weight: Array, bias: Array | None) -> Array:
    product = np.matmul(self, np.swapaxes(weight, -1, -2))
    return product if bias is None else product + bias


def dot(self: Array, other: Array) -> Array:
    return np.dot(self, other)


def linalg_cross(self: Array, other: Array, dim: int) -> Array:
    return np.cross(self, other, axis=dim)


def linalg_qr(self: Array, mode: int) -> tuple[Array | None, Array]:
    """Factor a matrix. Mode 0: reduced, 1: complete, 2: only R."""
    if mode == 2:
        return None, np.asarray(np.linalg.qr(self, "r"))
    q, r = np.linalg.qr(self, "reduced" if mode == 0 else "complete")
    return q, r


def inverse(self: Array) -> Array:
    return np.linalg.inv(self)


def triangular_solve(self: Array, a: Array, upper: bool, transpose: bool, unit: bool) -> tuple[Array, Array]:
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        triangle = triangle.copy()
        diagonal = np.arange(a.shape[-1])
        triangle[..., diagonal, diagonal] = 1
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if transpose else triangle, self), a
