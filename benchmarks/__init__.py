"""Measures how fast the operators are on this CPU. `python -m ms_ascend_ops bench --help`."""
