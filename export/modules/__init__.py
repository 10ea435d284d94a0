"""Optimizes networks of MindNLP: PyTorch's modules on MindSpore, by `mindtorch`."""
