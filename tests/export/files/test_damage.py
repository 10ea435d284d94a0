"""Damaged files give a clear error or load; they never end the process, and nothing else is raised."""

import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ms_ascend_ops.export.files.bundle import read_manifest, unpack
from ms_ascend_ops.export.files.model import read_model
from ms_ascend_ops.export.files.retarget import retarget

from ms_ascend_ops import bundle
from tests.export.mutations import mutate_bytes, mutate_model

SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=150)


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_model])
def test_mindir(file, mutate):
    content = file.read_bytes()

    @QUICK
    @given(SEEDS)
    def check(seed):
        file.write_bytes(mutate(content, seed))
        refusal = ""
        try:
            retarget(read_model(file, "load"), str(file))
        except ValueError as error:
            refusal = str(error)
        assert not refusal or refusal.startswith("load: ")

    check()


def test_bundle(file, tmp_path):
    packed = bundle(file, tmp_path / "network")
    content = packed.read_bytes()

    @QUICK
    @given(SEEDS)
    def check(seed):
        packed.write_bytes(mutate_bytes(content, seed))
        folder, refusal = tmp_path / f"unpacked{seed}", ""
        try:
            unpack(packed, folder)
        except (ValueError, RuntimeError) as error:
            refusal = str(error)
        if refusal:
            assert refusal.startswith("load: ")
        else:
            assert (folder / "model.mindir").read_bytes() == file.read_bytes()
        assert not (tmp_path / "escape").exists()

    check()


def test_manifest(file, tmp_path):
    packed = bundle(file, tmp_path / "network")
    with zipfile.ZipFile(packed) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    @QUICK
    @given(SEEDS)
    def check(seed):
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, mutate_bytes(content, seed) if name == "manifest.json" else content)
        refusal, manifest = "", {}
        try:
            manifest = read_manifest(packed)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert refusal.startswith("load: ")
        else:
            assert set(manifest["files"]) <= set(files)

    check()


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("any") / "file"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is not a MindIR file"):
        read_model(file, "load")
    with pytest.raises(ValueError, match="is not a bundle"):
        read_manifest(file)
