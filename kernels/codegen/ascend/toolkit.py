"""Finds an installed CANN toolkit and says what it is."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HELP", "Toolkit", "find"]

# Says where to get it: the page of the CANN downloads.
HELP = (
    "Get CANN 8.1 to 9.x (toolkit and the kernels package of your chip) from https://www.hiascend.com/software/cann, "
    "or use an image from https://quay.io/repository/ascend/cann. Then `source <CANN>/set_env.sh`, or give --cann PATH."
)

_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_DEFAULTS = (
    Path("/usr/local/Ascend/cann"),
    Path("/usr/local/Ascend/ascend-toolkit/latest"),
    Path.home() / "Ascend/cann",
    Path.home() / "Ascend/ascend-toolkit/latest",
)
_VERSION = re.compile(r"^\s*version\s*=\s*\[?(?:[^:\]\n]*:)*\s*v?(\d+\.\d+[\w.]*)", re.IGNORECASE | re.MULTILINE)
_VERSION_FILES = (
    "*-linux/ascend_toolkit_install.info",
    "ascend_toolkit_install.info",
    "compiler/version.info",
    "version.info",
    "version.cfg",
)
# The folders with CANN's headers, relative to the toolkit: of 8.1 (per architecture), then of 9.x.
_INCLUDES = (
    "tools/tikicpulib/lib/include",
    "{arch}/include",
    "{arch}/ascendc/include/basic_api",
    "{arch}/ascendc/include/basic_api/impl",
    "{arch}/ascendc/include/basic_api/interface",
    "{arch}/ascendc/include/highlevel_api",
    "{arch}/ascendc/include/highlevel_api/lib",
    "{arch}/ascendc/include/highlevel_api/impl",
    "{arch}/asc",
    "{arch}/asc/include",
    "{arch}/asc/include/basic_api",
    "{arch}/asc/include/adv_api",
    "{arch}/asc/include/interface",
    "{arch}/asc/include/utils",
    "{arch}/asc/include/tiling",
    "{arch}/asc/impl",
    "{arch}/asc/impl/basic_api",
    "{arch}/asc/impl/adv_api",
    "{arch}/asc/impl/utils",
    "{arch}/tikcpp/tikcfw",
    "{arch}/tikcpp/tikcfw/interface",
    "{arch}/tikcpp/tikcfw/impl",
    "include",
)


@dataclass(frozen=True)
class Toolkit:
    """One installed toolkit."""

    root: Path

    @property
    def version(self) -> str:
        """Return it as the toolkit's own files say; empty if none does."""
        for pattern in _VERSION_FILES:
            for file in sorted(self.root.glob(pattern)):
                match = _VERSION.search(file.read_text(encoding="utf-8", errors="replace"))
                if match is not None:
                    return match[1]
        return ""

    @property
    def template(self) -> Path:
        """The project template of CANN 8.1."""
        return self.root / "tools/op_project_templates/ascendc/customize"

    @property
    def asc_package(self) -> Path | None:
        """Return what find_package(ASC) finds, from CANN 8.5 on."""
        folder = self.root / "compiler/tikcpp/ascendc_kernel_cmake"
        names = ("ASCConfig.cmake", "asc-config.cmake")
        return next((file for name in names for file in sorted(folder.rglob(name))), None)

    @property
    def packs_onnx_plugins(self) -> bool:
        """Tell whether find_package(ASC) knows plugins for ATC, as CANN 9 does."""
        if self.asc_package is None:
            return False
        files = self.asc_package.parent.rglob("*.cmake")
        return any("ONNX_PLUGIN" in file.read_text(encoding="utf-8", errors="replace") for file in files)

    @property
    def architecture(self) -> str:
        """Folder of this machine's architecture, or that of the only one there is."""
        own = f"{os.uname().machine}-linux"
        folders = sorted(path.name for path in self.root.glob("*-linux") if path.is_dir())
        return own if own in folders or not folders else folders[0]

    def includes(self) -> list[Path]:
        """The include folders that exist."""
        folders = [self.root / text.format(arch=self.architecture) for text in _INCLUDES]
        return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]

    @property
    def has_headers(self) -> bool:
        """Tell whether the kernels' header is there."""
        return any((folder / "kernel_operator.h").is_file() for folder in self.includes())

    @property
    def environment(self) -> Path | None:
        """The script that sets CANN's environment."""
        return next((f for f in (self.root / "set_env.sh", self.root.parent / "set_env.sh") if f.is_file()), None)


def find(given: Path | None) -> Toolkit | None:
    """The toolkit at `given`, or else the one that the environment or the usual places have."""
    candidates: Sequence[Path]
    if given is not None:
        candidates = [given, given / "latest"]
    else:
        variables = [Path(value) for name in _VARIABLES if (value := os.environ.get(name))]
        candidates = [*variables, *_DEFAULTS]
    for root in candidates:
        toolkit = Toolkit(root.resolve())
        if toolkit.template.is_dir() or toolkit.asc_package is not None or toolkit.has_headers:
            return toolkit
    return None
