"""Debugs precision: where two networks begin to differ, and which operator is to blame. docs/trust.md.

from ms_ascend_ops import debug

found = debug.compare(debug.of_cell(net, inputs), debug.of_cell(other, inputs))
print(found.first)
"""

from ms_ascend_ops.debug.bisect import blame
from ms_ascend_ops.debug.capture import of_cell, of_mindir
from ms_ascend_ops.debug.compare import Comparison, Place, compare
from ms_ascend_ops.debug.dump import Record, Value, read_dump, write_dump

__all__ = [
    "Comparison",
    "Place",
    "Record",
    "Value",
    "blame",
    "compare",
    "of_cell",
    "of_mindir",
    "read_dump",
    "write_dump",
]
