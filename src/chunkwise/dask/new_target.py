"""The array that `from_dask` makes, beside the one that it replaces; it is deleted after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chunkwise import CodecSpec, Spec, TensorStore
from chunkwise import open as open_spec
from chunkwise.copying.array_options import (
    OPTIONS,
    array_options,
    check_named,
    data_type,
    for_array,
    for_format,
)
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.codec_option import CODEC_PARTS, Compressor
from chunkwise.copying.made_array import check_in_place, generation_of
from chunkwise.copying.new_array import target_spec
from chunkwise.dask.in_place import reads_of
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError
from chunkwise.extension import JSON
from chunkwise.extension.inside import hooks
from chunkwise.extension.trees import (
    FORMATS,
    Location,
    Mode,
    check_outside_arrays,
    check_place,
    create_parents,
    delete_own,
    find_documented,
    is_in_archive,
    locate,
    parents_made,
    replacing,
    tree_format,
    update_consolidated,
)

__all__ = ["block_shape", "create_and_write", "described_array", "is_array_option"]


def create_and_write(
    source: Any,
    spec: Any,
    write: Callable[[TensorStore], None] | None,
    *,
    delete_existing: bool,
    attributes: Mapping[str, JSON],
    **options: Any,
) -> TensorStore:
    """Make an array, replacing another if that may be deleted, and let `write` fill it, if given.

    Without `write` the array replaces the other at once, so `source` must not read the other.
    """
    json: dict[str, JSON] = Spec(spec).to_json()
    context = options.get("context")
    # That of the spec itself: its JSON doesn't name a storage in memory.
    place = Spec(spec).kvstore
    location = None if place is None else locate(place, context)
    if location is None or json["driver"] not in FORMATS:
        return _fill(open_spec(spec, create=True, **options).result(), location, write, attributes)
    if options["dtype"].memory_dtype.kind in "iub":
        attributes = {**hooks.find("label mark")(source), **attributes}
    above = check_outside_arrays(location)
    mode: Mode = "overwrite" if delete_existing else "new"
    state, _ = check_place(location, "array", FORMATS[json["driver"]], mode, way="delete_existing=True")
    is_beside = write is not None and is_in_archive(location)
    if not is_beside and (state == "nothing" or not delete_existing):
        with parents_made(location, FORMATS[json["driver"]], above=above):
            return _fill(open_spec(spec, create=True, **options).result(), location, write, attributes)
    if write is None:
        for _, name in reads_of(source).of([location]):
            raise InvalidArgumentError(
                f"The dask array is read from {name}, which is to be deleted; with compute=True it is "
                "written beside that first"
            )
    open_spec({**json, "open": True, "assume_metadata": True}, **options).result()
    bare = {name: value for name, value in json.items() if name not in ("kvstore", "path")}
    with replacing(location) as staging:
        create_parents(location, FORMATS[json["driver"]], above=above)
        target = open_spec({**bare, "kvstore": staging.kvstore(), "create": True}, **options).result()
        if attributes:
            target.attrs.update(attributes)
        if write is not None:
            write(target)
    whole = {"driver": json["driver"], "kvstore": location.kvstore(), "open": True}
    return open_spec(whole, context=context).result()


def is_array_option(name: str, value: Any) -> bool:
    """Return True for an option of `create_array`; False for a codec that is TensorStore's."""
    return name in (*OPTIONS, *CODEC_PARTS) and name != "dtype" and not isinstance(value, CodecSpec)


def block_shape(source: Any) -> tuple[int, ...]:
    """Return the largest block of each dimension: dask may have blocks of different sizes."""
    return tuple(max(1, n) for n in source.chunksize)


def described_array(source: Any, spec: Any, options: Mapping[str, Any]) -> tuple[Any, Mapping[str, JSON]]:
    """Return the spec of an array with the options of `create_array` among `options`, and attributes."""
    given = array_options({name: value for name, value in options.items() if is_array_option(name, value)})
    json: dict[str, Any] = Spec(spec).to_json()
    format = FORMATS.get(json["driver"])
    domain = options.get("domain") or getattr(options.get("schema"), "domain", None)
    if (
        format is not None
        and not tree_format(format).names_member
        and domain is not None
        and any(domain.labels)
    ):
        given.setdefault("dimension_names", tuple(label or None for label in domain.labels))
    if not given:
        return spec, {}
    if format is None:
        raise OptionError(
            f"{next(iter(given))}: the driver {json['driver']} takes those of chunkwise.open only"
        )
    dtype = data_type(options.get("dtype", source.dtype))
    template = ArrayTemplate(shape=source.shape, dtype=dtype, chunks=block_shape(source))
    check_named(given, given.get("dimension_names", ()), "the array")
    fields = for_array(for_format(given, format), template)
    if tree_format(format).codecs.is_chain and "codec" not in fields:
        said = options.get("codec") or getattr(options.get("schema"), "codec", None)
        codecs = None if said is None else said.to_json().get("codecs")
        fields["codec"] = codecs or Compressor("none")  # as the driver has it
    target = target_spec(template.replaced(fields), format, list(fields))
    own: dict[str, Any] = dict(target.spec["metadata"])
    if "fill_value" not in fields:
        own.pop("fill_value", None)
    return {**json, "metadata": {**own, **json.get("metadata", {})}}, target.attributes


def _fill(
    target: TensorStore,
    location: Location | None,
    write: Callable[[TensorStore], None] | None,
    attributes: Mapping[str, JSON],
) -> TensorStore:
    """Write to a new array; delete it if that fails."""
    made = generation_of(target) if location is not None else b""
    try:
        if attributes:
            target.attrs.update(attributes)
            node = None if location is None else find_documented(location)
            made = node.found.generation if node is not None and node.found is not None else made
        if write is not None:
            write(target)
            if location is not None:
                check_in_place(target, location, made)
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):  # the store may have failed permanently
            if location is not None and find_documented(location) is not None:
                delete_own(location, made=made)
                update_consolidated(location.store, location.path)
        raise
    return target
