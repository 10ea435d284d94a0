"""From a definition to MindSpore's `ops.Custom`. The only file that knows `ops.Custom`, for the CPU and for Ascend.

An operator function is one line, the same in PyNative, in GRAPH mode, in `ms.jit` and in `ms.export`:

    return _select(x, gamma, epsilon, scheme)(x, gamma)

`_select`, a `Selector`, checks the tensors and attributes and gives the primitive for these attributes and for the
device target of the moment. While a graph is compiled MindSpore calls its `__infer__`, once, and puts the primitive
into the graph as a constant: there, nothing but the primitive is left. A dim that is not known yet passes; the same
rules in C++ check it when the graph runs.

On a CPU a primitive calls a function of the kernel library, which reads the attributes of the primitive; called by
Python it takes the fast path of direct.py. On Ascend it calls the aclnn function of the CANN package, which takes the
attributes after the tensors; shapes and dtypes are inferred by the kernel library there, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import mindspore as ms
from mindspore import Tensor, ops

from ms_ascend_ops import ascend, bprops, registry
from ms_ascend_ops.checks import CHECKS, ShapeCheck
from ms_ascend_ops.definitions.inference import MaybeShape, infer_shapes, infer_types
from ms_ascend_ops.direct import casting, direct, recorded, recording, usable
from ms_ascend_ops.direct_npu import no_gradient, on_npu
from ms_ascend_ops.graph_writes import describe_view, note
from ms_ascend_ops.library import LibraryVersion, check_built, library_path, open_library
from ms_ascend_ops.mindspore_versions import current_amp_strategy, device_target, dtype_name, soc_version
from ms_ascend_ops.mixed_precision import caster
from ms_ascend_ops.routing import ROUTERS, Makers, Routed

__all__ = ["VERSION", "FusedPrimitive", "Selector", "SuperKernelPrimitive", "by_python", "kernel"]

# The attribute that holds the version of the operator, for those who find it in a MindIR.
VERSION = "op_version"

_log = logging.getLogger("ms_ascend_ops")

# MindSpore 2.10 mixes up the buffers of primitives without a generated API when several Python threads call them at
# once (its own ops.Softsign shows it too). Neither graphs nor direct calls come through here.
_PYNATIVE_CALL = threading.RLock()

# Combinations of shapes, dtypes and attributes that need no second check.
_REMEMBERED = 4096

Bprop = Callable[..., Any]

# The registration information of an aclnn operator names an attribute's type so; a choice is the index of its text.
_REG_INFO_TYPES = {"int": "int", "float": "float", "bool": "bool", "string": "int"}


class FusedPrimitive(ops.Custom):  # type: ignore[misc]
    """One kernel with fixed attributes, for one device target. Made once for each set of attributes, and shared.

    It takes the tensors that `takes` names, then `constants`. Besides those of the operator `attributes` may have those
    that say whether an optional input is given (`has_bias`).

    On a CPU a call checks the tensors: the library does, and `check` what its rules cannot say; or `check_tensors` all
    of it, where MindSpore makes the call. `version`: another library, of a CPU.
    """

    def __init__(
        self,
        signature: registry.Signature,
        attributes: dict[str, Any],
        bprop: Callable[..., Any] | None,
        check: ShapeCheck | None = None,
        check_tensors: Callable[..., None] | None = None,
        version: LibraryVersion | None = None,
    ):
        target = device_target()
        check_built(signature, version)
        self._operator = signature.name
        self._signature = signature
        self._callback = signature.aclnn_callback(attributes)
        self.given = signature.given(attributes)
        self._inputs = self.given if target == "CPU" else signature.npu_inputs(attributes)
        self.takes = tuple(tensor.name for tensor in self._inputs)
        self.attributes = {attribute.name: attributes[attribute.name] for attribute in signature.attributes}
        # A node takes these after its tensors: the functions of CANN take attributes so, the library does not.
        self.constants = () if target == "CPU" else signature.cann_constants(attributes)
        self._recorded_bprop = bprop and bprops.of_node(bprop, signature, self.given, self.given, 0)
        bprop = bprop and bprops.of_node(bprop, signature, self.given, self._inputs, len(self.constants))
        self._written = [(i, name) for i, name in enumerate(self.takes) if name in signature.writes]
        self._check_tensors = check_tensors
        module = None if version is None else version.module
        self._direct: Callable[..., Any] | None
        self._places: list[int] | None = None  # of the given tensors, among what a call takes
        if target == "CPU":
            self._direct = direct(signature, self.given, self.attributes, check, module)
        else:
            self._places = [i for i, tensor in enumerate(signature.inputs) if tensor in self.given]
            self._direct = on_npu(signature, self.given, attributes, soc_version)
            self._recorded_bprop = self._recorded_bprop or no_gradient(signature.name)
        self.checks = target == "CPU"  # whether a call checks the tensors
        self._cast = caster(signature, self.given)
        # Without out_shape and out_dtype MindSpore takes the library's inference, which dynamic shapes need.
        if target == "CPU":
            path = library_path() if version is None else version.path
            super().__init__(f"{path}:{signature.entry}", func_type="aot", bprop=bprop)
            # ops.Custom derives these two from a reg_info, which a library function does not have.
            self.add_prim_attr("reg_op_name", signature.entry)
            self.multi_output = len(signature.outputs) > 1
            self.add_prim_attr("multi_output", self.multi_output)
        else:
            ascend.check_package(signature, soc_version())
            function = f"{library_path()}:aclnn{signature.cann_type}"
            super().__init__(function, func_type="aot", bprop=bprop, reg_info=_reg_info(signature))
        # Inference reads the attributes here, wherever the kernel has them from.
        for primitive in (self, getattr(self, "custom_pyboost", None)):
            if primitive is not None:
                primitive.add_prim_attr(VERSION, signature.version)
                if signature.writes:
                    primitive.add_prim_attr("side_effect_mem", True)  # it stays between reads and writes of a Parameter
                for attribute in signature.attributes:
                    primitive.add_prim_attr(attribute.node_name, attributes[attribute.name])
                for presence in signature.presence:
                    primitive.add_prim_attr(presence.name, attributes.get(presence.name, True))

    def __call__(self, *arguments: Any) -> Any:
        if self._direct is not None:
            result = None
            tensors = arguments if self._places is None else self._on_npu(arguments)
            if (kind := casting() or current_amp_strategy()) is not None:
                tensors = self._cast(kind, tensors)
                arguments = tensors if self._places is None else arguments
            if usable():
                if not recording():
                    result = self._direct(*tensors)
                elif self._recorded_bprop is not None:
                    result = recorded(self._operator, self._direct, self._recorded_bprop, tensors)
            if result is not None:
                return result
        if self._check_tensors is not None:
            self._check_tensors(*arguments)
        if self._written:
            _refuse_views(self._operator, [(name, arguments[place]) for place, name in self._written])
        with _PYNATIVE_CALL:
            return super().__call__(*arguments)

    def _on_npu(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors of a call in PyNative on an NPU, where nothing else can call the operator."""
        if not usable():
            raise RuntimeError(
                f"{self._operator}: on an NPU a graph of capture_mode='trace' cannot hold it; take capture_mode='ast'"
            )
        assert self._places is not None
        return tuple(arguments[place] for place in self._places)

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedPrimitive:
        return self  # never changed after construction

    def _generate_get_workspace_size_func(self) -> None:
        """Tell MindSpore how to call the aclnn function. By itself it compiles a library for each operator."""
        if self.is_ascend_c:
            signature = self._signature
            types = [registry.ACLNN_TYPES[attribute.type] for attribute in signature.attributes]
            tensors = [["aclTensor*"] * len(some) for some in (self._inputs, signature.outputs)]
            self.add_prim_attr("custom_callback_func", f"{library_path()}:{self._callback}")
            self.add_prim_attr("custom_inputs_type", [*tensors[0], *types, *tensors[1]])


