"""Writing local files as a whole, such as the JSON spec of a stack."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chunkwise.core.base.binding import JSON
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError

__all__ = ["check_new_file", "replacing", "write_spec_file"]


def write_spec_file(path: str | os.PathLike[str], spec: dict[str, JSON], *, overwrite: bool) -> None:
    """Write a spec; a reader at the same time sees the old one or the new one."""
    with replacing(path, overwrite=overwrite) as part:
        part.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Yield the path of a file to be written, which takes the name `path` if there is no error."""
    check_new_file(path, overwrite=overwrite)
    part = Path(f"{os.fspath(path)}.part")
    try:
        yield part
        check_new_file(path, overwrite=overwrite)  # there may be one by now
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise if a file can't be made, or if anything of that name, even a link, is there unasked."""
    text, above = os.fspath(path), Path(path).parent
    if not above.is_dir():
        raise NotFoundError(f"{text}: there is no directory {above}")
    if Path(path).is_dir():
        raise FailedPreconditionError(f"{text} is a directory, expected the name of a file")
    if not overwrite and os.path.lexists(path):
        raise AlreadyExistsError(f"{text} exists already; --overwrite replaces it")
