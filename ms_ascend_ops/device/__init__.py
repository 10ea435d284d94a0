"""Emulates an Ascend device: MindSpore's Ascend backend on a machine without an NPU."""
