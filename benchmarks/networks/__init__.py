"""Measures whole networks, stock against fused. `python -m ms_ascend_ops bench-networks --help`."""
