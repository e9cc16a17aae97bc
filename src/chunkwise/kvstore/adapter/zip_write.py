"""Writing a ZIP archive, whole."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from typing import Literal

from chunkwise.binding import dump
from chunkwise.errors import AbortedError, InvalidArgumentError
from chunkwise.kvstore.key_range import encode_key
from chunkwise.kvstore.protocol import Buffer, Writable

__all__ = ["check_member_name", "make_archive", "write_archive"]

_EPOCH = (1980, 1, 1, 0, 0, 0)
_METHODS = {"store": zipfile.ZIP_STORED, "deflate": zipfile.ZIP_DEFLATED}


def write_archive(
    base: Writable,
    key: str,
    items: Iterable[tuple[str, Buffer]],
    *,
    compression: Literal["deflate", "store"] = "store",
) -> bytes:
    """Write a ZIP archive of `items` as the value `key` of `base`; return its generation.

    Parameters
    ----------
    base : Writable
        Where it is written, as one value: all of it is in memory once.
    key : str
        Its key.
    items : iterable of (str, bytes-like)
        Names and values.
    compression : {"deflate", "store"}

    Raises
    ------
    InvalidArgumentError
        For a name twice, or one that a reader would refuse or see changed.
    """
    generation = base.write(key, make_archive(items, compression=compression))
    if generation is None:
        raise AbortedError(f"Error writing {dump(key)}: an unconditional write was refused")
    return generation


def make_archive(
    items: Iterable[tuple[str, Buffer]], *, compression: Literal["deflate", "store"] = "store"
) -> memoryview:
    """Return a ZIP archive of `items`.

    Members are sorted by name and dated 1980-01-01, so the same items are the same bytes.
    """
    memory = io.BytesIO()
    previous = None
    with zipfile.ZipFile(memory, "w") as archive:
        for name, value in sorted(items, key=lambda item: encode_key(item[0])):
            check_member_name(name)
            if name == previous:
                raise InvalidArgumentError(f"Invalid ZIP member name: {dump(name)}: it is there twice")
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), value, compress_type=_METHODS[compression])
            previous = name
    return memory.getbuffer()


def check_member_name(name: str) -> None:
    """Raise for a name that a reader would refuse or see changed.

    Raises
    ------
    InvalidArgumentError
        If a component of it is empty or "..", or it has NUL or is not UTF-8.
    """
    if "\0" in name or any(part in ("", "..") for part in name.split("/")) or not _is_utf8(name):
        raise InvalidArgumentError(
            f"Invalid ZIP member name: {dump(name)}: expected a relative path in UTF-8 without empty "
            'components, ".." or NUL'
        )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
