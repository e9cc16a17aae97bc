"""Parts of an OCDBT database as they are stored, as JSON with byte strings."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.adapter.ocdbt_database import Database
from chunkwise.core.kvstore.ocdbt.config import format_config
from chunkwise.core.kvstore.ocdbt.manifest import Manifest
from chunkwise.core.kvstore.ocdbt.node import Inner, read_node
from chunkwise.core.kvstore.ocdbt.places import DataFile, Place, is_inside
from chunkwise.core.kvstore.ocdbt.versions import Statistics, Subtree, Version, parse_version_node
from chunkwise.errors import InvalidArgumentError, NotFoundError

__all__ = ["dump_part", "parse_location"]

_LOCATION = re.compile(r"(value|btreenode|versionnode):([^:]*):([^:]*):([0-9]{1,19}):([0-9]{1,19})")


def parse_location(text: str) -> tuple[str, Place]:
    """Return the kind and the place of a part, from its text in the content of another part."""
    match = _LOCATION.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(
            f'node: expected "btreenode", "versionnode" or "value", the parts of a path, an offset and a '
            f'length, with ":" between them, not {text!r}'
        )
    file = DataFile(unquote_to_bytes(match[2]), unquote_to_bytes(match[3]))
    if not is_inside(file.key):
        raise InvalidArgumentError(f"node: {text!r} leads out of the database")
    return match[1], Place(file, int(match[4]), int(match[5]))


def dump_part(database: Database, part: tuple[str, Place] | None) -> Any:
    """Return a part of the database, the manifest for None."""
    if part is None:
        manifest = database.current().manifest
        if manifest is None:
            raise NotFoundError(f"there is no OCDBT database at {database.manifests.describe('')}")
        return _manifest(manifest)
    kind, place = part
    if kind == "value":
        return bytes(database.read_place(place))
    return database.read_node(place, _node if kind == "btreenode" else _versions)


def _location(kind: str, place: Place) -> str:
    file = place.file
    return f"{kind}:{quote(file.base)}:{quote(file.relative)}:{place.offset}:{place.length}"


def _statistics(found: Statistics) -> dict[str, int]:
    return {
        "num_indirect_value_bytes": found.n_value_bytes,
        "num_keys": found.n_keys,
        "num_tree_bytes": found.n_tree_bytes,
    }


def _version(version: Version) -> dict[str, JSON]:
    location = {} if version.root.is_missing else {"location": _location("btreenode", version.root)}
    return {
        "commit_time": version.time,
        "generation_number": version.generation,
        "root": {**location, "statistics": _statistics(version.statistics)},
        "root_height": version.height,
    }


def _subtree(subtree: Subtree) -> dict[str, JSON]:
    return {
        "commit_time": subtree.time,
        "generation_number": subtree.generation,
        "height": subtree.height,
        "location": _location("versionnode", subtree.place),
        "num_generations": subtree.n_generations,
    }


def _manifest(manifest: Manifest) -> dict[str, JSON]:
    given = manifest.config._asdict()
    if given["manifest_kind"] == "single" or manifest.versions:  # that of a numbered one is "single"
        del given["manifest_kind"]
    return {
        "config": format_config(given),
        "version_tree_nodes": [_subtree(subtree) for subtree in manifest.subtrees],
        "versions": [_version(version) for version in manifest.versions],
    }


def _node(raw: Any, above: bytes) -> dict[str, JSON]:
    node = read_node(raw, above, b"", None)
    entries: list[dict[str, JSON]] = []
    if isinstance(node, Inner):
        entries = [
            {
                "key": child.key,
                "location": _location("btreenode", child.place),
                "statistics": _statistics(child.statistics),
                "subtree_common_prefix": child.key[: child.shared],
            }
            for child in node.entries
        ]
    else:
        for key, value in node.entries:
            stored = (
                {"indirect_value": _location("value", value)}
                if isinstance(value, Place)
                else {"inline_value": bytes(value)}
            )
            entries.append({**stored, "key": key})
    return {"entries": entries, "height": node.height}


def _versions(raw: Any, above: bytes) -> dict[str, JSON]:
    arity_log2, node = parse_version_node(raw, above)
    entries = [_version(v) for v in node.versions] + [_subtree(s) for s in node.subtrees]
    return {"entries": entries, "height": node.height, "version_tree_arity_log2": arity_log2}
