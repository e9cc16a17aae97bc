"""The ``zarr.json`` of an array of a given form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chunkwise.binding import expect_object
from chunkwise.catalogue import codecs as registered
from chunkwise.dtypes.zarr3 import fill_value_to_zarr3, to_zarr3
from chunkwise.errors import InvalidArgumentError
from chunkwise.tools.array_template import UNITS, Form, inner_chain
from chunkwise.tools.target_codec import codec_json, with_checksum

__all__ = ["zarr3_metadata"]


def zarr3_metadata(form: Form, given: Sequence[str], notes: list[str]) -> dict[str, Any]:
    """Return the ``metadata`` member of a spec; what isn't `given` is kept of an array of that format."""
    attributes = dict(form.attributes)
    if any(unit is not None for unit in form.units):
        attributes[UNITS] = [None if unit is None else str(unit) for unit in form.units]
    own = form.document if form.format == "zarr3" else {}
    fill_value = form.fill_value if form.fill_value is not None else form.dtype.zero()
    data_type = own["data_type"] if own and "dtype" not in given else to_zarr3(form.dtype)
    metadata: dict[str, Any] = {
        "shape": list(form.shape),
        "data_type": data_type,
        "fill_value": fill_value_to_zarr3(fill_value, form.dtype, data_type),
        "attributes": attributes,
    }
    if any(name is not None for name in form.names):
        metadata["dimension_names"] = list(form.names)
    if own and not {"chunks", "shards", "codec", "checksum"} & set(given):
        metadata.update({name: own[name] for name in ("chunk_grid", "codecs")})
    else:
        metadata.update(_chunks(form, own, given, notes))
    if own:
        metadata["chunk_key_encoding"] = own["chunk_key_encoding"]
    return metadata


def _chunks(form: Form, own: Mapping[str, Any], given: Sequence[str], notes: list[str]) -> dict[str, Any]:
    """Return ``codecs``, always, so that no others are added, and ``chunk_grid`` as far as it is known."""
    chain, shard = inner_chain(own.get("codecs", []))
    if "codec" in given or not own:
        wanted = codec_json(form, "zarr3", given, notes)
        wanted = wanted if isinstance(wanted, list) else [wanted]
        if any(map(_is_array_codec, wanted)):
            chain = wanted
        else:
            chain = [*filter(_is_array_codec, chain), *wanted]
    if form.checksum:
        chain = with_checksum(chain, "zarr3")
    if form.shards is not None:
        if form.chunks is None:
            raise InvalidArgumentError("shards need chunks inside: say how large these are (--chunk)")
        if len(form.shards) != len(form.chunks) or any(
            outer % inner for outer, inner in zip(form.shards, form.chunks, strict=True)
        ):
            raise InvalidArgumentError(
                f"shards of {list(form.shards)} can't be divided into chunks of {list(form.chunks)}"
            )
        options = {**shard, "chunk_shape": list(form.chunks), "codecs": chain}
        chain = [{"name": "sharding_indexed", "configuration": options}]
    out: dict[str, Any] = {"codecs": chain}
    outer = form.shards or form.chunks
    if own and not {"chunks", "shards"} & set(given):
        out["chunk_grid"] = own["chunk_grid"]  # which may be one that `chunks` can't say
    elif outer is not None:
        out["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": list(outer)}}
    return out


def _is_array_codec(entry: Any) -> bool:
    """Whether a codec comes before the compressors."""
    name = entry if isinstance(entry, str) else expect_object(entry).get("name", "")
    return bool(registered.find(name, "zarr3").kind != "bytes->bytes")
