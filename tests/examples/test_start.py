"""The blocks of docs/start.md run one after the other, as the page says."""

import contextlib
import importlib.util
import io
import re
import shlex
import sys
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main

PAGE = (Path(__file__).parents[2] / "docs/start.md").read_text(encoding="utf-8")


def test_the_page_goes_from_a_network_to_a_bundle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # As one module: MindSpore reads the sources of cells.
    path = tmp_path / "start_page.py"
    path.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        spec.loader.exec_module(module)
    names = vars(module)
    assert [entry.pattern for entry in names["report"].replaced] == ["RMSNorm"]
    assert said.getvalue().endswith("(3, 5, 64)\n(1, 2, 64)\n")
    ones = np.ones((1, 64))
    normalized = ones / np.sqrt((ones**2).mean(-1, keepdims=True) + 1e-6)
    up = normalized @ names["net"].up.weight.asnumpy().astype(np.float64).T
    gate, up = np.split(up, 2, axis=-1)
    expected = ones + (gate / (1 + np.exp(-gate)) * up) @ names["net"].down.weight.asnumpy().astype(np.float64).T
    found = names["load"](names["packed"])(np.ones((1, 1, 64), np.float32)).asnumpy()[0]
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    (line,) = re.findall(r"`python -m ms_ascend_ops (infer [^`]*)`", PAGE)
    assert CliRunner().invoke(main, shlex.split(line)).exit_code == 0
