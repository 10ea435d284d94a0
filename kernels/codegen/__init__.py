"""Generates, from the operator definitions and the tiling headers, the C++ that stands between kernels and callers."""
