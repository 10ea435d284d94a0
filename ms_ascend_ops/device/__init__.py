"""The emulated Ascend device: what runs in its process, and what starts it."""
