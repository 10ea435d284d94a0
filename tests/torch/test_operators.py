"""Every operator in PyTorch: registration, values, gradients, compilation, export.

That bits are those of MindSpore: tests/onnx/test_three_clients.py.
"""

import inspect
from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from ms_ascend_ops.samples.operators import operator

import ms_ascend_ops.torch as fused
from ms_ascend_ops import registry
from ms_ascend_ops.torch.gradients.composed import COMPOSED
from tests.acceptance import assert_accurate
from tests.dtypes import EPSILON, FLOATS
from tests.torch.examples import every_operator

# Gradients of the rotation tables, say, are float32 sums: of the largest magnitude.
SHARE = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 3e-3}


def results(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


@every_operator
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of opcheck's own
def test_opcheck(example):
    torch.library.opcheck(example.operator, example.arguments(requires_grad=True))


@every_operator
def test_opcheck_of_the_gradient_kernel(example):
    """Shapes and schema; a gradient of a gradient is refused."""
    gradient = registry.op_spec(example.name).gradient
    if gradient is None:
        pytest.skip("it has no gradient kernel")
    outputs = dict(
        zip([t.name for t in example.signature.outputs], results(example.operator(*example.arguments())), strict=True)
    )
    known = dict(zip([t.name for t in example.signature.inputs], example.tensors(), strict=True)) | outputs
    known |= {f"d{name}": value for name, value in outputs.items()}
    known |= {"dresidual": outputs.get("x"), "delta": outputs.get("lse")}
    arguments = [known[t.name] for t in gradient.inputs] + example.attributes
    operator = getattr(torch.ops.ms_ascend_ops, gradient.name).default
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))
    arguments[0] = arguments[0].clone().requires_grad_()
    with pytest.raises(RuntimeError, match=f"{gradient.name}: it has no gradient"):
        results(operator(*arguments))[0].sum().backward()


def golden(example, inputs):
    """Every output in float64, by the reference."""
    reference = import_module(f"tests.reference.{example.name}")
    return results(reference.forward(*inputs, **example.case().attributes))


def doubles(tensors):
    return [
        None if t is None else (t.detach().double() if t.is_floating_point() else t.detach()).numpy() for t in tensors
    ]


@every_operator
def test_values(example):
    """In other dtypes the bits are those of the kernel, which has tests of its own."""
    if example.name == "kv_cache_update":
        pytest.skip("it copies bits: test_functions.py")
    arguments = example.arguments()
    found = results(example.operator(*arguments))
    expected = golden(example, doubles(arguments[: example.kernel.count]))
    for value, wanted in zip(found, expected, strict=False):
        if not value.dtype.is_floating_point:  # numbers of experts, and of rows
            assert np.array_equal(value.numpy(), wanted)
            continue
        assert_accurate(value.double().numpy(), wanted, str(value.dtype).removeprefix("torch."))


@every_operator
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients(example, dtype):
    """Of all inputs and through all outputs, against central differences of the reference in float64."""
    names = registry.op_spec(example.name).differentiable
    if not names:
        pytest.skip("it has no gradient")
    arguments = example.arguments(dtype, requires_grad=True)
    inputs = arguments[: example.kernel.count]
    found = results(example.operator(*arguments))
    values = doubles(inputs)
    expected = golden(example, values)
    random = np.random.default_rng(0)
    douts = [torch.from_numpy(random.normal(size=out.shape)).to(out.dtype) for out in found[: len(expected)]]
    douts = [dout * out.requires_grad for dout, out in zip(douts, found, strict=False)]
    sum((out.double() * dout.double()).sum() for out, dout in zip(found, douts, strict=False)).backward()
    for place, spec in enumerate(example.signature.inputs):
        if spec.name not in names or inputs[place] is None:
            continue
        gradient = inputs[place].grad
        assert gradient.dtype == inputs[place].dtype
        wanted = np.zeros(gradient.shape)
        for i in np.ndindex(wanted.shape):
            sums = []
            for step in (1e-5, -1e-5):
                moved = [v.copy() if n == place else v for n, v in enumerate(values)]
                moved[place][i] += step
                sums.append(
                    sum(np.sum(y * d.double().numpy()) for y, d in zip(golden(example, moved), douts, strict=True))
                )
            wanted[i] = (sums[0] - sums[1]) / 2e-5
        error = np.abs(gradient.double().numpy() - wanted).max()
        assert error <= SHARE[dtype] * np.abs(wanted).max() + EPSILON[dtype], (spec.name, error)


@every_operator
def test_compiled_with_sizes_that_change(example):
    """One graph for all sizes, forward and backward, with the results of eager calls."""
    differentiable = bool(registry.op_spec(example.name).differentiable)
    operation, attributes = example.operator, example.attributes

    def forward(*tensors):
        return operation(*tensors, *attributes)

    def step(tensors):
        outputs = results(forward(*tensors))
        if differentiable:
            torch.autograd.backward([out.float().sum() for out in outputs if out.requires_grad])
        return outputs

    function = compiled(forward, dynamic=True)
    shapes = operator(example.name).small_shapes
    for shape in shapes:
        count = example.kernel.count
        mine = example.arguments(shape=shape, requires_grad=True)[:count]
        theirs = example.arguments(shape=shape, requires_grad=True)[:count]
        expected = step(theirs)
        found = results(function(*mine))
        if differentiable:
            torch.autograd.backward([out.float().sum() for out in found if out.requires_grad])
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)
        for a, b in zip(mine, theirs, strict=True):
            if a is not None:  # and what is written in place
                assert torch.equal(a, b)
                assert (a.grad is None) == (b.grad is None)
                assert a.grad is None or torch.allclose(a.grad, b.grad, rtol=1e-6, atol=1e-6)


