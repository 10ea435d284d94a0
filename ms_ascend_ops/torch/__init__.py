"""Provides the operators of this package for PyTorch, on a CPU: the same kernels, on PyTorch's memory.

    from ms_ascend_ops.torch import RMSNorm, rms_norm, optimize

Needs the extra `[torch]`, and no MindSpore at run time. Importing it registers every operator as
`torch.ops.ms_ascend_ops.<name>`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("ms_ascend_ops.torch: PyTorch is missing; pip install 'ms_ascend_ops[torch]'") from error

from ms_ascend_ops.library import load_products
from ms_ascend_ops.torch.registration import register

load_products()
register()

from ms_ascend_ops.torch import functions as _functions  # noqa: E402  (which take the registered operators)
from ms_ascend_ops.torch.functions import *  # noqa: E402, F403
from ms_ascend_ops.torch.modules import (  # noqa: E402
    GEGLU,
    GELU,
    AddRMSNorm,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    SwiGLU,
)
from ms_ascend_ops.torch.substitution import optimize  # noqa: E402

__all__ = [  # noqa: PLE0604
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "SwiGLU",
    "optimize",
    *_functions.__all__,
]
