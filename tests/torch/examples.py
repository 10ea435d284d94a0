"""Small inputs of every operator as PyTorch's tensors: those of its benchmark, and attributes of other variants."""

from dataclasses import dataclass
from importlib import import_module

import ml_dtypes
import numpy as np
import pytest
import torch
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.operators import names, operator

import ms_ascend_ops.torch as fused
from ms_ascend_ops import registry
from ms_ascend_ops.torch.registration import operators

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def tensor(array):
    """A tensor with the values of an array, bfloat16 included."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array(tensor):
    """The same bits as an array; those of bfloat16 as int16."""
    tensor = tensor.detach().contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


@dataclass(frozen=True)
class Example:
    """One operator with one set of attributes."""

    name: str
    variant: str = ""

    def __str__(self):
        return "-".join(filter(None, [self.name, self.variant]))

    @property
    def signature(self):
        return registry.signature(self.name)

    def case(self, dtype="float32", shape=None):
        return Case(self.name, False, shape or operator(self.name).small_shapes[0], dtype, self.variant)

    @property
    def attributes(self):
        """Of the kernel, in the order of the definition."""
        given = self.case().launches[0].attributes
        return [given[attribute.name] for attribute in self.signature.attributes]

    def tensors(self, dtype="float32", shape=None):
        """What the operator takes; None where an optional input is absent."""
        given = [None if value is None else tensor(value) for value in self.case(dtype, shape).launches[0].inputs]
        return given + [None] * (len(self.signature.inputs) - len(given))

    def arguments(self, dtype="float32", shape=None, requires_grad=False):
        tensors = self.tensors(dtype, shape)
        if requires_grad:
            differentiable = registry.op_spec(self.name).differentiable
            for value, spec in zip(tensors, self.signature.inputs, strict=True):
                if value is not None and spec.name in differentiable:
                    value.requires_grad_()
        return [*tensors, *self.attributes]

    @property
    def operator(self):
        """In torch.ops."""
        return getattr(torch.ops.ms_ascend_ops, self.name).default

    @property
    def kernel(self):
        return operators()[self.name]

    def of_mindspore(self, dtype="float32"):
        """What the function of `ms_ascend_ops.ops` returns."""
        from ms_ascend_ops.samples.network import tensor  # noqa: PLC0415 where only PyTorch is, MindSpore may be missing

        case = self.case(dtype)
        return operator(self.name).ours(*(tensor(value) for value in case.own_inputs()), **case.attributes)

    def of_torch(self, dtype="float32", device="cpu"):
        """What the same function of `ms_ascend_ops.torch` returns, as a list."""
        case, ours = self.case(dtype), operator(self.name).ours
        module = import_module(f"ms_ascend_ops.samples.ops.{self.name}")
        functions, is_composed = getattr(module, "fused", None), ours.__module__ == module.__name__
        try:
            if functions is not None:
                module.fused = fused  # its functions, for tensors of PyTorch
            function = ours if is_composed else getattr(fused, ours.__name__)
            results = function(*(tensor(value).to(device) for value in case.own_inputs()), **case.attributes)
        finally:
            if functions is not None:
                module.fused = functions
        return list(results) if isinstance(results, (tuple, list)) else [results]


def examples():
    """One of every variant of every operator."""
    return [Example(name, variant) for name in names() for variant in operator(name).variants]


def every_operator(function):
    """Parametrize a test by all of them."""
    return pytest.mark.parametrize("example", examples(), ids=str)(function)
