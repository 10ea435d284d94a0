"""How fast the operators are on this CPU. `python -m benchmarks --help`."""
