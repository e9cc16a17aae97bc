"""Probe of the conditional writes of a bucket.

Servers differ: some ignore the conditions and overwrite, some expect ETags without the quotation marks that
they send, some answer reads with other ETags than writes, or with none.  So before a process's first
conditional write to a bucket, a scratch key next to the key in question is written a few times and deleted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from chunkwise.core.kvstore.objects.failure import failure_of
from chunkwise.core.kvstore.protocol import Buffer

if TYPE_CHECKING:
    import obstore.store

__all__ = ["ConditionalWrites", "head_marked", "probe", "put_marked", "update_mode"]


class ConditionalWrites(NamedTuple):
    """Conditions that a server honours."""

    create: bool  # write only if the value is missing
    replace: bool  # write only if the present value is the expected one
    quoted: bool  # ETags are sent back in quotation marks
    why: str = ""  # why not, if known
    same_tags: bool = True  # writes and reads are answered with the same ETag
    keeps_marks: bool = False  # stored values show which write they are of

    @property
    def safe(self) -> bool:
        """True if concurrent writers of parts of a value lose nothing."""
        return self.create and self.replace


def probe(library: ModuleType, store: obstore.store.ObjectStore, key: str) -> ConditionalWrites:
    """Return the conditions that the server of `store` honours, tested with a scratch key beside `key`."""
    directory, slash, _ = key.rpartition("/")
    scratch = f"{directory}{slash}.chunkwise-probe-{os.urandom(16).hex()}"

    mark = os.urandom(16).hex()

    def put(value: bytes, mode: str | dict[str, str]) -> Any:
        """Return the result; None if the condition failed or is not supported."""
        nonlocal mark
        try:
            return put_marked(library, store, scratch, value, mark, mode=mode, use_multipart=False)
        except Exception as e:
            kind = failure_of(e).kind
            if kind == "unsupported" and mark:  # perhaps the mark, perhaps the condition
                mark = ""
                return put(value, mode)
            if kind in ("exists", "mismatch", "unsupported"):
                return None
            raise

    def unsafe(why: str) -> ConditionalWrites:
        return ConditionalWrites(create, False, True, why)

    create = False
    try:
        first = put(b"1", "create")
        create = first is not None and put(b"2", "create") is None
        first = first or put(b"1", "overwrite")
        wrong = {"e_tag": '"00000000000000000000000000000000"', "version": "1"}
        if not create:
            return ConditionalWrites(
                create,
                False,
                True,
                "the server replaces existing values where only new ones are allowed",
            )
        if put(b"3", wrong) is not None:
            return ConditionalWrites(
                create, False, True, "the server ignores the ETag that a write depends on"
            )
        # A change begins with a read, so the ETag of a read counts.
        read, head = library.get(store, scratch).meta, head_marked(library, store, scratch)
        tag, version = read["e_tag"], read["version"]
        if tag is None and version is None:
            return unsafe("the server answers a read without an ETag")
        if tag != head["e_tag"]:
            return ConditionalWrites(
                create, False, True, "the server's ETags in answers to GET and HEAD differ"
            )
        for quoted in (True, False):
            if put(b"4", update_mode(tag, version, quoted=quoted)) is not None:
                is_marked = bool(mark) and head["mark"] == mark
                return ConditionalWrites(create, True, quoted, "", first["e_tag"] == tag, is_marked)
        return ConditionalWrites(
            create, False, True, "the server refuses the ETag that it answers a read with"
        )
    finally:
        library.delete(store, scratch)


def put_marked(
    library: ModuleType, store: obstore.store.ObjectStore, key: str, value: Buffer, mark: str, **options: Any
) -> Any:
    """Store a value, with the mark of this write unless that is empty."""
    if mark:
        over_obstore = isinstance(library, ModuleType)
        options |= {"attributes": {_mark_name(store): mark}} if over_obstore else {"mark": mark}
    return library.put(store, key, value, **options)


def head_marked(library: ModuleType, store: obstore.store.ObjectStore, key: str) -> Mapping[str, Any]:
    """Return the metadata of a value, with the ``mark`` of the write that stored it; None if it has none."""
    if not isinstance(library, ModuleType):
        found: Mapping[str, Any] = library.head(store, key)
        return found
    answer = library.get(store, key, options={"head": True})
    return {**answer.meta, "mark": answer.attributes.get(_mark_name(store))}


def _mark_name(store: obstore.store.ObjectStore) -> str:
    return "chunkwise_write" if type(store).__name__ == "AzureStore" else "chunkwise-write"


def update_mode(e_tag: str | None, version: str | None, *, quoted: bool) -> dict[str, str]:
    """Return obstore's mode for a write that replaces only one version."""
    if e_tag is not None and not e_tag.startswith("W/"):
        e_tag = f'"{e_tag.strip(chr(34))}"' if quoted else e_tag.strip('"')
    return {name: value for name, value in (("e_tag", e_tag), ("version", version)) if value is not None}
