"""The members of an ``info`` document, as stored and in specs.

Specification
-------------
neuroglancer, "Precomputed chunk/volume format".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from chunkwise.core.base.binding import (
    JSON,
    MISSING,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_number,
    expect_object,
    expect_one_of,
    expect_string,
    parse_array,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.data_type import dtype as as_dtype
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError

__all__ = [
    "INFO_KEY",
    "VOLUME_TYPE",
    "Encoding",
    "Info",
    "Scale",
    "check_dtype",
    "check_encoding",
    "default_scale_key",
    "new_info",
    "parse_info",
    "parse_scale",
    "parse_xyz",
    "take_encoding",
]

INFO_KEY = "info"
VOLUME_TYPE = "neuroglancer_multiscale_volume"
ENCODINGS = ("raw", "png", "jpeg", "compressed_segmentation")
_DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "uint64", "float32")
_MAX_CHANNELS = 2**31 - 1
_DEFAULT_JPEG_QUALITY = 75


def check_dtype(dtype: DataType) -> DataType:
    """Return `dtype`; raise for one that the format lacks."""
    if dtype.name not in _DTYPES:
        raise InvalidArgumentError(
            f"{dtype.name} data type is not one of the supported data types: {', '.join(_DTYPES)}"
        )
    return dtype


def parse_dtype(value: JSON) -> DataType:
    """Read ``data_type``."""
    return check_dtype(as_dtype(expect_string(value)))


class Encoding(NamedTuple):
    """Encoding of chunks; members that are None are open."""

    name: str | None = None
    jpeg_quality: int | None = None
    png_level: int | None = None

    def to_json(self) -> dict[str, JSON]:
        """Return the members."""
        out = {"encoding": self.name, "jpeg_quality": self.jpeg_quality, "png_level": self.png_level}
        return {name: value for name, value in out.items() if value is not None}


def take_encoding(members: Members, default: Any = None) -> Encoding:
    """Take ``encoding`` and its options; `default` replaces a missing ``encoding``."""
    choose = partial(expect_one_of, choices=ENCODINGS)
    name = (
        members.take("encoding", choose) if default is MISSING else members.take("encoding", choose, default)
    )
    found = []
    for member, encoding, top in (("jpeg_quality", "jpeg", 100), ("png_level", "png", 9)):

        def parse(value: JSON, encoding: str = encoding, top: int = top) -> int:
            if name != encoding:
                raise SpecError(f"Only valid for {dump(encoding)} encoding")
            return expect_int(value, 0, top)

        found.append(members.take(member, parse, None))
    return Encoding(name, *found)


def check_encoding(encoding: str | None, dtype: DataType | None, n_channels: int | None) -> None:
    """Raise if an encoding can't have this data type or number of channels; None means unknown."""

    def fail(text: str) -> FailedPreconditionError:
        return FailedPreconditionError(text)

    name = None if dtype is None else dtype.name
    if encoding == "jpeg":
        if name not in (None, "uint8"):
            raise fail(f'"jpeg" encoding only supported for uint8, not for {name}')
        if n_channels not in (None, 1, 3):
            raise fail(f'"jpeg" encoding only supports 1 or 3 channels, not {n_channels}')
    elif encoding == "png":
        if name not in (None, "uint8", "uint16"):
            raise fail(f'"png" encoding only supported for uint8 and uint16, not for {name}')
        if n_channels is not None and n_channels > 4:
            raise fail(f'"png" encoding only supports 1 to 4 channels, not {n_channels}')
    elif encoding == "compressed_segmentation" and name not in (None, "uint32", "uint64"):
        raise fail(f"compressed_segmentation encoding only supported for uint32 and uint64, not for {name}")


def parse_xyz(lowest: int, highest: int = 2**63 - 1) -> Callable[[JSON], tuple[int, int, int]]:
    """Return a function that reads three whole numbers, at least `lowest`."""

    def parse(value: JSON) -> tuple[int, int, int]:
        x, y, z = parse_array(value, lambda n: expect_int(n, lowest, highest), 3)
        return x, y, z

    return parse


def parse_resolution(value: JSON) -> tuple[float, ...]:
    """Read ``resolution``, in nanometres."""
    return tuple(parse_array(value, expect_number, 3))


def default_scale_key(resolution: tuple[float, ...]) -> str:
    """Return TensorStore's key of a scale: ``8_8.25_40`` of ``(8.0, 8.25, 40.0)``."""
    return "_".join(f"{n:.6g}" for n in resolution)


