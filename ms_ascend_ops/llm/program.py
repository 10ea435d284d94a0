"""A network as a list of kernel launches on fixed memory.

A network is Python that calls operators. Here it is called once for each shape, with a `Recorder` in the place of
`ms_ascend_ops.ops`: what it calls is noted down. `Recorder.program` then gives every intermediate result a place in an
arena, which results share whose lives do not overlap, and prepares the launches: from then on a step is one C call a
kernel, without a framework in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native

__all__ = ["Arena", "Launch", "Program", "Recorder", "Symbol"]

Array = np.ndarray[Any, Any]

_ALIGNMENT = 512  # cores write to lines of their own


class Symbol:
    """A result that a program will have: a shape and a dtype on some elements of a buffer."""

    def __init__(self, buffer: int, shape: tuple[int, ...], dtype: np.dtype[Any], first: int = 0):
        self.buffer = buffer
        self.shape = shape
        self.dtype = dtype
        self.first = first

    def reshape(self, *shape: int) -> Symbol:
        """The same elements in another shape; one size may be -1."""
        count = math.prod(self.shape)
        known = math.prod(size for size in shape if size != -1)
        sizes = tuple(count // known if size == -1 else size for size in shape)
        if math.prod(sizes) != count:
            raise ValueError(f"reshape: {self.shape} has {count} elements, {shape} has not")
        return Symbol(self.buffer, sizes, self.dtype, self.first)

    def last_row(self) -> Symbol:
        """The last of the rows, as a matrix of one row."""
        size = self.shape[-1]
        return Symbol(self.buffer, (1, size), self.dtype, self.first + math.prod(self.shape) - size)


class Arena:
    """Memory for intermediate results. Programs that never run at once share one."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Array:
        """Memory of at least this size. What took less before keeps the memory that it has."""
        if len(self._memory) < size:
            self._memory = np.empty(size + _ALIGNMENT, np.uint8)
            self._memory = self._memory[-self._memory.ctypes.data % _ALIGNMENT :]
        return self._memory


@dataclass
class Launch:
    """A kernel that is called. An input that is not given is None.

    With `function`, that is called instead, with the arrays of the inputs, of which it may change the content.
    """

    operator: str
    inputs: list[Symbol | Array | None]
    outputs: list[Symbol]
    attributes: Mapping[str, Any]
    function: Callable[..., None] | None = None


class Program:
    """Prepared launches. `inputs` may be written before each run, `outputs` read after it."""

    def __init__(self, launches: Sequence[Callable[[], None]], outputs: list[Array]):
        self._launches = launches
        self.outputs = outputs

    def __len__(self) -> int:
        return len(self._launches)

    def run(self) -> None:
        """Run all launches."""
        for launch in self._launches:
            launch()


