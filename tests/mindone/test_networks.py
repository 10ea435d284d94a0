"""Networks of mindcv and mindone on the emulated device, as they are and after `optimize`, against a CPU."""

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
# A sum that is 0 but for its rounding has a side of ReLU, and with it a share of the gradient of 64 x 64 pixels.
WITH_RELU = {"resnet18", "mobilenet_v3"}


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


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_places_are_replaced(found, name):
    places, expected = (found[device][f"{name} places"].tolist() for device in ("Ascend", "CPU"))
    assert places == expected
    assert bool(places) == (name not in WITH_RELU)


@pytest.mark.parametrize("variant", ["stock", "optimized"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_network_gives_what_it_gives_on_a_cpu(found, name, variant):
    """To the rounding of float32, of which a network makes more: optimizers too, where a gradient is all rounding."""
    kinds = [key for key in found["CPU"] if key.startswith(f"{name} {variant} ")]
    assert len(kinds) >= 3
    for kind in kinds:
        given, expected = found["Ascend"][kind], found["CPU"][kind]
        if expected.dtype.kind in "iu":
            np.testing.assert_array_equal(given, expected, err_msg=kind)
        elif kind.endswith("gradient"):
            error = np.linalg.norm((given - expected).astype(float)) / np.linalg.norm(expected.astype(float))
            assert error < (1e-2 if name in WITH_RELU else 2e-5), kind
        else:
            error = np.abs(given - expected).max() / np.abs(expected).max()
            assert error < (1e-3 if kind.endswith("losses") else 2e-5), (kind, error)
