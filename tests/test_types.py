"""mypy sees the package as it is installed: what is imported from its other folders has a type."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Each line with what mypy has to say to it.
LINES = {
    "from ms_ascend_ops.benchmarks.harness import wait_until_idle": "",
    "from ms_ascend_ops.cells import SwiGLU": "",
    "from ms_ascend_ops.export import load, optimize": "",
    "from ms_ascend_ops.samples.operators import Draw, operator": "",
    "reveal_type(load)": r'Revealed type is "def \(.*\) -> ms_ascend_ops\.export\.\S+"',
    "reveal_type(operator)": r'Revealed type is ".*ms_ascend_ops\.samples\.operators\.Operator',
    "reveal_type(SwiGLU)": r'Revealed type is "def \(axis: .*\) -> ms_ascend_ops\.cells\.swiglu\.SwiGLU"',
    "load('a.mindir', 'CPU', 3, 4, 5, 6, 7)": r"Too many arguments for \"load\"",
    "wait_until_idle('long')": r'Argument 1 to "wait_until_idle" has incompatible type "str"; expected "float"',
    "optimize(levl='O1')": r"Unexpected keyword argument \"levl\"",
    "Draw('float32').normal('3')": r'Argument 1 to "normal" of "Draw" has incompatible type "str"; expected "int"',
    "SwiGLU(interleaved='no')": r'Argument "interleaved" to "SwiGLU" has incompatible type "str"; expected "bool"',
}


def test_names_from_other_folders_are_checked(tmp_path):
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(LINES) + "\n")
    command = ["bash", "build.sh", "types", "--no-error-summary", "--hide-error-codes", str(snippet)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    said = {}
    for line in done.stdout.splitlines():
        path, number, message = line.split(":", 2)
        assert path.endswith("snippet.py"), line
        said.setdefault(int(number), []).append(message)
    for number, (text, expected) in enumerate(LINES.items(), 1):
        found = " ".join(said.get(number, []))
        assert re.search(expected, found) if expected else not found, (text, found)
