"""Gradients for PyTorch. Most follow from the names in a definition (autograd.py); some are composed.

The gradient kernel of an operator names what it takes: inputs and outputs of the operator, and `d<output>`; what it
gives is `d<input>`. What a definition cannot say is a function in the file of the operator's family, which is below
`@composed` with the operator's name. A new file is found here.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ms_ascend_ops.torch.gradients.autograd import formula

__all__ = ["formula"]

for _file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    import_module(f"{__name__}.{_file.stem}")
