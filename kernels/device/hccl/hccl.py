"""Has the version of CANN's Python package `hccl`, which MindSpore reads before it initialises communication."""

from types import SimpleNamespace

from te import version

sys_version = SimpleNamespace(__sys_version__=version.version)
