"""Counts instructions: run by `python -m tests.kernels.instructions` under `valgrind --tool=callgrind`.

Arguments: a kernel, a dtype and the shapes of the inputs, "rms_norm float32 64,4100 4100", as often as wanted; " + "
stands between those that take turns. Every one is launched in two processes of its own, a few times in one and more
often in the other; the difference is what a launch takes when its program is known. Prints the numbers of the
processes, for the names of their files.
"""

import math
import os
import sys

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native
from tests.dtypes import encode
from tests.kernels.instructions import FEW, LAUNCHES, MANY


def prepare(name, dtype, shapes):
    signature, rng = registry.signature(name), np.random.default_rng(0)
    row = next(row for row in signature.types if set(row.values()) == {dtype})
    dtypes = [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs]
    arrays = [
        np.zeros(shape, kind)
        if kind.startswith("int")
        else np.resize(encode(rng.normal(size=997), kind), shape)  # repeated: under valgrind random numbers take long
        for shape, kind in zip(shapes, dtypes, strict=True)
    ]
    columns = max(shapes, key=math.prod)[-1]
    numbers = [array for array, kind in zip(arrays, dtypes, strict=True) if kind.startswith("int")]
    attributes = signature.check_attributes({"num_groups": 8} if name.startswith("group_norm") else {})
    kinds = infer_types(signature, dtypes)
    outputs = [
        np.zeros(shape, encode(np.zeros(0), kind).dtype)
        for shape, kind in zip(infer_shapes(signature, shapes, attributes), kinds, strict=True)
    ]

    def run():
        for array in numbers:  # others in each launch: a program must not depend on them
            array[...] = rng.integers(0, columns, array.shape)
        native().launch(name, arrays, outputs, attributes, [*dtypes, *kinds])

    return run


def main():
    for text in sys.argv[1:]:
        launches = [
            prepare(name, dtype, [tuple(map(int, shape.split(","))) for shape in shapes])
            for name, dtype, *shapes in map(str.split, text.split(LAUNCHES))
        ]
        for times in (FEW, MANY):
            child = os.fork()
            if child == 0:
                for _ in range(times):
                    for run in launches:
                        run()
                os._exit(0)
            if os.waitpid(child, 0)[1] != 0:
                sys.exit(f"{text} failed")
            print(child, end=" ", flush=True)


if __name__ == "__main__":
    main()
