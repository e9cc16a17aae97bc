"""Writing local files as a whole, such as the JSON spec of a stack."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chunkwise.core.base.binding import JSON
from chunkwise.errors import FailedPreconditionError, NotFoundError

__all__ = ["replacing", "write_spec_file"]


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
