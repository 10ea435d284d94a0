"""Runs all of it: five networks of MindFormers on a CPU, beside the same weights in transformers on PyTorch.

python demo.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from networks import NETWORKS


def step(*command: str) -> None:
    """Run one process; print what it says but for MindFormers' and MindSpore's logs."""
    done = subprocess.run(
        [sys.executable, *command], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    print("\n".join(line for line in done.stdout.splitlines() if "mindformers" not in line), flush=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def main(folder: Path) -> None:
    on_cpu = ("-m", "ms_ascend_ops", "run")
    for name in NETWORKS:
        step("networks.py", name, str(folder / name))
        step(*on_cpu, "generate.py", name, str(folder / name))
        step(*on_cpu, "export.py", name, str(folder / name))
        step("check.py", str(folder / name))
        step(*on_cpu, "trainer.py", name, str(folder / name))
    step(*on_cpu, "trainer.py", "llama", str(folder / "llama"), "stock")
    step("substitute.py")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
