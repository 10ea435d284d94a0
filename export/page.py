"""A report as one web page that needs no network: the table, the differences, and the graphs before and after."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from ms_ascend_ops.export.find import Found
from ms_ascend_ops.export.graph import CALL, CONSTANT, INPUT, PARAMETER, Graph, Node
from ms_ascend_ops.export.report import Report

__all__ = ["write_page"]

# ruff: noqa: E501  (style and script are not Python)

# A larger graph is shown around each replaced place, and not as a whole.
_MOST_NODES = 400
_MOST_PLACES = 60

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 132, 34, 22, 30

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1d2430; }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid
#dde2ea; vertical-align: top } th { background: #f3f5f9 } td.yes { color: #0a6b3b; font-weight: 600 } td.no { color: #8a5300 }
.summary { display: flex; gap: 1rem; flex-wrap: wrap } .summary div { background: #f3f5f9; border-radius: .5rem; padding:
.5rem 1rem } .summary b { display: block; font-size: 1.25rem } .warning { background: #fff1d6; padding: .6rem 1rem }
.graphs { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem } .graphs figure { margin: 0; min-width: 0 }
svg { width: 100%; height: 22rem; border: 1px solid #dde2ea; border-radius: .4rem; cursor: grab; touch-action: none }
figcaption { color: #566174; font-size: .9rem } summary { cursor: pointer; font-weight: 600; padding: .4rem 0 }
rect { fill: #eef1f6; stroke: #9aa5b8 } .io rect { fill: #fff; stroke-dasharray: 4 3 } .gone rect { fill: #ffe0c2; stroke:
#c46a00 } .new rect { fill: #c9f0d8; stroke: #0a7d43; stroke-width: 2 } line { stroke: #9aa5b8 } text { font: 12px
system-ui, sans-serif; fill: #1d2430 } text.small { font-size: 9.5px; fill: #566174 }
"""

# Wheel: zoom about the pointer. Drag: move. Double click: all of it again.
_SCRIPT = """
for (const svg of document.querySelectorAll('svg')) {
  const whole = svg.getAttribute('viewBox').split(' ').map(Number);
  let box = [...whole], from = null;
  const show = () => svg.setAttribute('viewBox', box.join(' '));
  const at = e => { const m = svg.getScreenCTM().inverse(); const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(m);
    return [p.x, p.y]; };
  svg.addEventListener('wheel', e => { e.preventDefault(); const [x, y] = at(e), k = e.deltaY < 0 ? 0.8 : 1.25;
    box = [x - (x - box[0]) * k, y - (y - box[1]) * k, box[2] * k, box[3] * k]; show(); }, {passive: false});
  svg.addEventListener('pointerdown', e => { from = at(e); svg.setPointerCapture(e.pointerId); });
  svg.addEventListener('pointermove', e => { if (!from) return; const [x, y] = at(e);
    box[0] += from[0] - x; box[1] += from[1] - y; show(); });
  svg.addEventListener('pointerup', () => { from = null; });
  svg.addEventListener('dblclick', () => { box = [...whole]; show(); });
}
"""


def write_page(report: Report, path: str | os.PathLike[str], title: str = "network") -> Path:
    """Write a report as one HTML file.

    Args:
        report: of any engine.
        path: where to write.
        title: what the page calls the network.

    Returns:
        The path of the file.
    """
    target = Path(path)
    target.write_text(_page(report, title), encoding="utf-8")
    return target


def _page(report: Report, title: str) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(e.place)}</td><td>{escape(e.pattern)}</td><td>{escape(e.engine)}</td>"
        f'<td class="{"yes" if e.replaced and not report.undone else "no"}">{escape(report.result(e))}</td></tr>'
        for e in report.grouped()
    )
    facts = [
        ("replaced", str(len(report.replaced))),
        ("left", str(len(report.skipped))),
        ("level", report.level),
    ]
    if report.outputs:
        facts.append(("largest difference of an output", str(report.outputs)))
    if report.gradients:
        facts.append(("largest difference of a gradient", str(report.gradients)))
    summary = "".join(f"<div>{escape(name)}<b>{escape(value)}</b></div>" for name, value in facts)
    warning = f'<p class="warning">Rolled back: {escape(report.rolled_back)}</p>' if report.rolled_back else ""
    graphs = "\n".join(_graphs(place, graph, found) for place, graph, found in _alike(report) if found)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}: fused operators</title><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1><p>Fused operators in the place of what the network computed with single ones.</p>
