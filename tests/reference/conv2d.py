"""activation(x * weight + bias), a convolution, in float64: one kernel offset after the other."""

import numpy as np

from tests.reference.matmul import ACTIVATIONS


def attributes(stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1), groups=1, data_format="NCHW", **others):
    """Those of the definition; pad: top, bottom, left, right."""
    names = ("stride_h", "stride_w", "pad_top", "pad_bottom", "pad_left", "pad_right", "dilation_h", "dilation_w")
    values = (*stride, *pad, *dilation)
    return {**dict(zip(names, values, strict=True)), "groups": groups, "data_format": data_format, **others}


def _first(tensor, data_format):
    return tensor if data_format == "NCHW" else np.moveaxis(tensor, -1, 1)


def _as_given(tensor, data_format):
    return tensor if data_format == "NCHW" else np.moveaxis(tensor, 1, -1)


def _offsets(x, weight, a, visit):
    """Call visit(row, col, index, padded) for each kernel offset, which sees padded[index]; return the padded x."""
    pads = [(a["pad_top"], a["pad_bottom"]), (a["pad_left"], a["pad_right"])]
    cut = [slice(max(0, -low), size - max(0, -high)) for (low, high), size in zip(pads, x.shape[2:], strict=True)]
    padded = np.pad(x[:, :, cut[0], cut[1]], [(0, 0), (0, 0), *[(max(0, low), max(0, high)) for low, high in pads]])
    places = []
    for size, kernel, name in zip(padded.shape[2:], weight.shape[2:], ("h", "w"), strict=True):
        span = (kernel - 1) * a[f"dilation_{name}"]
        places.append((size - span - 1) // a[f"stride_{name}"] + 1)
    for row in range(weight.shape[2]):
        for col in range(weight.shape[3]):
            index = []
            for offset, count, name in zip((row, col), places, ("h", "w"), strict=True):
                begin, stride = offset * a[f"dilation_{name}"], a[f"stride_{name}"]
                index.append(slice(begin, begin + (count - 1) * stride + 1, stride))
            visit(row, col, (slice(None), slice(None), *index), padded)
    return padded, cut, pads, places


def _grouped(x, groups):
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def transposed(weight, groups, data_format):
    """Of the same shape, with the memory that the kernel is given for it: group by group, channels of x come first."""
    first = _first(weight, data_format)
    split = first.reshape(groups, -1, *first.shape[1:]).swapaxes(1, 2)
    lies = split if data_format == "NCHW" else np.moveaxis(split, 2, -1)
    return np.ascontiguousarray(lies).reshape(weight.shape)


def _with_gaps(x, a):
    """Zeros between rows and columns, which take the place of the padding behind x."""
    if not a.get("gap_h") and not a.get("gap_w"):
        return x
    sizes = [size + a[name] for size, name in zip(x.shape[2:], ("pad_bottom", "pad_right"), strict=True)]
    apart = np.zeros((*x.shape[:2], *[max(0, size) for size in sizes]))
    steps = [a.get(name, 0) + 1 for name in ("gap_h", "gap_w")]
    places = apart[:, :, :: steps[0], :: steps[1]]
    h, w = (min(sizes) for sizes in zip(places.shape[2:], x.shape[2:], strict=True))
    places[:, :, :h, :w] = x[:, :, :h, :w]
    a.update(pad_bottom=0, pad_right=0)
    return apart


def _prepared(x, weight, given):
    a = {**attributes(), **given}
    x, weight = _first(np.asarray(x, np.float64), a["data_format"]), _first(np.asarray(weight), a["data_format"])
    x = _with_gaps(x, a)
    return x, weight[:, :, ::-1, ::-1] if a.get("flip_weight") else weight, a


def forward(x, weight, bias=None, activation="none", **a):
    x, weight, a = _prepared(x, weight, a)
    groups = a["groups"]
    kernels = weight.reshape(groups, -1, *weight.shape[1:])
    sums = []

    def visit(row, col, index, padded):
        sums.append(np.einsum("ngihw,goi->ngohw", _grouped(padded[index], groups), kernels[..., row, col]))

    _offsets(x, weight, a, visit)
    z = sum(sums).reshape(x.shape[0], weight.shape[0], *sums[0].shape[3:])
    z = z if bias is None else z + np.asarray(bias)[:, None, None]
    with np.errstate(over="ignore"):
        return _as_given(ACTIVATIONS[activation](z), a["data_format"])


def backward_weight(dy, x, weight, **a):
    x, weight, a = _prepared(x, weight, a)
    groups, dy = a["groups"], _grouped(_first(np.asarray(dy, np.float64), a["data_format"]), a["groups"])
    dweight = np.zeros(weight.shape)

    def visit(row, col, index, padded):
        part = np.einsum("ngohw,ngihw->goi", dy, _grouped(padded[index], groups))
        dweight[:, :, row, col] = part.reshape(weight.shape[:2])

    _offsets(x, weight, a, visit)
    return _as_given(dweight[:, :, ::-1, ::-1] if a.get("flip_weight") else dweight, a["data_format"])


def backward_x(dy, x, weight, **a):
    x, weight, a = _prepared(x, weight, a)
    groups, dy = a["groups"], _grouped(_first(np.asarray(dy, np.float64), a["data_format"]), a["groups"])
    kernels = weight.reshape(groups, -1, *weight.shape[1:])
    parts = []

    def visit(row, col, index, padded):
        part = np.einsum("ngohw,goi->ngihw", dy, kernels[..., row, col])
        parts.append((index, part.reshape(x.shape[0], x.shape[1], *part.shape[3:])))

    padded, cut, pads, _ = _offsets(x, weight, a, visit)
    total = np.zeros(padded.shape)
    for index, part in parts:
        total[index] += part
    inner = [slice(max(0, low), size - max(0, high)) for (low, high), size in zip(pads, total.shape[2:], strict=True)]
    dx = np.zeros(x.shape)
    dx[:, :, cut[0], cut[1]] = total[:, :, inner[0], inner[1]]
    return _as_given(dx, a["data_format"])
