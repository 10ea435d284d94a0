"""python -m codegen.opapi --output FOLDER: CANN's own operators as functions of C, for the emulated device."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from codegen.cpp import quote
from codegen.files import write_if_changed
from ms_ascend_ops.device.aclnn_table import KINDS, Parameter, Row, rows

_BANNER = "// Generated from ms_ascend_ops/device/aclnn.txt by kernels/codegen. Changes here are lost.\n"


def functions(table: list[Row]) -> str:
    """The source of libopapi.so."""
    return _BANNER + '#include "opapi.h"\n\n' + "\n".join(_function(row) for row in table)


def names(table: list[Row]) -> str:
    """A header with the operators that aclop has."""
    listed = "".join(f"    {quote(row.function)},\n" for row in table)
    return f"{_BANNER}#include <string_view>\n\nstatic constexpr std::string_view ACLOP_NAMES[] = {{\n{listed}}};\n"


def _function(row: Row) -> str:
    declared = "".join(f"{KINDS[parameter.kind]} a{place}, " for place, parameter in enumerate(row.parameters))
    values = ",\n        ".join(_argument(place, parameter) for place, parameter in enumerate(row.parameters))
    return f"""\
ACLNN_API int {row.function}GetWorkspaceSize({declared}uint64_t* workspaceBytes, aclOpExecutor** executor)
{{
    const MsAscendArgument arguments[] = {{
        {values}}};
    return Prepare({quote(row.function)}, arguments, workspaceBytes, executor);
}}
ACLNN_API int {row.function}(void* workspace, uint64_t workspaceBytes, aclOpExecutor* executor, void* stream)
{{
    return MsAscendBuiltinLaunch(workspace, workspaceBytes, executor, stream);
}}
"""


def _argument(place: int, parameter: Parameter) -> str:
    # An output that nobody wants may be null; whether an input may, the operator knows.
    optional = parameter.optional or parameter.mark in {">", "_"}
    flags = f"{str(optional).lower()}, {str(parameter.dynamic).lower()}"
    return f"Argument(a{place}, {quote(parameter.name)}, {flags})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="codegen.opapi", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = list(rows().values())
    own, graph_engine = (
        [row for row in table if row.function.startswith("aclnn") is wanted] for wanted in (True, False)
    )
    write_if_changed(arguments.output / "opapi.cpp", functions(own))
    write_if_changed(arguments.output / "aclop_names.h", names(graph_engine))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:  # a row that is wrong: the message names the file and the line
        sys.exit(f"error: {error}")
