"""Networks of mindone and mindcv on the emulated device, as they are and after `optimize`, against a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.mindone.networks import EXAMPLES

pytestmark = pytest.mark.clients
pytest.importorskip("mindone")

ROOT = Path(__file__).parents[2]
EMULATE = ["-m", "ms_ascend_ops", "emulate"]
# To the rounding of float32; for attention of diffusers an NPU gets float16, and gradients of that are rounded, too.
TOLERANCE = {"vit": 2e-5, "llama": 2e-5, "qwen2": 2e-5, "unet": 1e-3, "vae": 1e-3}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the networks give on each device."""
    results, folder = {}, tmp_path_factory.mktemp("networks")
    for device in ("CPU", "Ascend"):
        command = [sys.executable, *EMULATE * (device == "Ascend"), "-m", "tests.mindone.networks", device]
        file = folder / f"{device}.npz"
        done = subprocess.run(
            [*command, str(file), *EXAMPLES],
            cwd=ROOT,
            env=os.environ | {"GLOG_v": "4"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        results[device] = dict(np.load(file))
    return results


@pytest.mark.parametrize("name", ["vit", "llama", "qwen2"])
def test_the_places_are_those_of_a_cpu(found, name):
    """Networks of diffusers are not here: an NPU has flash attention in them, which is nothing to replace.

    The norms of Qwen2 call MindSpore's RmsNorm, of which a CPU has no kernel: they run on our operator there already.
    """
    places, expected = (found[device][f"{name} places"].tolist() for device in ("Ascend", "CPU"))
    if name == "qwen2":
        norms = [place for place in places if place.endswith(": RMSNorm")]
        assert len(norms) == 5
        places = [place for place in places if place not in norms]
    assert places == expected
    assert places


@pytest.mark.parametrize("variant", ["stock", "optimized"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_network_gives_what_it_gives_on_a_cpu(found, name, variant):
    """Outputs, as a graph, too; tokens of generate or samples of a scheduler; gradients; losses of four AdamW steps."""
    kinds = [key for key in found["CPU"] if key.startswith(f"{name} {variant} ")]
    assert len(kinds) >= 4
    for kind in kinds:
        given, expected = found["Ascend"][kind], found["CPU"][kind]
        if expected.dtype.kind in "iu":
            np.testing.assert_array_equal(given, expected, err_msg=kind)
        else:
            norm = np.linalg.norm if kind.endswith("gradient") else lambda x: np.abs(x).max()
            error = norm((given - expected).astype(float)) / norm(expected.astype(float))
            assert error < (1e-3 if kind.endswith("losses") else TOLERANCE[name]), (kind, error)
