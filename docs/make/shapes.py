"""Shapes of SVG in the classes that docs/assets/site.css colours, for light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

LEAST_SIZE = 9.0
"""Least size of the smallest words of a drawing, in pixels; on a narrow screen the drawing scrolls."""


def svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a drawing of some width and height, with a title for screen readers."""
    body = "".join(parts)
    smallest = min(map(float, re.findall(r'font-size="([\d.]+)"', body)), default=LEAST_SIZE)
    least = width * min(1, LEAST_SIZE / smallest)
    return (
        f'<div class="drawing-place"><svg class="drawing" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" style="min-width: {least:.0f}px" role="img" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{body}</svg></div>\n'
    )


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def label(x: float, y: float, words: str, size: float = 12, anchor: str = "middle") -> str:
    """Return words."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}">{escape(words)}</text>'


def arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "arrow") -> str:
    """Return a line with a head at its end."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1
    u, v = (x2 - x1) / length * 7, (y2 - y1) / length * 7
    left, right = (x2 - u - v / 2, y2 - v + u / 2), (x2 - u + v / 2, y2 - v - u / 2)
    head = f"M{x2:g},{y2:g} L{left[0]:.1f},{left[1]:.1f} L{right[0]:.1f},{right[1]:.1f} Z"
    return (
        f'<path class="{kind}" d="M{x1:g},{y1:g} L{x2 - u:.1f},{y2 - v:.1f}"/><path class="head" d="{head}"/>'
    )


def code(x: float, y: float, line: str, size: float = 11, anchor: str = "start") -> str:
    """Return text in the font of code."""
    return label(x, y, line, size, anchor).replace("<text ", '<text class="code" ')
