"""``CodecSpec({"driver": "zarr3", "codecs": […]})``: a codec chain as a schema constraint."""

from __future__ import annotations

from typing import Self

from chunkwise.core.base.binding import JSON, Members, dump
from chunkwise.core.driver.zarr3.codec_constraints import merge_chains, parse_chain
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import ChunkwiseError, prefix

__all__ = ["Zarr3CodecSpec"]


class Zarr3CodecSpec(CodecSpec):
    """A partial or complete Zarr v3 codec chain."""

    driver = "zarr3"
    # Entries ``{"name": …, "configuration": …}``; None leaves everything open.
    codecs: list[dict[str, JSON]] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        codecs = rest.take("codecs", parse_chain, None)
        rest.finish()
        return cls.of(codecs)

    @classmethod
    def of(cls, codecs: list[dict[str, JSON]] | None) -> Self:
        """Return the constraint of an already parsed chain."""
        self = cls._new()
        self.codecs = codecs
        return self

    def _members(self) -> dict[str, JSON]:
        return {} if self.codecs is None else {"codecs": self.codecs}

    def _merge(self, other: Self) -> Self:
        if self.codecs is None or other.codecs is None:
            return self if other.codecs is None else other
        try:
            return type(self).of(merge_chains(self.codecs, other.codecs))
        except ChunkwiseError as e:
            raise prefix(
                e, f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
            ) from None
