"""Equations as MathML, which browsers draw themselves: no script, no font and no request."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def add_math(app: Any) -> None:
    """Make it the way in which this build writes equations."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.config.html_math_renderer = "mathml"


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    # A region that scrolls by itself on a phone.
    writer.body.append(f'<div class="math" tabindex="0">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode
