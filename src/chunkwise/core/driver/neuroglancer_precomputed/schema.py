"""Schema of the array that a scale describes, and the members of a new scale.

Compatibility
-------------
Choices and errors are TensorStore's: 1 nm without a resolution, chunks of a million voxels, shards only if
write chunks are larger than read chunks, and then of whole powers of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod
from typing import Any

from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import ClippedGrid, MortonKeys
from chunkwise.core.driver.neuroglancer_precomputed.constraints import (
    PrecomputedCodecSpec,
    PrecomputedConstraints,
)
from chunkwise.core.driver.neuroglancer_precomputed.members import (
    Encoding,
    Info,
    Scale,
    check_dtype,
    check_encoding,
    default_scale_key,
    new_info,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, inf, merge_domains
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit, format_dimension_units, merge_dimension_units
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    prefix,
    prefixed,
)

__all__ = ["constraint_schema", "find_scale", "known_domain", "morton_keys", "scale_schema", "with_new_scale"]

LABELS = ("x", "y", "z", "channel")
_UNIT = "nm"
_MINISHARD_BITS = 9  # number of chunks in one minishard, as a power of two
_SEGMENT_TYPES = ("uint32", "uint64")
_BLOCK_VOXELS = 8 * 8 * 8

Sizes = Sequence[int | None]


def _domain(
    size: Sequence[int] | None, voxel_offset: Sequence[int] | None, n_channels: int | None
) -> IndexDomain:
    known = size is not None and voxel_offset is not None
    lower = [*voxel_offset, 0] if voxel_offset is not None and known else [-inf] * 3 + [0]
    upper: list[int] = [inf + 1] * 4
    if size is not None and voxel_offset is not None:
        upper[:3] = [o + n for o, n in zip(voxel_offset, size, strict=True)]
    if n_channels is not None:
        upper[3] = n_channels
    return IndexDomain(
        inclusive_min=lower,
        exclusive_max=upper,
        implicit_lower_bounds=[not known] * 3 + [False],
        implicit_upper_bounds=[not known] * 3 + [n_channels is None],
        labels=list(LABELS),
    )


def known_domain(constraints: PrecomputedConstraints, schema: Schema) -> IndexDomain:
    """Return the domain of members and schema together."""
    own = _domain(constraints.size, constraints.voxel_offset, constraints.n_channels)
    if schema.domain is None:
        return own
    try:
        return merge_domains(schema.domain, own)
    except ChunkwiseError as e:
        what = 'Error applying domain constraints from "multiscale_metadata" and "scale_metadata"'
        raise prefix(e, what) from None


def _units(resolution: Sequence[float] | None) -> tuple[Unit | None, ...]:
    return (None,) * 4 if resolution is None else (*(Unit(r, _UNIT) for r in resolution), None)


def _layout(
    domain: IndexDomain, n_channels: int | None, read: Sizes | None, write: Sizes | None, block: Sizes | None
) -> ChunkLayout:
    """Return the constraints on chunks; `read` and `write` are in voxels, None means unknown."""
    layout = ChunkLayout(rank=4)
    origin = [None if o <= -inf else o for o in domain.inclusive_min]
    layout._set("inner_order", [3, 2, 1, 0], hard=True)
    layout._set("grid_origin", origin, hard=True)
    nothing = [None] * 3
    layout.update(
        read_chunk_shape=[*(read or nothing), n_channels], write_chunk_shape=[*(write or nothing), n_channels]
    )
    if block is not None:
        layout.update(codec_chunk_shape=[*block, 1])
    return layout


def _merged_layout(own: ChunkLayout, wanted: ChunkLayout) -> ChunkLayout:
    """Return `own` merged with a schema's layout; errors say what the format can't do."""
    if wanted.is_empty:
        return own
    merged = wanted.copy()
    with prefixed(
        "Only lexicographic {channel, z, y, x} inner order is supported: Error setting inner_order"
    ):
        merged._set("inner_order", own.inner_order or (), hard=True)
    with prefixed("Chunk grid origin must match domain origin: Error setting grid_origin"):
        merged._set("grid_origin", own.grid_origin or (), hard=True)
    try:
        return merged.merged(own)
    except ChunkwiseError as e:
        channel = "for dimension 3 " in e.message
        raise prefix(e, "Chunking of channel dimension is not supported") if channel else e from None


def constraint_schema(constraints: PrecomputedConstraints, schema: Schema) -> Schema:
    """Return the schema of members and schema together, as far as known before opening."""
    if schema.dtype is not None:
        check_dtype(schema.dtype)
    out = Schema(rank=4, dtype=constraints.dtype)
    out.update(dtype=schema.dtype, rank=schema.rank)
    domain = known_domain(constraints, schema)
    n_channels = domain.exclusive_max[3] if domain.exclusive_max[3] <= inf else None
    chunk, sharding = constraints.chunk_size, constraints.sharding
    write = chunk if sharding is None else None
    if sharding and chunk is not None and constraints.size is not None:
        write = _shard_shape(constraints.size, chunk, sharding)
        write = None if write is None else tuple(map(min, write, constraints.size))
    block: Any = constraints.block_size
    if block is None and constraints.encoding.name == "compressed_segmentation":
        block = (None,) * 3
    own = _layout(domain, n_channels, chunk, write, block)
    data_encoding = sharding.data_encoding if sharding else None
    out.update(
        domain=domain,
        chunk_layout=_merged_layout(own, schema.chunk_layout),
        codec=PrecomputedCodecSpec.of(constraints.encoding, data_encoding),
        dimension_units=_units(constraints.resolution),
    )
    out.update(codec=schema.codec)
    if schema.dimension_units is not None:
        _check_units(schema.dimension_units)
        out.update(dimension_units=schema.dimension_units)
    return out


def morton_keys(size: Sequence[int], chunk: Sequence[int]) -> MortonKeys:
    """Return the identifiers of the chunks of a scale."""
    x, y, z = (-(-n // c) for n, c in zip(size, chunk, strict=True))
    return MortonKeys((x, y, z))


def _shard_shape(size: Sequence[int], chunk: Sequence[int], sharding: Sharding) -> tuple[int, ...] | None:
    """Return the extent of one shard; None if it isn't a box."""
    keys = morton_keys(size, chunk)
    shared = sharding.preshift_bits + sharding.minishard_bits
    if sharding.hash != "identity" or shared + sharding.shard_bits < keys.n_bits:
        return None  # distant chunks are in one shard
    shape = keys.shard_shape(shared)
    return tuple(c * n for c, n in zip(chunk, shape, strict=True))


