"""What `diff` says of two trees: each thing that differs, by its path, with both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw


def _tree(place: Path, format: str = "zarr3", **changes: Any) -> Path:
    group = cw.create_group(place, format=format)
    group.attrs["k"] = changes.get("attribute", "a")
    below = group.create_group("s")
    values = np.arange(4)
    values[2] += changes.get("more", 0)
    fill, codec = changes.get("fill_value", 0), changes.get("codec", "zstd:3")
    below.create_array("x", values, fill_value=fill, codec=codec, chunks=changes.get("chunks", 4))
    below.create_array("y", np.arange(2), codec="zstd:3", dimension_names=changes.get("names", ["t"]))
    for name, target in changes.get("links", {"to": "s/x"}).items():
        group.create_link(name, target)
    if "other" in changes:
        group.create_array(changes["other"], np.arange(2))
    return place


DIFFERENCES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "attribute": ({"attribute": "b"}, ['.: attribute "k": "a" | "b"']),
    "array": ({"other": "z"}, ["z: nothing | array"]),
    "values": ({"more": 1}, ["s/x: values (1 of 4 differ; the first at [2]): 2 | 3"]),
    "names": ({"names": ["u"]}, ['s/y: dimension_names: ["t"] | ["u"]']),
    "link": ({"links": {"to": "s/y"}}, ['to: link: "/s/x" | "/s/y"']),
    "a link less": ({"links": {}}, ['to: link: "/s/x" | null']),
    "a link more": ({"links": {"to": "s/x", "too": "s/x"}}, ['too: link: null | "/s/x"']),
    "fill value": ({"fill_value": 1}, ["s/x: fill_value: 0 | 1"]),
    "codec": ({"codec": "gzip:3"}, ['s/x: codec: "zstd:3" | "gzip:3"']),
    "chunks": ({"chunks": 2}, ["s/x: chunks: [4] | [2]"]),
    "format": ({"format": "zarr2"}, [f'{at}: format: "zarr3" | "zarr2"' for at in (".", "s", "s/x", "s/y")]),
}
LAYOUT = ("fill value", "codec", "chunks", "format")


@pytest.mark.parametrize("what", DIFFERENCES)
def test_what_differs_is_said_and_nothing_else(tmp_path: Path, what: str) -> None:
    changes, expected = DIFFERENCES[what]
    one, other = _tree(tmp_path / "a"), _tree(tmp_path / "b", **changes)
    assert [str(found) for found in cw.diff(one, other)] == ([] if what in LAYOUT else expected)
    assert [str(found) for found in cw.diff(one, other, layout=True)] == expected
