"""Serves models: bundles and MindIRs over the Open Inference Protocol, language models over OpenAI's API.

    from ms_ascend_ops.serving import Settings, create_app

    app = create_app(Settings(repository="models"))  # for any ASGI server: uvicorn network:app

or `python -m ms_ascend_ops serve`. Nothing else of the package imports this. `pip install 'ms_ascend_ops[serve]'`
brings what it needs. docs/serving.md has the details.
"""

import importlib.metadata
import os
from typing import TYPE_CHECKING

from ms_ascend_ops import extras
from ms_ascend_ops.lazy import lazy_attributes

if TYPE_CHECKING:
    from ms_ascend_ops.serving.application import create_app
    from ms_ascend_ops.serving.service import Service
    from ms_ascend_ops.serving.settings import ModelOptions, Settings

if _missing := extras.missing("serve"):
    raise ImportError(f"ms_ascend_ops.serving needs {', '.join(_missing)}: {extras.advice('serve')}")

# MindSpore up to 2.9 does not come up once protobuf's implementation in C was imported. It asks for the other one,
# where it comes first.
if any(d.version.startswith(("2.7.", "2.8.", "2.9.")) for d in importlib.metadata.distributions(name="mindspore")):
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

_ORIGINS = {
    "ModelOptions": "settings",
    "Service": "service",
    "Settings": "settings",
    "create_app": "application",
}

__all__ = ["ModelOptions", "Service", "Settings", "create_app"]


__getattr__ = lazy_attributes(__name__, {name: f"{__name__}.{module}" for name, module in _ORIGINS.items()})
