"""From a definition to an operator of PyTorch: `torch.ops.ms_ascend_ops.<name>`, and `<name>_grad` for its gradient.

Schema, kernels for tensors on a CPU and of torch_npu (npu.py), shapes and dtypes of results for fake and meta tensors,
casts of autocast, and the gradient all follow from the definition; what it cannot say of gradients stands in
gradients/.

A kernel runs on the memory of the tensors. PyTorch allocates the results, and tells how many threads a kernel may use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch.autograd import forward_ad, profiler

from ms_ascend_ops import registry
from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.definitions.inference import infer_types
from ms_ascend_ops.definitions.sizes import known, output_shapes
from ms_ascend_ops.library import check_built, native
from ms_ascend_ops.registry import AttributeSpec, Signature
from ms_ascend_ops.torch import npu
from ms_ascend_ops.torch.calls import direct_first
from ms_ascend_ops.torch.gradients import formula

__all__ = ["DTYPES", "NAMESPACE", "Operator", "operators", "register"]

NAMESPACE = "ms_ascend_ops"

DTYPES = {name: getattr(torch, name) for name in registry.DTYPES}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_TYPES = {"int": "int", "float": "float", "bool": "bool", "string": "str"}

# PyTorch has these kinds of tensors, too, but no kernel of this library can read them.
_REFUSED = ("CUDA", "HIP", "XPU", "MPS", "HPU", "SparseCPU", "SparseCsrCPU", "MkldnnCPU", "QuantizedCPU")


class _Library(torch.library.Library):  # type: ignore[misc]
    """One in which gradients cost no more than a look where none is needed."""

    def impl(self, name: Any, function: Any, key: str = "", **options: Any) -> None:
        operator = operators()[name.rpartition("::")[2]] if key == "Autograd" else None
        if operator is not None and not operator.signature.writes:
            function = _directly(operator, function)
        super().impl(name, function, key, **options)


_library = _Library(NAMESPACE, "DEF")


class Operator:
    """One kernel as an operator of PyTorch. It takes the tensors, then the attributes, in the definition's order."""

    def __init__(self, signature: Signature):
        self.signature = signature
        self.count = len(signature.inputs)
        self._check = CHECKS.get(signature.name)
        # Under autocast tensors go to its dtype, as those of torch.matmul do; otherwise all that must have the same
        # dtype take the widest that comes.
        self.lowered = not signature.name.endswith("_grad") and registry.op_spec(signature.name).lowered
        self.functions: dict[tuple[Any, ...], Callable[..., Any]] = {}  # by the attributes
        self._optional = tuple(i for i, tensor in enumerate(signature.inputs) if tensor.optional)

    @property
    def schema(self) -> str:
        """The schema as `torch.library` writes it."""
        tensors = []
        for i, tensor in enumerate(self.signature.inputs):
            alias = f"({chr(ord('a') + i)}!)" if tensor.name in self.signature.writes else ""
            tensors.append(f"Tensor{'?' if tensor.optional else alias} {tensor.name}{'=None' * tensor.optional}")
        attributes = [f"{_TYPES[a.type]} {a.name}={_literal(a)}" for a in self.signature.attributes]
        results = ", ".join(f"Tensor {tensor.name}" for tensor in self.signature.outputs)
        return f"{self.signature.name}({', '.join(tensors + attributes)}) -> ({results})"

    def run(self, *arguments: Any) -> Any:
        """The kernel. The dispatcher leaves out arguments at the end that have their default."""
        tensors, values = arguments[: self.count], arguments[self.count :]
        if self._optional:
            absent = tuple(i for i in self._optional if i >= len(tensors) or tensors[i] is None)
            tensors = tuple(tensor for tensor in tensors if tensor is not None)
            values = (absent, *values)
        try:
            function = self.functions.get(values)
        except TypeError:  # it cannot be hashed
            self.attributes(values[1:] if self._optional else values)  # says which
            raise
        if function is None:
            function = self.functions[values] = self._make(*values)
        results = function(*tensors)
        return results if results is not None else self._refuse_views(*tensors)

    @cached_property
    def direct(self) -> Callable[..., Any]:
        """The kernel where nobody but it has to see the call, past PyTorch's dispatcher; otherwise NotImplemented.

        That is where no mode, transform, trace, autocast or forward differentiation is active, and nothing is recorded
        for a gradient; and the tensors are nothing but memory: not wrapped, sparse or negated ones. Operators that
        write into their inputs have no such path: the dispatcher counts changes.
        """
        name = self.signature.name
        function: Callable[..., Any] = native().direct_call(
            _torch(), name, self.count, self.lowered, self.run, self.on_npu, self.attributes
        )
        return function

    @cached_property
    def on_npu(self) -> Callable[..., Any]:
        """The kernel on tensors of torch_npu; NotImplemented where there is none among them."""
        function: Callable[..., Any] = native().npu_call(self.count, self._first_on_npu, self._prepared_on_npu)
        return function

    def kernel(self, *arguments: Any) -> Any:
        """Return what the dispatcher calls for tensors on a CPU."""
        result = self.direct(*arguments)
        return self.run(*arguments) if result is NotImplemented else result

    def fake(self, *arguments: Any) -> Any:
        """Empty results, for tensors without memory."""
        tensors = self._all(arguments)
        device, first = tensors[0].device, self.signature.inputs[0].name
        for tensor, spec in zip(tensors, self.signature.inputs, strict=True):
            if tensor is not None and tensor.device != device:
                where = f"{spec.name} must be where {first} is ({device}), got one on {tensor.device}"
                raise RuntimeError(f"{self.signature.name}: {where}")
        _, results = self.results(tensors, arguments[self.count :], device)
        return results if len(results) > 1 else results[0]

    def npu(self, *arguments: Any) -> Any:
        """Return what the dispatcher calls for tensors of torch_npu."""
        if torch._C._get_privateuse1_backend_name() != npu.DEVICE:
            _refuse(self, "PrivateUse1")(*arguments)
        return self.on_npu(*arguments)

    def _first_on_npu(self, *arguments: Any) -> Any:
        tensors = self._all(arguments)
        if not any(tensor is not None and tensor.device.type == npu.DEVICE for tensor in tensors):
            return NotImplemented
        return npu.run(self, tensors, arguments[self.count :])

    def _prepared_on_npu(self, *arguments: Any) -> Any:
        return npu.prepared(self, self._all(arguments), arguments[self.count :])

    def results(
        self, tensors: Sequence[Any], values: Sequence[Any], device: torch.device
    ) -> tuple[dict[str, Any], tuple[torch.Tensor, ...]]:
        """Attributes by name, and empty tensors for the results."""
        attributes = self.attributes(values)
        dtypes = [None if tensor is None else self.dtype_name(tensor) for tensor in tensors]
        types = infer_types(self.signature, dtypes)
        shapes = [None if tensor is None else tensor.shape for tensor in tensors]
        sizes = output_shapes(self.signature, shapes, attributes)
        if self._check is not None:
            self._check([known(shape) for shape in shapes], attributes)
        return attributes, tuple(
            torch.empty(size, dtype=DTYPES[dtype], device=device) for size, dtype in zip(sizes, types, strict=True)
        )

    def attributes(self, values: Sequence[Any]) -> dict[str, Any]:
        """Every attribute by its name."""
        names = [attribute.name for attribute in self.signature.attributes]
        return self.signature.check_attributes(dict(zip(names, values, strict=False)))

    def cast(self, arguments: tuple[Any, ...], lowest: torch.dtype) -> tuple[Any, ...]:
        """The arguments as autocast wants them."""
        tensors = list(arguments[: self.count])
        widest: dict[str, torch.dtype] = {}
        first = self.signature.variables[0]
        for tensor, spec in zip(tensors, self.signature.inputs, strict=False):
            if tensor is not None and spec.dtype in self.signature.variables:
                dtype = tensor.dtype
                if self.lowered and spec.dtype == first and dtype is torch.float32:
                    dtype = lowest
                widest[spec.dtype] = torch.promote_types(dtype, widest.get(spec.dtype, dtype))
        row = {variable: _NAMES.get(dtype, "") for variable, dtype in widest.items()}
        if not any(row.items() <= allowed.items() for allowed in self.signature.types):
            # A weight in half precision, and float32 to be normalized: it is the tensor that decides.
            widest = dict.fromkeys(widest, widest[first])
        for i, spec in enumerate(self.signature.inputs[: len(tensors)]):
            if tensors[i] is not None and spec.dtype in widest:
                tensors[i] = tensors[i].to(widest[spec.dtype])
        return (*tensors, *arguments[self.count :])

    @staticmethod
    def dtype_name(tensor: torch.Tensor) -> str:
        """Return the name that definitions have for it."""
        return _NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))

    def _all(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The tensors, None in place of those at the end that are left out."""
        return [*arguments[: self.count], *[None] * (self.count - len(arguments))]

    def _make(self, *values: Any) -> Callable[..., Any]:
        absent = {self.signature.inputs[i].name for i in (values[0] if self._optional else ())}
        check_built(self.signature)
        function: Callable[..., Any] = native().tensor_function(
            _framework(),
            self.signature.name,
            self.attributes(values[1:] if self._optional else values),
            [tensor.name for tensor in self.signature.inputs],
            set(self.signature.writes),
            absent,
            self._check,
        )
        return function

    def _refuse_views(self, *tensors: torch.Tensor) -> None:
        for tensor, spec in zip(tensors, self.signature.inputs, strict=False):
            if spec.name in self.signature.writes and not tensor.is_contiguous():
                raise ValueError(
                    f"{self.signature.name}: {spec.name} is written in place and must be contiguous, got strides "
                    f"{tensor.stride()} of shape {tuple(tensor.shape)}"
                )


@cache
def operators() -> dict[str, Operator]:
    """All of them by name."""
    signatures = (s for name in registry.names() for s in registry.op_spec(name).signatures)
    return {signature.name: Operator(signature) for signature in signatures}


def register() -> None:
    """Register every operator with PyTorch."""
    for name, operator in operators().items():
        _library.define(operator.schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, operator.run if operator.signature.writes else operator.kernel, "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{name}", operator.fake, lib=_library)
        _library.impl(name, operator.npu, "PrivateUse1")
        for device, key in (("cpu", "AutocastCPU"), (None, "AutocastPrivateUse1")):
            _library.impl(name, _autocast(operator, device, getattr(torch._C.DispatchKey, key)), key)
        for key in _REFUSED:
            _library.impl(name, _refuse(operator, key), key)
        if operator.signature.writes:  # PyTorch takes no formula for these
            _library.impl(name, _without_gradient(operator), "Autograd", with_keyset=True)
            _library.impl(name, _counting_changes(operator), "ADInplaceOrView", with_keyset=True)
        else:
            torch.library.register_vmap(f"{NAMESPACE}::{name}", _batching(operator), lib=_library)
            backward, setup_context = formula(operator.signature)
            torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=_library)
            _library.impl(name, _transformed(operator, backward, setup_context), "FuncTorchDynamicLayerFrontMode")
            _call_directly(operator)


def _directly(operator: Operator, autograd: Callable[..., Any]) -> Callable[..., Any]:
    direct = operator.direct

    def kernel(keyset: Any, *arguments: Any, **keywords: Any) -> Any:
        result = direct(*arguments) if not keywords else NotImplemented
        return autograd(keyset, *arguments, **keywords) if result is NotImplemented else result

    return kernel


def _call_directly(operator: Operator) -> None:
    """Have `torch.ops`, as compiled graphs call it, try the kernel before the dispatcher, which takes longer."""
    packet = getattr(getattr(torch.ops, NAMESPACE), operator.signature.name)
    for called in (packet.default, packet):
        called._op = direct_first(operator.signature, operator.direct, called._op)


def _transformed(operator: Operator, backward: Callable[..., Any], keep: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `torch.func` calls: it takes no formula of `torch.library`, but an `autograd.Function` like this."""
    signature = operator.signature

    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return _overload(operator)(*arguments)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            keep(ctx, inputs, output)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise NotImplementedError(
                f"{signature.name}: it has no forward derivative (torch.func.jvp, jacfwd); take vjp or jacrev"
            )

    Transformed.backward = staticmethod(backward)
    Transformed.vmap = staticmethod(_batching(operator))
    Transformed.__name__ = signature.entry
    defaults = [None] * operator.count + [attribute.default for attribute in signature.attributes]

    def kernel(*arguments: Any) -> Any:
        return Transformed.apply(*arguments, *defaults[len(arguments) :])

    return kernel


def _batching(operator: Operator) -> Callable[..., Any]:
    """The rule of `torch.vmap`: one call where a batch is one more of any number of dims, otherwise a call each."""
    signature = operator.signature
    leads = [
        tensor.rule.tokens[0].symbol if tensor.rule.tokens and tensor.rule.tokens[0].star else ""
        for tensor in (*signature.inputs, *signature.outputs)
    ]
    takes_any, symbols = [bool(symbol) for symbol in leads[: operator.count]], set(leads)
    in_all_results = all(leads[operator.count :])  # otherwise one is a sum over the batch
    names_axes = any(attribute.axes or "axis" in attribute.name for attribute in signature.attributes)
    broadcasts = any(token.broadcasts or token.ones for tensor in signature.inputs for token in tensor.rule.tokens)
    is_one_call = len(symbols - {""}) == 1 and in_all_results and not names_axes and not broadcasts
    is_one_call = is_one_call and signature.name not in CHECKS

    def batched(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        run, dims = _overload(operator), in_dims[: operator.count]
        if is_one_call and all((dim is not None) == takes for dim, takes in zip(dims, takes_any, strict=False)):
            results = run(*(a if dim is None else a.movedim(dim, 0) for a, dim in zip(arguments, in_dims, strict=True)))
        else:
            each = [
                run(*(a if dim is None else a.select(dim, i) for a, dim in zip(arguments, in_dims, strict=True)))
                for i in range(info.batch_size)
            ]
            is_one = isinstance(each[0], torch.Tensor)
            results = torch.stack(each) if is_one else tuple(torch.stack(parts) for parts in zip(*each, strict=True))
        return results, 0 if isinstance(results, torch.Tensor) else (0,) * len(results)

    return batched


def _overload(operator: Operator) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), operator.signature.name).default


