"""Norms and feed-forward layers as people write them: small copies of the patterns, not of anybody's code.

Plain classes, one for each: MindSpore compiles source code.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal

HIDDEN = 24
INNER = 40


class Norm(nn.Cell):
    """Common part: one weight vector of random values, `eps`."""

    def __init__(self, size=HIDDEN, eps=1e-5, dtype=ms.float32):
        super().__init__()
        values = np.random.default_rng(7).uniform(0.5, 1.5, size).astype(np.float32)
        self.weight = Parameter(Tensor(values, dtype), name="weight")
        self.eps = eps


class PowMeanNorm(Norm):
    def construct(self, x):
        return self.weight * (x * ops.rsqrt(x.pow(2).mean(-1, keep_dims=True) + self.eps))


class SquareDivideNorm(Norm):
    def construct(self, x):
        return x / ops.sqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight


class CastingNorm(Norm):
    """Hugging Face's LLaMA: rounds before the weight."""

    def construct(self, hidden_states):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.astype(ms.float32)
        variance = hidden_states.pow(2).mean(-1, keep_dims=True)
        hidden_states = hidden_states * ops.rsqrt(variance + self.eps)
        return self.weight * hidden_states.astype(dtype)


class CastLastNorm(Norm):
    """T5's and OLMo's way: the weight in float32, one rounding at the end."""

    def construct(self, x):
        y = x.astype(ms.float32)
        y = y * ops.rsqrt(ops.mean(y * y, -1, True) + self.eps)
        return (y * self.weight.astype(ms.float32)).astype(x.dtype)


class GemmaNorm(Norm):
    def _norm(self, x):
        return x * ops.rsqrt(x.pow(2).mean(-1, keep_dims=True) + self.eps)

    def construct(self, x):
        y = self._norm(x.astype(ms.float32)) * (1.0 + self.weight.astype(ms.float32))
        return y.astype(x.dtype)


class PrimitiveNorm(nn.Cell):
    """Old style: primitives as attributes, the parameter called gamma, epsilon a constant of construct."""

    def __init__(self):
        super().__init__()
        self.gamma = Parameter(Tensor(np.linspace(0.5, 1.5, HIDDEN).astype(np.float32)), name="gamma")
        self.square = ops.Square()
        self.mean = ops.ReduceMean(keep_dims=True)
        self.rsqrt = ops.Rsqrt()

    def construct(self, x):
        return x * self.rsqrt(self.mean(self.square(x), -1) + 3e-6) * self.gamma


class JitNorm(Norm):
    @ms.jit
    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight


class LayerNormNoBias(Norm):
    def construct(self, x):
        x = x - x.mean(-1, keep_dims=True)
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight


class EpsilonOutsideNorm(Norm):
    def construct(self, x):
        return x / (ops.sqrt(ops.mean(ops.square(x), -1, True)) + self.eps) * self.weight


class NoEpsilonNorm(Norm):
    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True)) * self.weight


class SumNorm(Norm):
    """Divides by the length of the vector and not by its root mean square."""

    def construct(self, x):
        return x * ops.rsqrt((x * x).sum(-1, keepdims=True) + self.eps) * self.weight


class PartialNorm(Norm):
    def construct(self, x):
        part = x[..., : HIDDEN // 4]
        return x * ops.rsqrt(ops.mean(part * part, -1, True) + self.eps) * self.weight


class ChannelsFirstNorm(Norm):
    def construct(self, x):
        x = x.swapaxes(1, -1)
        x = x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight
        return x.swapaxes(1, -1)


class WholeTensorNorm(Norm):
    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x)) + self.eps) * self.weight


class SquaredWeightNorm(Norm):
    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight * self.weight


class ResidualNorm(Norm):
    def construct(self, x, residual=None):
        if residual is not None:
            x = x + residual
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.weight


class LayerScale(Norm):
    def construct(self, x):
        return x * self.weight


class LearnedBias(Norm):
    def construct(self, x):
        return x + self.weight


def dense(inputs, outputs, dtype=ms.float32):
    return nn.Dense(inputs, outputs, has_bias=False, weight_init=Normal(0.2), dtype=dtype)


class SeparateMLP(nn.Cell):
    """Common part: three linear layers and an activation."""

    def __init__(self, hidden=HIDDEN, inner=INNER, dtype=ms.float32):
        super().__init__()
        self.gate_proj = dense(hidden, inner, dtype)
        self.up_proj = dense(hidden, inner, dtype)
        self.down_proj = dense(inner, hidden, dtype)
        self.act_fn = nn.SiLU()


