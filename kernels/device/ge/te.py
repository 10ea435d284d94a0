"""Has the version of CANN's Python package `te`, which MindSpore looks at: the device compiles no operators of TBE.

MindSpore takes a `te` that can be imported for the whole of it, and imports operators of its own that are written in
TBE. They are hidden.
"""

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

sys.modules.setdefault("mindspore.ops._op_impl._custom_op", ModuleType("mindspore.ops._op_impl._custom_op"))
_written = Path(os.environ["ASCEND_HOME_PATH"], "compiler/version.info").read_text(encoding="utf-8")
version = SimpleNamespace(version=_written.strip().removeprefix("Version="))
