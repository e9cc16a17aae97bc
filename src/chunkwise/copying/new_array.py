"""Opening and creating the array at a location.

Missing groups above a new Zarr array are created, the container of an N5 dataset gets its version, and
consolidated metadata above is updated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chunkwise.copying.target import Target
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.extras import is_of
from chunkwise.core.driver.auto.found_instead import interrupted_instead
from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS
from chunkwise.core.index_space import IndexTransform, align_by_position
from chunkwise.core.kvstore.staging import is_staging
from chunkwise.core.trees.attributes import write_first_attributes
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import create_parents, remove_groups
from chunkwise.core.trees.node import Node, find_documented, require_node
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError
from chunkwise.extension.trees import check_outside_arrays, check_place, delete_own, looking, replacing

__all__ = ["NewArray", "create_array", "is_of_dask", "open_array", "open_node"]


def open_array(location: Location, *, found: Node | None = None, **options: Any) -> TensorStore:
    """Open the array at `location`, of any format; `found` is its node, if that is known."""
    node = found or require_node(location)
    if node.kind == "group" or node.format is None:
        if node.implicit and (why := interrupted_instead(location.store, location.path, location.text)):
            raise NotFoundError(f"there is no array at {location.text}: {why}")
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


def create_array(location: Location, target: Target, *, overwrite: bool = False) -> TensorStore:
    """Make an array, which replaces another one only with `overwrite`.

    Raises
    ------
    AlreadyExistsError
        If there is already an array, group or other files, or an array above.
    """
    format = FORMATS[target.spec["driver"]]
    with looking(location) as seen:
        if not is_staging(location.name):  # which is in the array that it replaces, in some stores
            check_outside_arrays(seen)
        check_place(seen, "array", format, "overwrite" if overwrite else "new")
    spec = {**target.spec, "kvstore": location.kvstore()}
    # Nothing may remain of an array that can't be made.
    planned = open_spec({**spec, "open": True, "assume_metadata": True}).result()
    text = planned.dtype.name == "ustring"
    new = NewArray(format, spec, target.attributes)
    if not overwrite:
        new.write_to(location, lambda: create_parents(location, format, text=text))
    else:
        with replacing(location) as staging:
            new.write_to(staging)
            create_parents(location, format, text=text)
    return open_array(location)


def is_of_dask(data: object) -> bool:
    """Return True for an array of dask, which is computed in blocks."""
    return is_of(data, "dask") and hasattr(data, "store")


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
        made = False
        try:
            parents = make_parents()
            write_first_attributes(place, self.format, self.attributes)
            store = open_spec(
                {**self.spec, "kvstore": place.kvstore(), "create": True}, **self.options
            ).result()
            made = True
            if self.data is not None:
                self._fill(self._alone(store, place))
        except BaseException:  # an interrupt too: no half array may stay
            with suppress(ChunkwiseError):  # the store may have failed for good
                if made or find_documented(place) is None:  # otherwise somebody was faster
                    delete_own(place)
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
