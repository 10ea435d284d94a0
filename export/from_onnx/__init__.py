"""ONNX models as networks of MindSpore's own operators."""