class SuperKernelPrimitive(ops.Custom):  # type: ignore[misc]
    """A list of kernels that the library launches one behind the other; on a CPU alone. It goes into graphs of files.

    kernels: the list, in the form of kernels/binding/super_kernel.h. writes: whether one of them changes an input.
    """

    def __init__(self, kernels: str, writes: bool):
        super().__init__(f"{library_path()}:SuperKernel", func_type="aot")
        self.add_prim_attr("reg_op_name", "SuperKernel")
        self.multi_output = True
        self.add_prim_attr("multi_output", True)
        self.add_prim_attr("kernels", kernels)
        if writes:
            self.add_prim_attr("side_effect_mem", True)


class _PassOn(ops.Primitive):  # type: ignore[misc]
    """Passes the tensor on in a graph, for a place whose gradient does not count. Called by Python it does nothing."""

    def __init__(self) -> None:
        super().__init__("StopGradient")

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor


_pass_on = _PassOn()


@ms.jit_class
class _Applied:
    """A function of some tensors and constants as one of all tensors, also inside a graph.

    `taken`: the positions of those tensors, if they are not all; ~position where one stands for another that is absent.
    """

    def __init__(self, function: Callable[..., Any], constants: tuple[Any, ...], taken: tuple[int, ...] | None = None):
        self.function = function
        self.taken = taken
        self.constants = constants
        self.attributes = getattr(function, "attributes", {})
        self.checks = getattr(function, "checks", False)

    def __call__(self, *tensors):  # type: ignore[no-untyped-def]
        if self.taken is not None:
            tensors = [tensors[i] if i >= 0 else _pass_on(tensors[~i]) for i in self.taken]  # type: ignore[assignment]
        return self.function(*tensors, *self.constants)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Applied:
        return self


