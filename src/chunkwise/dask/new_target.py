"""The array that `from_dask` makes, beside the one that it replaces; it is deleted after a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chunkwise import Spec, TensorStore
from chunkwise import open as open_spec
from chunkwise.dask.reads import reads_of
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.trees import (
    FORMATS,
    Location,
    Mode,
    check_outside_arrays,
    check_place,
    create_parents,
    delete_own,
    find_documented,
    locate,
    parents_made,
    replacing,
    update_consolidated,
)

__all__ = ["create_and_write"]


def create_and_write(
    source: Any,
    spec: Any,
    write: Callable[[TensorStore], None] | None,
    *,
    delete_existing: bool,
    **options: Any,
) -> TensorStore:
    """Make an array, replacing another if that may be deleted, and let `write` fill it, if given.

    Without `write` the array replaces the other at once, so `source` must not read the other.
    """
    json: dict[str, JSON] = Spec(spec).to_json()
    context = options.get("context")
    location = locate(json, context) if json.get("kvstore") is not None else None
    if location is None or json["driver"] not in FORMATS:
        return _fill(open_spec(spec, create=True, **options).result(), location, write)
    check_outside_arrays(location)
    mode: Mode = "overwrite" if delete_existing else "new"
    state, _ = check_place(location, "array", FORMATS[json["driver"]], mode)
    if state == "nothing" or not delete_existing:
        with parents_made(location, FORMATS[json["driver"]]):
            return _fill(open_spec(spec, create=True, **options).result(), location, write)
    if write is None:
        for _, name in reads_of(source).of([location]):
            raise InvalidArgumentError(
                f"The dask array is read from {name}, which is to be deleted; with compute=True it is "
                "written beside that first"
            )
    open_spec({**json, "open": True, "assume_metadata": True}, **options).result()
    bare = {name: value for name, value in json.items() if name not in ("kvstore", "path")}
    with replacing(location) as staging:
        create_parents(location, FORMATS[json["driver"]])
        target = open_spec({**bare, "kvstore": staging.kvstore(), "create": True}, **options).result()
        if write is not None:
            write(target)
    whole = {"driver": json["driver"], "kvstore": location.kvstore(), "open": True}
    return open_spec(whole, context=context).result()


def _fill(
    target: TensorStore, location: Location | None, write: Callable[[TensorStore], None] | None
) -> TensorStore:
    """Write to a new array; delete it if that fails."""
    if write is None:
        return target
    try:
        write(target)
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):  # the store may have failed permanently
            if location is not None and find_documented(location) is not None:
                delete_own(location)
                update_consolidated(location.store, location.path)
        raise
    return target
