"""New arrays: their specs, made of templates, in each format; opened or created at a location."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeAlias

import numpy.typing as npt

from chunkwise.copying.array_options import check_divisible, is_of_dask
from chunkwise.copying.array_template import (
    NAMES,
    UNITS,
    ArrayTemplate,
    inner_chain,
    marker_as,
    marker_attribute,
    regular_grid,
    sharded,
)
from chunkwise.copying.codec_option import Compressor, compressor_to_json
from chunkwise.copying.losses import finite_attributes
from chunkwise.copying.made_array import check_in_place, generation_of
from chunkwise.core.api.open import create_checked
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON, dump, expect_object
from chunkwise.core.base.catalogue import codecs as registered
from chunkwise.core.codec.chain import parse_codec
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.n5.metadata import DATASET_MEMBERS, ITEM_NBYTES, array_data_type
from chunkwise.core.driver.tree_format import TreeFormat
from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS, tree_format
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, stored_dtype, to_zarr2
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, to_zarr3
from chunkwise.core.index_space import IndexTransform, align_by_position
from chunkwise.core.kvstore.places.staging import is_staging
from chunkwise.core.specs.spec import Spec
from chunkwise.core.trees.attributes import first_attributes
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import create_parents, remove_groups
from chunkwise.core.trees.node import Node, find_documented, instead_of_node, require_node
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError
from chunkwise.extension.trees import check_outside_arrays, check_place, delete_own, looking, replacing

__all__ = [
    "NewArray",
    "Target",
    "check_in_place",
    "create_array",
    "generation_of",
    "open_array",
    "open_node",
    "target_spec",
]

# -- specs of new arrays ------------------------------------------------------------------------------

# * Zarr v2 and v1 have neither dimension names nor units: they go into the attributes
#   ``_ARRAY_DIMENSIONS``, as xarray has it, and ``dimension_units``, as TensorStore has it in Zarr v3; and
#   are found there.
# * N5 has no fill value: chunks that are missing in the source are then written if it isn't zero.
# * A compressor that the other format has too is kept; otherwise ``zstd:3`` takes its place.  Filters and
#   other codecs are kept within one format only.
# * For a checksum, Zarr v3 has ``crc32c`` behind any compressor.  The others have one place, that of the
#   compressor: there the checksum depends on the compressor.

_FALLBACK = Compressor("zstd", 3)


@dataclass(frozen=True)
class Target:
    """Spec and attributes of an array that is to be made."""

    spec: dict[str, JSON]  # JSON, without kvstore and open mode
    attributes: dict[str, JSON]  # to be written beside the metadata, in Zarr v2 and v1
    notes: tuple[str, ...]  # on what the format can't hold, or holds in an unusual place


def target_spec(template: ArrayTemplate, format: str, given: Sequence[str] = ()) -> Target:
    """Return the spec and attributes of an array like `template`, whose fields `given` were asked for."""
    # If the template was read off an array of the same format, its metadata is kept but for these.
    rules = tree_format(format)
    if template.shards is not None and not rules.has_shards:
        if "shards" in given:
            raise InvalidArgumentError(f"{format} has no shards; Zarr v3 (zarr3) has")
        template = replace(template, shards=None)
    finite, notes = template.attributes, list[str]()
    if "attributes" not in given:  # those are checked, with the caller's choice for NaN
        finite, notes = finite_attributes(template.attributes, format)
    if any(unit is not None and not isfinite(unit.multiplier) for unit in template.units):
        notes.append("dimension units are left out: they aren't finite")
        template = replace(template, units=())
    template = replace(template, attributes=finite)
    template = replace(template, marker=marker_as(template.marker, template.dtype, notes))
    make = {"zarr3": _zarr3, "n5": _n5}.get(format, _zarr2)
    metadata, attributes = make(template, rules, given, notes)
    return Target({"driver": rules.driver, "metadata": metadata}, attributes, tuple(notes))


_Made: TypeAlias = tuple[dict[str, JSON], dict[str, JSON]]  # the ``metadata`` of a spec, other attributes


def _zarr2(template: ArrayTemplate, rules: TreeFormat, given: Sequence[str], notes: list[str]) -> _Made:
    from chunkwise.core.driver.zarr2.metadata import with_object_codec  # with all metadata of the format

    format, source = rules.name, tree_format(template.format)
    attributes = _zarr2_attributes(template, rules, notes)
    own = source.zarr2_members(template.document)
    if "dtype" in given:
        own = {name: value for name, value in own.items() if name not in ("dtype", "fill_value", "filters")}
    metadata: dict[str, JSON] = {
        name: own[name] for name in ("dtype", "order", "fill_value", "dimension_separator") if name in own
    }
    metadata["shape"] = list(template.shape)
    metadata.setdefault("dtype", to_zarr2(template.dtype))
    if template.chunks is not None:
        metadata["chunks"] = list(template.chunks)
    if "fill_value" in given or "fill_value" not in metadata:
        fill_value: npt.NDArray[Any] | None = template.fill_value
        if fill_value is None:
            fill_value = template.dtype.zero()
        is_variable = template.marker is not None or any(template.names) or _is_named_scalar(template)
        is_free = template.is_foreign or (template.format is not None and not source.fill_value_is_marker)
        if is_variable and rules.fill_value_can_be_null and is_free and "fill_value" not in given:
            fill_value = template.marker  # which it is taken for
        metadata["fill_value"] = fill_value_to_zarr2(fill_value, template.dtype, stored_dtype(template.dtype))
    if own.get("filters"):
        # netCDF-C has 0 for the size of the data type, NumCodecs for no shuffling at all.
        size = {"elementsize": template.dtype.memory_dtype.itemsize}
        metadata["filters"] = [f | size if f.get("elementsize") == 0 else f for f in own["filters"]]
    elif filters := with_object_codec(None, template.dtype):
        metadata["filters"] = filters
    if "codec" in given and isinstance(template.codec, list):  # filters, and the compressor last
        *filters, compressor = template.codec
        metadata["filters"] = with_object_codec(filters, template.dtype)
        template = replace(template, codec=compressor or Compressor("none"))
    if "codec" not in given and "compressor" in own:
        metadata["compressor"] = own["compressor"]
    elif template.codec is not None:
        metadata["compressor"] = _codec_json(template, format, given, notes)
    if template.checksum:
        if "compressor" not in metadata:
            metadata["compressor"] = _codec_json(template, format, given, notes)
        metadata["compressor"] = _with_checksum(metadata["compressor"], format)
    elif "checksum" in given and metadata.get("compressor"):
        metadata["compressor"] = _without_checksum(metadata["compressor"])
    if metadata["fill_value"] is None or not rules.fill_value_can_be_null:
        attributes.update(marker_attribute(template.marker, format))
    return rules.of_zarr2_members(metadata), attributes


def _zarr2_attributes(template: ArrayTemplate, rules: TreeFormat, notes: list[str]) -> dict[str, JSON]:
    attributes = dict(template.attributes)
    if rules.group_key and _is_named_scalar(template):  # which can be a variable of a dataset
        attributes.setdefault(NAMES, [])
    for name, values, what in (
        (NAMES, list(template.names), "dimension names"),
        (UNITS, [None if unit is None else str(unit) for unit in template.units], "dimension units"),
    ):
        if any(value is not None for value in values):
            if attributes.get(name, values) != values:
                notes.append(f'attribute "{name}" is left out: {rules.name} has the {what} there')
            attributes[name] = values
            if template.format is None or tree_format(template.format).names_member:
                notes.append(f'{rules.name} has no {what}; they are in the attribute "{name}"')
    return attributes


def _is_named_scalar(template: ArrayTemplate) -> bool:
    return template.lists_names and not template.shape


def _n5(template: ArrayTemplate, rules: TreeFormat, given: Sequence[str], notes: list[str]) -> _Made:
    if template.dtype.name not in (*ITEM_NBYTES, "ustring"):
        raise InvalidArgumentError(
            f'N5 has no data type "{template.dtype.name}"; it has {", ".join(ITEM_NBYTES)} '
            "(convert with --dtype)"
        )
    metadata: dict[str, JSON] = marker_attribute(template.marker, rules.name)
    for name, value in template.attributes.items():
        if name in (*DATASET_MEMBERS, *rules.own_members("array")):
            notes.append(f'attribute "{name}" is left out: N5 has a meaning of its own for that name')
        elif value is None:
            notes.append(f'attribute "{name}" is left out: it is null, which N5 software takes for missing')
        else:
            metadata[name] = value
    metadata["dimensions"] = list(template.shape)
    metadata["dataType"] = array_data_type(template.dtype)
    if template.chunks is not None:
        metadata["blockSize"] = list(template.chunks)
    if template.codec is not None:
        metadata["compression"] = _codec_json(template, rules.name, given, notes)
    elif template.checksum:
        metadata["compression"] = {"type": "gzip"}
    if template.checksum:
        metadata["compression"] = _with_checksum(metadata["compression"], rules.name)
    names = [name or "" for name in template.names]
    if any(names):
        if len({name for name in names if name}) < sum(1 for name in names if name):
            notes.append(f"dimension names are left out: N5 can't have {dump(names)}, where one occurs twice")
        else:
            metadata["axes"] = names
    if any(unit is not None for unit in template.units):
        metadata["units"] = ["" if unit is None else unit.base_unit for unit in template.units]
        metadata["resolution"] = [1.0 if unit is None else unit.multiplier for unit in template.units]
    if template.fill_value is not None and not same_fill(template.fill_value, template.dtype.zero()):
        if "fill_value" in given:
            raise InvalidArgumentError("fill_value: N5 has no fill value; missing chunks read as 0")
        notes.append(
            f"N5 has no fill value: missing chunks are written out, full of {template.fill_value.item()!r}"
        )
    return metadata, {}


def _zarr3(template: ArrayTemplate, rules: TreeFormat, given: Sequence[str], notes: list[str]) -> _Made:
    """Return the ``metadata`` member of a spec; members not `given` stay those of an array of that format."""
    if template.marker is not None and template.marker.dtype.kind == "S":
        notes.append('attribute "_FillValue" is left out: in Zarr v3 xarray can\'t read one of bytes')
        template = replace(template, marker=None)
    attributes = {**template.attributes, **marker_attribute(template.marker, rules.name)}
    if any(unit is not None for unit in template.units):
        attributes[UNITS] = [None if unit is None else str(unit) for unit in template.units]
    own = template.document_for(given) if template.format == rules.name else {}
    fill_value = template.fill_value if template.fill_value is not None else template.dtype.zero()
    data_type = own["data_type"] if own and "dtype" not in given else to_zarr3(template.dtype)
    metadata: dict[str, JSON] = {
        "shape": list(template.shape),
        "data_type": data_type,
        "fill_value": fill_value_to_zarr3(fill_value, template.dtype, data_type),
        "attributes": attributes,
    }
    if any(name is not None for name in template.names):
        metadata["dimension_names"] = list(template.names)
    if own and not {"chunks", "shards", "codec", "checksum"} & set(given):
        metadata.update({name: own[name] for name in ("chunk_grid", "codecs")})
    else:
        metadata.update(_zarr3_chunks(template, own, given, notes))
    if own:
        metadata["chunk_key_encoding"] = own["chunk_key_encoding"]
    return metadata, {}


def _zarr3_chunks(
    template: ArrayTemplate, own: Mapping[str, JSON], given: Sequence[str], notes: list[str]
) -> dict[str, JSON]:
    """Return ``codecs``, always, so that no others are added, and ``chunk_grid`` as far as it is known."""
    chain, shard = inner_chain(own.get("codecs", []))
    if "codec" in given or not own:
        wanted = _codec_json(template, "zarr3", given, notes)
        wanted = wanted if isinstance(wanted, list) else [wanted]
        if any(map(_is_array_codec, wanted)):
            chain = wanted
        else:
            chain = [*filter(_is_array_codec, chain), *wanted]
    if template.checksum:
        chain = _with_checksum(chain, "zarr3")
    elif "checksum" in given:
        chain = [_without_checksum(entry) for entry in chain if entry not in _CHECKSUMS]
    if template.shards is not None:
        if template.chunks is None:
            raise InvalidArgumentError("shards need chunks inside: say how large these are (--chunk)")
        check_divisible(template.shards, template.chunks)
        chain = sharded(shard, template.chunks, chain)
    out: dict[str, JSON] = {"codecs": chain}
    outer = template.shards or template.chunks
    if own and not {"chunks", "shards"} & set(given):
        out["chunk_grid"] = own["chunk_grid"]  # which may be one that `chunks` can't say
    elif outer is not None:
        out["chunk_grid"] = regular_grid(outer)
    return out


def _is_array_codec(entry: object) -> bool:
    """Return True if a codec comes before the compressors."""
    name = entry if isinstance(entry, str) else expect_object(entry).get("name", "")
    kind: str = registered.find(name, "zarr3").kind
    return kind != "bytes->bytes"


def _codec_json(template: ArrayTemplate, format: str, given: Sequence[str], notes: list[str]) -> JSON:
    """Return the compressor in the words of `format`."""
    codec = template.codec
    if isinstance(codec, Compressor):
        try:
            return compressor_to_json(codec, format)
        except InvalidArgumentError:
            if "codec" in given:
                raise
    if "codec" in given or (format == template.format and codec is not None):
        return codec
    if template.format is not None:
        notes.append(f"the codecs of the source aren't those of {format}; zstd:3 takes their place")
    return compressor_to_json(_FALLBACK, format)


def _with_checksum(codecs: JSON, format: str) -> JSON:
    """Return codecs, or the compressor of Zarr v1, v2 or N5, with a checksum; raise if there can be none."""
    rules = tree_format(format)
    notation = rules.codecs
    if notation.is_chain:
        return codecs if any(map(_writes_checksum, codecs)) else [*codecs, {"name": "crc32c"}]
    name = (codecs or {}).get(notation.name_member, notation.no_compressor or "none")
    if name not in ("raw", "none"):
        if _writes_checksum(codecs, notation.format):
            return codecs
        if _writes_checksum({**codecs, "checksum": True}, notation.format):
            return {**codecs, "checksum": True}
    raise InvalidArgumentError(
        f"checksum: {rules.title} has no place for one with the compressor {dump(name)}; "
        f"{notation.with_checksum} have one of their own, and Zarr v3 has one for any"
    )


_CHECKSUMS: tuple[JSON, ...] = ("crc32c", {"name": "crc32c"}, {"name": "crc32c", "configuration": {}})


def _without_checksum(codec: JSON) -> JSON:
    """Return a compressor that adds no checksum, where it has the choice."""
    if not isinstance(codec, dict):
        return codec
    if isinstance(codec.get("configuration"), dict):
        return {**codec, "configuration": _without_checksum(codec["configuration"])}
    return {**codec, "checksum": False} if codec.get("checksum") else codec


def _writes_checksum(codec: JSON, format: str = "zarr3") -> bool:
    """Return True if what the codec writes has a checksum; False of one that is not known."""
    try:
        return parse_codec(codec, format).writes_checksum
    except InvalidArgumentError:  # the error is reported when the array is created
        return False


# -- open or create -----------------------------------------------------------------------------------

# Missing groups above a new Zarr array are created, the container of an N5 dataset gets its version, and
# consolidated metadata above is updated.


def open_array(location: Location, *, found: Node | None = None, **options: Any) -> TensorStore:
    """Open the array at `location`, of any format; `found` is its node, if that is known."""
    node = found or require_node(location)
    if node.kind == "group" or node.format is None:
        if instead := instead_of_node(node):
            raise NotFoundError(f"there is no array at {location.text}: {instead}")
        what = "a directory" if node.implicit else f"{node.format} group"
        raise InvalidArgumentError(
            f"{location.text} is a group, not an array ({what}); chunkwise.open_group opens it"
        )
    spec = {"driver": DRIVERS[node.format], "kvstore": location.kvstore(), "open": True}
    return open_spec(spec, **options).result()


def open_node(tree: Tree, names: Sequence[str], node: Node) -> TensorStore:
    """Open an array of a tree, without reading anything again."""
    array = tree.open_array(node)
    return TensorStore._make(array, IndexTransform.identity(array.domain), None, tree.array_node(names, node))


def create_array(
    location: Location, target: Target, *, overwrite: bool = False, group: Node | None = None
) -> TensorStore:
    """Make an array, which replaces another one only with `overwrite`; no groups if its `group` is given.

    Raises
    ------
    AlreadyExistsError
        If there is already an array, group or other files, or an array above.
    """
    format = FORMATS[target.spec["driver"]]
    with looking(location) as seen:
        # In some stores a staging place is in the array that it replaces.
        above = group or (... if is_staging(location.name) else check_outside_arrays(seen))
        check_place(seen, "array", format, "overwrite" if overwrite else "new")
    spec = {**target.spec, "kvstore": location.kvstore()}
    # Nothing may remain of an array that can't be made.
    planned = open_spec({**spec, "open": True, "assume_metadata": True}).result()
    text = planned.dtype.name == "ustring"
    new = NewArray(format, spec, target.attributes)
    if not overwrite:
        return new.write_to(location, lambda: create_parents(location, format, text=text, above=above))
    with replacing(location) as staging:
        new.write_to(staging)
        create_parents(location, format, text=text, above=above)
    return open_array(location)


def in_tree(spec: Mapping[str, Any]) -> Spec:
    """Return the spec of a new array that is not to be around what others make meanwhile."""
    parsed = Spec(spec)
    driver = parsed._driver
    assert isinstance(driver, ChunkedSpec), "it is of a format of trees"
    return Spec._of(replace(driver, in_tree=True), parsed._transform)


@dataclass(frozen=True)
class NewArray:
    """A new array, at a location where nothing is."""

    format: str
    spec: Mapping[str, Any]  # without open mode; its kvstore is that of the place
    attributes: Mapping[str, JSON]  # to be written beside the metadata, before that
    options: Mapping[str, Any] = field(default_factory=dict)  # of `chunkwise.open`
    data: Any = None

    def write_to(self, place: Location, make_parents: Callable[[], list[Location]] = list) -> TensorStore:
        """Make the array and return it; after a failure neither it nor groups made for it remain."""
        parents: list[Location] = []
        made = b""
        try:
            parents = make_parents()
            spec = in_tree({**self.spec, "kvstore": place.kvstore()})
            with first_attributes(place, self.format, self.attributes):
                store = create_checked(spec, **self.options)
            made = generation_of(store)
            if self.data is not None:
                self._fill(self._alone(store, place))
                check_in_place(store, place, made)
        except BaseException:  # an interrupt too: no half array may stay
            with suppress(ChunkwiseError):  # the store may have failed for good
                if made or find_documented(place) is None:  # otherwise another process was faster
                    delete_own(place, made=made)
                    update_consolidated(place.store, place.path)
                remove_groups(parents)
            raise
        return store

    def _fill(self, target: TensorStore) -> None:
        data = self.data
        if is_of_dask(data):  # block by block, since it need not fit into memory
            data.store(target.translate_to[0] if target.rank else target, lock=False)
            return
        if isinstance(data, TensorStore):  # else its names would be taken for places
            data = data[align_by_position(data.domain, target.domain)]
        target.write(data).result()

    def _alone(self, store: TensorStore, place: Location) -> TensorStore:
        """Return the new array as its only writer sees it."""
        alone = place.alone()
        if alone is place:
            return store
        spec = {**self.spec, "kvstore": alone.kvstore(), "open": True, "assume_metadata": True}
        return open_spec(spec, **self.options).result()
