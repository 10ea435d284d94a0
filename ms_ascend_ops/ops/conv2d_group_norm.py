"""Convolution in two dims and group normalization of the result."""

from __future__ import annotations
__all__ = []
