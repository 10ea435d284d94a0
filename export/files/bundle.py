"""Writes and reads a bundle: a MindIR with all that belongs to it, in one file whose every byte is accounted for.

A zip archive, stored without compression:

    manifest.json            versions, chip, operators, and size and SHA-256 of every other file
    model.mindir             the graph
    <folder>/<file>          parameters of a large network, where the MindIR expects them
    operators/<name>.yaml    the definitions of the operators that the graph needs
    <more>                   what an application keeps with it: tokenizer and chat template of a language model

It brings no code. The kernels are those of the machine that loads it, which checks that it has the operators, in these
versions.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import secrets
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import mindspore as ms
from ms_ascend_ops.export.files.model import parameter_files, read_model
from ms_ascend_ops.export.files.retarget import operators_of

from ms_ascend_ops import registry
from ms_ascend_ops.cann import cann_version, chip_name
from ms_ascend_ops.mindspore_versions import TRIED
from ms_ascend_ops.version import __version__

__all__ = ["bundle", "check_mindspore", "is_bundle", "is_later", "read_manifest", "unpack", "written_later"]

FORMAT = 1
MANIFEST = "manifest.json"
MODEL = "model.mindir"

_MOST_MANIFEST_BYTES = 16 * 2**20
_CHUNK_BYTES = 4 * 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bundle


def bundle(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    chip: str | None = None,
    extra: Mapping[str, Path] | None = None,
) -> Path:
    """Pack a MindIR, its parameters and a manifest into one file that `load` and `infer` take.

    Args:
        path: a file that `export_mindir` wrote.
        output: where to write. `.msbundle` is appended if it is missing. It appears when it is complete, or not at all.
        chip: the only chip it may run on, e.g. "ascend910b" or "cpu"; None: any.
        extra: more files, by their names in the bundle. Whoever unpacks it finds them beside the MindIR.

    Returns:
        The absolute path of the bundle.

    Raises:
        FileNotFoundError: there is no such file, or its parameters are missing.
        ValueError: it is a bundle already, no MindIR, or one that `load` would refuse; or the folder of `output` does
            not exist.
    """
    source, target = Path(path), Path(output).absolute()
    if target.suffix != ".msbundle":
        target = target.with_name(f"{target.name}.msbundle")
    if not source.is_file():
        raise FileNotFoundError(f"bundle: there is no file {source}")
    if is_bundle(source):
        raise ValueError(f"bundle: {source} is a bundle already; give the MindIR that it was made of")
    if not target.parent.is_dir():
        raise ValueError(f"bundle: output must be in a folder that exists, got {target}")
    model = read_model(source, "bundle")
    names = sorted({signature.name.removesuffix("_grad") for signature in operators_of(model, str(source)).values()})
    files = {MODEL: source, **parameter_files(model, source, "bundle")}
    files.update({f"operators/{name}.yaml": registry.definition(name) for name in names})
    if len({PurePosixPath(name) for name in files}) < len(files) or MANIFEST in files:
        raise ValueError(f"bundle: the parameters of {source} have the name of another file of a bundle")
    for name, file in (extra or {}).items():
        if name in files or name == MANIFEST:
            raise ValueError(f"bundle: extra must have names of its own, got {name}")
        files[name] = file

    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(partial, "x", zipfile.ZIP_STORED) as archive:
            listed = {}
            for name, file in files.items():
                with file.open("rb") as stream, archive.open(_entry(name), "w", force_zip64=True) as copy:
                    listed[name] = dict(zip(("bytes", "sha256"), _copy(stream, copy), strict=True))
            manifest = _manifest(model.model_version, names, chip, listed)
            archive.writestr(_entry(MANIFEST), json.dumps(manifest, indent=2) + "\n")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def is_bundle(path: Path) -> bool:
    """Tell whether a file is a zip archive, going by its first bytes: those of a MindIR are others."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def unpack(path: Path, folder: Path) -> Path:
    """Check a bundle and unpack it into a new folder.

    Returns:
        The path of the MindIR in `folder`.

    Raises:
        ValueError: it is no bundle, it is cut short, or it is not as it was when it was made.
        RuntimeError: it needs an operator, a chip or a version that is not here.
    """
    with _opened(path) as archive:
        manifest = _read_manifest(archive, path)
        _check_versions(manifest, path)
        for name, listed in manifest["files"].items():
            file = folder / name
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                copy = file.open("xb")
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
                raise _refused(path, f"{name} is both a file and a folder") from error
            with copy, archive.open(name) as stream:
                if _copy(stream, copy) != (listed["bytes"], listed["sha256"]):
                    raise _refused(path, f"{name} was changed after the bundle was made (SHA-256)")
    return folder / MODEL


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a bundle, whose list of files was compared with the archive.

    Raises:
        ValueError: it is no bundle, or the list of files is wrong.
    """
    with _opened(path) as archive:
        return _read_manifest(archive, path)


def check_mindspore(version: str, label: str) -> None:
    """Refuse what a later MindSpore wrote that nobody has tried: this one may misread it, or fail without a reason.

    Raises:
        RuntimeError: `version` is later than that of the installed MindSpore, and none of `TRIED`.
    """
    if is_later(version) and _minor(version) not in [_minor(tried) for tried in TRIED]:
        raise RuntimeError(f"load: {written_later(version, label)}")


def is_later(version: str) -> bool:
    """Tell whether a MindSpore has primitives that the installed one may lack."""
    return _minor(version) > _minor(ms.__version__)


def written_later(version: str, label: str) -> str:
    """Say what to do about a file of a later MindSpore that does not run."""
    return (
        f"{label} was written by MindSpore {version}, and this is {ms.__version__}: upgrade MindSpore, or export the "
        "network with this version"
    )


def _manifest(version: str, names: list[str], chip: str | None, files: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "ms_ascend_ops": __version__,
        "mindspore": version,
        "cann": cann_version(),
        "chip": chip,
        "made_on": {"machine": platform.machine(), "device_target": ms.get_context("device_target")},
        "operators": {name: registry.op_spec(name).version for name in names},
        "files": files,
    }


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    return entry


def _copy(source: Any, target: Any) -> tuple[int, str]:
    """Copy a stream; its size and SHA-256."""
    size, digest = 0, hashlib.sha256()
    while block := source.read(_CHUNK_BYTES):
        target.write(block)
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _RefusedError:
        raise
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        OverflowError,
        ValueError,
        struct.error,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
        raise ValueError(f"load: {path} is not a bundle, or it is cut short or changed ({error})") from error


def _read_manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    entries = _checked_entries(archive, path)
    try:
        manifest = json.loads(archive.read(MANIFEST))
        if (version := manifest["format"]) != FORMAT:
            raise _refused(path, f"it has format {version!r}, and this ms_ascend_ops reads format {FORMAT}")
        sizes = {name: file["bytes"] for name, file in manifest["files"].items() if len(file["sha256"]) == 64}
        manifest["operators"] = dict(manifest["operators"])
        for key in ("ms_ascend_ops", "mindspore"):
            _minor(manifest[key])
        if not isinstance(manifest["chip"], str | None):
            raise TypeError("chip must be a string or null")
    except (KeyError, TypeError, AttributeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        reason = f"its {MANIFEST} is not one of a bundle ({type(error).__name__}: {error})"
        raise _refused(path, reason) from error
    if {*sizes, MODEL, MANIFEST} != set(entries) or MODEL not in sizes:
        odd = sorted({*sizes, MODEL, MANIFEST} ^ set(entries)) or [MODEL]
        raise _refused(path, f"its {MANIFEST} does not list the files that it holds ({', '.join(odd[:5])})")
    for name, size in sizes.items():
        if size != entries[name].file_size:
            raise _refused(path, f"{name} was changed after the bundle was made (it has another size)")
    return dict(manifest)


def _checked_entries(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    if len(entries) < len(archive.infolist()):
        raise _refused(path, "it holds two files of one name")
    for name, entry in entries.items():
        parts = PurePosixPath(name).parts
        if name.startswith("/") or "\\" in name or ".." in parts or "/".join(parts) != name or not parts:
            raise _refused(path, f"it holds the file {name!r}, which would be outside of its folder")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise _refused(path, f"{name} is a symbolic link or another kind of special file")
        # Refuse what is larger than it looks: a zip bomb.
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 1:
            raise _refused(path, f"{name} is compressed or encrypted, which a bundle never is")
    if sum(entry.file_size for entry in entries.values()) > path.stat().st_size:
        raise _refused(path, "its files overlap")
    if MANIFEST not in entries or entries[MANIFEST].file_size > _MOST_MANIFEST_BYTES:
        raise _refused(path, f"it has no {MANIFEST}, or an oversize one")
    return entries


class _RefusedError(ValueError):
    """Reports an error that was found here, unlike what zipfile stumbled over."""


def _refused(path: Path, reason: str) -> _RefusedError:
    return _RefusedError(f"load: {path} is refused: {reason}")


def _check_versions(manifest: Mapping[str, Any], path: Path) -> None:
    for name, version in manifest["operators"].items():
        if name not in registry.names():
            raise RuntimeError(
                f"load: {path} needs the operator {name}, which ms_ascend_ops {__version__} does not have: "
                f"install {manifest['ms_ascend_ops']} or later"
            )
        if version != registry.op_spec(name).version:
            raise RuntimeError(
                f"load: {path} needs version {version} of the operator {name}, and this ms_ascend_ops has version "
                f"{registry.op_spec(name).version}: the bundle was made with ms_ascend_ops {manifest['ms_ascend_ops']}"
            )
    check_mindspore(manifest["mindspore"], str(path))
    here = chip_name()
    if manifest["chip"] is not None and manifest["chip"].lower() != here:
        raise RuntimeError(f"load: {path} is for the chip {manifest['chip']}, and this machine runs on {here}")


def _minor(version: Any) -> tuple[int, ...]:
    """Parse a version: 2.10.0rc1 -> (2, 10)."""
    if not isinstance(version, str):
        raise TypeError(f"a version must be a string, got {type(version).__name__}")
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isascii() and part.isdecimal() and len(part) < 9 else 0 for part in parts)
