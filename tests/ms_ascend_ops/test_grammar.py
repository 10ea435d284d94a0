"""Random definitions from the grammar of shape rules, and random shapes for them."""

import contextlib
import tempfile
from pathlib import Path

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ms_ascend_ops._C import MAX_RANK

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import UNKNOWN_RANK, complete_shapes, infer_shapes, infer_types

# A definition takes some tries to draw. `build.sh test --thorough` draws others in each run.
EXAMPLES = min(50, settings().max_examples)
SINGLE, RUNS = ["d", "e", "f"], ["b", "c"]
ATTRIBUTES = {
    "left": {"type": "int", "default": 1, "exclusive_minimum": 0},
    "right": {"type": "int", "default": 2, "exclusive_minimum": 0},
    "axis": {"type": "int", "default": 0},
    "transposed": {"type": "bool", "default": False, "axes": [-1, -2]},
    "layout": {"type": "string", "default": "inner", "choices": ["inner", "outer"], "axes": [-1, 0]},
}

one = st.sampled_from(SINGLE)
run = st.sampled_from(RUNS)
tokens = st.one_of(
    one,
    run.map("*{}".format),
    (one | run).map("~{}".format),
    one.map("?{}".format),
    run.map("ones({})".format),
    st.builds("{}*{}".format, st.integers(2, 4), one),
    st.integers(0, 3).map(str),
    st.sampled_from(["=left", "=left+right"]),
    st.builds("{}@{}".format, one, st.sampled_from(["axis", "transposed", "layout"])),
    st.builds("2*{}@{}".format, one, st.sampled_from(["axis", "transposed", "layout"])),
)
rules = st.lists(tokens, max_size=4).map(" ".join)
# Also those that no tensor has.
sizes = st.sampled_from([-1, -1, 0, 1, 2, 3, 4, 6, 8, -2, -3, -7, 2**31, 2**62, 2**63 - 1, -(2**63)])
shapes = st.none() | st.just(UNKNOWN_RANK) | st.lists(sizes, max_size=MAX_RANK + 2).map(tuple)


