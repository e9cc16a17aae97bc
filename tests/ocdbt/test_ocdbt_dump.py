"""`chunkwise.ocdbt.dump` beside TensorStore's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorstore

import chunkwise as ts
from chunkwise.errors import DataCorruptionError, InvalidArgumentError, NotFoundError

CONFIGS = [
    {"max_inline_value_bytes": 2, "max_decoded_node_bytes": 60, "version_tree_arity_log2": 1},
    {"manifest_kind": "numbered", "compression": None, "max_inline_value_bytes": 3},
]


def links(value: Any) -> list[str]:
    """Return the locations in what was shown."""
    if isinstance(value, dict):
        own = [value[name] for name in ("location", "indirect_value") if name in value]
        return own + [text for member in value.values() for text in links(member)]
    return [text for member in value for text in links(member)] if isinstance(value, list) else []


@pytest.mark.parametrize("config", CONFIGS)
def test_every_part_is_shown_as_by_tensorstore(tmp_path: Path, config: dict[str, Any]) -> None:
    url = f"{tmp_path.as_uri()}/"
    spec = {"driver": "ocdbt", "base": url, "config": config, "value_data_prefix": "v %/é:/"}
    kv = ts.KvStore.open(spec).result()
    for i in range(6):
        kv[f"k{i}/aaaa"] = b"x" * (i + 1)
    base, peer = ts.KvStore.open(url).result(), tensorstore.KvStore.open(url).result()
    todo: list[str | None] = [None]
    shown = []
    while todo:
        node = todo.pop()
        found = ts.ocdbt.dump(base, node).result()
        assert found == tensorstore.ocdbt.dump(peer, node).result()
        todo += links(found)
        shown.append(found)
    assert b"xxxxxx" in shown


@pytest.mark.parametrize(
    ("node", "error", "text"),
    [
        ("d/a:0:1", InvalidArgumentError, "node: expected"),
        ("value::a:0:1:2", InvalidArgumentError, "node: expected"),
        ("btreenode::d/%2e%2e/a:0:5", InvalidArgumentError, "leads out of the database"),
        ("btreenode::manifest.ocdbt:0:40", DataCorruptionError, "Error reading the node"),
        ("value::d/none:0:1", DataCorruptionError, "is missing"),
    ],
)
def test_wrong_locations(tmp_path: Path, node: str, error: type[Exception], text: str) -> None:
    url = f"{tmp_path.as_uri()}/"
    ts.KvStore.open({"driver": "ocdbt", "base": url}).result()["a"] = b"b"
    with pytest.raises(error, match=text):
        ts.ocdbt.dump(ts.KvStore.open(url).result(), node).result()


def test_no_database(tmp_path: Path) -> None:
    base = ts.KvStore.open(f"{tmp_path.as_uri()}/").result()
    with pytest.raises(NotFoundError, match="there is no OCDBT database at"):
        ts.ocdbt.dump(base).result()
