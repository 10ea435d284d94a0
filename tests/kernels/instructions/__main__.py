"""Prints counts.yaml as it would have to be now."""

import sys
import tempfile

from tests.kernels.instructions import COUNTS, expected, measured


def main():
    comment = [line for line in COUNTS.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    cases = [(text, dtype) for text, counts in expected().items() for dtype in counts]
    with tempfile.TemporaryDirectory() as folder:
        found = measured(cases, folder)
    print("\n".join(comment))
    for text, counts in found.items():
        print(f"{text}: {{{', '.join(f'{dtype}: {count:.2f}' for dtype, count in counts.items())}}}")


if __name__ == "__main__":
    sys.exit(main())