class Recorder:
    """Stands for `ms_ascend_ops.ops` while a network is recorded: the functions that networks here call.

    launches: what was called so far.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._sizes: list[int] = []

    def matmul(
        self, x: Any, weight: Any, bias: Any = None, transpose_x: bool = False, transpose_weight: bool = False,
        activation: str = "none",
    ) -> Symbol:  # fmt: skip
        """`ops.matmul`."""
        attributes = {"transpose_x": transpose_x, "transpose_weight": transpose_weight, "activation": activation}
        return self._call("matmul", (x, weight, bias), **attributes)[0]

    def weight_quant_matmul(
        self, x: Any, weight: Any, scale: Any, offset: Any = None, bias: Any = None, quantize_x: str = "none"
    ) -> Symbol:
        """`ops.weight_quant_matmul`."""
        return self._call("weight_quant_matmul", (x, weight, scale, offset, bias), quantize_x=quantize_x)[0]

    def weight_quant_swiglu(
        self, x: Any, weight: Any, scale: Any, offset: Any = None, bias: Any = None, quantize_x: str = "none"
    ) -> Symbol:
        """`ops.weight_quant_swiglu`."""
        return self._call("weight_quant_swiglu", (x, weight, scale, offset, bias), quantize_x=quantize_x)[0]

    def rms_norm(self, x: Any, gamma: Any, epsilon: float = 1e-6) -> list[Symbol]:
        """`ops.rms_norm`."""
        return self._call("rms_norm", (x, gamma), epsilon=epsilon)

    def add_rms_norm(self, x1: Any, x2: Any, gamma: Any, epsilon: float = 1e-6) -> list[Symbol]:
        """`ops.add_rms_norm`."""
        return self._call("add_rms_norm", (x1, x2, gamma), epsilon=epsilon)

    def qkv_rotary_embedding(
        self, qkv: Any, cos: Any, sin: Any, q_heads: int, k_heads: int, v_heads: int, layout: str
    ) -> list[Symbol]:
        """`ops.qkv_rotary_embedding`."""
        heads = {"q_heads": q_heads, "k_heads": k_heads, "v_heads": v_heads}
        return self._call("qkv_rotary_embedding", (qkv, cos, sin), **heads, layout=layout)

    def rotary_embedding(self, x: Any, cos: Any, sin: Any) -> Symbol:
        """`ops.rotary_embedding` of layout BSND."""
        return self._call("rotary_embedding", (x, cos, sin))[0]

    def kv_cache_update(self, key: Any, value: Any, key_cache: Any, value_cache: Any, slots: Any) -> tuple[Any, Any]:
        """`ops.kv_cache_update`."""
        self._call("kv_cache_update", (key, value, key_cache, value_cache, slots))
        return key_cache, value_cache

    def paged_attention(self, query: Any, key_cache: Any, value_cache: Any, tables: Any, lengths: Any) -> Symbol:
        """`ops.paged_attention` with the usual scale."""
        scale = float(query.shape[-1]) ** -0.5
        return self._call("paged_attention", (query, key_cache, value_cache, tables, lengths), scale=scale)[0]

    def swiglu(self, x: Any) -> Symbol:
        """`ops.swiglu` over the last axis."""
        return self._call("swiglu", (x,))[0]

    def in_place(self, function: Callable[[Array], None], x: Symbol) -> Symbol:
        """Call a function of Python on the memory of a result."""
        self.launches.append(Launch("", [x], [], {}, function))
        return x

    def _call(self, operator: str, inputs: Sequence[Any], **attributes: Any) -> list[Symbol]:
        signature = registry.signature(operator)
        values = signature.check_attributes(attributes)
        shapes = infer_shapes(signature, [None if one is None else one.shape for one in inputs], values)
        dtypes = infer_types(signature, [None if one is None else one.dtype.name for one in inputs])
        floats = {one.dtype.name: one.dtype for one in inputs if one is not None}  # bfloat16, which NumPy cannot name
        outputs = []
        for shape, name in zip(shapes, dtypes, strict=True):
            dtype = floats.get(name) or np.dtype(name)
            outputs.append(Symbol(len(self._sizes), tuple(shape), dtype))
            self._sizes.append(math.prod(shape) * dtype.itemsize)
        self.launches.append(Launch(operator, list(inputs), outputs, values))
        return outputs

    def program(self, results: Sequence[Symbol], arena: Arena) -> Program:
        """What was recorded, with these results to be read after each run: until the next program of the arena runs."""
        last = [0] * len(self._sizes)
        for index, launch in enumerate(self.launches):
            for symbol in [*launch.inputs, *launch.outputs]:
                if isinstance(symbol, Symbol):
                    last[symbol.buffer] = index
        for symbol in results:
            last[symbol.buffer] = len(self.launches)
        offsets, size = self._places(last)
        memory = arena.take(size)

        def array(value: Symbol | Array | None) -> Array | None:
            if not isinstance(value, Symbol):
                return value
            first = offsets[value.buffer] + value.first * value.dtype.itemsize
            nbytes = math.prod(value.shape) * value.dtype.itemsize
            return memory[first : first + nbytes].view(value.dtype).reshape(value.shape)

        prepare = native().prepare
        launches = [
            prepare(launch.operator, [array(i) for i in launch.inputs], [array(o) for o in launch.outputs],
                    dict(launch.attributes))
            if launch.function is None
            else partial(launch.function, *map(array, launch.inputs))
            for launch in self.launches
        ]  # fmt: skip
        return Program(launches, [array(symbol) for symbol in results])  # type: ignore[misc]

    def _places(self, last: Sequence[int]) -> tuple[list[int], int]:
        """Where each buffer lies, in the order in which they come to life: the first gap that is large enough."""
        offsets, end = [0] * len(self._sizes), 0
        alive: list[tuple[int, int, int]] = []  # offset, end, last launch
        for index, launch in enumerate(self.launches):
            alive = [one for one in alive if one[2] >= index]
            for symbol in launch.outputs:
                size = max(1, -(-self._sizes[symbol.buffer] // _ALIGNMENT)) * _ALIGNMENT
                place = 0
                for first, behind, _ in sorted(alive):
                    if first - place >= size:
                        break
                    place = max(place, behind)
                alive.append((place, place + size, last[symbol.buffer]))
                offsets[symbol.buffer] = place
                end = max(end, place + size)
        return offsets, end
