"""``scale_index``, ``scale_metadata`` and ``multiscale_metadata`` of a spec: hard constraints on a scale.

``CodecSpec({"driver": "neuroglancer_precomputed", "encoding": …})``: how chunks are encoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_int, expect_one_of, expect_string
from chunkwise.core.driver.neuroglancer_precomputed.members import (
    Encoding,
    Info,
    Scale,
    parse_dtype,
    parse_resolution,
    parse_xyz,
    take_encoding,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError

__all__ = ["MEMBERS", "PrecomputedCodecSpec", "PrecomputedConstraints", "parse_constraints"]


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
        return cls._new(encoding=encoding, shard_data_encoding=shard_data_encoding)

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


MEMBERS = ("scale_index", "scale_metadata", "multiscale_metadata")


@dataclass(frozen=True, slots=True)
class PrecomputedConstraints:
    """Constraints of a spec; None for no constraint, vectors in the order x, y, z."""

    scale_index: int | None = None
    type: str | None = None
    dtype: DataType | None = None
    n_channels: int | None = None
    key: str | None = None
    size: tuple[int, ...] | None = None
    voxel_offset: tuple[int, ...] | None = None  # set if `size` is
    chunk_size: tuple[int, ...] | None = None
    resolution: tuple[float, ...] | None = None
    encoding: Encoding = field(default_factory=Encoding)
    block_size: tuple[int, ...] | None = None
    sharding: Any = MISSING  # None requires that there is none

    def to_json(self) -> dict[str, JSON]:
        """Return the members of a spec, without the data type, which every spec has."""
        multiscale: dict[str, JSON] = {"type": self.type, "num_channels": self.n_channels}
        scale: dict[str, JSON] = {"key": self.key}
        for name, value in (
            ("size", self.size),
            ("voxel_offset", self.voxel_offset),
            ("chunk_size", self.chunk_size),
            ("resolution", self.resolution),
            ("compressed_segmentation_block_size", self.block_size),
        ):
            scale[name] = None if value is None else list(value)
        scale |= self.encoding.to_json()
        out: dict[str, JSON] = {
            "scale_index": self.scale_index,
            "scale_metadata": {name: value for name, value in scale.items() if value is not None},
            "multiscale_metadata": {name: value for name, value in multiscale.items() if value is not None},
        }
        if self.sharding is not MISSING:
            out["scale_metadata"]["sharding"] = None if self.sharding is None else self.sharding.to_json()
        return {name: value for name, value in out.items() if value is not None and value != {}}

    def check_info(self, info: Info) -> None:
        """Raise if a volume doesn't match."""
        for name, wanted, found in (
            ("type", self.type, info.type),
            ("num_channels", self.n_channels, info.n_channels),
            ("data_type", None if self.dtype is None else self.dtype.name, info.dtype.name),
        ):
            if wanted is not None and wanted != found:
                raise _differs(name, wanted, found)

    def check_scale(self, scale: Scale) -> None:
        """Raise if a scale doesn't match."""
        found = scale.encoding
        for name, wanted, value in (
            ("key", self.key, scale.key),
            ("resolution", self.resolution, scale.resolution),
            ("encoding", self.encoding.name, found.name),
            ("jpeg_quality", self.encoding.jpeg_quality, found.jpeg_quality),
            ("png_level", self.encoding.png_level, found.png_level),
            ("compressed_segmentation_block_size", self.block_size, scale.block_size),
            ("size", self.size, scale.size),
            ("voxel_offset", self.voxel_offset, scale.voxel_offset),
        ):
            if wanted is not None and wanted != value:
                raise _differs(name, wanted, value)
        if self.chunk_size is not None and self.chunk_size not in scale.chunk_sizes:
            raise _differs("chunk_size", self.chunk_size, scale.chunk_sizes)
        if self.sharding is not MISSING and self.sharding != scale.sharding:
            both = [None if s is None else s.to_json() for s in (self.sharding, scale.sharding)]
            raise _differs("sharding", *both)


def _differs(name: str, wanted: JSON, found: JSON) -> FailedPreconditionError:
    return FailedPreconditionError(f'Expected "{name}" of {dump(wanted)} but received: {dump(found)}')


def parse_constraints(value: JSON) -> PrecomputedConstraints:
    """Read an object with the members `MEMBERS`."""
    members = Members(value)
    scale_index = members.take("scale_index", _unsigned, None)
    multiscale = members.take("multiscale_metadata", _multiscale, {})
    scale = members.take("scale_metadata", _scale, {})
    members.finish()
    return PrecomputedConstraints(scale_index=scale_index, **multiscale, **scale)


def _unsigned(value: JSON) -> int:
    try:
        return expect_int(value, 0)
    except SpecError:
        raise SpecError(f"Expected 64-bit unsigned integer, but received: {dump(value)}") from None


def _multiscale(value: JSON) -> dict[str, JSON]:
    members = Members(value)
    out = {
        "dtype": members.take("data_type", parse_dtype, None),
        "n_channels": members.take("num_channels", lambda v: expect_int(v, 1, 2**31 - 1), None),
        "type": members.take("type", expect_string, None),
    }
    members.finish()
    return out


def _scale(value: JSON) -> dict[str, JSON]:
    members = Members(value)
    size = members.take("size", parse_xyz(0, 2**61), None)

    def offset(value: JSON) -> tuple[int, ...]:
        if size is None:
            raise SpecError('cannot be specified without "size"')
        return parse_xyz(-(2**61), 2**61)(value)

    voxel_offset = members.take("voxel_offset", offset, None if size is None else (0, 0, 0))
    encoding = take_encoding(members)

    def block_size(value: JSON) -> tuple[int, ...]:
        if encoding.name != "compressed_segmentation":
            raise SpecError('Only valid for "compressed_segmentation" encoding')
        return parse_xyz(1, 2**31 - 1)(value)

    out = {
        "key": members.take("key", expect_string, None),
        "size": size,
        "voxel_offset": voxel_offset,
        "chunk_size": members.take("chunk_size", parse_xyz(1, 2**62), None),
        "resolution": members.take("resolution", parse_resolution, None),
        "encoding": encoding,
        "block_size": members.take("compressed_segmentation_block_size", block_size, None),
        "sharding": members.take("sharding", lambda v: None if v is None else Sharding.parse(v), MISSING),
    }
    members.finish()
    return out
