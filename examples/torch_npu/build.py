"""Builds C++ of one's own between PyTorch and the package's aclnn functions, and tries it on an NPU.

    python -m ms_ascend_ops emulate examples/torch_npu/build.py add      # or, with CANN's set_env.sh, without `emulate`
    python -m ms_ascend_ops emulate examples/torch_npu/build.py my_op    # behind `new my_op` and `build.sh host`

Needs g++ and ninja. What is built stays in PyTorch's folder of extensions (TORCH_EXTENSIONS_DIR).
"""

import os
import sys
from pathlib import Path

import torch
import torch_npu
from torch.utils.cpp_extension import load

from ms_ascend_ops.ascend import packages

HERE, TORCH_NPU = Path(__file__).parent, Path(torch_npu.__file__).parent
# A function, and its equivalent on a CPU.
OPERATORS = {"add": lambda x, y: x + y, "my_op": lambda x, scale: scale * x * x}


def build(name):
    """Build the module, which puts its operator into torch.ops.example."""
    toolkit = Path(os.environ["ASCEND_HOME_PATH"])
    package = next(iter(packages())).folder / "op_api"
    headers = TORCH_NPU / "include", TORCH_NPU / "include/third_party/acl/inc", toolkit / "include", package / "include"
    folders = TORCH_NPU / "lib", toolkit / "lib64", package / "lib"
    return load(
        name=f"example_{name}",
        sources=[str(HERE / f"{name}.cpp")],
        extra_include_paths=[str(HERE), *map(str, headers)],
        extra_ldflags=[
            *(f"-L{folder} -Wl,-rpath,{folder}" for folder in folders),
            *("-ltorch_npu", "-lcust_opapi", "-lnnopbase"),
        ],
    )


def compare(name, module, second):
    """Return the largest errors beside a CPU in float32: of the module's function, of torch.ops and of the gradient."""
    x = torch.linspace(-3, 3, 1000)
    there = x.npu().requires_grad_()
    second_there = second.npu() if isinstance(second, torch.Tensor) else second
    y = getattr(torch.ops.example, name)(there, second_there)
    y.sum().backward()
    expected_of = x.clone().requires_grad_()
    expected = OPERATORS[name](expected_of, second)
    expected.sum().backward()
    direct = getattr(module, name)(x.npu(), second_there)
    pairs = {"module": (direct, expected), "torch.ops": (y, expected), "gradient": (there.grad, expected_of.grad)}
    return {
        what: (found.detach().cpu() - wanted.detach()).abs().max().item() for what, (found, wanted) in pairs.items()
    }


def lost(name, second, calls=100):
    """Return the bytes of device memory that are gone after so many calls with gradients."""
    x = torch.ones(64, 64).npu().requires_grad_()

    def call():
        torch.autograd.grad(getattr(torch.ops.example, name)(x, second).sum(), x)
        torch.npu.synchronize()
        return torch.npu.memory_allocated()

    call()
    before = call()
    for _ in range(calls):
        after = call()
    return after - before


if __name__ == "__main__":
    chosen = sys.argv[1]
    made = build(chosen)
    print(compare(chosen, made, torch.linspace(1, 2, 1000) if chosen == "add" else 0.5))
    print(lost(chosen, torch.ones(64, 64).npu() if chosen == "add" else 0.5), "bytes lost")
