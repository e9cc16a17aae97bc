"""Trees, for the neighbours of the core: places, nodes, documents, attributes, links, what each format has.

These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.driver.auto import NoFormatError, is_references
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS, tree_format
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.trees.attributes import (
    NonFinite,
    add_attributes,
    check_non_finite,
    has_non_finite,
    node_attributes,
    on_trial,
    read_attributes,
    to_json_value,
    with_number_types,
)
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.consolidated import EMPTY as EMPTY_CONSOLIDATED
from chunkwise.core.trees.consolidated import Entry, parse_snapshot, update_consolidated, with_copies
from chunkwise.core.trees.consolidated_tree import is_consolidated, renew_copies_above
from chunkwise.core.trees.container import check_container, check_container_of, container_root, mark_container
from chunkwise.core.trees.create import get_or_create, write_group
from chunkwise.core.trees.destination import Destination, Mode, State, check_place
from chunkwise.core.trees.document import change_document, dump_like, read_document
from chunkwise.core.trees.key_ownership import delete_own, is_made_here, was_replaced
from chunkwise.core.trees.link import LINK_ATTRIBUTES, links_of, without_links
from chunkwise.core.trees.location import (
    Location,
    LocationLike,
    is_ome_archive,
    is_root_of_file,
    locate,
    located,
    location_of,
)
from chunkwise.core.trees.look import (
    check_outside_arrays,
    is_inside_array,
    is_vacant,
    looking,
    looking_above,
    node_above,
)
from chunkwise.core.trees.missing_marker import FILL_VALUE, marker_from_json, marker_to_json
from chunkwise.core.trees.new_format import VOLUME, Kind, format_of, format_said, is_volume
from chunkwise.core.trees.new_location import (
    create_parents,
    missing_groups,
    parents_made,
    remove_groups,
    removed_after_failure,
)
from chunkwise.core.trees.node import (
    JOURNAL,
    Node,
    check_new_names,
    find_documented,
    find_node,
    is_declared,
    is_link,
    node_of,
    nothing_at,
    require_node,
    split_path,
    what_is_at,
)
from chunkwise.core.trees.replacement import (
    ArchivePlace,
    Replacement,
    archive_place,
    is_in_archive,
    replacing,
)
from chunkwise.core.trees.tree import ResolvedNode, Tree, check_format, read_only
from chunkwise.core.trees.walk import UNREADABLE, children, walk

__all__ = [
    "DRIVERS",
    "EMPTY_CONSOLIDATED",
    "FILL_VALUE",
    "FORMATS",
    "JOURNAL",
    "LINK_ATTRIBUTES",
    "UNREADABLE",
    "VOLUME",
    "ArchivePlace",
    "ChunkedArray",
    "Destination",
    "Entry",
    "FormatName",
    "Kind",
    "Location",
    "LocationLike",
    "Mode",
    "NoFormatError",
    "Node",
    "NonFinite",
    "Replacement",
    "ResolvedNode",
    "State",
    "Tree",
    "add_attributes",
    "archive_place",
    "change_document",
    "check_container",
    "check_container_of",
    "check_format",
    "check_new_names",
    "check_non_finite",
    "check_outside_arrays",
    "check_place",
    "children",
    "container_root",
    "create_parents",
    "delete_below",
    "delete_own",
    "dump_like",
    "find_documented",
    "find_node",
    "format_of",
    "format_said",
    "get_or_create",
    "has_non_finite",
    "is_consolidated",
    "is_declared",
    "is_in_archive",
    "is_inside_array",
    "is_link",
    "is_made_here",
    "is_ome_archive",
    "is_references",
    "is_root_of_file",
    "is_vacant",
    "is_volume",
    "links_of",
    "locate",
    "located",
    "location_of",
    "looking",
    "looking_above",
    "map_requests",
    "mark_container",
    "marker_from_json",
    "marker_to_json",
    "missing_groups",
    "node_above",
    "node_attributes",
    "node_of",
    "nothing_at",
    "on_trial",
    "parents_made",
    "parse_snapshot",
    "read_attributes",
    "read_document",
    "read_only",
    "remove_groups",
    "removed_after_failure",
    "renew_copies_above",
    "replacing",
    "require_node",
    "split_path",
    "to_json_value",
    "tree_format",
    "update_consolidated",
    "walk",
    "was_replaced",
    "what_is_at",
    "with_copies",
    "with_number_types",
    "without_links",
    "write_group",
]
