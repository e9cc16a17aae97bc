"""The ``zarr.json`` of a new array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chunkwise.binding import expect_object
from chunkwise.catalogue import codecs as registered
from chunkwise.dtypes.zarr3 import fill_value_to_zarr3, to_zarr3
from chunkwise.errors import InvalidArgumentError
from chunkwise.tools.array_template import UNITS, ArrayTemplate, inner_chain
from chunkwise.tools.target_codec import codec_json, with_checksum

__all__ = ["zarr3_metadata"]


def zarr3_metadata(template: ArrayTemplate, given: Sequence[str], notes: list[str]) -> dict[str, Any]:
    """Return the ``metadata`` member of a spec; what isn't `given` is kept of an array of that format."""
    attributes = dict(template.attributes)
    if any(unit is not None for unit in template.units):
        attributes[UNITS] = [None if unit is None else str(unit) for unit in template.units]
    own = template.document if template.format == "zarr3" else {}
    fill_value = template.fill_value if template.fill_value is not None else template.dtype.zero()
    data_type = own["data_type"] if own and "dtype" not in given else to_zarr3(template.dtype)
    metadata: dict[str, Any] = {
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
        metadata.update(_chunks(template, own, given, notes))
    if own:
        metadata["chunk_key_encoding"] = own["chunk_key_encoding"]
    return metadata


def _chunks(
    template: ArrayTemplate, own: Mapping[str, Any], given: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """Return ``codecs``, always, so that no others are added, and ``chunk_grid`` as far as it is known."""
    chain, shard = inner_chain(own.get("codecs", []))
    if "codec" in given or not own:
        wanted = codec_json(template, "zarr3", given, notes)
        wanted = wanted if isinstance(wanted, list) else [wanted]
        if any(map(_is_array_codec, wanted)):
            chain = wanted
        else:
            chain = [*filter(_is_array_codec, chain), *wanted]
    if template.checksum:
        chain = with_checksum(chain, "zarr3")
    if template.shards is not None:
        if template.chunks is None:
            raise InvalidArgumentError("shards need chunks inside: say how large these are (--chunk)")
        if len(template.shards) != len(template.chunks) or any(
            outer % inner for outer, inner in zip(template.shards, template.chunks, strict=True)
        ):
            raise InvalidArgumentError(
                f"shards of {list(template.shards)} can't be divided into chunks of {list(template.chunks)}"
            )
        options = {**shard, "chunk_shape": list(template.chunks), "codecs": chain}
        chain = [{"name": "sharding_indexed", "configuration": options}]
    out: dict[str, Any] = {"codecs": chain}
    outer = template.shards or template.chunks
    if own and not {"chunks", "shards"} & set(given):
        out["chunk_grid"] = own["chunk_grid"]  # which may be one that `chunks` can't say
    elif outer is not None:
        out["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(outer)}}
    return out


def _is_array_codec(entry: Any) -> bool:
    """Return True if a codec comes before the compressors."""
    name = entry if isinstance(entry, str) else expect_object(entry).get("name", "")
    return bool(registered.find(name, "zarr3").kind != "bytes->bytes")