class Selector(ops.PrimitiveWithInfer):  # type: ignore[misc]
    """Selects the primitive for tensors and attributes, all of which it checks.

    Calling it takes the inputs of the operator, then its attributes in the order of the definition. An optional input
    that is absent is None, here and in the call of the primitive, and in the bprop, whose gradient of it is not used.

    The bprop follows from the names in the definition: it calls the gradient kernel, or says that there is none. Where
    names do not tell, `bprop` makes it from the primitive of the gradient kernel. Without such a kernel it may be
    `composed` of other operators, by the attributes, which say what is absent as `has_<input>`.

    A function of an operator asks with its parameters alone. With anything that it computed, MindSpore 2.7 and 2.8 may
    leave the selector in the graph, which has no gradient then (`FAULTS` of mindspore_versions.py).

    Raises:
        TypeError: an input is no tensor, or there is no kernel for its dtype; an attribute has a wrong type.
        ValueError: a shape breaks the operator's rule; an attribute has a value that is not allowed.
        RuntimeError: the operator is not there for this device target.
    """

    def __init__(
        self,
        name: str,
        bprop: Callable[[Any], Bprop] | None = None,
        composed: Callable[[dict[str, Any]], Bprop] | None = None,
    ):
        super().__init__(f"select_{name}")
        # ms.constexpr does the same: the result is a constant of the graph.
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
        self._operator = name
        self._made = lru_cache(maxsize=None, typed=True)(self._make)
        self._routes = lru_cache(maxsize=None, typed=True)(self._make_route)
        self._bprop = bprop
        self._composed = composed
        self._rule = CHECKS.get(name)
        self._accepted: set[tuple[Any, ...]] = set()

    @cached_property
    def signature(self) -> registry.Signature:
        """Read at the first call: an import needs no definition."""
        return registry.signature(self._operator)

    @cached_property
    def _count(self) -> int:
        return len(self.signature.inputs)

    @cached_property
    def _optional(self) -> tuple[tuple[int, str], ...]:
        return tuple((i, tensor.name) for i, tensor in enumerate(self.signature.inputs) if tensor.optional)

    def __call__(self, *arguments: Any) -> Callable[..., Any]:
        attributes = arguments[self._count :]
        absent = self._absent(arguments, _is_none) if self._optional else ()
        if ROUTERS and self._operator in ROUTERS:
            return self._primitive(absent, attributes, self._routes)
        primitive = self._primitive(absent, attributes)
        if not getattr(primitive, "checks", False):
            self._check_tensors(attributes, self.signature.inputs, *arguments[: self._count])
        return primitive

    def __infer__(self, *arguments: dict[str, Any]) -> dict[str, Any]:
        tensors, attributes = arguments[: self._count], arguments[self._count :]
        absent = self._absent(tensors, _is_none_in_graph)
        for tensor, spec in zip(tensors, self.signature.inputs, strict=True):
            if not isinstance(tensor["dtype"], ms.dtype.TensorType) and spec.name not in absent:
                raise self._not_a_tensor(spec.name, str(tensor["dtype"]))
        values = tuple(attribute["value"] for attribute in attributes)
        routed = self._operator in ROUTERS
        primitive = self._primitive(absent, values, self._routes if routed else None)
        given = [None if s.name in absent else t for s, t in zip(self.signature.inputs, tensors, strict=True)]
        dtypes = [None if tensor is None else str(tensor["dtype"].element_type()) for tensor in given]
        shapes = [None if tensor is None else tuple(tensor["shape"]) for tensor in given]
        self._check(shapes, dtypes, values)
        note(self.signature, tensors)
        if routed:
            primitive = cast(Routed, primitive).in_graph(shapes, [dtype and dtype.lower() for dtype in dtypes])
        return {"dtype": None, "shape": None, "value": primitive}

    def __deepcopy__(self, memo: dict[int, Any]) -> Selector:
        return self

    def _not_a_tensor(self, name: str, got: str) -> TypeError:
        return TypeError(f"{self.signature.name}: {name} must be a Tensor, got {got}")

    def _attributes(self, values: tuple[Any, ...]) -> dict[str, Any]:
        names = [attribute.name for attribute in self.signature.attributes]
        if len(values) != len(names):
            raise TypeError(
                f"{self.signature.name}: the definition has {self._count} inputs and {len(names)} attributes "
                f"({', '.join(names)}), the function gives {self._count + len(values)} values"
            )
        return self.signature.check_attributes(dict(zip(names, values, strict=True)))

    def _absent(self, tensors: tuple[Any, ...], is_absent: Callable[[Any], bool]) -> tuple[str, ...]:
        return tuple(name for i, name in self._optional if is_absent(tensors[i]))

    def _primitive(
        self, absent: tuple[str, ...], attributes: tuple[Any, ...], made: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        target = device_target()
        if target not in ("CPU", "Ascend"):
            raise RuntimeError(f"{self.signature.name}: device_target must be CPU or Ascend, got {target}")
        preferred = ascend.preference(self.signature.name) if target == "Ascend" else "ours"
        try:
            return (made or self._made)(target, preferred, absent, *attributes)  # type: ignore[no-any-return]
        except TypeError:
            self._attributes(attributes)  # a value that cannot be hashed has a wrong type: says which
            raise

    def _make(self, target: str, preferred: str, absent: tuple[str, ...], *values: Any) -> Callable[..., Any]:
        attributes = self._attributes(values)
        if target == "Ascend":
            choice = ascend.chosen_implementation(self.signature.name, attributes, target)
            _log.info("%s", choice)
            if choice.implementation == "cann":
                return _counterpart(self.signature.name, attributes)
        return self._make_kernel(absent, attributes)

    def _make_kernel(
        self, absent: tuple[str, ...], attributes: dict[str, Any], version: LibraryVersion | None = None
    ) -> Callable[..., Any]:
        presence = {f"has_{name}": False for name in absent}
        bprop = self._make_bprop(absent, attributes, version)
        given = self.signature.given(presence)
        check_tensors = partial(self._check_tensors, tuple(attributes.values()), given)
        return _applied(
            self.signature,
            FusedPrimitive(self.signature, attributes | presence, bprop, self._rule, check_tensors, version),
        )

    def _make_bprop(
        self, absent: tuple[str, ...], attributes: dict[str, Any], version: LibraryVersion | None
    ) -> Bprop | None:
        spec = registry.op_spec(self.signature.name)
        if self._composed is not None:
            return self._composed(attributes | {f"has_{name}": name not in absent for _, name in self._optional})
        if spec.gradient is not None:
            of_inputs = _kernel(spec.gradient, attributes | {f"has_{name}": False for name in absent}, version)
            return bprops.by_names(spec, of_inputs, absent) if self._bprop is None else self._bprop(of_inputs)
        # A network that fills a cache is differentiated around it.
        return None if self.signature.writes else bprops.refusing(spec)

    def _make_route(self, target: str, preferred: str, absent: tuple[str, ...], *values: Any) -> Routed:
        """Return what asks a router who answers a call."""
        attributes = self._attributes(values)

        def of_library(path: Path | None) -> Callable[..., Any]:
            return self._make_kernel(absent, attributes, None if path is None else open_library(path))

        make = Makers(
            kernel=of_library,
            cann=lambda: _counterpart(self._operator, attributes),
            applied=lambda function: _Applied(function, tuple(attributes.values())),
        )
        check = partial(self._check_tensors, tuple(attributes.values()), self.signature.inputs)
        first = "cann" if preferred == "cann" else ""
        return ROUTERS[self._operator].route(make, check, target, attributes, first)

    def _check_tensors(self, attributes: tuple[Any, ...], given: tuple[registry.TensorSpec, ...], *some: Any) -> None:
        by_name = {spec.name: tensor for spec, tensor in zip(given, some, strict=True)}
        tensors = [by_name.get(spec.name) for spec in self.signature.inputs]
        for tensor, spec in zip(tensors, self.signature.inputs, strict=True):
            if not isinstance(tensor, Tensor) and not (spec.optional and tensor is None):
                raise self._not_a_tensor(spec.name, type(tensor).__name__)
        # The rules are interpreted once for each combination.
        forms = [(None, None) if tensor is None else (tensor.shape, tensor.dtype) for tensor in tensors]
        key = (attributes, *forms)
        if key not in self._accepted:
            self._check([shape for shape, _ in forms], [dtype and dtype_name(dtype) for _, dtype in forms], attributes)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)

    def _check(self, shapes: list[MaybeShape], dtypes: list[str | None], attributes: tuple[Any, ...]) -> None:
        infer_types(self.signature, [dtype and dtype.lower() for dtype in dtypes])
        values = self._attributes(attributes)
        infer_shapes(self.signature, shapes, values)
        if self._rule is not None:
            self._rule(shapes, values)


