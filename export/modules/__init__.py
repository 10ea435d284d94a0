"""Networks of MindNLP: PyTorch's modules on MindSpore, by `mindtorch`."""
