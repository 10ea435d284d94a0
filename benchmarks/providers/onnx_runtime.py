"""Runs ONNX Runtime on the CPU, with its own fused operators where it has them. Forward only, float32 and float16."""

from __future__ import annotations

from functools import partial

import numpy as np
from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case

try:
    import onnxruntime
    from onnx import ValueInfoProto, helper
except ImportError:
    raise ImportError("onnxruntime and onnx are not installed") from None

__all__ = ["session"]

# Old enough for every ONNX Runtime that has num_outputs of Split, and its contributed operators.
OPSETS = {"": 18, "com.microsoft": 1}


def session(case: Case, threads: int) -> Prepared:
    """Prepare a session.

    Inputs and outputs are bound to memory that stays the same, as for the kernels called directly.
    """
    if case.operator.onnx is None:
        raise ValueError("no composition for ONNX Runtime")
    if case.gradient:
        raise ValueError("ONNX Runtime has no gradients")
    if case.dtype == "bfloat16":
        raise ValueError("ONNX Runtime has no bfloat16 on the CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    options.add_session_config_entry("session.force_spinning_stop", "1")  # the next provider wants the CPUs
    runtime = onnxruntime.InferenceSession(_model(case), options, providers=["CPUExecutionProvider"])
    binding = runtime.io_binding()
    outputs = [np.full_like(case.arrays[name], -1) for name in case.output_names]
    needed = {value.name for value in runtime.get_inputs()}
    for name, array in zip(case.input_names, case.inputs, strict=True):
        if name in needed:
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in zip(case.output_names, outputs, strict=True):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    return Prepared(partial(runtime.run_with_iobinding, binding), lambda _: outputs)


def _model(case: Case) -> bytes:
    assert case.operator.onnx is not None  # session() looks
    described = case.operator.onnx(**case.attributes)
    nodes = [
        helper.make_node(node.op, list(node.inputs), list(node.outputs), domain=node.domain, **node.attributes)
        for node in described
    ]
    used = {name for node in described for name in node.inputs}
    inputs = [_value(case, name) for name in case.input_names if name in used]
    graph = helper.make_graph(nodes, case.operator_name, inputs, [_value(case, name) for name in case.output_names])
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    serialized: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return serialized


def _value(case: Case, name: str) -> ValueInfoProto:
    array = case.arrays[name]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
