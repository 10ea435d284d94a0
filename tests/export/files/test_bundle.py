import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from mindspore import Tensor
from ms_ascend_ops.export.files.bundle import MANIFEST, read_manifest

from ms_ascend_ops import bundle, export_mindir, load
from tests.acceptance import assert_close
from tests.export.mindir import change, set_function
from tests.tensors import numpy


@pytest.fixture
def packed(file, tmp_path):
    return bundle(file, tmp_path / "network")


def rewrite(path, function=None, **options):
    """Write a bundle anew: `function` changes its files, a dict of contents by name, manifest included."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    if function:
        function(files)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def rewrite_manifest(path, function):
    def change_it(files):
        manifest = json.loads(files[MANIFEST])
        function(manifest)
        files[MANIFEST] = json.dumps(manifest)

    rewrite(path, change_it)


RUN = """
import sys
import numpy as np
import ms_ascend_ops
values = np.load("values.npy")
for name in sys.argv[1:]:
    network = ms_ascend_ops.load(f"{name}.zip")
    np.save(f"{name}_all.npy", network(values).asnumpy())
    np.save(f"{name}_one.npy", network(values[:1, :1]).asnumpy())
"""


def test_on_another_path_in_another_process(request, network, values, tmp_path):
    """One file, and one whose parameters are in files of their own."""
    away = tmp_path / "another place"
    away.mkdir()
    for name in ("small", "large"):
        if name == "large":
            request.getfixturevalue("small_limit")
        file = export_mindir(network, Tensor(values), path=tmp_path / "network", dynamic={0: (0, 1)})
        shutil.move(bundle(file, tmp_path / "network"), away / f"{name}.zip")
        for path in tmp_path.glob("network*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    np.save(away / "values.npy", values)
    subprocess.run([sys.executable, "-c", RUN, "small", "large"], check=True, cwd=away)
    expected = numpy(network(Tensor(values)))
    for name in ("small", "large"):
        # The other process compiles the graph anew, whose sums may come in another order: float32's rounding.
        assert_close(np.load(away / f"{name}_all.npy"), expected, rtol=1e-5, atol=1e-6)
        assert_close(np.load(away / f"{name}_one.npy"), expected[:1, :1], rtol=1e-5, atol=1e-6)
    made = {f"{name}{end}" for name in ("small", "large") for end in (".zip", "_all.npy", "_one.npy")}
    assert {path.name for path in away.iterdir()} == made | {"values.npy"}


def test_a_second_bundle_has_the_same_bytes(packed, file, tmp_path):
    assert packed.name == "network.msbundle"
    assert bundle(file, tmp_path / "again.msbundle").read_bytes() == packed.read_bytes()


def test_manifest(packed):
    manifest = read_manifest(packed)
    assert manifest["operators"] == {"rms_norm": 1, "silu_mul": 1}
    assert set(manifest["files"]) == {"model.mindir", *(f"operators/{name}.yaml" for name in manifest["operators"])}
    assert manifest["ms_ascend_ops"]
    assert manifest["mindspore"].startswith("2.")
    assert manifest["chip"] is None


def test_what_load_would_refuse_is_not_packed(file, tmp_path):
    change(file, set_function("/tmp/other.so:RmsNorm"))
    with pytest.raises(ValueError, match=r"names the library /tmp/other\.so"):
        bundle(file, tmp_path / "network")
    assert list(tmp_path.glob("*.msbundle*")) == []
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_bad_arguments(file, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"bundle: there is no file .*none\.mindir"):
        bundle(tmp_path / "none.mindir", tmp_path / "x")
    with pytest.raises(ValueError, match=r"^bundle: .*network\.msbundle is a bundle already; give the MindIR"):
        bundle(bundle(file, tmp_path / "network"), tmp_path / "again")
    with pytest.raises(ValueError, match=r"output must be in a folder that exists, got .*missing"):
        bundle(file, tmp_path / "missing" / "x")


def test_every_changed_byte_is_noticed(packed):
    """One byte in each part of the archive: contents, headers, directory."""
    content = packed.read_bytes()
    refused = 0
    for position in range(0, len(content), 211):
        packed.write_bytes(content[:position] + bytes([content[position] ^ 0x41]) + content[position + 1 :])
        try:
            load(packed)
        except (ValueError, RuntimeError):
            refused += 1
    # What may change unnoticed are times and attributes of an entry, and the manifest's versions, within their rules.
    assert refused > 0.9 * len(range(0, len(content), 211))


def test_a_bundle_that_is_cut_short(packed):
    content = packed.read_bytes()
    for size in {3, 100, len(content) // 2, len(content) - 1, *range(5, len(content), 997)}:
        packed.write_bytes(content[:size])
        with pytest.raises(ValueError, match="not a bundle, or it is cut short or changed"):
            load(packed)


def flip(name):
    """Change the last byte of a file."""
    return lambda files: files.update({name: files[name][:-1] + bytes([files[name][-1] ^ 1])})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda files: files.update({"extra.so": b"code"}), r"does not list the files that it holds \(extra\.so\)"),
        (lambda files: files.pop("operators/rms_norm.yaml"), r"does not list the files that it holds \(operators/rms"),
        (lambda files: files.pop("model.mindir"), r"does not list the files that it holds \(model\.mindir\)"),
        (lambda files: files.pop(MANIFEST), r"it has no manifest\.json"),
        (lambda files: files.update({MANIFEST: b"[]"}), r"its manifest\.json is not one of a bundle"),
        (lambda files: files.update({MANIFEST: b"{\xff"}), r"its manifest\.json is not one of a bundle"),
        (lambda files: files.update({MANIFEST: b"[" * 10**6}), r"its manifest\.json is not one of a bundle"),
        (lambda files: files.update({MANIFEST: b" " * (2**24 + 1)}), r"an oversize one"),
        (lambda files: files.update({"../escape": b""}), r"the file '\.\./escape', which would be outside"),
        (lambda files: files.update({"/tmp/escape": b""}), r"the file '/tmp/escape', which would be outside"),
        (lambda files: files.update({"a\\..\\escape": b""}), r"which would be outside of its folder"),
        (lambda files: files.update({"operators/./escape": b""}), r"which would be outside of its folder"),
        (lambda files: files.update({"model.mindir/escape": b""}), r"does not list the files"),
        (lambda files: files.update({"model.mindir": files["model.mindir"] + b"0"}), r"it has another size"),
        (flip("model.mindir"), r"model\.mindir was changed after the bundle was made \(SHA-256\)"),
        (
            flip("operators/rms_norm.yaml"),
            r"operators/rms_norm\.yaml was changed after the bundle was made \(SHA-256\)",
        ),
    ],
)
def test_what_does_not_belong_there_is_refused(packed, function, message):
    rewrite(packed, function)
    with pytest.raises(ValueError, match=rf"is refused: .*{message}"):
        load(packed)


def test_a_file_that_is_also_a_folder(packed):
    def add(files):
        manifest = json.loads(files[MANIFEST])
        files["model.mindir/x"] = b""
        digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        manifest["files"]["model.mindir/x"] = {"bytes": 0, "sha256": digest}
        files[MANIFEST] = json.dumps(manifest)

    rewrite(packed, add)
    with pytest.raises(ValueError, match="is both a file and a folder"):
        load(packed)


def test_a_zip_bomb_is_refused(packed):
    rewrite(packed, lambda files: files.update({"zeros": bytes(10**7)}), compression=zipfile.ZIP_DEFLATED)
    assert packed.stat().st_size < 10**6
    with pytest.raises(ValueError, match="is compressed or encrypted, which a bundle never is"):
        load(packed)


def test_a_symbolic_link_is_refused(packed):
    with zipfile.ZipFile(packed, "a") as archive:
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="link is a symbolic link or another kind of special file"):
        load(packed)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(packed):
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("model.mindir", b"another")
    with pytest.raises(ValueError, match="it holds two files of one name"):
        load(packed)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda m: m.update(format=2), ValueError, "it has format 2, and this ms_ascend_ops reads format 1"),
        (lambda m: m.pop("files"), ValueError, "is not one of a bundle"),
        (lambda m: m.update(chip=5), ValueError, "is not one of a bundle"),
        (lambda m: m.update(mindspore=None), ValueError, "is not one of a bundle"),
        (lambda m: m["files"]["model.mindir"].update(sha256="0" * 64), ValueError, r"was changed .* \(SHA-256\)"),
        (lambda m: m["operators"].update(rms_norm=7), RuntimeError, "needs version 7 of the operator rms_norm"),
        (lambda m: m["operators"].update(warp=1), RuntimeError, "needs the operator warp, which .* does not have"),
        (lambda m: m.update(mindspore="3.0.0"), RuntimeError, r"written by MindSpore 3\.0\.0"),
        (lambda m: m.update(chip="ascend910b"), RuntimeError, "is for the chip ascend910b, and this .* runs on cpu"),
    ],
)
def test_what_does_not_fit_this_machine(packed, function, error, message):
    rewrite_manifest(packed, function)
    with pytest.raises(error, match=message):
        load(packed)


def test_the_mindir_in_a_bundle_is_checked_too(file, packed, values):
    """A manifest with the right hashes makes no foreign library welcome."""
    change(file, set_function("/tmp/other.so:RmsNorm"))
    with zipfile.ZipFile(packed) as archive:
        manifest = json.loads(archive.read(MANIFEST))
    content = file.read_bytes()
    manifest["files"]["model.mindir"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewrite(packed, lambda files: files.update({"model.mindir": content, MANIFEST: json.dumps(manifest)}))
    with pytest.raises(ValueError, match=r"network\.msbundle is refused: it names the library /tmp/other\.so"):
        load(packed)


def test_for_this_chip(file, values, tmp_path):
    assert load(bundle(file, tmp_path / "cpu", chip="CPU"))(values).shape == values.shape
