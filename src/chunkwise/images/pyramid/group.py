"""``PyramidGroup``: the group of a pyramid, made before its levels, and described after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chunkwise import Attributes, create_container
from chunkwise.errors import AlreadyExistsError
from chunkwise.extension import JSON
from chunkwise.extension.trees import (
    JOURNAL,
    Location,
    check_container,
    check_outside_arrays,
    container_root,
    create_parents,
    find_node,
    parents_made,
    require_node,
    to_json_value,
    tree_format,
    write_group,
)
from chunkwise.images.conventions.convention import Kept, NewImage, PyramidConvention
from chunkwise.images.conventions.ome import OmeZarr

__all__ = ["PyramidGroup"]

_LABELS = "labels"


class PyramidGroup:
    """A group that is, or will be, a pyramid."""

    def __init__(
        self,
        location: Location,
        convention: PyramidConvention,
        name: str,
        *,
        first: str | None = None,
        renamed: bool = False,
        kept: Kept,
    ) -> None:
        self._location, self._convention, self._name = location, convention, name
        self._first, self._renamed = first, renamed  # the first level, if it is there already
        self._kept = kept

    def check(self) -> None:
        """Raise AlreadyExistsError if an array, or a group of another format, is there, or an array above."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers:
            check_container(location)
        check_outside_arrays(location)
        node = find_node(location)
        if node is None or node.key == JOURNAL:
            return
        if node.kind == "array":
            raise AlreadyExistsError(f"{location.text} is an array, not a group that could hold a pyramid")
        if not node.implicit and node.format != format:
            raise AlreadyExistsError(f"{location.text} is a {node.format} group, and the pyramid is {format}")

    def make(self) -> None:
        """Make the group, and those above it."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers and container_root(location) is None:
            create_container(location)
        with parents_made(location, format):
            if write_group(location, format, {}) is None:
                self.check()  # another process was faster

    def is_finished(self, image: NewImage) -> bool:
        """Return True if the group has the attributes of an image."""
        node = find_node(self._location)
        if node is None or node.kind == "array" or node.format != self._convention.format:
            return False
        before = Attributes(node).asdict()
        return bool(to_json_value(self._change(image)(before), "attributes") == before)

    def _is_among_labels(self, image: NewImage) -> bool:
        parent = self._location.parent
        return image.labels and parent is not None and parent.name == _LABELS

    def _change(self, image: NewImage) -> Callable[[Mapping[str, JSON]], dict[str, JSON]]:
        """Return the change of the group's attributes that makes it a pyramid."""
        convention, first, renamed = self._convention, self._first, self._renamed
        above = "../../" if self._is_among_labels(image) else None
        made = convention.group_attributes(
            image._replace(name=self._name, source_image=above, kept=self._kept)
        )
        if first is None:
            return lambda before: {**before, **made}
        return lambda before: convention.merged(before, made, first, renamed=renamed)

    def clear(self) -> None:
        """Remove the attributes of a pyramid; a level that stays remains an image."""
        node = find_node(self._location)
        if node is None or node.implicit:
            return
        attributes, first = Attributes(node), self._first
        before = attributes.asdict()
        if self._convention.cleared(before, first) != before:
            attributes.change(lambda stored: self._convention.cleared(stored, first))

    def finish(self, image: NewImage) -> None:
        """Write the attributes; list labels in a group ``labels`` that they are in."""
        parent, change = self._location.parent, self._change(image)
        Attributes(require_node(self._location)).change(change)
        if self._is_among_labels(image) and isinstance(self._convention, OmeZarr):
            assert parent is not None
            convention = self._convention
            create_parents(parent, convention.format)
            write_group(parent, convention.format, {})
            Attributes(require_node(parent)).change(lambda own: convention.listing(own, self._location.name))
