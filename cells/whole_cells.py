"""Handles automatic mixed precision at level O1, where MindSpore rewrites the source of a network.

It cannot read that of our layers, nor of constructs that `optimize` has written: it parses each class by itself, and
copies its file. Here these cells stay whole. Layers that O1 computes in half precision, as `nn.Dense`, get that by
`to_float` and a cast of their result to float32, which is what MindSpore writes around them; cells inside of others
are looked at one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import mint, nn, ops
from mindspore.train import amp
from ms_ascend_ops.cells.exchange import named_as_before

from ms_ascend_ops.mindspore_versions import private

__all__ = ["keep_whole"]

# Layers of MindSpore that one of ours replaces; its other layers compute in the dtype of their input at O1.
_STAND_FOR = {
    "Dense": nn.Dense,
    "SparseDense": nn.Dense,
    "SlicedDense": nn.Dense,
    "Conv2d": nn.Conv2d,
}


def _is_whole(cell: Any) -> bool:
    kind = type(cell)
    return isinstance(cell, nn.Cell) and (
        kind.__module__.startswith("ms_ascend_ops.") or hasattr(kind, "fused_source") or "low_construct" in vars(kind)
    )


class _AnyWhole(type):
    def __instancecheck__(cls, cell: Any) -> bool:
        return _is_whole(cell)


class _Whole(metaclass=_AnyWhole):
    """Marks a cell that MindSpore's rewriting must leave alone."""


def _to_float32(self, *args, **kwargs):  # type: ignore[no-untyped-def]
    """Return the construct of a cell that computes in half precision."""
    return ops.functional.mixed_precision_cast(ms.float32, self.low_construct(*args, **kwargs))


def _lower(cell: nn.Cell, dtype: ms.dtype) -> None:
    """Let a layer compute in `dtype`, in place, and give float32."""
    kind: Any = type(cell)
    if "low_construct" not in vars(kind):
        methods = {"construct": _to_float32, "low_construct": inspect.unwrap(kind.construct)}
        made = type(kind.__name__, (kind,), {"__module__": __name__, "__doc__": kind.__doc__, **methods})
        object.__setattr__(cell, "__class__", made)
    cell.to_float(dtype)


class _O1:
    """Describes one call of MindSpore's function: what is lowered, and to what."""

    def __init__(self, original: Any, dtype: ms.dtype, white: Sequence[Any] | None, black: Sequence[Any] | None):
        self.original, self.dtype, self.white, self.black = original, dtype, white, black

    def network(self, cell: nn.Cell) -> nn.Cell:
        """Return a network, or a part of one, as it is at this level."""
        if _is_whole(cell):
            self.whole(cell)
            return cell
        if isinstance(cell, (nn.SequentialCell, nn.CellList)):
            self.children(cell)
            return cell
        if type(cell).__module__.startswith("mindspore."):
            if self.lowers(type(cell)):
                _lower(cell, self.dtype)
            return cell
        for _, inner in cell.cells_and_names():
            if _is_whole(inner):
                self.whole(inner)
        return self.original(cell, self.dtype, white_list=self.white, black_list=self.black)  # type: ignore[no-any-return]

    def whole(self, cell: nn.Cell) -> None:
        """Let a cell keep its construct."""
        if amp._precision_set_by_user(cell):
            return
        kind = type(cell)
        # Keep the parameters of a linear layer that is also called without its activation.
        if self.lowers(_STAND_FOR.get(kind.__name__, kind)) and getattr(kind, "fused_source", None) != "":
            _lower(cell, self.dtype)
        else:
            self.children(cell)

    def children(self, cell: nn.Cell) -> None:
        for name, child in list(cell._cells.items()):
            if child is not None:
                cell._cells[name] = self.network(child)
        if isinstance(cell, nn.SequentialCell):
            cell.cell_list = list(cell._cells.values())

    def lowers(self, kind: type) -> bool:
        """Tell whether a layer of MindSpore's, or one derived from it, is one that computes in half precision."""
        if self.white is not None:
            cells = tuple(c for c in self.white if isinstance(c, type) and issubclass(c, nn.Cell))
            return issubclass(kind, cells)
        return issubclass(kind, (nn.Dense, nn.Conv2d, mint.nn.Linear)) and kind not in (self.black or ())


def keep_whole() -> None:
    """Have MindSpore's automatic mixed precision and its rewriting leave our cells whole, from now on."""
    namespace = private("namespace")
    if namespace is None or _Whole in namespace._subtree_black_list:
        return
    namespace._subtree_black_list.append(_Whole)
    original = amp._auto_mixed_precision_rewrite

    def rewrite(network: nn.Cell, dtype: ms.dtype, *, white_list: Any = None, black_list: Any = None) -> nn.Cell:
        if not any(_is_whole(cell) for _, cell in network.cells_and_names()):
            return original(network, dtype, white_list=white_list, black_list=black_list)  # type: ignore[no-any-return]
        # MindSpore renames the parameters of each cell that it rewrites, as if that were the whole network.
        lowering = _O1(original, dtype, white_list, black_list)
        return named_as_before(lambda: lowering.network(network), list(network.get_parameters()))

    amp._auto_mixed_precision_rewrite = rewrite
    put_around = amp._auto_black_list

    def auto_black_list(network: nn.Cell, black_list: Any, dtype: ms.dtype) -> nn.Cell:
        """Level O2 puts a cell around each norm: a construct that reads the parameters of the norm finds them there."""
        network = put_around(network, black_list, dtype)
        for child in network._cells.values():
            if isinstance(child, amp._OutputTo16):
                child.__dict__.update(child._backbone._params)
        return network

    amp._auto_black_list = auto_black_list
