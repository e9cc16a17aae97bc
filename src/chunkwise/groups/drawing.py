"""Drawings of trees as text and HTML, from the documents of the nodes alone.

Arrays are not opened, so those with unknown codecs or data types are shown too.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chunkwise.copying.summary import describe_node
from chunkwise.core.trees.link import without_links
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.tree import Tree, group_links
from chunkwise.errors import ChunkwiseError

__all__ = ["Drawing", "branch", "rails", "short"]

_WIDTH = 60


class _Line(NamedTuple):
    depth: int
    name: str
    what: str
    attributes: Mapping[str, Any]
    last: tuple[bool, ...]  # for each depth, whether no sibling follows
    is_group: bool


class Drawing:
    """Result of `Group.tree`: printed, it is text; in a notebook, HTML."""

    def __init__(
        self,
        tree: Tree,
        names: tuple[str, ...],
        node: Node,
        *,
        depth: int | None = None,
        attributes: bool = False,
        most: int | None = None,
    ) -> None:
        self._tree = tree
        self._names = names
        self._node = node
        self._depth = depth
        self._attributes = attributes
        self._most = most

    def _lines(self) -> Iterator[_Line]:
        node = self._node
        yield _Line(
            0, "/" + "/".join(self._names), describe_node(node), self._shown(self._names, node), (), True
        )
        yield from self._below(self._names, node, ())

    def _below(self, names: tuple[str, ...], node: Node, last: tuple[bool, ...]) -> Iterator[_Line]:
        depth = len(last) + 1
        if self._depth is not None and depth > self._depth:
            return
        children = set(self._tree.children(names, node))
        links = group_links(self._tree, names, node)
        entries = sorted(children.union(links))
        shown = entries if self._most is None else entries[: self._most]
        left = len(entries) - len(shown)
        for number, name in enumerate(shown):
            ends = (*last, number == len(shown) - 1 and not left)
            below = self._find((*names, name), node) if name in children else None
            if below is None:  # a directory that isn't part of the tree, or only a link
                if name in links:
                    yield _Line(depth, name, f"-> {links[name]}", {}, ends, False)
                continue
            if isinstance(below, str):
                yield _Line(depth, name, below, {}, ends, False)
                continue
            is_group = below.kind == "group"
            yield _Line(depth, name, describe_node(below), self._shown((*names, name), below), ends, is_group)
            if is_group:
                yield from self._below((*names, name), below, ends)
        if left:
            yield _Line(depth, f"… {left} more", "", {}, (*last, True), False)

    def _find(self, names: tuple[str, ...], parent: Node) -> Node | str | None:
        try:
            return self._tree.find(names, parent.format)
        except ChunkwiseError as e:
            return f"can't be read: {e.message}"

    def _shown(self, names: tuple[str, ...], node: Node) -> Mapping[str, Any]:
        if not self._attributes:
            return {}
        return without_links(self._tree.attributes(names, node).asdict())

    def __str__(self) -> str:
        left, right = [], []
        for line in self._lines():
            left.append(f"{branch(line.last)}{line.name}")
            right.append(line.what)
            for name, value in line.attributes.items():
                left.append(f"{rails(line.last)}  @{name} = {short(value)}")
                right.append("")
        described = [len(text) for text, what in zip(left, right, strict=True) if what]
        width = min(max(described, default=0), _WIDTH)
        return "\n".join(f"{a:<{width}}  {b}".rstrip() for a, b in zip(left, right, strict=True))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        out: list[str] = ['<div class="chunkwise-tree" style="font-family: monospace">']
        depth = -1
        for line in self._lines():
            while depth >= line.depth:
                out.append("</ul></details></li>" if depth else "</ul></details>")
                depth -= 1
            label = f"<b>{html.escape(line.name)}</b> {html.escape(line.what)}"
            for name, value in line.attributes.items():
                label += f"<br/><i>{html.escape(name)}</i> = {html.escape(short(value))}"
            if not line.is_group:
                out.append(f"<li>{label}</li>")
                continue
            opening = "<details open>" if line.depth < 2 else "<details>"
            item = "<li>" if line.depth else ""
            out.append(f"{item}{opening}<summary>{label}</summary><ul>")
            depth = line.depth
        while depth >= 0:
            out.append("</ul></details></li>" if depth else "</ul></details>")
            depth -= 1
        return "".join([*out, "</div>"])


def rails(last: Sequence[bool]) -> str:
    """Return the text in front of a line below a node; `last` says by depth where no sibling follows."""
    return "".join("    " if end else "│   " for end in last)


def branch(last: Sequence[bool]) -> str:
    """Return the text in front of the name of a node; see `rails`."""
    return rails(last[:-1]) + ("└── " if last[-1] else "├── ") if last else ""


def short(value: Any) -> str:
    """Return a JSON value as text of at most 60 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
