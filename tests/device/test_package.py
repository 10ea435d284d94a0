"""The vendor package of this library on an emulated device, without MindSpore: aclnn functions, op_host, kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ms_ascend_ops import _C, registry
from ms_ascend_ops.device.environment import HOME, VENDOR
from tests.device.acl import Acl
from tests.device.package import Device
from tests.kernels.ascend.cases import random_call

SIGNATURES = [signature for name in registry.names() for signature in registry.op_spec(name).signatures]
LARGEST = 20_000  # elements of a tensor
KERNEL_UB_BYTES = 188160


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASCEND_HOME_PATH", str(HOME))
        patch.setenv("ASCEND_OPP_PATH", str(HOME / "opp"))
        patch.setenv("ASCEND_CUSTOM_OPP_PATH", str(VENDOR))
        acl = Acl()
        acl.aclInit(None)
        acl.SetDevice(0)
        _C.set_ub_bytes(KERNEL_UB_BYTES)
        yield Device(acl)
        _C.set_ub_bytes(0)
        acl.ResetDevice(0)
        acl.aclFinalize()


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.name)
def test_results_are_those_of_the_host_library(signature: registry.Signature, device: Device) -> None:
    """With the Unified Buffer of the chip, to the bit, for every combination of dtypes."""
    rng = np.random.default_rng(len(signature.name))
    for row in range(len(signature.types)):
        call = random_call(rng, signature, row, LARGEST)
        inputs = [
            None if array is None else device.put(array, dtype)
            for array, dtype in zip(call.inputs, call.dtypes, strict=True)
        ]
        outputs = [device.put(array, dtype) for array, dtype in zip(call.outputs, call.output_types, strict=True)]
        device.call(signature, inputs, call.attributes, outputs)
        device.wait()
        changed = [i for i, tensor in enumerate(signature.inputs) if tensor.name in signature.writes]
        results = [device.get(inputs[i], call.inputs[i]) for i in changed]
        results += [device.get(tensor, array) for tensor, array in zip(outputs, call.outputs, strict=True)]
        expected = [np.empty_like(output) for output in call.outputs]
        if not call.is_empty:
            _C.launch(signature.name, call.inputs, expected, call.attributes)
        expected = [call.inputs[i] for i in changed] + expected
        for result, reference in zip(results, expected, strict=True):
            assert result.tobytes() == reference.tobytes(), f"{call.shapes} {call.dtypes} {call.attributes}"
        device.release()
