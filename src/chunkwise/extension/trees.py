"""Trees, for the neighbours of the core: places, nodes, documents, attributes, links, what each format has.

These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS, tree_format
from chunkwise.core.trees.attribute_value import NonFinite, check_non_finite, to_json_value
from chunkwise.core.trees.attributes import node_attributes, read_attributes, with_number_types
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.consolidated_tree import is_consolidated
from chunkwise.core.trees.container import check_container
from chunkwise.core.trees.document import change_document, read_document
from chunkwise.core.trees.link import links_of
from chunkwise.core.trees.location import Location, LocationLike, locate, located, location_of
from chunkwise.core.trees.missing_marker import FILL_VALUE, marker_from_json, marker_to_json
from chunkwise.core.trees.new_location import (
    check_free,
    check_outside_arrays,
    check_replaceable,
    create_parents,
    suggested_format,
)
from chunkwise.core.trees.node import JOURNAL, Node, find_documented, find_node, nothing_at, require_node
from chunkwise.core.trees.node_name import check_new_names, split_path
from chunkwise.core.trees.own_keys import delete_own
from chunkwise.core.trees.replacement import Replacement, replacing
from chunkwise.core.trees.tree import Tree
from chunkwise.core.trees.walk import UNREADABLE, children, walk

__all__ = [
    "DRIVERS",
    "FILL_VALUE",
    "FORMATS",
    "JOURNAL",
    "UNREADABLE",
    "FormatName",
    "Location",
    "LocationLike",
    "Node",
    "NonFinite",
    "Replacement",
    "Tree",
    "TreeFormat",
    "change_document",
    "check_container",
    "check_free",
    "check_new_names",
    "check_non_finite",
    "check_outside_arrays",
    "check_replaceable",
    "children",
    "create_parents",
    "delete_own",
    "find_documented",
    "find_node",
    "is_consolidated",
    "links_of",
    "locate",
    "located",
    "location_of",
    "marker_from_json",
    "marker_to_json",
    "node_attributes",
    "nothing_at",
    "read_attributes",
    "read_document",
    "replacing",
    "require_node",
    "split_path",
    "suggested_format",
    "to_json_value",
    "tree_format",
    "update_consolidated",
    "walk",
    "with_number_types",
]
