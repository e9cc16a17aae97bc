"""Local files of commands: the JSON spec of an array, such as a stack, and what is written as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chunkwise.binding import JSON
from chunkwise.errors import FailedPreconditionError, NotFoundError
from chunkwise.hierarchy.location import locate
from chunkwise.kvstore.value_bound import read_bounded
from chunkwise.spec.url import is_url

__all__ = ["read_spec_file", "replacing", "write_spec_file"]

_SUFFIX = ".json"


def read_spec_file(place: str | os.PathLike[str]) -> dict[str, JSON] | None:
    """Return the spec in a file called ``*.json``, perhaps a URL; None if `place` is no such file."""
    text = os.fspath(place)
    if not text.endswith(_SUFFIX):
        return None
    if is_url(text):
        location = locate(text)
        try:
            raw = read_bounded(location.store, location.path.rstrip("/")).value
        except FailedPreconditionError:  # a directory of this name
            raw = None
    else:
        raw = Path(text).read_bytes() if os.path.isfile(text) else None
    if raw is None:
        return None
    try:
        spec = json.loads(bytes(raw))
    except (ValueError, RecursionError) as e:
        raise FailedPreconditionError(f"{text}: Invalid JSON: {e}") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("driver"), str):
        raise FailedPreconditionError(
            f'{text}: expected the spec of an array, a JSON object with the member "driver"'
        )
    return spec


def write_spec_file(path: str | os.PathLike[str], spec: dict[str, JSON]) -> None:
    """Write a spec; a reader at the same time sees the old one or the new one."""
    with replacing(path) as part:
        part.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a file to be written, which takes the name `path` if there is no error."""
    above = Path(path).parent
    if not above.is_dir():
        raise NotFoundError(f"{os.fspath(path)}: there is no directory {above}")
    if Path(path).is_dir():
        raise FailedPreconditionError(f"{os.fspath(path)} is a directory, expected the name of a file")
    part = Path(f"{os.fspath(path)}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
