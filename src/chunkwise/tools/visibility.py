"""Check that a worker sees the arrays that it is to read; else they would be full of fill values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import FailedPreconditionError
from chunkwise.hierarchy.location import location_of
from chunkwise.hierarchy.node import FORMATS, Node, find_documented
from chunkwise.hierarchy.node_attributes import array_node
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.tools.stored_node import is_same_array

__all__ = ["check_array_visible", "check_node_visible"]

_MOST_LOOKED_AT = 8  # of the arrays that a source is made of


def check_node_visible(node: Node, what: str) -> None:
    """Raise FailedPreconditionError unless the document of a node is here as it is in `node`."""
    found = find_documented(node.location, node.format)
    if found is None or not is_same_array(node, found):
        raise FailedPreconditionError(
            f"a worker doesn't see {what}: {node.location.describe(node.key)} isn't there, or is another; it "
            "has to be on storage that all workers see under the same name"
        )


def check_array_visible(store: TensorStore, what: str) -> None:
    """Raise FailedPreconditionError unless an array, or what it is made of, is here as it was opened."""
    array = store._array
    node = array_node(array).node
    if node is not None:
        check_node_visible(node, what)
        return
    for spec in islice(_stored(array.spec()), _MOST_LOOKED_AT):
        assert spec.kvstore is not None, "it is stored"
        location = location_of(spec.kvstore)
        if find_documented(location, FORMATS[spec.driver]) is None:
            raise FailedPreconditionError(
                f"a worker doesn't see {what}: there is no array at {location.text}"
            )


def _stored(spec: DriverSpec) -> Iterator[DriverSpec]:
    """Yield the specs of the stored arrays that an array is made of."""
    if spec.kvstore is not None and spec.driver in FORMATS:
        yield spec
    for part in spec.parts():
        if isinstance(part, DriverSpec):
            yield from _stored(part)
