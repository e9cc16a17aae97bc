"""Line breaks in inline code: names stay whole, long code breaks after its signs."""

from __future__ import annotations

import re
from html import unescape

LONGEST_NAME = 20
"""Characters of the longest code that stays whole."""

_IN_A_LINE = re.compile(r"(?<!<span></span>)<code>([^<]*)</code>")
_SIGNS = re.compile(r"((?:&\w+;|[^\w\s&])*[./(,=:|])(?=\w|[\"'\[{<…]|&)")
_WORDS = re.compile(rf"\w{{{LONGEST_NAME},}}")


def with_breaks(html: str) -> str:
    """Return a page with inline code marked as whole, or with possible breaks."""
    return _IN_A_LINE.sub(_one, html)


def _one(found: re.Match[str]) -> str:
    code = found[1].replace(r"\|", "|")  # the escape of a bar in a table, which Markdown keeps in code
    if len(unescape(code)) <= LONGEST_NAME and not re.search(r"\s", code):
        return f'<code class="name">{code}</code>'
    parts = (_WORDS.sub(lambda word: word[0].replace("_", "_<wbr>"), part) for part in _SIGNS.split(code))
    return (
        "<code>"
        + "".join(f"{part}<wbr>" if number % 2 else part for number, part in enumerate(parts))
        + "</code>"
    )