<div class="summary">{summary}</div>{warning}
<h2>Places</h2>
<table><thead><tr><th>place</th><th>pattern</th><th>engine</th><th>result</th></tr></thead><tbody>
{rows or '<tr><td colspan="4">nothing recognised</td></tr>'}
</tbody></table>
<h2>Before and after</h2>
<p>Orange: replaced. Green: the fused operator. Wheel: zoom, drag: move, double click: everything.</p>
{graphs or "<p>Nothing was replaced.</p>"}
<script>{_SCRIPT}</script></body></html>
"""


def _alike(report: Report) -> list[tuple[str, Graph, list[Found]]]:
    """The graphs to show: of places that look the same, the first, with their number."""
    shown: dict[str, tuple[str, Graph, list[Found]]] = {}
    count: dict[str, int] = defaultdict(int)
    for place, graph, found in report.graphs:
        for name, part, inside in _parts(place, graph, found):
            key = repr([(n.kind, len(n.inputs), n.shape) for n in part.nodes])
            shown.setdefault(key, (name, part, inside))
            count[key] += 1
    several = {key: f" and {n - 1} alike" if n > 1 else "" for key, n in count.items()}
    return [(f"{name}{several[key]}", graph, found) for key, (name, graph, found) in shown.items()][:_MOST_PLACES]


def _parts(place: str, graph: Graph, found: Sequence[Found]) -> list[tuple[str, Graph, list[Found]]]:
    if len(graph.nodes) <= _MOST_NODES:
        return [(place, graph, list(found))]
    parts = []
    for item in found:
        users = [n for n in graph.nodes if any(i is o for i in n.inputs for o in item.outputs.values())]
        inside = {id(n) for n in item.inside}
        nodes = [n for n in graph.nodes if id(n) in inside]
        parts.append((f"{place}: {item.row.name}", Graph([*nodes, *users[:4]], list(item.outputs.values())), [item]))
    return parts


def _graphs(place: str, graph: Graph, found: Sequence[Found]) -> str:
    gone = {id(n): "gone" for item in found for n in item.inside}
    after, new = _after(graph, found)
    return (
        f"<details open><summary>{escape(place)}</summary><div class='graphs'>"
        f"<figure>{_svg(graph, gone)}<figcaption>before: {len(_drawn(graph))} nodes</figcaption></figure>"
        f"<figure>{_svg(after, new)}<figcaption>after: {len(_drawn(after))} nodes</figcaption></figure>"
        "</div></details>"
    )


def _after(graph: Graph, found: Sequence[Found]) -> tuple[Graph, Mapping[int, str]]:
    """The graph with the fused operators, which are marked."""
    fused: dict[int, Node] = {}
    for item in found:
        made = Node(item.fused.op, item.inputs, item.row.name)
        for output in item.outputs.values():
            fused[id(output)] = made
    known: dict[int, Node] = {}
    gone = {id(n) for item in found for n in item.inside}

    def copy(node: Node) -> Node:
        source = fused.get(id(node), node)
        if id(source) not in known:
            if source is node and not node.inputs:
                known[id(source)] = node
            else:
                copied = Node(source.kind, (), source.name, node.shape, node.dtype)
                known[id(source)] = copied
                copied.inputs = tuple(copy(i) if id(i) in order or id(i) in fused else i for i in source.inputs)
        return known[id(source)]

    order = {id(n) for n in graph.nodes}
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone and id(node) not in fused:
            continue
        made = copy(node)
        if all(made is not n for n in nodes):
            nodes.append(made)
    marks = {id(known[id(n)]): "new" for n in fused.values() if id(n) in known}
    return Graph(nodes, [copy(o) for o in graph.outputs if id(o) in order]), marks


_UNSHOWN = frozenset({"MakeTuple", "TupleGetItem", "Load", "UpdateState", "Depend", "make_range"})


def _drawn(graph: Graph) -> list[Node]:
    """The nodes to draw: those that compute, and what goes into them from outside."""
    seen: dict[int, Node] = {}
    for node in graph.nodes:
        if node.kind in (CONSTANT, *_UNSHOWN):
            continue
        for i in _sources(node):
            seen.setdefault(id(i), i)
        seen.setdefault(id(node), node)
    return list(seen.values())


def _sources(node: Node) -> list[Node]:
    """The inputs of a node that are drawn, through tuples and the like."""
    found: list[Node] = []
    for i in node.inputs:
        if i.kind == CONSTANT:
            continue
        if i.kind in _UNSHOWN:
            found.extend(_sources(i))
        else:
            found.append(i)
    return found


def _svg(graph: Graph, marks: Mapping[int, str]) -> str:
    nodes = _drawn(graph)
    drawn = {id(n) for n in nodes}
    depth: dict[int, int] = {}
    for node in nodes:  # in an order in which they can be computed
        depth[id(node)] = max((depth.get(id(i), 0) + 1 for i in _sources(node) if id(i) in drawn), default=0)
    users: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        for i in _sources(node):
            users[id(i)].append(depth[id(node)])
    for node in nodes:  # an input stands just above its first user
        if not _sources(node) and users[id(node)]:
            depth[id(node)] = max(0, min(users[id(node)]) - 1)
    layers: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        layers[depth[id(node)]].append(node)
    widest = max((len(layer) for layer in layers.values()), default=1)
    width = widest * (_BOX_WIDTH + _GAP_X)
    place: dict[int, tuple[float, float]] = {}
    for level, layer in layers.items():
        layer.sort(key=lambda n: sum(place.get(id(i), (0, 0))[0] for i in _sources(n)) / max(1, len(_sources(n))))
        left = (width - len(layer) * (_BOX_WIDTH + _GAP_X)) / 2
        for position, node in enumerate(layer):
            place[id(node)] = (left + position * (_BOX_WIDTH + _GAP_X), level * (_BOX_HEIGHT + _GAP_Y))
    lines, boxes = [], []
    for node in nodes:
        x, y = place[id(node)]
        for i in _sources(node):
            if id(i) in place:
                a, b = place[id(i)]
                lines.append(
                    f'<line x1="{a + _BOX_WIDTH / 2:.0f}" y1="{b + _BOX_HEIGHT}" x2="{x + _BOX_WIDTH / 2:.0f}" y2="{y}"/>'
                )
        kind = marks.get(id(node), "io" if node.kind in (INPUT, PARAMETER) else "")
        label = node.name.split(":")[-1] if node.kind in (INPUT, PARAMETER, CALL) else node.kind
        detail = f"{node.dtype} {list(node.shape)}" if node.shape is not None else node.name.split(":")[-1]
        boxes.append(
            f'<g class="{kind}"><title>{escape(f"{node.kind} {node.name} {detail}")}</title>'
            f'<rect x="{x:.0f}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5"/>'
            f'<text x="{x + _BOX_WIDTH / 2:.0f}" y="{y + 15}" text-anchor="middle">{escape(label[-20:])}</text>'
            f'<text class="small" x="{x + _BOX_WIDTH / 2:.0f}" y="{y + 28}" text-anchor="middle">{escape(detail[:26])}</text></g>'
        )
    height = (max(layers, default=0) + 1) * (_BOX_HEIGHT + _GAP_Y)
    return f'<svg viewBox="-10 -10 {width + 20:.0f} {height + 20}">{"".join(lines)}{"".join(boxes)}</svg>'
