"""The commands bundle and infer, as a user types them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor, nn

from ms_ascend_ops import RMSNorm, export_mindir
from ms_ascend_ops.__main__ import main
from tests.acceptance import assert_close


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    net = nn.SequentialCell(RMSNorm(8), nn.Dense(8, 4))
    path = tmp_path_factory.mktemp("exported") / "network"
    return net, export_mindir(net, Tensor(np.ones((2, 8), np.float32)), path=path, dynamic={0: (0,)})


@pytest.fixture
def file(exported, tmp_path):
    path = tmp_path / "network.mindir"
    path.write_bytes(exported[1].read_bytes())
    return path


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_bundle_then_infer(exported, file, tmp_path):
    done = run("bundle", file)
    assert done.exit_code == 0, done.output
    assert "2 files" in done.output
    assert "operators: rms_norm (version 1)" in done.output
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    file.unlink()
    done = run("infer", tmp_path / "network.msbundle", "--input", tmp_path / "x.npy", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "float32 (any, 8): (3, 8)" in done.output
    assert "output 0: float32 (3, 4), min " in done.output
    expected = exported[0](Tensor(x)).asnumpy()
    assert_close(np.load(tmp_path / "out" / "output_0.npy"), expected, rtol=1e-5, atol=1e-6)


def test_random_inputs_and_profile(file):
    saved = file.parent / "figures.json"
    done = run("infer", file, "--shape", "5,8", "--save-profile", saved, "--runs", 3, "--warmup", 1)
    assert done.exit_code == 0, done.output
    assert "(5, 8)" in done.output
    for part in ("latency over 3 runs:\n  min ", "p50 ", "p99 ", "throughput: ", "samples/s (batch 5)"):
        assert part in done.output
    figures = json.loads(saved.read_text())
    assert (figures["runs"], figures["batch"], figures["inputs"]) == (3, 5, [[5, 8]])
    assert 0 < figures["min_ms"] <= figures["p50_ms"] <= figures["max_ms"]
    assert run("infer", file, "--shape", "5,8").output.splitlines()[2] == done.output.splitlines()[2]  # the same seed


def test_inputs_by_name(file, tmp_path):
    np.save(tmp_path / "a=b.npy", np.ones((1, 8), np.float64))  # float64 becomes what the network takes
    done = run("infer", file, "--input", tmp_path / "a=b.npy")
    assert done.exit_code == 0, done.output
    name = done.output.splitlines()[1].split()[1].rstrip(":")
    assert run("infer", file, "--input", f"{name}={tmp_path / 'a=b.npy'}").exit_code == 0


def test_infer_says_what_is_wrong(file, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 7), np.float32))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for arguments, code, message in (
        (["--input", tmp_path / "x.npy"], 1, "float32 (any, 8), got (1, 7)"),
        (["--input", tmp_path / "x.npy", "--input", tmp_path / "x.npy"], 2, "the network has 1 inputs, got 2 files"),
        (["--input", tmp_path / "none.npy"], 1, "Error: {0}/none.npy: No such file or directory"),
        (["--output", tmp_path / "x.npy" / "folder"], 1, "Error: {0}/x.npy/folder: Not a directory"),
        (["--input", tmp_path / "objects.npy"], 1, "allow_pickle=False"),
        (["--shape", "1,8", "--shape", "1,8"], 2, "one for each of the 1 inputs, got 2"),
        (["--shape", "one"], 2, "must be of the form 2,128, got one"),
        (["--shape", "1,8", "--input", tmp_path / "x.npy"], 2, "either --input or --shape, not both"),
    ):
        done = run("infer", file, *arguments)
        assert done.exit_code == code, done.output
        assert message.format(tmp_path) in done.output
        assert "Traceback" not in done.output


def test_damage_is_a_message(file):
    file.write_bytes(file.read_bytes()[:-10])
    for command in ("infer", "bundle"):
        done = run(command, file)
        assert done.exit_code == 1
        assert "cut short" in done.output
        assert "Traceback" not in done.output


def test_a_bundle_for_another_chip(file, tmp_path):
    assert run("bundle", file, "-o", tmp_path / "npu", "--chip", "ascend910b").exit_code == 0
    done = run("infer", tmp_path / "npu.msbundle")
    assert done.exit_code == 1
    assert "is for the chip ascend910b, and this machine runs on cpu" in done.output
