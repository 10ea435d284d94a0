"""What MindSpore has for an NPU only, on a CPU: functions, primitives, and the package `ms_custom_ops`."""