def scale_schema(info: Info, scale: Scale, chunk: Sequence[int]) -> Schema:
    """Return the schema of an existing scale with chunks of one of its sizes."""
    domain = _domain(scale.size, scale.voxel_offset, info.n_channels)
    write: Sizes | None = chunk
    if scale.sharding is not None:
        write = _shard_shape(scale.size, chunk, scale.sharding)
        if scale.sharding.shard_bits == 0:  # all chunks are in one shard, wherever their minishards are
            write = tuple(-(-n // c) * c for n, c in zip(scale.size, chunk, strict=True))
    return Schema(
        dtype=info.dtype,
        domain=domain,
        chunk_layout=_layout(domain, info.n_channels, chunk, write, scale.block_size),
        codec=PrecomputedCodecSpec.of(
            scale.encoding, None if scale.sharding is None else scale.sharding.data_encoding
        ),
        dimension_units=_units(scale.resolution),
    )


def find_scale(info: Info, constraints: PrecomputedConstraints, schema: Schema) -> int:
    """Return the scale of a volume that a spec requests."""
    if constraints.scale_index is not None:
        if constraints.scale_index >= len(info.scales):
            raise FailedPreconditionError(
                f"Scale {constraints.scale_index} does not exist, number of scales is {len(info.scales)}"
            )
        return constraints.scale_index
    units = merge_dimension_units(_units(constraints.resolution), schema.dimension_units) or ()
    wanted = []
    if any(unit is not None for unit in units):
        wanted.append(f"dimension_units={format_dimension_units(units)}")
    if constraints.key is not None:
        wanted.append(f'key="{constraints.key}"')
    for number, scale in enumerate(info.scales):
        if constraints.key is not None and scale.key != constraints.key:
            continue
        try:
            merge_dimension_units(units, _units(scale.resolution))
        except ChunkwiseError:
            continue
        return number
    raise NotFoundError(f"No scale found matching {', '.join(wanted)}")


def with_new_scale(info: Info | None, constraints: PrecomputedConstraints, schema: Schema) -> Info:
    """Return a volume, a new one if `info` is None, with one more scale."""
    schema = Schema().merged(schema)
    if info is not None:
        constraints.check_info(info)
        if schema.dtype is not None and schema.dtype != info.dtype:
            raise FailedPreconditionError(
                f'Expected "data_type" of "{schema.dtype.name}" but received: "{info.dtype.name}"'
            )
    dtype = schema.dtype or constraints.dtype or (None if info is None else info.dtype)
    if schema.fill_value is not None:
        raise InvalidArgumentError("fill_value not supported by neuroglancer_precomputed format")
    n_scales = 0 if info is None else len(info.scales)
    if constraints.scale_index not in (None, n_scales):
        if constraints.scale_index is not None and constraints.scale_index < n_scales:
            raise AlreadyExistsError(f"Scale index {constraints.scale_index} already exists")
        raise FailedPreconditionError(
            f"Cannot create scale {constraints.scale_index} in new multiscale volume"
            if info is None
            else f"Scale index to create ({constraints.scale_index}) must equal the existing number of "
            f"scales ({n_scales})"
        )
    domain = known_domain(constraints, schema)
    if info is not None:
        own = _domain(constraints.size, constraints.voxel_offset, info.n_channels)
        try:
            domain = merge_domains(domain, own)
        except ChunkwiseError as e:
            what = 'Error applying domain constraints from "multiscale_metadata" and "scale_metadata"'
            raise prefix(e, what) from None
    if not all(
        -inf < lo and hi <= inf for lo, hi in zip(domain.inclusive_min, domain.exclusive_max, strict=True)
    ):
        raise InvalidArgumentError("domain must be specified")
    if dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    n_channels = domain.shape[3]
    if not 1 <= n_channels < 2**31:
        raise InvalidArgumentError(f'"num_channels" must be at least 1, got {n_channels}')
    scale = _new_scale(constraints, schema, domain, dtype)
    if info is None:
        default = "segmentation" if dtype.name in _SEGMENT_TYPES else "image"
        info = new_info(constraints.type or default, dtype, n_channels)
    for number, other in enumerate(info.scales):
        if other.key == scale.key:
            raise AlreadyExistsError(f'Scale with key "{scale.key}" already exists')
        if constraints.key is None and other.resolution == scale.resolution:
            raise AlreadyExistsError(
                f"Scale with resolution {list(scale.resolution)} already exists: {number}"
            )
    return info.with_scale(scale)


def _new_scale(
    constraints: PrecomputedConstraints, schema: Schema, domain: IndexDomain, dtype: DataType
) -> Scale:
    n_channels = domain.shape[3]
    size: Any = domain.shape[:3]
    codec: Any = PrecomputedCodecSpec.of(constraints.encoding, None)._merged(schema.codec)
    resolution: Any = _resolution(constraints.resolution, schema)
    encoding = codec.encoding
    if encoding.name is None:
        encoding = Encoding("raw")
    elif encoding.name == "jpeg" and encoding.jpeg_quality is None:
        encoding = encoding._replace(jpeg_quality=75)
    check_encoding(encoding.name, dtype, n_channels)
    own = _layout(domain, n_channels, constraints.chunk_size, None, None)
    layout = _merged_layout(own, schema.chunk_layout)
    alone = ChunkLayout(rank=4)
    alone.update(read_chunk=layout.read_chunk)
    chunk: Any = choose_chunk_shape(alone, domain.shape)[:3]
    block: Any = None
    if encoding.name == "compressed_segmentation":
        block = constraints.block_size or _choose_block(layout, chunk)
    elif any(n is not None for n in layout.codec_chunk.shape or ()):
        raise InvalidArgumentError(f"codec_chunk_shape not supported by {encoding.name} encoding")
    sharding = _choose_sharding(
        constraints.sharding, codec.shard_data_encoding, encoding, size, chunk, layout
    )
    if sharding is None:
        layout.update(write_chunk_shape=[*chunk, n_channels])
    return Scale(
        key=constraints.key if constraints.key is not None else default_scale_key(resolution),
        size=size,
        voxel_offset=domain.inclusive_min[:3],
        resolution=resolution,
        chunk_sizes=(chunk,),
        encoding=encoding,
        block_size=block,
        sharding=sharding,
    )


def _choose_block(layout: ChunkLayout, chunk: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of blocks, about 8 × 8 × 8 voxels: that of small chunks, or the schema's."""
    alone = ChunkLayout(rank=4)
    alone.update(read_chunk=layout.codec_chunk)
    if layout.codec_chunk.elements is None:
        alone.update(read_chunk=ChunkLayout.Grid(elements_soft_constraint=_BLOCK_VOXELS))
    return choose_chunk_shape(alone, [*chunk, 1])[:3]


def _choose_sharding(
    sharding: Any,
    data_encoding: str | None,
    encoding: Encoding,
    size: Sequence[int],
    chunk: Sequence[int],
    layout: ChunkLayout,
) -> Sharding | None:
    if sharding is None:
        if data_encoding is not None:
            raise InvalidArgumentError("shard_data_encoding requires sharded format")
        return None
    if isinstance(sharding, Sharding):
        if data_encoding not in (None, sharding.data_encoding):
            raise InvalidArgumentError(
                f'shard_data_encoding of "{data_encoding}" is not that of "sharding" in "scale_metadata", '
                f'"{sharding.data_encoding}"'
            )
        return sharding
    keys = morton_keys(size, chunk)
    n_bits = _shared_bits(keys, layout, size, chunk)
    if n_bits == 0 and data_encoding is None:
        return None
    preshift = min(_MINISHARD_BITS, n_bits)
    if data_encoding is None:
        data_encoding = "raw" if encoding.name in ("jpeg", "png") else "gzip"
    return Sharding(preshift, "identity", n_bits - preshift, keys.n_bits - n_bits, "gzip", data_encoding)


def _shared_bits(keys: MortonKeys, layout: ChunkLayout, size: Sequence[int], chunk: Sequence[int]) -> int:
    """Return the number of lowest bits in which the codes of chunks in one shard may differ."""
    grid = layout.write_chunk
    sizes = list(grid._vector("shape") or (None,) * 4)[:3]
    if all(c is None for c in sizes):
        target = grid._scalar("elements")
        if target is None:
            return 0
        return min(keys.n_bits, max(0, round(log2(max(1, target.value) / prod(chunk)))))
    hard = {dim: c.value for dim, c in enumerate(sizes) if c is not None and c.hard and c.value > 0}
    if hard:
        for n in range(keys.n_bits + 1):
            shape = keys.shard_shape(n)
            if all(shape[dim] * chunk[dim] == wanted for dim, wanted in hard.items()):
                return n
        raise InvalidArgumentError("Cannot satisfy write chunk shape constraint")
    most = [float("inf")] * 3
    for dim, c in enumerate(sizes):
        if c is not None and 0 < c.value < size[dim]:
            most[dim] = 2 ** max(0, round(log2(c.value / chunk[dim])))
    n = 0
    while n < keys.n_bits and all(a <= b for a, b in zip(keys.shard_shape(n + 1), most, strict=True)):
        n += 1
    return n


def _check_units(wanted: Sequence[Unit | None]) -> None:
    text = f"Invalid dimension units {format_dimension_units(wanted)}: neuroglancer_precomputed format"
    if wanted[3] is not None:
        raise InvalidArgumentError(f"{text} does not allow units to be specified for channel dimension")
    if any(unit is not None and unit.base_unit != _UNIT for unit in wanted[:3]):
        raise InvalidArgumentError(
            f'{text} requires a base unit of "{_UNIT}" for the "x", "y", and "z" dimensions'
        )


def _resolution(own: Sequence[float] | None, schema: Schema) -> tuple[float, ...]:
    wanted = schema.dimension_units
    if wanted is None or all(unit is None for unit in wanted):
        return tuple(own or (1.0,) * 3)
    _check_units(wanted)
    merged = merge_dimension_units(_units(own), wanted)
    assert merged is not None
    return tuple(1.0 if unit is None else unit.multiplier for unit in merged[:3])


def grid_of(scale: Scale, chunk: Sequence[int], n_channels: int) -> ClippedGrid:
    """Return the grid of the chunks of a scale, from the origin."""
    return ClippedGrid((*chunk, n_channels), (*scale.size, n_channels))
