"""Lists the operators that are measured: `<op>.py` holds all that benchmarks and tests have to know of one.

The folder is the list.

Needed:

    inputs(draw, *shape)           the arrays of the forward kernel, in its order; `draw` makes them (`operators.Draw`).
                                   The first size may be 0: the tests want empty tensors, too
    ours(*tensors, ...)            the function of this library
    stock(*tensors, ...)           the composition of stock MindSpore operators
    pytorch(torch, *tensors, ...)  the composition of PyTorch's

These three return the first output, or a tuple of the first `OUTPUTS`; those of an operator that writes inputs in place
return these. After the tensors they take, by name, the attributes of a variant. MindSpore compiles `ours` and `stock`
in GRAPH mode, where inputs that are written are Parameters. The tests take `inputs`, `ours` and `stock` from here, too.

Where it fits:

    VARIANTS       {label: attributes}: sets of attributes to measure; "" is the label of the plain one
    SHAPES         for `inputs`: one row, in cache, in memory, tails; default: `operators.SHAPES`, rows x cols
    SMALL_SHAPES   two small ones with the same number of sizes, for tests; default: `operators.SMALL_SHAPES`
    OUTPUTS        how many outputs the functions return, and get a gradient; default: 1
    FORWARD        tuple of `operators.Call`: the kernels of a forward pass, if it is not the one of the same name
    GRADIENT       the same for the gradient, if it is not `<op>_grad`; no kernel at all: it is not measured. Or a
                   function of the arrays by name, to which it may add others, and of the attributes that returns them
    GRADIENT_VARIANTS  labels of the variants whose gradient these kernels are; default: all
    TOLERANCES     {dtype: share of the largest magnitude} that providers may differ by; default: those of the harness
    FLOPS          floating-point operations per element of the first output: (forward, gradient). One of each: add,
                   multiply, divide, compare, square root, exponential. For the roofline
    attributes(*shape)  those that a shape brings with it, beside those of the variant
    operations(arrays)  their number, if it is not one for each element; `arrays` has the arrays by name
    bytes_moved(arrays, gradient)  the least that has to move, if it is not every array of every kernel once; `arrays`
                   has them by name
    scipy(scipy, *tensors, ...)  returns a function without arguments that does the same by SciPy
    onnx(...)      the same for ONNX Runtime: a list of `operators.Node`, whose tensors have the names of the definition
    CANN           {operator of CANN: function}: what CANN has for the same, where its arguments or outputs are
                   others, so that the definition names no counterpart. Called as `stock` is; they run on an NPU only
    CANN_SHAPE     for `inputs`: a shape that these operators take
"""
