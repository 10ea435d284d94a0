"""Loads servers: `python -m ms_ascend_ops.benchmarks.serving --help`; figures are in docs/serving.md."""