@st.composite
def definitions(draw):
    """A signature that the registry takes."""
    for _ in range(20):
        names = ["x", "y", "z"][: draw(st.integers(1, 3))]
        inputs = {name: draw(rules) for name in names}
        optional = [name for name in names[1:] if draw(st.booleans())]
        used = [word for name in names if name not in optional for word in inputs[name].split() if word[0] not in "~?"]
        words = st.sampled_from([*used, *(word.partition("@")[0] for word in used), "1", "ones(b)", "=left"])
        outputs = st.lists(words, max_size=4).map(" ".join)
        data = {
            "name": "op",
            "summary": "Random.",
            "attributes": ATTRIBUTES,
            "types": [{"T": "float32", "G": "float32"}, {"T": "float16", "G": "float32"}],
            "positive": draw(st.lists(st.sampled_from(SINGLE + RUNS), max_size=1)),
            "multiples": draw(st.dictionaries(one, st.sampled_from([*SINGLE, "left"]), max_size=1)),
            "optional": optional,
            "forward": {
                "inputs": {"g": "G[]", "t": "T[]"}
                | {k: f"{draw(st.sampled_from('TG'))}[{v}]" for k, v in inputs.items()},
                "outputs": {name: f"T[{draw(outputs)}]" for name in ("out", "stat")[: draw(st.integers(1, 2))]},
            },
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "op.yaml"
            path.write_text(yaml.safe_dump(data, sort_keys=False))
            with contextlib.suppress(ValueError):
                return registry.load(path).forward
    assume(False)


def expanded(tokens, sizes, runs, attributes, draw):
    """The dims that tokens stand for: what the grammar says, in a few lines."""
    dims = []
    # What broadcasts may have fewer dims, but beside another run of dims nothing would tell how many.
    alone = sum(token.star for token in tokens) == 1
    for token in tokens:
        if token.sizes:
            dims.append(sum(attributes[name] for name in token.sizes))
        elif not token.symbol:
            dims.append(token.factor)
        elif token.ones:
            dims += [1] * len(runs[token.symbol])
        elif token.broadcasts:
            to = runs[token.symbol] if token.symbol in runs else [sizes[token.symbol]]
            some = [draw(st.sampled_from([1, size])) for size in to]
            dims += some[draw(st.integers(0, len(some))) :] if token.star and alone else some
        else:
            dims += runs[token.symbol] if token.star else [token.factor * sizes[token.symbol]]
    return tuple(dims)


@st.composite
def fitting(draw):
    """(signature, shapes of inputs and of outputs, attributes) of a call that is right."""
    signature = draw(definitions())
    sizes = {symbol: draw(st.integers(0, 4)) for symbol in SINGLE}
    runs = {symbol: draw(st.lists(st.integers(0, 4), max_size=2)) for symbol in RUNS}
    positive = {*signature.positive, *signature.multiples.values()}
    for symbol in positive:
        if symbol in runs:
            runs[symbol] = [max(1, size) for size in runs[symbol]]
        elif symbol in sizes:
            sizes[symbol] = max(1, sizes[symbol])
    attributes = {"left": draw(st.integers(1, 3)), "right": draw(st.integers(1, 3)), "axis": draw(st.integers(-3, 3))}
    attributes |= {"transposed": draw(st.booleans()), "layout": draw(st.sampled_from(["inner", "outer"]))}
    for symbol, divisor in signature.multiples.items():
        sizes[symbol] *= attributes.get(divisor, sizes.get(divisor))
        assume(symbol not in positive or sizes[symbol] > 0)
    found = []
    for tensor in (*signature.inputs, *signature.outputs):
        rule = tensor.rule
        order = rule.tokens
        if rule.anchor is not None:
            axis = signature.attribute(rule.anchor.attribute).axis(attributes[rule.anchor.attribute])
            if rule.moves:
                least = -rule.tail
                assume(least <= axis < (rule.tail if rule.fixed else 0))
                order = rule.in_order(axis)
            else:
                before = len(expanded(rule.before, sizes, runs, attributes, draw))
                whole = len(expanded(rule.tokens, sizes, runs, attributes, draw))
                assume(axis in (before, before - whole))
        found.append(expanded(order, sizes, runs, attributes, draw))
        assume(len(found[-1]) <= MAX_RANK)
    count = len(signature.inputs)
    for i, tensor in enumerate(signature.inputs):
        if tensor.optional and draw(st.booleans()):
            found[i] = None
    return signature, found[:count], found[count:], attributes


def hides(early, known):
    """Whether a shape says nothing else than another, and perhaps less."""
    return early == UNKNOWN_RANK or (
        len(early) == len(known) and all(a in (-1, b) for a, b in zip(early, known, strict=True))
    )


@settings(max_examples=EXAMPLES)
@given(fitting(), st.data())
def test_what_the_grammar_says_is_inferred(call, data):
    signature, inputs, outputs, attributes = call
    assert infer_shapes(signature, inputs, attributes) == outputs
    hidden = []
    for shape in inputs:
        less = shape and tuple(-1 if data.draw(st.booleans()) else size for size in shape)
        hidden.append(UNKNOWN_RANK if shape is not None and not data.draw(st.integers(0, 4)) else less)
    early = infer_shapes(signature, hidden, attributes)
    assert all(hides(a, b) for a, b in zip(early, outputs, strict=True)), (hidden, early, outputs)


@settings(max_examples=EXAMPLES)
@given(definitions(), st.data())
def test_any_input_is_refused_or_inferred(signature, data):
    """With a message that names the operator; nothing else is raised, and nothing ends the process."""
    inputs = [data.draw(shapes) for _ in signature.inputs]
    numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 4)
    attributes = {name: data.draw(numbers) for name in ("left", "right", "axis")}
    dtypes = [data.draw(st.none() | st.sampled_from([*registry.DTYPES, "", "float64"])) for _ in signature.inputs]
    for function, arguments in (
        (infer_shapes, (inputs, attributes)),
        (complete_shapes, (inputs[: data.draw(st.integers(0, len(inputs)))], attributes)),
        (infer_types, (dtypes,)),
    ):
        with contextlib.suppress(ValueError, TypeError):
            assert all(result is None or isinstance(result, (str, tuple)) for result in function(signature, *arguments))
