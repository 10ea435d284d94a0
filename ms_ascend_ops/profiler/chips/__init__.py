"""Holds descriptions of chips for ms_ascend_ops.profiler, which reads them as package data."""
