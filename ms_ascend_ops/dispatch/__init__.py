"""Several implementations of an operator side by side, chosen by a policy, with fallback. See docs/trust.md.

    from ms_ascend_ops import dispatch

    dispatch.use(dispatch.Fixed(), guard=dispatch.Guard())             # kernels, and compositions where they fail
    dispatch.register("rms_norm", "next", library="next/libms_ascend_ops.so")
    dispatch.use(dispatch.AB("next", share=0.1), "rms_norm")
    print(*dispatch.status("rms_norm"), sep="\\n")

Imports go one way: a table puts itself into the hook of `routing.py`, where `custom.py` looks with every call.
"""

from ms_ascend_ops.dispatch.implementations import Implementation
from ms_ascend_ops.dispatch.policies import AB, Fastest, Fixed, Policy, request
from ms_ascend_ops.dispatch.table import (
    Choice,
    Guard,
    Status,
    choices,
    implementations,
    register,
    reset,
    status,
    unregister,
    use,
)

__all__ = [
    "AB",
    "Choice",
    "Fastest",
    "Fixed",
    "Guard",
    "Implementation",
    "Policy",
    "Status",
    "choices",
    "implementations",
    "register",
    "request",
    "reset",
    "status",
    "unregister",
    "use",
]
