"""Makes stubs of functions that a client wants of CANN and the device does not have: each says so when it is called.

A client (MindSpore's Ascend plugin, torch_npu) is linked with names of CANN's libraries, and asks for more of them by
dlsym. Both are read from its files; what our libraries define is taken away; all other names become one small
library, which lies in a cache. None of the names stands here, but for those whose call may pass.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ms_ascend_ops.device import internal_kernels

__all__ = [
    "LIBRARY",
    "StubsError",
    "client_libraries",
    "make_stubs",
    "missing_libraries",
    "missing_names",
    "plugin_failure",
]

LIBRARY = "libms_ascend_ops_stubs.so"

# The libraries of a client that speak to CANN lie here, and those that define names like CANN's themselves.
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
# A name of CANN looks like this: C functions by the prefix of their library, C++ of the graph engine.
_C_NAME = rb"(?:acl|acltdt|aclnn|Hccl|Hcom|hal|rt|prof|Msprof|Adx)[A-Z][A-Za-z0-9_]*"
# CANN's logging and dumps, with which MindSpore 2.7 is linked.
_LOGGING = rb"_Z\d+(?:CheckLogLevel|DlogFlush)\w*|_ZN3Adx\w+|mmGetTid"
_LINKED = re.compile(
    rb"(?:" + _C_NAME + rb"|acl(?:rt|op|mdl|tdt|prof|sys|blas)[A-Z]\w*|_ZNK?K?2ge\w*|" + _LOGGING + rb")\Z"
)
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
    r"|" + _LOGGING.decode() + r"|acltdt(CreateChannelWithCapacity|DestroyChannel|StopChannel)"
)


class StubsError(RuntimeError):
    """The library of stubs cannot be made."""


@dataclass(frozen=True)
class _Symbols:
    defined: frozenset[bytes]
    undefined: frozenset[bytes]
    needed: frozenset[bytes] = frozenset()  # libraries that it is linked with


def client_libraries() -> tuple[list[Path], list[Path]]:
    """Find, in the clients that are installed, the libraries that speak to CANN, and others that they bring."""
    speakers: list[Path] = []
    others: list[Path] = []
    for package, (speaking, brought) in _CLIENTS.items():
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            speakers += _files(Path(folder), speaking)
            others += _files(Path(folder), brought)
    return speakers, [path for path in others if path not in speakers]


def _of_pytorch() -> list[Path]:
    spec = find_spec("torch")
    return (
        [path for folder in spec.submodule_search_locations or () for path in Path(folder, "lib").glob("*.so*")]
        if spec
        else []
    )


def missing_names(speakers: Iterable[Path], others: Iterable[Path], libraries: Iterable[Path]) -> list[str]:
    """Return names that `speakers` want and neither they, `others` nor `libraries`, those of the device, define."""
    wanted: set[bytes] = set()
    defined: set[bytes] = set()
    for path in speakers:
        symbols = _symbols(path)
        wanted |= {name for name in symbols.undefined if _LINKED.match(name)} | _strings(path)
        defined |= symbols.defined
    for path in (*others, *libraries):
        defined |= _symbols(path).defined
    return sorted(name.decode("ascii") for name in wanted - defined)


def missing_libraries(speakers: Iterable[Path], others: Iterable[Path], libraries: Iterable[Path]) -> list[str]:
    """Return libraries that `speakers` are linked with, and that nobody brings: MindSpore 2.7 and 2.8 name ten.

    What a client has in a folder `ascend` are kernels of others, which it does without where a library is missing.
    """
    speakers = list(speakers)
    known = {path.name for path in (*speakers, *others, *libraries)}
    needed = {name.decode() for path in speakers if path.parent.name != "ascend" for name in _symbols(path).needed}
    # Libraries of the system have a version: libz.so.1.
    return sorted(name for name in needed - known if name.startswith("lib") and name.endswith(".so"))


def make_stubs(libraries: list[Path], cache: Path) -> Path:
    """Return the folder of the library of stubs for the clients that are installed.

    It is made if it is not in the cache.

    Args:
        libraries: those of the device.
        cache: where such folders lie.

    Raises:
        StubsError: it cannot be made; the message says what is missing.
    """
    speakers, others = client_libraries()
    folder = cache / _identity([*speakers, *others, *libraries])
    if not (folder / LIBRARY).is_file():
        # torch_npu is linked with PyTorch's, of which the names are enough.
        for name in missing_libraries(speakers, [*others, *_of_pytorch()], libraries):
            _compile("", [], folder / name)
        # The program loads it with the stubs, before MindSpore looks for its own of the same name.
        internal = _make_internal_kernels(libraries, folder)
        names = missing_names(speakers, others, libraries)
        _compile(_source(names), [*libraries, *internal], folder / LIBRARY)
    return folder


def _make_internal_kernels(libraries: list[Path], folder: Path) -> list[Path]:
    """Make MindSpore's own kernels; none, where a version has none, or other ones than the device knows."""
    client = internal_kernels.client()
    if client is None:
        return []
    plugin, headers = client
    wanted = [name.decode() for name in _symbols(plugin).undefined if name.startswith(internal_kernels.PREFIX)]
    source, made = "\n".join(map(internal_kernels.stub, sorted(wanted))), folder / internal_kernels.LIBRARY_NAME
    try:
        _compile(_declared(source), libraries, made, internal_kernels.compile_arguments(headers))
    except StubsError:
        return []
    return [made]


