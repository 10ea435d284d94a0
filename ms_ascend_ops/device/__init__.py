<<<<<<< HEAD
"""The emulated Ascend device: what runs in its process, and what starts it."""
=======
"""The emulated Ascend device: MindSpore's Ascend backend on a machine without an NPU."""
>>>>>>> dev-rt
