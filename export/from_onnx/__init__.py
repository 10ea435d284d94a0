"""Converts ONNX models to networks of MindSpore's own operators."""
