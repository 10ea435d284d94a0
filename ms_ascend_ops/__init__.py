"""Provides fused operators for MindSpore on Ascend NPUs, which also run on any CPU.

    from ms_ascend_ops import RMSNorm, SwiGLU, ops

The names are imported when they are used: `ms_ascend_ops._C` and `ms_ascend_ops.registry` need no MindSpore, and the
layers are built on the operators, not the other way round. All layers of `ms_ascend_ops.cells` are names here.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ms_ascend_ops.lazy import lazy_attributes
from ms_ascend_ops.version import __version__ as __version__

if TYPE_CHECKING:
    from ms_ascend_ops.cells import *  # noqa: F403

_ORIGINS = {
    "optimize": "ms_ascend_ops.export",
    "optimize_mindir": "ms_ascend_ops.export",
    "cpu_builtins": "ms_ascend_ops.export",
    "bundle": "ms_ascend_ops.export",
    "export_mindir": "ms_ascend_ops.export",
    "load": "ms_ascend_ops.export",
    "get_num_threads": "ms_ascend_ops.library",
    "set_num_threads": "ms_ascend_ops.library",
}
_MODULES = ("cells", "export", "ops")


_public = lazy_attributes(__name__, _ORIGINS | {name: f"{__name__}.{name}" for name in _MODULES})


def __getattr__(name: str) -> Any:
    if name == "_C":
        return import_module(f"{__name__}.library").native()
    if name == "__all__":
        return __dir__()
    if name[:1].isupper() and name in (layers := _public("cells")).__all__:
        globals()[name] = value = getattr(layers, name)
        return value
    return _public(name)


def __dir__() -> list[str]:
    layers = import_module(f"{__name__}.cells").__all__ if find_spec("mindspore") else []  # PyTorch needs no MindSpore
    return sorted({"__version__", *_ORIGINS, *_MODULES, *layers})
