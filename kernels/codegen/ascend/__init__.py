"""The CANN project: generated from the definitions, the kernels and their tiling, built and installed with CANN."""
