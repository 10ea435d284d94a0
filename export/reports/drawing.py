"""Draws a graph: SVG with a box for each value, inputs above what is computed from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from html import escape

from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Graph, Node

__all__ = ["drawn", "svg"]

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 150, 34, 22, 30

# The size of the part that is shown first, in drawing units of about a pixel: more is not readable.
_VIEW_WIDTH, _VIEW_HEIGHT = 590, 400
_SMALLER = 1.3

_UNSHOWN = frozenset({"MakeTuple", "TupleGetItem", "Load", "UpdateState", "Depend", "make_range"})


def drawn(graph: Graph) -> list[Node]:
    """Return the nodes to draw: what the outputs are computed from, in topological order."""
    needed: set[int] = set()
    stack = list(graph.outputs)
    while stack:
        node = stack.pop()
        if id(node) not in needed:
            needed.add(id(node))
            stack.extend(node.inputs)
    seen: dict[int, Node] = {}
    for node in graph.nodes:
        if node.kind in (CONSTANT, *_UNSHOWN) or id(node) not in needed:
            continue
        for i in _sources(node):
            seen.setdefault(id(i), i)
        seen.setdefault(id(node), node)
    return list(seen.values())


def _sources(node: Node) -> list[Node]:
    """Return the inputs of a node that are drawn, through tuples and the like."""
    found: list[Node] = []
    for i in node.inputs:
        if i.kind == CONSTANT:
            continue
        if i.kind in _UNSHOWN:
            found.extend(_sources(i))
        else:
            found.append(i)
    return found


def _depths(nodes: list[Node]) -> dict[int, int]:
    """Return the level on which each node stands: below all that it is computed from."""
    known = {id(n) for n in nodes}
    depth: dict[int, int] = {}
    users: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        depth[id(node)] = max((depth.get(id(i), 0) + 1 for i in _sources(node) if id(i) in known), default=0)
        for i in _sources(node):
            users[id(i)].append(depth[id(node)])
    for node in nodes:  # an input stands just above its first user
        if not _sources(node) and users[id(node)]:
            depth[id(node)] = max(0, min(users[id(node)]) - 1)
    return depth


def _places(nodes: list[Node]) -> tuple[dict[int, tuple[float, float]], float, float]:
    """Return where the upper left corners of the boxes are; width and height of the drawing."""
    depth = _depths(nodes)
    layers: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        layers[depth[id(node)]].append(node)
    step_x, step_y = _BOX_WIDTH + _GAP_X, _BOX_HEIGHT + _GAP_Y
    width = max((len(layer) for layer in layers.values()), default=1) * step_x
    place: dict[int, tuple[float, float]] = {}
    for level, layer in sorted(layers.items()):
        layer.sort(key=lambda n: sum(place.get(id(i), (0, 0))[0] for i in _sources(n)) / max(1, len(_sources(n))))
        left = (width - len(layer) * step_x) / 2
        place.update({id(n): (left + position * step_x, level * step_y) for position, n in enumerate(layer)})
    return place, width - _GAP_X, (max(layers, default=0) + 1) * step_y - _GAP_Y


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x, y = start[0] + _BOX_WIDTH / 2, start[1] + _BOX_HEIGHT
    to_x, to_y = end[0] + _BOX_WIDTH / 2, end[1]
    bend = min(60.0, (to_y - y) / 2)
    return f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}"/>'


def _box(node: Node, x: float, y: float, mark: str) -> str:
    name = node.name.split(":")[-1]
    kind = mark or ("io" if node.kind in (INPUT, PARAMETER) else "")
    label = name if node.kind in (INPUT, PARAMETER, CALL) else node.kind
    detail = f"{node.dtype} {list(node.shape)}" if node.shape is not None else ""
    middle = f'x="{x + _BOX_WIDTH / 2:.0f}" text-anchor="middle"'
    small = f'<text class="small" {middle} y="{y + 27:.0f}">{escape(detail[:30])}</text>' if detail else ""
    return (
        f'<g class="{kind}"><title>{escape(f"{node.kind} {node.name} {detail}".strip())}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5"/>'
        f'<text {middle} y="{y + (14 if detail else 21):.0f}">{escape(_short(label))}</text>{small}</g>'
    )


def _short(label: str, most: int = 23) -> str:
    return label if len(label) <= most else f"\u2026{label[1 - most :]}"


def svg(graph: Graph, marks: Mapping[int, str]) -> str:
    """Draw the graph. `marks` gives nodes a class, by id; those are what is seen first where not everything fits."""
    nodes = drawn(graph)
    place, width, height = _places(nodes)
    edges = "".join(_edge(place[id(i)], place[id(n)]) for n in nodes for i in _sources(n) if id(i) in place)
    boxes = "".join(_box(n, *place[id(n)], marks.get(id(n), "")) for n in nodes)
    marked = [place[id(n)] for n in nodes if id(n) in marks]
    stops = " ".join(
        f"{x + _BOX_WIDTH / 2:.0f},{y + _BOX_HEIGHT / 2:.0f}" for x, y in sorted(marked, key=lambda p: p[1])
    )
    margin = 12
    pixels = min(height + 2 * margin, _VIEW_HEIGHT)
    whole_width, whole_height = max(width + 2 * margin, _VIEW_WIDTH), height + 2 * margin
    left, top = (width - whole_width) / 2, (height - whole_height) / 2
    whole = f"{left:.0f} {top:.0f} {whole_width:.0f} {whole_height:.0f}"
    view = whole
    # Shrink what is slightly larger than the view; show a part of what is much larger.
    if (whole_width > _SMALLER * _VIEW_WIDTH or whole_height > _SMALLER * _VIEW_HEIGHT) and marked:
        x, y = min(marked, key=lambda p: p[1])
        view_width, view_height = min(whole_width, _SMALLER * _VIEW_WIDTH), min(whole_height, _SMALLER * _VIEW_HEIGHT)
        start_x = min(max(x + _BOX_WIDTH / 2 - view_width / 2, left), left + whole_width - view_width)
        start_y = min(max(y - view_height / 3, top), max(top, top + whole_height - view_height))
        view = f"{start_x:.0f} {start_y:.0f} {view_width:.0f} {view_height:.0f}"
    size = f'style="height: {pixels}px"'
    return f'<svg {size} viewBox="{view}" data-whole="{whole}" data-stops="{stops}">{edges}{boxes}</svg>'
