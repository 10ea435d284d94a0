"""Writes a report as one web page that needs no network: the table, the differences, and the graphs before and
after.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from ms_ascend_ops.export.graphs.graph import Graph, Node
from ms_ascend_ops.export.matching.find import Found
from ms_ascend_ops.export.reports.drawing import drawn, svg
from ms_ascend_ops.export.reports.report import Entry, Report

__all__ = ["write_page"]

# ruff: noqa: E501  (style and script are not Python)

# A larger graph is shown around each replaced place, and not as a whole.
_MOST_NODES = 400
_MOST_PLACES = 60

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 82rem; padding: 0 1rem; color: #1d2430; }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid
#dde2ea; vertical-align: top } th { background: #f3f5f9 } td:first-child { overflow-wrap: anywhere }
b.yes { color: #0a6b3b } b.no { color: #8a5300 } td .note { color: #566174 }
.summary { display: flex; gap: 1rem; flex-wrap: wrap } .summary div { background: #f3f5f9; border-radius: .5rem; padding:
.5rem 1rem } .summary b { display: block; font-size: 1.25rem } .summary small { color: #566174 }
.warning { background: #fff1d6; padding: .6rem 1rem }
.graphs { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin-bottom: 1rem } .graphs figure { margin: 0; min-width: 0 }
svg { width: 100%; box-sizing: border-box; border: 1px solid #dde2ea; border-radius: .4rem; cursor: grab; touch-action: none }
figcaption { color: #566174; font-size: .9rem; display: flex; gap: .4rem; align-items: center }
figcaption span { margin-right: auto } button { font: inherit; padding: 0 .5rem }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0 }
rect { fill: #eef1f6; stroke: #9aa5b8 } .io rect { fill: #fff; stroke-dasharray: 4 3 } .gone rect { fill: #ffe0c2; stroke:
#c46a00 } .new rect { fill: #c9f0d8; stroke: #0a7d43; stroke-width: 2 } path { stroke: #9aa5b8; fill: none } text { font: 12px
system-ui, sans-serif; fill: #1d2430 } text.small { font-size: 10px; fill: #566174 }
.key { display: inline-block; padding: 0 .4rem; border-radius: .25rem; border: 1px solid }
.key.old { background: #ffe0c2; border-color: #c46a00 } .key.fused { background: #c9f0d8; border-color: #0a7d43 }
"""

# Drag: move. Buttons, or the wheel with Ctrl: zoom. The wheel alone goes on scrolling the page.
_SCRIPT = """
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('svg'), numbers = text => text.split(' ').map(Number);
  const whole = numbers(svg.dataset.whole), stops = svg.dataset.stops ? svg.dataset.stops.split(' ') : [];
  let box = numbers(svg.getAttribute('viewBox')), from = null, stop = -1;
  const show = () => svg.setAttribute('viewBox', box.join(' '));
  const at = e => { const m = svg.getScreenCTM().inverse(); const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(m);
    return [p.x, p.y]; };
  const zoom = (k, x, y) => { box = [x - (x - box[0]) * k, y - (y - box[1]) * k, box[2] * k, box[3] * k]; show(); };
  const middle = () => [box[0] + box[2] / 2, box[1] + box[3] / 2];
  const act = {
    in: () => zoom(0.7, ...middle()), out: () => zoom(1 / 0.7, ...middle()),
    all: () => { box = [...whole]; show(); },
    next: () => { stop = (stop + 1) % stops.length; const [x, y] = stops[stop].split(',').map(Number);
      box = [x - 295, y - 200, 590, 400]; show(); },
  };
  for (const button of figure.querySelectorAll('button')) button.onclick = act[button.name];
  svg.addEventListener('wheel', e => { if (!e.ctrlKey) return; e.preventDefault();
    zoom(e.deltaY < 0 ? 0.8 : 1.25, ...at(e)); }, {passive: false});
  svg.addEventListener('pointerdown', e => { from = at(e); svg.setPointerCapture(e.pointerId); });
  svg.addEventListener('pointermove', e => { if (!from) return; const [x, y] = at(e);
    box[0] += from[0] - x; box[1] += from[1] - y; show(); });
  svg.addEventListener('pointerup', () => { from = null; });
  svg.addEventListener('dblclick', act.all);
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
        f"<tr><td>{escape(e.place)}</td><td>{escape(e.pattern)}</td><td>{escape(e.engine)}</td><td>{_result(report, e)}</td></tr>"
        for e in report.grouped()
    )
    facts = [
        ("replaced", str(len(report.replaced))),
        ("left", str(len(report.skipped))),
        ("level", report.level),
    ]
    summary = "".join(f"<div>{escape(name)}<b>{escape(value)}</b></div>" for name, value in facts)
    for name, found in (("an output", report.outputs), ("a gradient", report.gradients)):
        if found:
            share = f"<small>{found.relative:.2e} of the largest magnitude</small>"
            summary += f"<div>largest difference of {name}<b>{found.absolute:.2e}</b>{share}</div>"
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
<p><span class="key old">replaced</span> <span class="key fused">fused operator</span> &ensp; Drag to move; zoom with the
buttons, or the wheel with Ctrl; double click for everything. Dashed boxes are inputs and parameters.</p>
{graphs or "<p>Nothing was replaced.</p>"}
<script>{_SCRIPT}</script></body></html>
"""


def _result(report: Report, entry: Entry) -> str:
    text = report.result(entry)
    word = text.split(":")[0].split(" (")[0]
    kind = "yes" if entry.replaced and not report.undone else "no"
    note = f' <span class="note">{escape(entry.text)}</span>' if entry.text else ""
    return f'<b class="{kind}">{escape(word)}</b>{note}'


def _alike(report: Report) -> list[tuple[str, Graph, list[Found]]]:
    """Return the graphs to show: of places that look the same, the first, with their number."""
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
        parts.append(
            (f"{place}: {item.row.name}", Graph([*nodes, *users[:4]], [*item.outputs.values(), *users[:4]]), [item])
        )
    return parts


def _graphs(place: str, graph: Graph, found: Sequence[Found]) -> str:
    gone = {id(n): "gone" for item in found for n in item.inside}
    after, new = _after(graph, found)
    return (
        f"<details open><summary>{escape(place)}</summary><div class='graphs'>"
        f"{_figure(graph, gone, 'before')}{_figure(after, new, 'after')}</div></details>"
    )


def _figure(graph: Graph, marks: Mapping[int, str], when: str) -> str:
    buttons = "".join(
        f'<button name="{name}" title="{title}">{text}</button>'
        for name, title, text in (
            ("next", "go to the next marked box", "next marked"),
            ("in", "larger", "+"),
            ("out", "smaller", "\u2212"),
            ("all", "the whole graph", "all"),
        )
        if marks or name != "next"
    )
    caption = f"<figcaption><span>{when}: {len(drawn(graph))} nodes</span>{buttons}</figcaption>"
    return f"<figure>{svg(graph, marks)}{caption}</figure>"


def _after(graph: Graph, found: Sequence[Found]) -> tuple[Graph, Mapping[int, str]]:
    """Return the graph with the fused operators, which are marked."""
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
