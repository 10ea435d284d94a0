"""The main job with a small model of random weights in place of the real one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llm import tiny

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments, **options):
    command = [sys.executable, str(EXAMPLES / "demo.py"), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    model = tiny.write_gguf(folder / "model.gguf", kind="Q4_1")
    options = ("--prompt", "hello world", "--tokens", "4", "--rounds", "1")
    done = run("--model", model, "--output", folder / "out", *options, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, folder / "out"


def test_results(demo):
    results = json.loads((demo[1] / "results.json").read_text(encoding="utf-8"))
    attention = ["rotary embedding", "rotary embedding", "attention"]
    assert [pattern for pattern, place in results["replaced"] if place == "model.layers.0.self_attn"] == attention
    assert len(results["replaced"]) == 2 * (3 + 1 + 2) + 1
    assert results["difference"] < 1e-4
    assert results["same_tokens"] == {"after optimize": True, "llm, float32": True}
    assert results["bundle"]["same_text"]
    assert results["device"]["difference"] < 1e-5
    assert all(value > 0 for times in results["milliseconds"].values() for value in times.values())


def test_output(demo):
    text, folder = demo
    for part in ("hello world", "RMSNorm ", "stock MindSpore", "the same answer, in another process", "emulated"):
        assert part in text
    ours = text.partition("╭")[0] + text.rpartition("╯")[2]  # the network may generate characters of any width
    assert max(map(len, ours.split("\n"))) <= 80  # which rich takes for the width where there is no terminal
    assert (folder / "model.msbundle").is_file()
    assert (folder / "report.txt").read_text(encoding="utf-8").startswith("optimize(net, verify=...)")
    assert (folder / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_a_network_that_the_example_has_not(tmp_path):
    done = run("--model", tiny.write_directory(tmp_path / "m", tiny.VARIANTS["qwen2"]), "--prompt", "x", cwd=tmp_path)
    assert done.returncode == 1
    assert "examples/llama.py has no biases" in done.stderr
