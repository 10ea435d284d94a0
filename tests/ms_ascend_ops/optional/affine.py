"""An operator with optional inputs, whose library the tests build by themselves (test_optional.py)."""

from ms_ascend_ops.custom import Selector


def _bprop(grad):
    factor = grad.attributes["factor"]

    def bprop(x, scale, shift, out, dout):
        dx = grad(dout, scale)
        dscale = None if scale is None else (dout.astype(scale.dtype) * x.astype(scale.dtype) * factor)
        return dx, dscale, dout

    return bprop


_select = Selector("affine", _bprop)


def affine(x, scale=None, shift=None, factor=1.0):
    return _select(x, scale, shift, factor)(x, scale, shift)
