"""Gradients of products with a sparse matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ms_ascend_ops.torch.gradients.composed import Call, Gradients, composed, kernel


def _sparse_product(values: str, side: int) -> Callable[[Call], Gradients]:
    """Return gradients of values, or of blocks of side x side, and of the dense factor."""

    def compose(call: Call) -> Gradients:
        name = "sparse_matmul" if side == 1 else "block_sparse_matmul"
        ends, indices, sparse, dense = call["row_ends"], call["indices"], call[values], call["dense"]
        dy, found = call.douts["y"], {}
        if call.needs(values):
            found[values] = kernel(f"{name}_grad")(dy, ends, indices, dense)
        if call.needs("dense"):  # the product with the transposed matrix
            columns, order = torch.sort(indices, stable=True)
            positions = torch.arange(len(indices), dtype=torch.int32, device=dy.device)
            rows = torch.searchsorted(ends, positions, right=True).to(torch.int32)
            bounds = torch.arange(len(dense) // side, dtype=torch.int32, device=dy.device)
            column_ends = torch.searchsorted(columns, bounds, right=True).to(torch.int32)
            transposed = sparse[order] if side == 1 else sparse[order].transpose(1, 2).contiguous()
            found["dense"] = kernel(name)(column_ends, rows[order], transposed, dy)
        return found

    return compose


composed("sparse_matmul", keeps=["row_ends", "indices", "values", "dense"])(_sparse_product("values", 1))
composed("block_sparse_matmul", keeps=["row_ends", "indices", "blocks", "dense"])(_sparse_product("blocks", 16))
