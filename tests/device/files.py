"""Files of a CPU on an Ascend device, a program for `emulate`: test_retarget.py runs it, and looks at what it wrote.

FOLDER has network.mindir, stock.mindir (a decoder), fused.mindir (its operators) and inputs.npz, which a CPU wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.files.retarget import retarget

from ms_ascend_ops import bundle, load, optimize_mindir
from tests.export.files.network import exported


def main(folder: Path) -> None:
    ms.set_device("Ascend")
    inputs = np.load(folder / "inputs.npz")
    x, ids = Tensor(inputs["x"]), Tensor(inputs["ids"])
    exported(folder / "exported")
    for name in ("network", "fused"):
        model = ModelProto.FromString((folder / f"{name}.mindir").read_bytes())
        for times in ("npu", "npu_twice"):
            retarget(model, name)
            (folder / f"{name}_{times}.mindir").write_bytes(model.SerializeToString(deterministic=True))
    optimize_mindir(folder / "fused.mindir", folder / "joined.mindir", level="O3")
    optimize_mindir(folder / "stock.mindir", folder / "at_once.mindir", level="O3")
    results = {
        "network": load(folder / "network.mindir")(x),
        "exported": load(folder / "exported.mindir")(x),
        "bundle": load(folder / "network.msbundle")(x),
        "fused": load(folder / "fused.mindir")(ids)[0],
        "joined": load(folder / "joined.mindir")(ids)[0],
        "at_once": load(folder / "at_once.mindir")(ids)[0],
    }
    bundle(folder / "exported.mindir", folder / "bundle_npu", chip="ascend910b")
    np.savez(folder / "results.npz", **{name: result.asnumpy() for name, result in results.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