class LlamaStyleMLP(SeparateMLP):
    def construct(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class UpFirstMLP(SeparateMLP):
    def construct(self, x):
        up = self.up_proj(x)
        return self.down_proj(ops.mul(up, ops.silu(self.gate_proj(x))))


class SigmoidMLP(nn.Cell):
    """Names of another tradition, SiLU spelled out, biases, and all three matrices square."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Dense(HIDDEN, HIDDEN)
        self.w2 = nn.Dense(HIDDEN, HIDDEN)
        self.w3 = nn.Dense(HIDDEN, HIDDEN)

    def construct(self, x):
        gate = self.w1(x)
        return self.w2(gate * ops.sigmoid(gate) * self.w3(x))


class GeluMLP(SeparateMLP):
    def construct(self, x):
        return self.down_proj(ops.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class UngatedMLP(SeparateMLP):
    """Gate and up meet by addition."""

    def construct(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))


class DropoutMLP(SeparateMLP):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(p=0.5)

    def construct(self, x):
        return self.down_proj(self.dropout(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))


class ResidualMLP(SeparateMLP):
    def construct(self, x):
        return x + self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class PackedMLP(nn.Cell):
    """Common part: one projection for gate and up."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = dense(HIDDEN, 2 * INNER)
        self.down_proj = dense(INNER, HIDDEN)


class ChunkMLP(PackedMLP):
    def construct(self, x):
        gate, up = ops.chunk(self.gate_up_proj(x), 2, -1)
        return self.down_proj(ops.silu(gate) * up)


class ChunkUpFirstMLP(PackedMLP):
    def construct(self, x):
        up, gate = ops.split(self.gate_up_proj(x), INNER, -1)
        return self.down_proj(up * ops.silu(gate))


class AlternatingMLP(PackedMLP):
    def construct(self, x):
        both = self.gate_up_proj(x)
        return self.down_proj(ops.silu(both[..., 0::2]) * both[..., 1::2])


class Holder(nn.Cell):
    """A network around one cell, as `optimize` needs: the root itself cannot be swapped."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def construct(self, x):
        return self.part(x) + 0


def rotate_half(x):
    half = x.shape[-1] // 2
    return ops.cat((-x[..., half:], x[..., :half]), -1)


def rotate_pairs(x):
    return ops.stack((-x[..., 1::2], x[..., 0::2]), -1).reshape(x.shape)


class Attention(nn.Cell):
    """One block of a decoder: its rotary embedding and its softmax are statements of `construct` or of functions."""

    def __init__(self):
        super().__init__()
        self.heads = 2
        self.query, self.key, self.value, self.out = (dense(HIDDEN, HIDDEN) for _ in range(4))
        self.norm = PowMeanNorm()
        self.gate = nn.Dense(HIDDEN, HIDDEN)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)

    def construct(self, x, cos, sin, mask=None):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        query = query * cos + rotate_half(query) * sin
        key = key * cos + rotate_half(key) * sin
        scores = ops.matmul(query, key.swapaxes(2, 3)) / (HIDDEN // 2) ** 0.5
        if mask is not None:
            scores = scores + mask
        mixed = ops.matmul(ops.softmax(scores, -1), value).transpose(0, 2, 1, 3)
        x = x + self.out(mixed.reshape(x.shape))
        y = self.norm(x)
        return x + ops.silu(self.gate(y)) * y


class Tables(nn.Cell):
    """A network that makes the tables of its rotary embedding itself."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.frequencies = Tensor(1.0 / 10 ** np.arange(0, 1, 4 / HIDDEN), ms.float32)

    def construct(self, x, positions, mask):
        angles = positions.expand_dims(1) * self.frequencies
        angles = ops.cat((angles, angles), -1)
        return self.attention(x, ops.cos(angles), ops.sin(angles), mask)


class TanhGelu(nn.Cell):
    def construct(self, x):
        return 0.5 * x * (1 + ops.tanh(0.7978845608 * (x + 0.044715 * x**3)))


class TanhGeluFactored(nn.Cell):
    def construct(self, x):
        return x * 0.5 * (1.0 + ops.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))


class ErfGelu(nn.Cell):
    def construct(self, x):
        return x * 0.5 * (1 + ops.erf(x / 2**0.5))


class GegluMLP(PackedMLP):
    def construct(self, x):
        gate, up = ops.chunk(self.gate_up_proj(x), 2, -1)
        return self.down_proj(ops.gelu(gate, approximate="tanh") * up)


class ExpSiluMLP(SeparateMLP):
    def construct(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate / (1 + ops.exp(-gate)) * self.up_proj(x))


class Rotary(nn.Cell):
    """A rotary embedding that makes its tables from positions."""

    def __init__(self, size=8):
        super().__init__()
        self.frequencies = Tensor(1.0 / 10 ** np.arange(0, 1, 2 / size), ms.float32)

    def angles(self, positions):
        return positions.expand_dims(1) * self.frequencies


