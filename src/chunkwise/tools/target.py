"""Specs of new arrays, made of templates, in each format.

* Zarr v2 and v1 have neither dimension names nor units: they go into the attributes
  ``_ARRAY_DIMENSIONS``, as xarray has it, and ``dimension_units``, as TensorStore has it in Zarr v3; and
  are found there.
* N5 has no fill value: chunks that are missing in the source are then written if it isn't zero.
* A compressor that the other format has too is kept; otherwise ``zstd:3`` takes its place.  Filters and
  other codecs are kept within one format only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chunkwise.binding import dump
from chunkwise.driver.n5.members import DATASET_MEMBERS, ITEM_NBYTES, array_data_type
from chunkwise.driver.zarr1.document import from_zarr2
from chunkwise.driver.zarr1.document import to_zarr2 as to_zarr2_members
from chunkwise.driver.zarr2.schema import OBJECT_FILTERS
from chunkwise.dtypes.fill_value import same_fill
from chunkwise.dtypes.zarr2 import fill_value_to_zarr2, stored_dtype, to_zarr2
from chunkwise.errors import InvalidArgumentError
from chunkwise.hierarchy.node import DRIVERS
from chunkwise.tools.array_template import NAMES, UNITS, ArrayTemplate
from chunkwise.tools.target_codec import codec_json, with_checksum
from chunkwise.tools.target_zarr3 import zarr3_metadata

__all__ = ["Target", "target_spec"]


@dataclass(frozen=True)
class Target:
    """Spec and attributes of an array that is to be made."""

    spec: dict[str, Any]  # JSON, without kvstore and open mode
    attributes: dict[str, Any]  # to be written beside the metadata, in Zarr v2 and v1
    notes: tuple[str, ...]  # on what the format can't hold, or holds in an unusual place


def target_spec(template: ArrayTemplate, format: str, given: Sequence[str] = ()) -> Target:
    """Return the spec and attributes of an array like `template`, whose fields `given` were asked for."""
    # If the template was read off an array of the same format, its metadata is kept but for these.
    if template.shards is not None and format != "zarr3":
        if "shards" in given:
            raise InvalidArgumentError(f"{format} has no shards; Zarr v3 (zarr3) has")
        template = replace(template, shards=None)
    notes: list[str] = []
    attributes: dict[str, Any] = {}
    if format == "zarr3":
        metadata = zarr3_metadata(template, given, notes)
    elif format == "n5":
        metadata = _n5(template, given, notes)
    else:
        attributes = _zarr2_attributes(template, format, notes)
        metadata = _zarr2(template, format, given, notes)
    return Target({"driver": DRIVERS[format], "metadata": metadata}, attributes, tuple(notes))


def _zarr2(template: ArrayTemplate, format: str, given: Sequence[str], notes: list[str]) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if template.format == "zarr2":
        own = dict(template.document)
    elif template.format == "zarr1":
        own = to_zarr2_members(template.document)
    if "dtype" in given:
        own = {name: value for name, value in own.items() if name not in ("dtype", "fill_value", "filters")}
    metadata: dict[str, Any] = {
        name: own[name] for name in ("dtype", "order", "fill_value", "dimension_separator") if name in own
    }
    metadata["shape"] = list(template.shape)
    metadata.setdefault("dtype", to_zarr2(template.dtype))
    if template.chunks is not None:
        metadata["chunks"] = list(template.chunks)
    if "fill_value" in given or "fill_value" not in metadata:
        fill_value = template.dtype.zero() if template.fill_value is None else template.fill_value
        metadata["fill_value"] = fill_value_to_zarr2(fill_value, template.dtype, stored_dtype(template.dtype))
    if own.get("filters"):
        metadata["filters"] = own["filters"]
    elif template.dtype.name in OBJECT_FILTERS:
        metadata["filters"] = [{"id": OBJECT_FILTERS[template.dtype.name]}]
    if "codec" not in given and "compressor" in own:
        metadata["compressor"] = own["compressor"]
    elif template.codec is not None:
        metadata["compressor"] = codec_json(template, format, given, notes)
    if template.checksum:
        if "compressor" not in metadata:
            metadata["compressor"] = codec_json(template, format, given, notes)
        metadata["compressor"] = with_checksum(metadata["compressor"], format)
    if format == "zarr1":
        metadata.pop("dimension_separator", None)
        metadata = from_zarr2(metadata)
    return metadata


def _zarr2_attributes(template: ArrayTemplate, format: str, notes: list[str]) -> dict[str, Any]:
    attributes = dict(template.attributes)
    for name, values, what in (
        (NAMES, list(template.names), "dimension names"),
        (UNITS, [None if unit is None else str(unit) for unit in template.units], "dimension units"),
    ):
        if any(value is not None for value in values) and name not in attributes:
            attributes[name] = values
            if template.format not in ("zarr2", "zarr1"):
                notes.append(f'{format} has no {what}; they are in the attribute "{name}"')
    return attributes


def _n5(template: ArrayTemplate, given: Sequence[str], notes: list[str]) -> dict[str, Any]:
    if template.dtype.name not in (*ITEM_NBYTES, "ustring"):
        raise InvalidArgumentError(
            f'N5 has no data type "{template.dtype.name}"; it has {", ".join(ITEM_NBYTES)} '
            "(convert with --dtype)"
        )
    metadata: dict[str, Any] = {}
    for name, value in template.attributes.items():
        if name in DATASET_MEMBERS or name in ("n5", "compressionType", "codecs"):
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
        metadata["compression"] = codec_json(template, "n5", given, notes)
    elif template.checksum:
        metadata["compression"] = {"type": "gzip"}
    if template.checksum:
        metadata["compression"] = with_checksum(metadata["compression"], "n5")
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
            raise InvalidArgumentError("N5 has no fill value: what is missing reads as 0")
        notes.append(
            f"N5 has no fill value: missing chunks are written out, full of {template.fill_value.item()!r}"
        )
    return metadata
