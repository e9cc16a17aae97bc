"""Ranges of keys in the order of their bytes.

Keys are ``str``; their order is that of their UTF-8 bytes.  A byte that is not UTF-8, which is a surrogate
escape in the ``str``, is compared as itself.  All keys that begin with ``p`` are one range: from ``p`` up to
``p`` with its last byte raised by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from chunkwise.core.base.binding import dump
from chunkwise.errors import InvalidArgumentError

__all__ = ["KeyRange", "decode_key", "encode_key", "prefix_end", "quote_key"]


def encode_key(key: str) -> bytes:
    """Return the bytes of `key`; raise InvalidArgumentError if it can't be encoded."""
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{dump(key)} has half of a surrogate pair, which has no UTF-8") from None


def quote_key(key: str, safe: str = "/-_.!~*'():@&=+$,;") -> str:
    """Return `key` quoted for a URL; raise InvalidArgumentError if it can't be encoded."""
    from urllib.parse import quote

    return quote(encode_key(key), safe=safe)


def decode_key(key: bytes) -> str:
    """Return the ``str`` for the bytes `key`; the inverse of `encode_key`."""
    return key.decode("utf-8", "surrogateescape")


def prefix_end(prefix: bytes) -> bytes:
    """Return the smallest key above all that begin with `prefix`, or ``b""`` (no bound).

    Examples
    --------
    >>> prefix_end(b"a/")
    b'a0'
    >>> prefix_end(b"a\\xff"), prefix_end(b"")
    (b'b', b'')
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else b""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `inclusive_min` up to but without `exclusive_max`, where ``b""`` is no bound.

    Examples
    --------
    >>> import chunkwise
    >>> "a/0" in KeyRange.of_prefix("a/"), "a0" in KeyRange.of_prefix("a/")
    (True, False)
    >>> chunkwise.KvStore.KeyRange(b"b", b"a").empty
    True
    """

    inclusive_min: bytes = b""
    exclusive_max: bytes = b""

    @classmethod
    def between(cls, start: str = "", stop: str = "") -> KeyRange:
        """Return the range ``[start, stop)``; an empty `stop` is no bound."""
        return cls(encode_key(start), encode_key(stop))

    @classmethod
    def of_prefix(cls, prefix: str) -> KeyRange:
        """Return the range of all keys that begin with `prefix`."""
        start = encode_key(prefix)
        return cls(start, prefix_end(start))

    @classmethod
    def of_key(cls, key: str) -> KeyRange:
        """Return the range that holds `key` alone."""
        start = encode_key(key)
        return cls(start, start + b"\0")

    @property
    def empty(self) -> bool:
        """True if no key lies in the range."""
        return bool(self.exclusive_max) and self.inclusive_min >= self.exclusive_max

    @property
    def unbounded(self) -> bool:
        """True if every key lies in the range."""
        return not self.inclusive_min and not self.exclusive_max

    @property
    def start(self) -> str:
        """`inclusive_min` as ``str``."""
        return decode_key(self.inclusive_min)

    @property
    def stop(self) -> str:
        """`exclusive_max` as ``str``."""
        return decode_key(self.exclusive_max)

    def __contains__(self, key: str | bytes) -> bool:
        raw = encode_key(key) if isinstance(key, str) else key
        return raw >= self.inclusive_min and (not self.exclusive_max or raw < self.exclusive_max)

    def intersect(self, other: KeyRange) -> KeyRange:
        """Return the keys that are in both ranges."""
        stops = [r.exclusive_max for r in (self, other) if r.exclusive_max]
        return KeyRange(max(self.inclusive_min, other.inclusive_min), min(stops, default=b""))

    def covers(self, prefix: str) -> bool:
        """Return True if all keys that begin with `prefix` are in the range."""
        inner = KeyRange.of_prefix(prefix)
        if inner.inclusive_min < self.inclusive_min:
            return False
        return not self.exclusive_max or b"" < inner.exclusive_max <= self.exclusive_max

    def overlaps(self, prefix: str) -> bool:
        """Return True if a key that begins with `prefix` could be in the range."""
        return not self.intersect(KeyRange.of_prefix(prefix)).empty

    def shifted(self, prefix: str) -> KeyRange:
        """Return the range in a store where `prefix` precedes these keys."""
        outer = encode_key(prefix)
        stop = outer + self.exclusive_max if self.exclusive_max else prefix_end(outer)
        return KeyRange(outer + self.inclusive_min, stop)

    def common_directory(self) -> str:
        """Return the longest prefix, empty or ending in ``"/"``, that all keys of the range share."""
        directory = self.inclusive_min[: self.inclusive_min.rfind(b"/") + 1]
        while directory:
            if self.exclusive_max and self.exclusive_max <= prefix_end(directory):
                break
            directory = directory[: directory.rfind(b"/", 0, -1) + 1]
        return decode_key(directory)
