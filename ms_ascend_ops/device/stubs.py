"""Functions that a client wants of CANN and the emulated device does not have: each says so when it is called.

A client (MindSpore's Ascend plugin, torch_npu) is linked with names of CANN's libraries, and asks for more of them by
dlsym. Both are read from its files; what our libraries define is taken away; the rest becomes one small library, which
lies in a cache. None of the names stands here, but for those whose call may pass.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ms_ascend_ops.device import internal_kernels

__all__ = ["LIBRARY", "StubsError", "client_libraries", "make_stubs", "missing_names"]

LIBRARY = "libms_ascend_ops_stubs.so"

# Where the libraries of a client lie that speak to CANN, and those that define names like CANN's themselves.
_CLIENTS = {
    "mindspore": (
        (
            *("lib/plugin/libmindspore_*ascend*.so*", "lib/libmindspore_ge_backend*.so*", "lib/plugin/ascend/*.so*"),
            "lib/plugin/ascend/ms_kernels_symmetric_memory/**/*.so*",
        ),
        ("lib/*.so*", "lib/plugin/ascend/custom_ascendc_*/op_api/lib/*.so"),  # also the packages that it brings
    ),
    "torch_npu": (("lib/*.so*",), ()),
}
# What a name of CANN looks like: C functions by the prefix of their library, C++ of the graph engine.
_C_NAME = rb"(?:acl|acltdt|aclnn|Hccl|Hcom|hal|rt|prof|Msprof|Adx)[A-Z][A-Za-z0-9_]*"
_LINKED = re.compile(rb"(?:" + _C_NAME + rb"|acl(?:rt|op|mdl|tdt|prof|sys|blas)[A-Z]\w*|_ZNK?K?2ge\w*)\Z")
_ASKED = [
    re.compile(rb"\0(acl(?:|rt|op|mdl|tdt|prof|sys|nn)[A-Z][A-Za-z0-9_]*)(?=\0)"),
    re.compile(rb"\0(Hccl[A-Z][A-Za-z0-9_]*)(?=\0)"),
]
# Calls that may pass without an effect: operators that register with the graph engine, what is given back, and what a
# client does when it starts, whatever it will use.
_PASS = re.compile(
    r"_ZN2ge(23OperatorCreatorRegister|22InferShapeFuncRegister)C\d.*|_ZN2ge\w*D[0-2]Ev"
    r"|_ZN2ge1(0GEFinalize|2GEInitialize)E\w*"  # before operators by their names of the graph engine, too
    r"|_ZNK2ge8Operator7GetAttrE\w*"  # texts and lists stay empty: ge/registry.cpp has those of numbers
    r"|HcclSetConfig|acltdt(CreateChannelWithCapacity|DestroyChannel|StopChannel)"
)


class StubsError(RuntimeError):
    """The library of stubs cannot be made."""


@dataclass(frozen=True)
class _Symbols:
    defined: frozenset[bytes]
    undefined: frozenset[bytes]


def client_libraries() -> tuple[list[Path], list[Path]]:
    """Of the clients that are installed: the libraries that speak to CANN, and others that they bring."""
    speakers: list[Path] = []
    others: list[Path] = []
    for package, (ours, rest) in _CLIENTS.items():
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            speakers += _files(Path(folder), ours)
            others += _files(Path(folder), rest)
    return speakers, [path for path in others if path not in speakers]


def missing_names(speakers: Iterable[Path], others: Iterable[Path], libraries: Iterable[Path]) -> list[str]:
    """Names that `speakers` want and neither they, `others` nor `libraries`, those of the device, define."""
    wanted: set[bytes] = set()
    defined: set[bytes] = set()
    for path in speakers:
        symbols = _symbols(path)
        wanted |= {name for name in symbols.undefined if _LINKED.match(name)} | _strings(path)
        defined |= symbols.defined
    for path in (*others, *libraries):
        defined |= _symbols(path).defined
    return sorted(name.decode("ascii") for name in wanted - defined)


def make_stubs(libraries: list[Path], cache: Path) -> Path:
    """The folder of the library of stubs for the clients that are installed; it is made if it is not in the cache.

    Args:
        libraries: those of the device.
        cache: where such folders lie.

    Raises:
        StubsError: it cannot be made; the message says what is missing.
    """
    speakers, others = client_libraries()
    folder = cache / _identity([*speakers, *others, *libraries])
    if not (folder / LIBRARY).is_file():
        runtime = [path for path in libraries if path.name == "libascendcl.so"]
        if client := internal_kernels.client():
            # The program loads it with the stubs, before MindSpore looks for its own of the same name.
            stubs = "\n".join(map(internal_kernels.stub, _internal_names(client[0])))
            arguments = internal_kernels.compile_arguments(client[1])
            _compile(_DECLARED.format(stubs), internal_kernels.LIBRARY_NAME, arguments, runtime, folder)
            runtime.append(folder / internal_kernels.LIBRARY_NAME)
        _compile(_source(missing_names(speakers, others, libraries)), LIBRARY, [], runtime, folder)
    return folder


_DECLARED = 'extern "C" {{\nlong MsAscendDeviceMissing(const char* name);\n{}\n}}\n'


def _source(names: Iterable[str]) -> str:
    """Every function jumps to the one that tells, so that this one sees the caller of the function."""
    lines = []
    for name in names:
        body = "return 0;" if _PASS.fullmatch(name) else f'return MsAscendDeviceMissing("{name}");'
        lines.append(f"long {name}() {{ {body} }}")
    return _DECLARED.format("\n".join(lines))


def _internal_names(plugin: Path) -> list[str]:
    names = _symbols(plugin).undefined
    return sorted(name.decode("ascii") for name in names if name.startswith(internal_kernels.PREFIX))


def _compile(source: str, library: str, arguments: list[str], linked: Iterable[Path], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, library)
            command = ["g++", *arguments, "-x", "c++", "-O1", "-foptimize-sibling-calls", "-w", "-shared", "-fPIC", "-"]
            # With a path of its own the loader does not look where the client has its libraries.
            link = [f"-Wl,-soname,{library}", "-Wl,--no-as-needed", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"]
            command += ["-o", str(made), *link, "-x", "none"]
            command += [str(path) for path in linked]
            done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
            if done.returncode != 0:
                raise StubsError(f"g++ does not compile the functions that MindSpore asks for: {done.stderr.strip()}")
            made.replace(folder / library)
    except FileNotFoundError as error:
        raise StubsError("there is no g++, which MindSpore calls for custom operators, too: install it") from error
    except OSError as error:
        raise StubsError(f"cannot write to {folder}: {error}; XDG_CACHE_HOME names another place") from error


def _identity(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in [*files, Path(__file__), *sorted(internal_kernels.SOURCES.glob("*"))]:
        status = path.stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _files(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found = {path.resolve() for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)


def _symbols(path: Path) -> _Symbols:
    """The dynamic symbols of a library."""
    defined: set[bytes] = set()
    undefined: set[bytes] = set()
    data = _read(path)
    sections = _sections(data)
    for kind, _, offset, size, link in sections:
        if kind == _DYNSYM:
            _, _, text_offset, text_size, _ = sections[link]
            text = bytes(data[text_offset : text_offset + text_size])
            for name, section in _SYMBOL.iter_unpack(data[offset : offset + size]):
                (defined if section else undefined).add(text[name : text.index(b"\0", name)])
    return _Symbols(frozenset(defined), frozenset(undefined))


def _strings(path: Path) -> set[bytes]:
    """Names of CANN that a library has as constants: it asks for them by dlsym."""
    data = _read(path)
    found = set()
    for kind, flags, offset, size, _ in _sections(data):
        if kind == _PROGBITS and flags == _ALLOC:  # constants
            part = data[offset : offset + size]
            found |= {match[1] for pattern in _ASKED for match in pattern.finditer(part)}
    operators = {name for name in found if name.startswith(b"aclnn") and not name.endswith(b"GetWorkspaceSize")}
    return found | {name + b"GetWorkspaceSize" for name in operators}


_PROGBITS, _DYNSYM = 1, 11  # SHT_PROGBITS, SHT_DYNSYM
_ALLOC = 2  # SHF_ALLOC alone: neither written to nor executed
_SECTION = struct.Struct("<4xIQ8xQQI20x")  # of Elf64_Shdr: type, flags, offset, size, link
_SYMBOL = struct.Struct("<I2xH16x")  # of Elf64_Sym: name, section (0: undefined)


def _read(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _sections(data: memoryview) -> list[tuple[int, ...]]:
    if bytes(data[:5]) != b"\x7fELF\x02":
        return []  # no library of 64 bits: a text, or one that is cut
    offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    return list(_SECTION.iter_unpack(data[offset : offset + count * _SECTION.size]))