def _refuse_views(operator: str, written: list[tuple[str, Tensor]]) -> None:
    """MindSpore passes a copy of a view to a kernel, and what is written to that is lost."""
    # A contiguous part of another tensor is a copy only where MindSpore makes the call: it is not named first.
    for name, tensor in sorted(written, key=lambda pair: pair[1].is_contiguous()):
        if view := describe_view(tensor):
            raise ValueError(f"{operator}: {name} is written in place and must be contiguous, got {view}")


class _ByPython(ops.PrimitiveWithInfer):  # type: ignore[misc]
    """Says whether Python runs the code that asks, on a CPU, and so may look at values; in a graph always False."""

    def __init__(self) -> None:
        super().__init__("by_python")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)

    def __call__(self) -> bool:
        return usable() and device_target() == "CPU"

    def __infer__(self) -> dict[str, Any]:
        return {"dtype": None, "shape": None, "value": False}

    def __deepcopy__(self, memo: dict[int, Any]) -> _ByPython:
        return self


by_python = _ByPython()


def kernel(name: str, **attributes: Any) -> Callable[..., Any]:
    """A kernel, for a bprop: takes its tensors, which are not checked; its attributes are `.attributes`."""
    return _kernel(registry.signature(name), attributes)


def _kernel(
    signature: registry.Signature, attributes: dict[str, Any], version: LibraryVersion | None = None
) -> Callable[..., Any]:
    values = attributes | signature.check_attributes(attributes)
    return _applied(signature, FusedPrimitive(signature, values, None, None, None, version))


