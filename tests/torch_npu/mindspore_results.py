"""MindSpore's results on the emulated device: `python -m tests.torch_npu.mindspore_results FILE`."""

import sys

import mindspore as ms
import numpy as np
from ms_ascend_ops.samples.network import flat

from tests.torch.examples import examples


def main(path):
    """Write results of float32 by the example and their number."""
    ms.set_device("Ascend")
    results = {}
    for example in examples():
        values = example.of_mindspore()
        results |= {f"{example} {i}": value.asnumpy() for i, value in enumerate(flat(values))}
    np.savez(path, **results)


if __name__ == "__main__":
    main(sys.argv[1])
