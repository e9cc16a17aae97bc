"""``CodecSpec({"driver": "n5", "compression": {"type": …}})``: how N5 blocks are compressed."""

from __future__ import annotations

from typing import Self

from chunkwise.core.base.binding import JSON, Members, dump
from chunkwise.core.codec.n5_parts import parse_compression
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import InvalidArgumentError

__all__ = ["N5CodecSpec"]


class N5CodecSpec(CodecSpec):
    """The compression as a schema constraint."""

    driver = "n5"
    # The ``compression`` object with all defaults filled in; None leaves it open.
    compression: dict[str, JSON] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        compression = rest.take("compression", lambda value: parse_compression(value)[0], None)
        rest.finish()
        return cls.of(compression)

    @classmethod
    def of(cls, compression: dict[str, JSON] | None) -> Self:
        """Return the constraint of an already checked ``compression``."""
        self = cls._new()
        self.compression = compression
        return self

    def _members(self) -> dict[str, JSON]:
        return {} if self.compression is None else {"compression": self.compression}

    def _merge(self, other: Self) -> Self:
        if self.compression is None or other.compression is None:
            return self if other.compression is None else other
        if self.compression != other.compression:
            raise InvalidArgumentError(
                f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}: "
                '"compression" does not match'
            )
        return self