class RotaryRepeated(Rotary):
    """GLM and Cohere: neighbours belong together, tables by repeat_interleave."""

    def construct(self, x, positions):
        angles = self.angles(positions)
        cos, sin = ops.cos(angles).repeat_interleave(2, -1), ops.sin(angles).repeat_interleave(2, -1)
        return x * cos + rotate_pairs(x) * sin


class RotaryUnbound(Rotary):
    """Flux: pairs by reshape and unbind, put together by stack."""

    def construct(self, x, positions):
        angles = self.angles(positions)
        angles = ops.stack((angles, angles), -1).reshape(angles.shape[0], -1)
        real, imaginary = ops.unbind(x.reshape(*x.shape[:-1], -1, 2), -1)
        rotated = ops.stack((-imaginary, real), -1).reshape(x.shape)
        return x * ops.cos(angles) + rotated * ops.sin(angles)


class RotaryPacked(Rotary):
    """Phi-3: both tables travel in one tensor."""

    def construct(self, x, positions):
        angles = self.angles(positions)
        angles = ops.cat((angles, angles), -1)
        cos, sin = ops.chunk(ops.cat((ops.cos(angles), ops.sin(angles)), -1), 2, -1)
        return x * cos + rotate_half(x) * sin


class RotaryTiled(Rotary):
    def construct(self, x, positions):
        angles = ops.tile(self.angles(positions), (1, 2))
        return x * ops.cos(angles) + rotate_half(x) * ops.sin(angles)


class GroupNormFormula(Norm):
    """In groups of an axis of their own, as somebody writes it who has read the paper."""

    def __init__(self):
        super().__init__()
        self.bias = Parameter(Tensor(np.random.default_rng(8).standard_normal(HIDDEN).astype(np.float32)), name="bias")
        self.groups = 4

    def construct(self, x):
        y = x.reshape(x.shape[0], self.groups, -1)
        centred = y - y.mean(-1, keep_dims=True)
        y = centred * ops.rsqrt(ops.square(centred).mean(-1, keep_dims=True) + self.eps)
        return y.reshape(x.shape) * self.weight.reshape(1, -1, 1, 1) + self.bias.reshape(1, -1, 1, 1)


class GroupNormFiveAxes(GroupNormFormula):
    def construct(self, x):
        batch, channels, height, width = x.shape
        y = x.reshape(batch, self.groups, channels // self.groups, height, width)
        centred = y - ops.mean(y, (2, 3, 4), True)
        y = centred / ops.sqrt(ops.mean(centred * centred, (2, 3, 4), True) + self.eps)
        return ops.silu(y.reshape(x.shape) * self.weight.reshape(1, -1, 1, 1) + self.bias.reshape(1, -1, 1, 1))


class PreActivation(nn.Cell):
    """A residual block whose norm and activation come first: the sum takes the normalized input, or the activated."""

    def __init__(self, shortcut):
        super().__init__()
        self.norm = nn.GroupNorm(4, HIDDEN)
        self.relu = nn.ReLU()
        self.scale = Parameter(Tensor(np.float32(0.5)), name="scale")
        self.shortcut = shortcut

    def construct(self, x):
        normed = self.norm(x)
        y = self.relu(normed)
        return y * self.scale + (normed if self.shortcut == "normed" else y)


class NormedAndActivated(nn.Cell):
    """A ReLU behind a LayerNorm, as an operator or by the formula."""

    def __init__(self, formula):
        super().__init__()
        if not formula:
            self.norm = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.gamma = Parameter(Tensor(np.linspace(0.5, 1.5, HIDDEN).astype(np.float32)), name="gamma")
        self.beta = Parameter(Tensor(np.linspace(-1, 1, HIDDEN).astype(np.float32)), name="beta")
        self.formula = formula

    def construct(self, x):
        if not self.formula:
            return ops.relu(self.norm(x))
        centred = x - x.mean(-1, keep_dims=True)
        y = centred * ops.rsqrt((centred * centred).mean(-1, keep_dims=True) + 1e-5)
        return ops.relu(y * self.gamma + self.beta)


class InstanceNormOfGroups(GroupNormFormula):
    """Not over the channels of a group: one mean for each of them."""

    def construct(self, x):
        batch, channels, height, width = x.shape
        y = x.reshape(batch, self.groups, channels // self.groups, height, width)
        centred = y - ops.mean(y, (3, 4), True)
        y = centred / ops.sqrt(ops.mean(centred * centred, (3, 4), True) + self.eps)
        return y.reshape(x.shape) * self.weight.reshape(1, -1, 1, 1) + self.bias.reshape(1, -1, 1, 1)
