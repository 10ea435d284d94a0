"""Runs on a CPU what MindSpore has for an NPU only: functions, primitives, and the package `ms_custom_ops`."""
