"""``CodecSpec({"driver": "neuroglancer_precomputed", "encoding": …})``: how chunks are encoded."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from chunkwise.core.base.binding import JSON, Members, dump, expect_one_of
from chunkwise.core.driver.neuroglancer_precomputed.members import Encoding, take_encoding
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import InvalidArgumentError

__all__ = ["PrecomputedCodecSpec"]


class PrecomputedCodecSpec(CodecSpec):
    """Encoding of chunks, and compression of the content of shards, as a schema constraint."""

    driver = "neuroglancer_precomputed"
    encoding: Encoding
    shard_data_encoding: str | None  # None means open

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        encoding = take_encoding(rest)
        choose = partial(expect_one_of, choices=("raw", "gzip"))
        shard_data_encoding = rest.take("shard_data_encoding", choose, None)
        rest.finish()
        return cls.of(encoding, shard_data_encoding)

    @classmethod
    def of(cls, encoding: Encoding, shard_data_encoding: str | None) -> Self:
        """Return the constraint of checked members."""
        self = cls._new()
        self.encoding = encoding
        self.shard_data_encoding = shard_data_encoding
        return self

    def _members(self) -> dict[str, JSON]:
        out = self.encoding.to_json()
        if self.shard_data_encoding is not None:
            out["shard_data_encoding"] = self.shard_data_encoding
        return out

    def _merge(self, other: Self) -> Self:
        mine = (*self.encoding, self.shard_data_encoding)
        theirs = (*other.encoding, other.shard_data_encoding)
        names = (*Encoding._fields, "shard_data_encoding")
        for name, a, b in zip(names, mine, theirs, strict=True):
            if a is not None and b is not None and a != b:
                raise InvalidArgumentError(
                    f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}: "
                    f'"{"encoding" if name == "name" else name}" mismatch'
                )
        merged: list[Any] = [b if a is None else a for a, b in zip(mine, theirs, strict=True)]
        return self.of(Encoding(*merged[:-1]), merged[-1])
