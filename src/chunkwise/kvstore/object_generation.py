"""Generations of objects: a zero byte and the ETag, or what else tells one from the next."""

from __future__ import annotations

from typing import Any

__all__ = ["e_tag_in", "generation_of", "version_in"]


def generation_of(meta: Any, *, by_version: bool) -> bytes:
    """Return the generation of an object.

    Parameters
    ----------
    meta : mapping
        What obstore tells of it: ``e_tag``, ``version``, and in place of an ETag ``last_modified``, ``size``.
    by_version : bool
        Whether conditional writes go by the version.
    """
    e_tag, version = meta["e_tag"], meta["version"]
    if by_version and version is not None:
        return b"\0" + f"{e_tag or ''}\n{version}".encode()
    if e_tag is None:
        return b"\0" + f"{meta['last_modified'].timestamp()} {meta['size']}".encode()
    return b"\0" + str(e_tag).encode()


def e_tag_in(generation: bytes) -> str | None:
    """Return the ETag in a generation; None if it can't be one of an object."""
    if generation[:1] != b"\0":
        return None
    text = generation[1:].decode("ascii", "replace").partition("\n")[0]
    return text if text and text.isprintable() and "�" not in text else None


def version_in(generation: bytes) -> str | None:
    """Return the version in a generation, if there is one."""
    return generation[1:].decode("ascii", "replace").partition("\n")[2] or None