def plugin_failure(environment: Mapping[str, str]) -> str:
    """Say why MindSpore's plugin does not load in this environment; MindSpore stays on the CPU then, without a word.

    That is tried once, and kept beside the stubs, which are others for another MindSpore.
    """
    folder = Path(environment["LD_LIBRARY_PATH"].partition(":")[0])
    known = folder / "plugin.txt"
    if find_spec("mindspore") is None:
        return ""
    if known.is_file():
        return known.read_text("utf-8")
    command = [sys.executable, "-c", "import mindspore; mindspore.set_device('Ascend')"]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    failure = _reason(done.stderr) if done.returncode else ""
    with suppress(OSError):  # a cache that belongs to somebody else
        known.write_text(failure, "utf-8")
    return failure


def _reason(output: str) -> str:
    """Return what MindSpore says of its plugin; otherwise its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if line.startswith("Load dynamic library: ")), lines[-1])


def _source(names: Iterable[str]) -> str:
    """Write the source.

    Every function jumps to the one that tells, so that this one sees the caller of the function.
    """
    lines = []
    for name in names:
        body = "return 0;" if _PASS.fullmatch(name) else f'return MsAscendDeviceMissing("{name}");'
        lines.append(f"long {name}() {{ {body} }}")
    return _declared("\n".join(lines))


def _declared(functions: str) -> str:
    return f'extern "C" {{\nlong MsAscendDeviceMissing(const char* name);\n{functions}\n}}\n'


def _compile(source: str, libraries: Iterable[Path], library: Path, arguments: Iterable[str] = ()) -> None:
    folder = library.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, library.name)
            command = ["g++", *arguments, "-x", "c++", "-O1", "-foptimize-sibling-calls", "-w", "-shared", "-fPIC", "-"]
            # With a path of its own the loader ignores the client's library folders.
            link = [f"-Wl,-soname,{library.name}", "-Wl,--no-as-needed", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"]
            command += ["-o", str(made), *link, "-x", "none"]
            linked = ("libascendcl.so", internal_kernels.LIBRARY_NAME)
            command += [str(path) for path in libraries if path.name in linked]
            done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
            if done.returncode != 0:
                raise StubsError(f"g++ does not compile the functions that MindSpore asks for: {done.stderr.strip()}")
            made.replace(library)
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
    """Return the dynamic symbols of a library, and what it is linked with."""
    defined: set[bytes] = set()
    undefined: set[bytes] = set()
    needed: set[bytes] = set()
    data = _read(path)
    sections = _sections(data)
    for kind, _, offset, size, link in sections:
        if kind not in (_DYNSYM, _DYNAMIC):
            continue
        _, _, text_offset, text_size, _ = sections[link]
        text, part = bytes(data[text_offset : text_offset + text_size]), data[offset : offset + size]
        if kind == _DYNSYM:
            for name, section in _SYMBOL.iter_unpack(part):
                (defined if section else undefined).add(text[name : text.index(b"\0", name)])
        else:
            names = [value for tag, value in struct.iter_unpack("<QQ", part) if tag == _NEEDED]
            needed |= {text[name : text.index(b"\0", name)] for name in names}
    return _Symbols(frozenset(defined), frozenset(undefined), frozenset(needed))


def _strings(path: Path) -> set[bytes]:
    """Return names of CANN that a library has as constants: it asks for them by dlsym."""
    data = _read(path)
    found = set()
    for kind, flags, offset, size, _ in _sections(data):
        if kind == _PROGBITS and flags == _ALLOC:  # constants
            part = data[offset : offset + size]
            found |= {match[1] for pattern in _ASKED for match in pattern.finditer(part)}
    operators = {name for name in found if name.startswith(b"aclnn") and not name.endswith(b"GetWorkspaceSize")}
    return found | {name + b"GetWorkspaceSize" for name in operators}


_PROGBITS, _DYNAMIC, _DYNSYM = 1, 6, 11  # SHT_PROGBITS, SHT_DYNAMIC, SHT_DYNSYM
_NEEDED = 1  # DT_NEEDED
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