@dataclass(frozen=True, slots=True)
class Scale:
    """One of the scales of a volume; all vectors are in the order x, y, z."""

    key: str
    size: tuple[int, ...]
    voxel_offset: tuple[int, ...]
    resolution: tuple[float, float, float]  # in nanometres
    chunk_sizes: tuple[tuple[int, int, int], ...]
    encoding: Encoding
    block_size: tuple[int, int, int] | None  # of compressed_segmentation
    sharding: Sharding | None

    def to_json(self) -> dict[str, JSON]:
        """Return the members for ``info``."""
        out: dict[str, JSON] = {
            "key": self.key,
            "size": list(self.size),
            "voxel_offset": list(self.voxel_offset),
            "resolution": list(self.resolution),
            "chunk_sizes": [list(size) for size in self.chunk_sizes],
            **self.encoding.to_json(),
        }
        if self.block_size is not None:
            out["compressed_segmentation_block_size"] = list(self.block_size)
        if self.sharding is not None:
            out["sharding"] = self.sharding.to_json()
        return out


@dataclass(frozen=True, slots=True)
class Info:
    """A volume: its scales, and their common properties."""

    type: str  # "image" or "segmentation"
    dtype: DataType
    n_channels: int
    scales: tuple[Scale, ...]
    document: dict[str, JSON]  # normalized: all members of scales, and unknown members

    def with_scale(self, scale: Scale) -> Info:
        """Return the volume with one more scale."""
        document = {**self.document, "scales": [*self.document["scales"], scale.to_json()]}
        return replace(self, scales=(*self.scales, scale), document=document)


def new_info(kind: str, dtype: DataType, n_channels: int) -> Info:
    """Return a volume without scales."""
    document = {
        "@type": VOLUME_TYPE,
        "type": kind,
        "data_type": dtype.name,
        "num_channels": n_channels,
        "scales": [],
    }
    return Info(kind, dtype, n_channels, (), document)


def parse_scale(value: JSON, dtype: DataType, n_channels: int) -> tuple[Scale, dict[str, JSON]]:
    """Read an element of ``scales``; also return unknown members."""
    members = Members(value)
    key = members.take("key", expect_string)
    size = members.take("size", parse_xyz(-(2**63)))
    offset = members.take("voxel_offset", parse_xyz(-(2**63)), (0, 0, 0))
    if any(n < 0 or abs(o) > 2**61 or n > 2**61 for n, o in zip(size, offset, strict=True)):
        raise SpecError(
            f'"size" of {dump(list(size))} and "voxel_offset" of {dump(list(offset))} '
            "do not specify a valid region"
        )
    resolution: Any = members.take("resolution", parse_resolution)
    sizes = members.take("chunk_sizes", lambda v: tuple(parse_array(v, parse_xyz(1, 2**62))))
    if not sizes:
        raise SpecError("At least one chunk size must be specified")
    encoding = take_encoding(members, MISSING)
    block_size = None
    if encoding.name == "compressed_segmentation":
        block_size = members.take("compressed_segmentation_block_size", parse_xyz(1, 2**31 - 1))
    elif encoding.name == "jpeg" and encoding.jpeg_quality is None:
        encoding = encoding._replace(jpeg_quality=_DEFAULT_JPEG_QUALITY)
    check_encoding(encoding.name, dtype, n_channels)
    sharding = members.take("sharding", lambda v: None if v is None else Sharding.parse(v), None)
    scale = Scale(key, size, offset, resolution, sizes, encoding, block_size, sharding)
    if sharding is not None:
        if len(sizes) > 1:
            raise SpecError("Sharded format does not support more than one chunk size")
        n_bits = sum(max(0, -(-n // c) - 1).bit_length() for n, c in zip(size, sizes[0], strict=True))
        if n_bits > 64:
            raise SpecError(
                f'"size" of {dump(list(size))} with chunk size of {dump(list(sizes[0]))} is not compatible '
                f"with sharded format because the chunk keys would exceed 64 bits"
            )
    return scale, members.rest()


def parse_info(value: JSON) -> Info:
    """Read an ``info`` document."""
    members = Members(expect_object(value))
    kind = members.take("@type", lambda v: v, VOLUME_TYPE)
    if kind != VOLUME_TYPE:
        raise SpecError(
            f'Error parsing object member "@type": Expected "{VOLUME_TYPE}", but received: {dump(kind)}'
        )
    volume_type = members.take("type", expect_string)
    dtype = members.take("data_type", parse_dtype)
    n_channels = members.take("num_channels", lambda v: expect_int(v, 1, _MAX_CHANNELS))
    found = members.take(
        "scales",
        lambda v: parse_array(expect_array(v), lambda item: parse_scale(item, dtype, n_channels)),
    )
    info = new_info(volume_type, dtype, n_channels)
    document = {**members.rest(), **info.document}
    document["scales"] = [{**rest, **scale.to_json()} for scale, rest in found]
    return replace(info, scales=tuple(scale for scale, _ in found), document=document)
