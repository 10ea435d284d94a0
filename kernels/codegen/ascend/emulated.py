"""python -m codegen.ascend.emulated --definitions ms_ascend_ops/ops --kernels kernels --output build/package

The vendor package of the emulated device: sources of its libraries, and its other files as CANN's installer lays them
out (folder `vendors`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codegen.ascend import names, opapi, project
from codegen.ascend.chips import CHIPS, Chip, type_rows
from codegen.ascend.kernel import Kernel
from codegen.ascend.project import Source
from ms_ascend_ops import aclnn
from ms_ascend_ops.registry import Signature, TensorSpec

__all__ = ["EMULATED_CHIPS", "host_unit", "write"]

EMULATED_CHIPS = ("ascend910b", "ascend910_93")
_CANN = "9.0.1"  # the version that the emulated device says it has

_SET_ENV = """#!/bin/bash
# Puts this package in front of those that CANN and MindSpore look into.
vendor="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export ASCEND_CUSTOM_OPP_PATH="$vendor${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}"
export LD_LIBRARY_PATH="$vendor/op_api/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
unset vendor
"""


def write(source: Source, output: Path) -> None:
    """Write everything into `output`; files that are up to date already keep their times."""
    chips = [CHIPS[name] for name in EMULATED_CHIPS]
    kernels, _ = project.collect(source, chips)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "package")
        project.write(kernels, source, fresh, None, own_cmake=True, onnx=False)
        shutil.rmtree(fresh / "op_kernel")
        (fresh / "op_host.cpp").write_text(host_unit(fresh), encoding="utf-8")
        text = opapi.functions([kernel.signature for kernel in kernels], chips)
        (fresh / "opapi.cpp").write_text(text, encoding="utf-8")
        _write_vendor(kernels, chips, fresh / "vendors")
        _update(fresh, output)


def host_unit(folder: Path) -> str:
    """C++ of the op_host library of a project: one source."""
    names = sorted(path.name for path in (folder / "op_host").glob("*.cpp"))
    return "".join(f'#include "op_host/{name}"\n' for name in names) + '#include "op_host_library.cpp"\n'


def _write_vendor(kernels: Sequence[Kernel], chips: Sequence[Chip], vendors: Path) -> None:
    vendor = vendors / names.VENDOR
    files = {
        vendors / "config.ini": f"load_priority={names.VENDOR}\n",
        vendor / "version.info": f"custom_opp_compiler_version={_CANN}\n",
        vendor / "bin/set_env.bash": _SET_ENV,
    }
    for kernel in kernels:
        name = f"aclnn_{names.snake(kernel.signature.cann_type)}.h"
        files[vendor / "op_api/include" / name] = opapi.header(kernel.signature)
    for chip in chips:
        info = {kernel.signature.cann_type: _info(kernel, chip) for kernel in kernels if chip in kernel.chips}
        config = vendor / f"op_impl/ai_core/tbe/config/{chip.name}/aic-{chip.name}-ops-info.json"
        files[config] = json.dumps(info, indent=4) + "\n"
        found = {kernel.signature.cann_type: _kernels(kernel, chip) for kernel in kernels if chip in kernel.chips}
        config = vendor / f"op_impl/ai_core/tbe/kernel/config/{chip.name}/binary_info_config.json"
        files[config] = json.dumps(found, indent=4) + "\n"
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _info(kernel: Kernel, chip: Chip) -> dict[str, dict[str, str]]:
    """Return what CANN's ops-info has of an operator."""
    signature = kernel.signature
    rows = type_rows(signature, chip)
    file = names.snake(signature.cann_type)
    info = {
        "coreType": {"value": "AiCore"},
        "dynamicCompileStatic": {"flag": "true"},
        "dynamicFormat": {"flag": "true"},
        "dynamicRankSupport": {"flag": "true"},
        "dynamicShapeSupport": {"flag": "true"},
        "needCheckSupport": {"flag": "false"},
        "opFile": {"value": file},
        "opInterface": {"value": file},
        "prebuildPattern": {"value": "Opaque"},
        "precision_reduce": {"flag": "true"},
    }
    for side, tensors in (("input", signature.inputs), ("output", signature.cann_outputs)):
        info |= {f"{side}{i}": _tensor(tensor, rows) for i, tensor in enumerate(tensors)}
    if signature.attributes:
        kinds = {"string": "int"}
        info["attr"] = {"list": ",".join(attribute.name for attribute in signature.attributes)}
        for attribute in signature.attributes:
            kind = kinds.get(attribute.type, attribute.type)
            info[f"attr_{attribute.name}"] = {"paramType": "required", "type": kind, "value": "all"}
    return info


def _kernels(kernel: Kernel, chip: Chip) -> dict[str, Any]:
    """Return what CANN's list of kernels has of an operator, but for the files of binaries: there are none."""
    signature = kernel.signature
    sides = {"inputs": signature.inputs, "outputs": signature.cann_outputs}
    known = {"optionalInputMode": "gen_placeholder", "optionalOutputMode": "gen_placeholder"}
    return {
        "dynamicRankSupport": True,
        "simplifiedKeyMode": 0,
        **known,
        "params": {
            side: [
                {
                    "name": tensor.name,
                    "index": i,
                    "paramType": "optional" if tensor.optional else "required",
                    "formatMode": "static_nd_agnostic",
                }
                for i, tensor in enumerate(tensors)
            ]
            for side, tensors in sides.items()
        },
        "binaryList": [{"simplifiedKey": _keys(signature, row)} for row in type_rows(signature, chip)],
    }


def _keys(signature: Signature, row: Mapping[str, str]) -> list[str]:
    """The calls that a kernel is for: deterministic or not, precise or not, then dtype and layout of each tensor."""
    layout = aclnn.VALUES["ND"][1]
    tensors = [
        f"/{aclnn.VALUES[row.get(tensor.dtype, tensor.dtype)][1]},{layout}"
        for tensor in (*signature.inputs, *signature.cann_outputs)
    ]
    return [f"{signature.cann_type}/d={d},p={p}{''.join(tensors)}" for d in (0, 1) for p in (1, 0)]


def _tensor(tensor: TensorSpec, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    formats = ",".join(["ND"] * len(rows))
    return {
        "name": tensor.name,
        "dtype": ",".join(row.get(tensor.dtype, tensor.dtype) for row in rows),
        "format": formats,
        "unknownshape_format": formats,
        "paramType": "optional" if tensor.optional else "required",
        "shape": "all",
    }


def _update(fresh: Path, output: Path) -> None:
    """Make `output` the same as `fresh`."""
    wanted = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for path in sorted(output.rglob("*")):
        if path.is_file() and path.relative_to(output) not in wanted:
            path.unlink()
    for name in wanted:
        target, data = output / name, (fresh / name).read_bytes()
        if not target.is_file() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(prog="codegen.ascend.emulated", description=__doc__)
    parser.add_argument("--definitions", type=Path, required=True, help="folder of the YAML definitions")
    parser.add_argument("--kernels", type=Path, required=True, help="folder that holds <op>/<op>_tiling.h")
    parser.add_argument("--output", type=Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    write(Source(arguments.definitions, arguments.kernels), arguments.output)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:  # a definition or a header that is wrong: the message names the file
        sys.exit(f"error: {error}")