def _is_none(tensor: Any) -> bool:
    return tensor is None


def _is_none_in_graph(tensor: dict[str, Any]) -> bool:
    return tensor["value"] is None and not isinstance(tensor["dtype"], ms.dtype.TensorType)


def _applied(signature: registry.Signature, primitive: FusedPrimitive) -> Callable[..., Any]:
    names = [tensor.name for tensor in signature.inputs]
    first = {name: primitive.takes.index(name) for name in primitive.takes}
    taken = tuple(names.index(n) if first[n] == i else ~names.index(n) for i, n in enumerate(primitive.takes))
    if not primitive.constants and taken == tuple(range(len(names))):
        return primitive
    return _Applied(primitive, primitive.constants, taken)


def _reg_info(signature: registry.Signature) -> dict[str, Any]:
    """Return what MindSpore wants to know of an aclnn operator: names, dtypes, and the types of the attributes."""
    info = ops.CustomRegOp(signature.cann_type)
    for index, tensor in enumerate(signature.inputs):
        info.input(index, tensor.name, "optional" if tensor.optional else "required")
    for index, tensor in enumerate(signature.outputs):
        info.output(index, tensor.name, "required")
    for attribute in signature.attributes:
        # Without a value: MindSpore takes it from the arguments, after the tensors.
        info.attr(attribute.name, "required", _REG_INFO_TYPES[attribute.type])
    for row in signature.types:
        dtypes = (row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs + signature.outputs)
        info.dtype_format(*[(dtype, "DefaultFormat") for dtype in dtypes])
    result: dict[str, Any] = info.target("Ascend").get_op_info()
    return result


def _counterpart(operator: str, attributes: Mapping[str, Any]) -> Callable[..., Any]:
    """MindSpore's own function for CANN's operator, with the attributes that it takes."""
    counterpart = registry.op_spec(operator).counterpart
    assert counterpart is not None
    module, _, name = counterpart.function.rpartition(".")
    function = getattr(import_module(module), name)
    return _Applied(function, tuple(attributes[argument] for argument in counterpart.arguments))
