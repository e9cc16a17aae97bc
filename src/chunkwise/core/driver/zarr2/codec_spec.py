"""``CodecSpec({"driver": "zarr", "compressor": …, "filters": …})``: how Zarr v2 chunks are encoded."""

from __future__ import annotations

from typing import Self

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, parse_array
from chunkwise.core.codec.codec_json import codec_to_json
from chunkwise.core.codec.zarr2 import parse_zarr2_step
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import InvalidArgumentError

__all__ = ["DEFAULT_COMPRESSOR", "Zarr2CodecSpec", "parse_compressor", "parse_filters"]

DEFAULT_COMPRESSOR: dict[str, JSON] = {
    "id": "blosc",
    "cname": "lz4",
    "clevel": 5,
    "shuffle": -1,
    "blocksize": 0,
}


def parse_compressor(value: JSON) -> dict[str, JSON] | None:
    """Check a ``compressor`` and fill in missing options; null means none."""
    return None if value is None else _canonical(value, is_compressor=True)


def parse_filters(value: JSON) -> list[dict[str, JSON]] | None:
    """Check ``filters`` and fill in missing options; an empty list is the same as null."""
    if value is None:
        return None
    return parse_array(value, lambda v: _canonical(v, is_compressor=False)) or None


def _canonical(value: JSON, *, is_compressor: bool) -> dict[str, JSON]:
    codec = parse_zarr2_step(value, is_last=is_compressor, serialized=not is_compressor)
    return codec_to_json(codec, "zarr2")


class Zarr2CodecSpec(CodecSpec):
    """Filters and compressor as a schema constraint."""

    driver = "zarr"
    compressor: JSON  # None requires that there is none; MISSING leaves it open
    # None leaves it open and also means none: TensorStore has no filters.
    filters: list[dict[str, JSON]] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        compressor = rest.take("compressor", parse_compressor, MISSING)
        filters = rest.take("filters", parse_filters, None)
        rest.finish()
        return cls.of(compressor, filters)

    @classmethod
    def of(cls, compressor: JSON, filters: list[dict[str, JSON]] | None) -> Self:
        """Return the constraint of already checked members."""
        self = cls._new()
        self.compressor = compressor
        self.filters = filters
        return self

    def _members(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {"filters": self.filters}
        if self.compressor is not MISSING:
            out["compressor"] = self.compressor
        return out

    def _merge(self, other: Self) -> Self:
        text = f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
        compressor = other.compressor if self.compressor is MISSING else self.compressor
        if MISSING not in (self.compressor, other.compressor) and self.compressor != other.compressor:
            raise InvalidArgumentError(f'{text}: "compressor" does not match')
        if self.filters is not None and other.filters is not None and self.filters != other.filters:
            raise InvalidArgumentError(f'{text}: "filters" does not match')
        return type(self).of(compressor, self.filters or other.filters)
