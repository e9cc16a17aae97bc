"""The record of an append, which its first array has, and the documents of the other arrays that name it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chunkwise.core.driver.tree_formats import DRIVERS
from chunkwise.core.kvstore.lease import is_blank, parse_lease
from chunkwise.core.kvstore.protocol import Buffer, Stamped
from chunkwise.core.kvstore.staging import APPEND
from chunkwise.core.kvstore.value_bound import read_bounded
from chunkwise.core.trees.growing import Growing
from chunkwise.core.trees.location import Location
from chunkwise.errors import FailedPreconditionError

__all__ = ["Record", "link_state", "members_of", "record_of", "state_of"]


class Record(NamedTuple):
    """The record of an append, as stored at its first array."""

    leader: Location
    found: Stamped
    document: dict[str, Any]

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the entry of each array, by its path."""
        return {_at(self.leader, name).path: entry for name, entry in self.document["arrays"].items()}


def state_of(
    number: str, arrays: Sequence[Growing], before: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the state of the record: complete, if the sizes `before` are given."""
    top = _dir(arrays[0].location)
    entries = {
        posixpath.relpath(_dir(array.location), top): {
            "format": array.format,
            "axis": array.axis,
            "rows": array.n_rows,
            **({} if before is None else {"before": before[array.location.path]}),
        }
        for array in arrays
    }
    return {"id": number, "state": "writing" if before is None else "complete", "arrays": entries}


def record_of(location: Location, found: Stamped) -> Record | None:
    """Return the record that the document of an array names or is; None if its append is over."""
    if found.value is None or is_blank(found.value):
        return None
    members = members_of(location, found.value)
    if "record" not in members:
        return Record(location, found, members)
    leader = _at(location, members["record"])
    there = read_bounded(leader.store, leader.path + APPEND)
    if there.value is None or is_blank(there.value):
        return None
    document = members_of(leader, there.value)
    return Record(leader, there, document) if document["id"] == members["id"] else None


def members_of(location: Location, value: Buffer) -> dict[str, Any]:
    """Return a checked document; any program may have written it."""
    where = location.describe(APPEND)
    members = parse_lease(value, where)
    if isinstance(members.get("id"), str) and isinstance(members.get("record"), str):
        return members
    arrays = members.get("arrays")
    if (
        isinstance(members.get("id"), str)
        and members.get("state") in ("writing", "complete")
        and isinstance(arrays, dict)
        and all(isinstance(entry, dict) and _is_entry(entry, members["state"]) for entry in arrays.values())
    ):
        return members
    raise FailedPreconditionError(f"{where} is damaged, or another's: it describes no append")


def _is_entry(entry: Mapping[str, Any], state: str) -> bool:
    names = ("axis", "rows", *(("before",) if state == "complete" else ()))
    return entry.get("format") in DRIVERS and all(
        type(entry.get(name)) is int and entry[name] >= 0 for name in names
    )


def link_state(number: str, location: Location, leader: Location) -> dict[str, Any]:
    """Return the state of the document of an array that names the record at the first array."""
    return {"id": number, "record": posixpath.relpath(_dir(leader), _dir(location))}


def _dir(location: Location) -> str:
    return "/" + location.path.rstrip("/")


def _at(location: Location, relative: str) -> Location:
    """Return the location of another array of the same append."""
    depth = location.path.count("/")
    if posixpath.normpath(relative).split("/").count("..") > depth:
        raise FailedPreconditionError(
            f"an append to {location.text} and other arrays was not finished, and those can't be found from "
            "here: append through the group that they are in"
        )
    path = posixpath.normpath(posixpath.join(_dir(location), relative)).strip("/")
    return location.at(path + "/" if path else "")
