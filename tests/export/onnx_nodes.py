"""ONNX nodes with inputs, some of them for every operator that `convert_onnx` knows."""

from dataclasses import dataclass

import numpy as np

RNG = np.random.default_rng(0)


def array(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def positive(*shape):
    return np.abs(array(*shape)) + np.float32(0.5)


X, Y = array(2, 3, 4), array(2, 3, 4)
IMAGE = array(2, 4, 7, 9)
BOOL = X > 0
LARGE = np.array([-1000, -90, -20, 20, 44, 60, 1000], np.float32)
HIDDEN = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
PLACES = np.array([[-1, 0], [0, -3]])
WITH_NAN = np.array([np.nan, -2, np.inf, 0.25, 5], np.float32)
WITH_ZEROS = np.array([1, -2, 0, -0.0, np.inf, -np.inf, np.nan])
UNSEEN = np.where(np.eye(5, 6, dtype=bool) | (np.arange(5) == 2)[:, None], -np.inf, array(5, 6)).astype(np.float32)
EQUAL = RNG.integers(0, 5, (40, 3)).astype(np.float32)


@dataclass
class Case:
    """Inputs, of which None are left out; positions of those that the file has as constants; attributes."""

    inputs: tuple
    fixed: tuple
    attributes: dict


def case(*inputs, fixed=(), **attributes):
    return Case(inputs, tuple(fixed), attributes)


CASES = {
    "Abs": [case(X)],
    "Ceil": [case(X)],
    "Cos": [case(X)],
    "Erf": [case(X)],
    "Exp": [case(X)],
    "Floor": [case(X)],
    "IsNaN": [case(np.array([1, np.nan], np.float32))],
    "Log": [case(positive(3, 4))],
    "Mish": [case(X), case(LARGE)],
    "Neg": [case(X)],
    "Not": [case(BOOL)],
    "Reciprocal": [case(positive(3))],
    "Relu": [case(X)],
    "Round": [case(np.array([0.5, 1.5, -2.5, 2.4], np.float32))],
    "Sigmoid": [case(X)],
    "Sign": [case(X)],
    "Sin": [case(X)],
    "Softplus": [case(X), case(LARGE)],
    "Sqrt": [case(positive(3))],
    "Tanh": [case(X)],
    "Add": [case(X, array(4)), case(X, Y)],
    "And": [case(BOOL, ~BOOL)],
    "Equal": [case(X, X)],
    "Greater": [case(X, Y)],
    "GreaterOrEqual": [case(X, X)],
    "Less": [case(X, Y)],
    "LessOrEqual": [case(X, X)],
    "MatMul": [case(X, array(4, 5)), case(array(2, 1, 3, 4), array(5, 4, 6)), case(array(4), array(4, 5))],
    "Mul": [case(X, array(3, 1))],
    "Or": [case(BOOL, BOOL)],
    "Pow": [
        case(positive(3), array(3)),
        case(X, np.array(2.0, np.float32), fixed=[1]),
        case(np.array([2, 3, -2], np.int32), np.array([0.5, 2, 3], np.float32)),
        case(np.array([7, 3]), np.array([2, 3], np.int32)),
        case(positive(3), np.array([1, -2, 3])),
    ],
    "Sub": [case(X, Y)],
    "Xor": [case(BOOL, BOOL)],
    "ArgMax": [case(X, axis=1), case(X, axis=-1, keepdims=0)],
    "ArgMin": [case(X, axis=2, keepdims=0)],
    "Attention": [
        case(array(2, 4, 5, 8), array(2, 2, 6, 8), array(2, 2, 6, 8)),
        case(array(2, 4, 5, 8), array(2, 4, 5, 8), array(2, 4, 5, 8), is_causal=1, scale=0.3),
        case(array(2, 5, 12), array(2, 5, 12), array(2, 5, 12), array(5, 5), q_num_heads=3, kv_num_heads=3),
        case(array(1, 2, 3, 4), array(1, 2, 5, 4), array(1, 2, 5, 4), HIDDEN),
        case(
            array(1, 2, 3, 4), array(1, 2, 5, 4), array(1, 2, 5, 4), np.where(HIDDEN, 0.5, -np.inf).astype(np.float32)
        ),
    ],
    "AveragePool": [
        case(IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
        case(IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        case(IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        case(array(2, 3, 9), kernel_shape=[3], strides=[2]),
    ],
    "BatchNormalization": [case(IMAGE, array(4), array(4), array(4), positive(4), fixed=[1, 2, 3, 4], epsilon=0.001)],
    "Cast": [case(X, to=7), case(X, to=9), case(X, to=10), case(np.arange(3), to=1)],
    "CastLike": [case(np.arange(4), X)],
    "Clip": [
        case(WITH_NAN, np.array(-0.5, np.float32), np.array(0.5, np.float32), fixed=[1, 2]),
        case(np.array([3, -4], np.int32), np.array(0, np.int32), fixed=[1]),
        case(X, np.array(-0.5, np.float32), np.array(0.5, np.float32), fixed=[1, 2]),
        case(X, None, np.array(0.5, np.float32), fixed=[2]),
    ],
    "Concat": [case(X, Y, axis=-1), case(X, Y, X, axis=0)],
    "Conv": [
        case(IMAGE, array(6, 4, 3, 3), array(6), fixed=[1, 2], pads=[1, 1, 1, 1]),
        case(IMAGE, array(6, 2, 3, 2), fixed=[1], group=2, strides=[2, 1], pads=[0, 1, 2, 0], dilations=[1, 2]),
        case(IMAGE, array(4, 1, 3, 3), fixed=[1], group=4, auto_pad="SAME_UPPER", strides=[2, 2]),
        case(IMAGE, array(4, 4, 2, 2), fixed=[1], auto_pad="SAME_LOWER"),
        case(array(2, 4, 9), array(5, 4, 3), fixed=[1], pads=[2, 0]),
    ],
    "ConvTranspose": [
        case(
            IMAGE, array(4, 3, 3, 3), array(3), fixed=[1, 2], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]
        ),
        case(IMAGE, array(4, 2, 2, 3), fixed=[1], group=2, strides=[1, 3]),
        case(array(2, 4, 6), array(4, 2, 3), fixed=[1], strides=[2], pads=[2, 1]),
    ],
    "CumSum": [
        case(X, np.array(1), fixed=[1]),
        case(X, np.array(-1), fixed=[1], exclusive=1),
        case(np.array([1, np.inf, 1e8, 2], np.float32), np.array(0), fixed=[1], exclusive=1),
        case(X[:, :, :1].copy(), np.array(2), fixed=[1], exclusive=1),
        case(X, np.array(2), fixed=[1], reverse=1, exclusive=1),
    ],
    "DepthToSpace": [case(array(1, 8, 2, 3), blocksize=2), case(array(1, 8, 2, 3), blocksize=2, mode="CRD")],
    "Div": [
        case(X, positive(3, 4)),
        case(np.array([7, -7, 6, -6]), np.array([2, 2, -4, 3])),
        *(case(WITH_ZEROS.astype(dtype), np.array(by, dtype)) for dtype in ("f2", "f4", "f8") for by in (-0.0, 0.0)),
        case(array(2), np.array([-0.0, 2], np.float32), fixed=[1]),
        case(np.array([10**12 + 7, -(10**12) - 7, 2**40 + 1]), np.array([7, 7, -3])),
    ],
    "Dropout": [case(X)],
    "Elu": [case(X * 50, alpha=0.7), case(WITH_NAN)],
    "Expand": [case(array(3, 1), np.array([2, 1, 4]), fixed=[1]), case(BOOL[:1], np.array([2, 3, 4]), fixed=[1])],
    "Flatten": [case(X, axis=2)],
    "Gather": [
        case(X, np.array([[0, -1], [1, 2]]), fixed=[1], axis=1),
        case(X, np.array([0, -1]), axis=2),
        case(X, np.array(1), fixed=[1]),
    ],
    "GatherElements": [case(X, np.array([[[0, -1, 1, 2]]] * 2), axis=1)],
    "GatherND": [
        case(X, np.array([[0, 1], [1, 2]])),
        case(X, np.array([[-1, 1], [1, -2]])),
        case(X, PLACES, fixed=[1]),
    ],
    "Gelu": [case(X), case(X, approximate="tanh")],
    "Gemm": [
        case(array(3, 4), array(4, 5), array(5), fixed=[1, 2]),
        case(array(4, 3), array(5, 4), array(3, 1), transA=1, transB=1, alpha=0.5, beta=2.0),
    ],
    "GlobalAveragePool": [case(IMAGE)],
    "GlobalMaxPool": [case(IMAGE)],
    "GroupNormalization": [case(IMAGE, array(4), array(4), fixed=[1, 2], num_groups=2)],
    "HardSigmoid": [case(X, alpha=0.3), case(WITH_NAN)],
    "HardSwish": [case(X * 5), case(WITH_NAN)],
    "Identity": [case(X)],
    "InstanceNormalization": [case(IMAGE, array(4), array(4), fixed=[1, 2])],
    "LayerNormalization": [case(X, array(4), array(4), fixed=[1, 2]), case(X, array(3, 4), fixed=[1], axis=1)],
    "LeakyRelu": [case(X, alpha=0.2)],
    "LogSoftmax": [case(X, axis=1), case(UNSEEN, axis=0), case(UNSEEN)],
    "Max": [case(X, Y, array(4)), case(WITH_NAN, WITH_NAN[::-1].copy()), case(np.arange(3), np.array([2]))],
    "MaxPool": [
        case(IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        case(IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        case(array(2, 3, 9), kernel_shape=[3], auto_pad="SAME_UPPER"),
    ],
    "Mean": [case(X, Y)],
    "Min": [case(X, Y), case(WITH_NAN, WITH_NAN[::-1].copy())],
    "Mod": [case(np.array([7, -7]), np.array([3, 3])), case(X, positive(4), fmod=1)],
    "PRelu": [case(X, array(4), fixed=[1])],
    "Pad": [
        case(X, np.array([1, 0, 2, 0, 1, 0]), fixed=[1]),
        case(X, np.array([0, 1, 0, 1]), np.array(3, np.float32), np.array([0, -1]), fixed=[1, 2, 3]),
        case(IMAGE, np.array([0, 0, 1, 2, 0, 0, 3, 0]), fixed=[1], mode="reflect"),
        case(X, np.array([0, 0, 1, 0, 0, 2]), fixed=[1], mode="edge"),
        case(X, np.array([0, -1, 0, 0, 0, 2]), fixed=[1]),
    ],
    "RMSNormalization": [case(X, array(4), fixed=[1])],
    "ReduceL1": [case(X, np.array([1]), fixed=[1])],
    "ReduceL2": [case(X, np.array([1, 2]), fixed=[1]), case(np.array([[3, 4]], np.int32))],
    "ReduceMax": [case(X, np.array([-1]), fixed=[1], keepdims=0)],
    "ReduceMean": [case(X), case(X, np.array([0, 2]), fixed=[1])],
    "ReduceMin": [case(X, np.array([0]), fixed=[1])],
    "ReduceProd": [case(np.array([[3, -4]], np.int32)), case(X, np.array([0, 2]), fixed=[1], keepdims=0)],
    "ReduceSum": [
        case(np.array([[3, 4]], np.int32)),
        case(np.array([[3, 4]], np.int64), np.array([1]), fixed=[1]),
        case(X, np.array([1]), fixed=[1]),
        case(X, np.array([], np.int64), fixed=[1], noop_with_empty_axes=1),
    ],
    "ReduceSumSquare": [case(X, np.array([1]), fixed=[1], keepdims=0)],
    "Reshape": [case(X, np.array([0, -1]), fixed=[1])],
    "Resize": [
        case(array(1, 1, 5, 5), None, np.array([1, 1, 1, 2.6], np.float32), fixed=[2]),  # 13 in float32, 12 in float64
        case(array(1, 2, 5), None, np.array([1, 1, 2.6], np.float32), fixed=[2], mode="linear"),
        case(array(1, 1, 8, 8), None, np.array([1, 1, 0.6, 0.7], np.float32), fixed=[2]),  # a tie in float32
        case(
            IMAGE,
            None,
            np.array([1, 1, 2, 2], np.float32),
            fixed=[2],
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        case(IMAGE, None, None, np.array([2, 4, 5, 20]), fixed=[3], mode="linear"),
        case(
            IMAGE,
            None,
            None,
            np.array([2, 4, 14, 3]),
            fixed=[3],
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        case(IMAGE, None, None, np.array([2, 4, 10, 3]), fixed=[3], coordinate_transformation_mode="half_pixel"),
    ],
    "ScatterND": [
        case(X, np.array([[0, 1], [1, 2]]), array(2, 4)),
        case(X, np.array([[-1, 1], [0, -2]]), array(2, 4)),
        case(X, PLACES, array(2, 4), fixed=[1]),
    ],
    "Selu": [case(X)],
    "Slice": [
        case(X, np.array([1]), np.array([2**31 - 1]), np.array([-1]), fixed=[1, 2, 3]),
        case(X, np.array([-1, 0]), np.array([-(2**62), 3]), np.array([0, 2]), np.array([-1, 2]), fixed=[1, 2, 3, 4]),
    ],
    "Softmax": [case(X), case(X, axis=1), case(UNSEEN, axis=0), case(UNSEEN), case(UNSEEN.astype(np.float16))],
    "Softsign": [case(X)],
    "SpaceToDepth": [case(array(1, 2, 4, 6), blocksize=2)],
    "Split": [case(array(2, 6), axis=1, num_outputs=3), case(array(2, 6), np.array([1, 5]), fixed=[1], axis=1)],
    "Squeeze": [case(array(1, 3, 1), np.array([0]), fixed=[1])],
    "Sum": [case(X, Y, X)],
    "Tile": [case(X, np.array([2, 1, 3]), fixed=[1])],
    "TopK": [
        case(X, np.array([2]), fixed=[1]),
        case(X, np.array([1]), fixed=[1], axis=1, largest=0),
        case(EQUAL, np.array([20]), fixed=[1], axis=0),
        case(EQUAL.astype(np.int32), np.array([20]), fixed=[1], axis=0, largest=0),
        case(EQUAL.astype(np.int64) - 2, np.array([20]), fixed=[1], axis=0),
    ],
    "Transpose": [case(X), case(X, perm=[1, 0, 2])],
    "Trilu": [case(X), case(BOOL, np.array(1), fixed=[1], upper=0)],
    "Unsqueeze": [case(X, np.array([0, -1]), fixed=[1])],
    "Where": [case(BOOL, X, Y)],
}