def _without_gradient(operator: Operator) -> Callable[..., Any]:
    name = operator.signature.name

    def autograd(keyset: Any, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            raise RuntimeError(f"{name}: it has no gradient; call it under torch.no_grad(), or detach its tensors")
        with torch._C._AutoDispatchBelowAutograd():
            return _overload(operator).redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    return autograd


def _counting_changes(operator: Operator) -> Callable[..., Any]:
    """Autograd knows by these counts when a tensor that it has kept was changed."""
    places = [i for i, tensor in enumerate(operator.signature.inputs) if tensor.name in operator.signature.writes]

    def inplace(keyset: Any, *arguments: Any) -> Any:
        for i in places:
            torch.autograd.graph.increment_version(arguments[i])
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return _overload(operator).redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *arguments)

    return inplace


def _autocast(operator: Operator, device: str | None, key: torch._C.DispatchKey) -> Callable[..., Any]:
    """Return the kernel for autocast on a device; None: on that of PrivateUse1, whose name may come later."""

    def autocast(*arguments: Any) -> Any:
        dtype = torch.get_autocast_dtype(device or torch._C._get_privateuse1_backend_name())
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return _overload(operator)(*operator.cast(arguments, dtype))

    return autocast


def _refuse(operator: Operator, key: str) -> Callable[..., Any]:
    def refuse(*arguments: Any) -> Any:
        for tensor, spec in zip(arguments, operator.signature.inputs, strict=False):
            if isinstance(tensor, torch.Tensor) and (
                tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized
            ):
                what = f"on {tensor.device}" if tensor.device.type != "cpu" else f"of layout {tensor.layout}"
                raise RuntimeError(
                    f"{operator.signature.name}: {spec.name} is {what}; the kernels run on strided tensors on a "
                    "CPU, and on those of torch_npu"
                )
        raise RuntimeError(f"{operator.signature.name}: there is no kernel for {key} tensors")

    return refuse


@cache
def _torch() -> Any:
    return native().Torch(
        types=(torch.Tensor, torch.nn.Parameter),
        idle=[
            (torch._C._len_torch_dispatch_stack, 0),
            (torch._C._is_torch_function_mode_enabled, False),
            (torch._C._are_functorch_transforms_active, False),
            (torch._C._is_tracing, False),
            (partial(torch._C._dispatch_tls_is_dispatch_key_included, torch._C.DispatchKey.PreDispatch), False),
        ],
        casts=torch._C._is_any_autocast_enabled,
        plain=[("layout", torch.strided)],
        flags=[(vars(forward_ad), "_current_level", -1), (vars(profiler), "_is_profiler_enabled", False)],
        is_negative=torch.Tensor.is_neg,
        is_recording=torch.is_grad_enabled,
        requires_gradient=torch.Tensor.requires_grad,
        library="libtorch_cpu.so",
    )


@cache
def _framework() -> Any:
    return native().Framework(
        torch.Tensor, None, DTYPES, "data_ptr", torch.empty, torch.empty_like, torch.get_num_threads
    )


def _literal(attribute: AttributeSpec) -> str:
    return f'"{attribute.default}"' if attribute.type == "string" else str(attribute.default)
