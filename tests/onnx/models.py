"""ONNX models of one node for every operator, with the inputs of its benchmark; and small graphs."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.operators import names, operator
from onnx import helper, numpy_helper

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native
from ms_ascend_ops.onnx import DOMAIN, VERSION
from ms_ascend_ops.onnx.schemas import DTYPES

OPSET, IR_VERSION = 21, 10


def model(nodes, inputs, outputs, constants=None, opset=OPSET, *, check=True):
    """A model of nodes; inputs and outputs are {name: (dtype, shape)}, constants {name: array}."""
    infos = [
        [helper.make_tensor_value_info(name, DTYPES[dtype], shape) for name, (dtype, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "network", *infos, tensors)
    imports = [("", opset), (DOMAIN, VERSION), ("com.microsoft", 1)]
    used = {node.domain for node in nodes} | {""}
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in imports if domain in used],
        ir_version=IR_VERSION,
    )
    if check and all(shape is not None for side in (inputs, outputs) for _, shape in side.values()):
        onnx.checker.check_model(made)
    return made


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

    def launch(self, dtype, shape=0):
        return Case(self.name, False, operator(self.name).small_shapes[shape], dtype, self.variant).launches[0]

    def inputs(self, dtype, shape=0):
        """All inputs by name; None where one is absent."""
        given = list(self.launch(dtype, shape).inputs)
        given += [None] * (len(self.signature.inputs) - len(given))
        return {t.name: None if a is None else np.ascontiguousarray(a) for t, a in zip(self.signature.inputs, given)}

    def attributes(self, dtype="float32"):
        given = self.launch(dtype).attributes
        return self.signature.check_attributes({a.name: given[a.name] for a in self.signature.attributes})

    def outputs(self, dtype, shape=0):
        """Dtype and shape of every output of the kernel."""
        given = list(self.inputs(dtype, shape).values())
        types = infer_types(self.signature, [None if a is None else a.dtype.name for a in given])
        sizes = infer_shapes(self.signature, [None if a is None else a.shape for a in given], self.attributes(dtype))
        return {t.name: (d, s) for t, d, s in zip(self.signature.outputs, types, sizes)}

    def model(self, dtype, shape=0, *, typed=True, open_dims=True):
        """One node; of open dims each has a name of its own, but for those that are equal by the rules' symbols."""
        given = self.inputs(dtype, shape)
        written = {f"{name}_out": (given[name].dtype.name, given[name].shape) for name in self.signature.writes}
        outputs = {**self.outputs(dtype, shape), **written}
        values = {n: int(v) if isinstance(v, bool) else v for n, v in self.attributes(dtype).items()}
        taken = [name if array is not None else "" for name, array in given.items()]
        while not taken[-1]:
            taken.pop()
        node = helper.make_node(self.name, taken, list(outputs), domain=DOMAIN, **values)
        sizes = {n: [None] * a.ndim if open_dims else a.shape for n, a in given.items() if a is not None}
        inputs = {n: (given[n].dtype.name, size) for n, size in sizes.items()}
        return model([node], inputs, outputs if typed else {n: (d, None) for n, (d, _) in outputs.items()})

    def expected(self, dtype, shape=0):
        """What the kernel itself computes: the outputs, and of inputs that it changes, what they are then."""
        given = {n: None if a is None else a.copy() for n, a in self.inputs(dtype, shape).items()}
        results = [np.zeros(s, _numpy(d)) for d, s in self.outputs(dtype, shape).values()]
        native().launch(self.name, list(given.values()), results, self.attributes(dtype))
        return results + [given[name] for name in self.signature.writes]


def _numpy(dtype):
    import ml_dtypes  # noqa: PLC0415

    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


every_operator = pytest.mark.parametrize(
    "example", [Example(name, variant) for name in names() for variant in operator(name).variants], ids=str
)


def same_bits(one, other):
    """Whether arrays are the same to the bit."""
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(one, other)
    )
