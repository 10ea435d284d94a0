"""python -m codegen --definitions ms_ascend_ops/ops --kernels kernels --output build/generated"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from codegen import host, onnx, params
from codegen.ascend import project
from codegen.ascend.chips import CHIPS
from codegen.files import write_if_changed
from codegen.notes import notes
from codegen.tiling_header import read_fields
from ms_ascend_ops import registry


def main() -> None:
    parser = argparse.ArgumentParser(prog="codegen", description=__doc__)
    parser.add_argument("--definitions", type=Path, required=True, help="folder of the YAML definitions")
    parser.add_argument("--kernels", type=Path, required=True, help="folder that holds <op>/<op>_tiling.h")
    parser.add_argument("--output", type=Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    found, _ = project.collect(project.Source(arguments.definitions, arguments.kernels), [CHIPS["ascend910b"]])
    packaged = {kernel.signature.name: kernel for kernel in found}
    entries = arguments.output / "op_kernel"
    entries.mkdir(exist_ok=True)
    for kernel in found:
        write_if_changed(entries / project.file_name(kernel), project.entry(kernel, arguments.kernels))
    explained = {}
    specs = []
    for definition in sorted(arguments.definitions.glob("*.yaml")):
        spec = registry.load(definition)
        folder = arguments.kernels / spec.name
        kernels = sorted(header.name for header in folder.glob("*_kernel.h"))
        tiling = folder / f"{spec.name}_tiling.h"
        fields = {signature.name: read_fields(tiling, f"{signature.entry}TilingData") for signature in spec.signatures}
        write_if_changed(arguments.output / f"{spec.name}_params.h", params.generate(spec))
        library = next((header.name for header in folder.glob(f"{spec.name}_library.h")), None)
        generated = host.generate(spec, kernels, fields, packaged, library)
        write_if_changed(arguments.output / f"{spec.name}_host.cpp", generated)
        explained.update(notes(spec, folder))
        specs.append(spec)
    write_if_changed(arguments.output / "onnx_operators.cpp", onnx.generate(specs))
    write_if_changed(arguments.output / "kernels.json", json.dumps(explained, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:  # a definition or a header that is wrong: the message names the file
        sys.exit(f"error: {error}")
