"""Provides the operators of this package for ONNX: the same kernels, in ONNX Runtime on a CPU.

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(ms_ascend_ops.onnx.library_path())

Needs the extra `[onnx]`, and no MindSpore at run time. Importing it registers the schemas of all operators, in the
domain "ms_ascend_ops", with `onnx`.
"""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("ms_ascend_ops.onnx: the package onnx is missing; pip install 'ms_ascend_ops[onnx]'") from error

from ms_ascend_ops.onnx.runtime import library_path
from ms_ascend_ops.onnx.schemas import DOMAIN, VERSION, register
from ms_ascend_ops.onnx.substitution import optimize

register()

__all__ = ["DOMAIN", "VERSION", "library_path", "optimize"]
