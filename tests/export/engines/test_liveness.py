"""Statements that nobody needs: by the liveness of names, and by what has effects."""

import ast

import mindspore as ms
import pytest
from mindspore import Parameter, mint, nn, ops
from ms_ascend_ops.export.engines.effects import Effects
from ms_ascend_ops.export.engines.liveness import without_dead

from tests.tensors import tensor


def left(source, removable=lambda statement: True):
    function = ast.parse(source).body[0]
    without_dead(function, removable)
    return ast.unparse(function).split("\n", 1)[1].replace("    ", " ").replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (" a = f(x)\n b = g(a)\n return x", " return x"),  # one after the other
        (" a = f(x)\n if x:\n  b = a\n return x", " if x:\n  pass\n return x"),
        (" a = f(x)\n if x:\n  a = g(x)\n return a", None),  # on the other path
        (" a = f(x)\n a = g(x)\n return a", " a = g(x)\n return a"),
        (" a = f(x)\n a += x\n return x", None),  # may change in place what another name has
        (" a = x\n for i in x:\n  b = f(a)\n  a = g(i)\n return b", None),  # read in the next iteration
        (" for i in x:\n  a = g(i)\n  b = f(i)\n return b", " for i in x:\n  b = f(i)\n return b"),
        (" a, b = f(x)\n return a", None),
        (" a = f(x)\n while a:\n  a = g(a)\n  c = a\n return x", " a = f(x)\n while a:\n  a = g(a)\n return x"),
        (" a = f(x)\n def inner():\n  return a\n return inner", None),
        (" a = f(x)\n x.y = a\n return x", None),
        (" for i in x:\n  a = g(i)\n  if i:\n   break\n  a = f(i)\n return a", None),
        (" a = f(x)\n with x:\n  b = a\n return x", None),
    ],
)
def test_dead_statements(body, expected):
    assert left(f"def f(x):\n{body}") == (body if expected is None else expected)


class Plain(nn.Cell):
    def construct(self, x):
        y = ops.tanh(x)
        return y * 2


class Writing(Plain):
    def __init__(self):
        super().__init__()
        self.last = None

    def construct(self, x):
        self.last = x
        return x


class Changing(Plain):
    def construct(self, x):
        x += 1
        return x


def doubled(x):
    return ops.relu(x) * 2


def counted(x):
    ops.assign_add(COUNT, tensor(1.0, "float32"))
    return x


COUNT = Parameter(ms.Tensor(0.0, ms.float32), name="count", requires_grad=False)


class Owner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.drop, self.softmax, self.product = nn.Dropout(p=0.5), nn.Softmax(-1), ops.BatchMatMul()
        self.plain, self.writing, self.changing = Plain(), Writing(), Changing()
        self.list = nn.SequentialCell(nn.Identity(), nn.GELU())
        self.mixed = nn.SequentialCell(nn.Identity(), Writing())
        self.norm, self.assign, self.seen = nn.BatchNorm2d(4), ops.Assign(), []


PURE = [
    *("self.drop(x)", "self.softmax(x)", "self.product(x, x)", "self.plain(x)", "self.list(x)", "x.swapaxes(1, 2)"),
    *("ops.softmax(x, -1)", "mint.nn.functional.dropout(x, 0.5, training=self.training)", "doubled(x)", "x[0] + 1"),
    *("len(x.shape)", "x.masked_fill(x > 1, 0.0)", "ops.scatter_nd(x, x, (3,))", "ms.Tensor(1.0)", "ops.Softmax(-1)"),
]
EFFECTS = [
    *("self.writing(x)", "self.changing(x)", "self.mixed(x)", "self.norm(x)", "self.assign(x, x)", "counted(x)"),
    *("ops.assign(x, x)", "x.add_(x)", "self.seen.append(x)", "ops.rand(3)", "print(x)", "unknown(x)", "x.copy_(x)"),
    *("mint.nn.functional.relu_(x)", "(lambda: 1)()", "(y := x)", "ops.scatter_update(x, x, x)", "x.update(x)"),
]


@pytest.mark.parametrize("text", [*PURE, *EFFECTS])
def test_effects(text):
    function = ast.parse(f"def construct(self, x):\n a = {text}\n return x").body[0]
    names = {"ms": ms, "ops": ops, "mint": mint, "doubled": doubled, "counted": counted}
    effects = Effects(names, {"construct": function}, {"construct": {"self": Owner()}})
    assert effects.pure(function, function.body[0]) is (text in PURE)


def test_a_hook_is_an_effect():
    function = ast.parse("def construct(self, x):\n a = self.drop(x)\n return x").body[0]
    owner = Owner()
    owner.drop.register_forward_hook(lambda *_: None)
    assert not Effects({}, {"construct": function}, {"construct": {"self": owner}}).pure(function, function.body[0])