@every_operator
def test_exported(example):
    tensors = [value for value in example.tensors() if value is not None]
    operation, attributes = example.operator, example.attributes
    absent = [None] * (example.kernel.count - len(tensors))

    class Network(torch.nn.Module):
        def forward(self, *tensors):
            return operation(*tensors, *absent, *attributes)

    program = torch.export.export(Network(), tuple(tensors))
    assert any(node.target is operation for node in program.graph.nodes)
    copies = [value.clone() for value in tensors]
    for a, b in zip(results(program.module()(*tensors)), results(Network()(*copies)), strict=True):
        assert torch.equal(a, b)


@every_operator
def test_vmap(example):
    """The same bits as of calls one by one: of all tensors, and of the first alone."""
    if example.signature.writes:
        pytest.skip("it changes its inputs")
    tensors = [value for value in example.tensors() if value is not None]
    absent = [None] * (example.kernel.count - len(tensors))

    def call(*tensors):
        return example.operator(*tensors, *absent, *example.attributes)

    # Of numbers of experts, lengths and slots not every order is allowed.
    pairs = [torch.stack([value, value.flip(0) if value.is_floating_point() else value], 1) for value in tensors]
    expected = [results(call(*(pair[:, i] for pair in pairs))) for i in range(2)]
    for a, b, found in zip(*expected, results(torch.vmap(call, 1)(*pairs)), strict=True):
        assert torch.equal(found, torch.stack([a, b]))
    expected = [results(call(pairs[0][:, i], *tensors[1:])) for i in range(2)]
    dims = (1, *[None] * (len(tensors) - 1))
    for a, b, found in zip(*expected, results(torch.vmap(call, dims)(pairs[0], *tensors[1:])), strict=True):
        assert torch.equal(found, torch.stack([a, b]))


@every_operator
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # of torch.func.jvp's own
def test_torch_func(example):
    """Gradients as functions, alone and of each of a batch: the bits of `backward`; no forward derivative."""
    names = registry.op_spec(example.name).differentiable
    if not names:
        pytest.skip("it has no gradient")
    arguments = example.arguments(requires_grad=True)
    places = [i for i, spec in enumerate(example.signature.inputs) if spec.name in names and arguments[i] is not None]
    found = [out for out in results(example.operator(*arguments)) if out.requires_grad]
    expected = torch.autograd.grad([out.sum() for out in found], [arguments[i] for i in places])

    def loss(*tensors):
        given = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
        for i, value in zip(places, tensors, strict=True):
            given[i] = value
        outputs = results(example.operator(*given))
        return sum(out.sum() for out, like in zip(outputs, all_outputs, strict=True) if like.requires_grad)

    all_outputs = results(example.operator(*arguments))
    tensors = [arguments[i].detach() for i in places]
    gradient = torch.func.grad(loss, tuple(range(len(places))))
    for a, b in zip(gradient(*tensors), expected, strict=True):
        assert torch.equal(a, b)
    pairs = [torch.stack([value, value]) for value in tensors]
    for pair, b in zip(torch.vmap(gradient)(*pairs), expected, strict=True):
        assert torch.equal(pair, torch.stack([b, b]))
    with pytest.raises(NotImplementedError, match=f"{example.name}: it has no forward derivative"):
        torch.func.jvp(loss, tuple(tensors), tuple(tensors))


@every_operator
def test_meta_tensors(example):
    expected = results(example.operator(*example.arguments()))
    arguments = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in example.arguments()]
    for found, wanted in zip(results(example.operator(*arguments)), expected, strict=True):
        assert found.is_meta
        assert (found.shape, found.dtype, found.stride()) == (wanted.shape, wanted.dtype, wanted.stride())


def test_the_functions_are_those_for_mindspore():
    """The same names, parameters and defaults."""
    ops = import_module("ms_ascend_ops.ops")
    assert set(ops.__all__) <= set(fused.__all__)
    for name in ops.__all__:
        theirs, ours = inspect.signature(getattr(ops, name)), inspect.signature(getattr(fused, name))
        assert [(p.name, p.default) for p in ours.parameters.values()] == [
            (p.name, p.default) for p in theirs.parameters.values()
        ], name


def test_composed_gradients_are_of_operators():
    """And the tensors that one keeps are inputs and outputs of its operator."""
    assert len(COMPOSED) > 15
    for name, gradient in COMPOSED.items():
        signature = registry.signature(name)
        assert {t.name for t in signature.inputs + signature.outputs}.issuperset(gradient.keeps), name
