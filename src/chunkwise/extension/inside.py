"""Other parts of the core, for its neighbours: arguments, packages, locks, stores, keys, blocks, HTML.

These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.api.append import Room, stored_axis
from chunkwise.core.api.array_info import ArrayInfo
from chunkwise.core.api.array_view import not_writable
from chunkwise.core.api.copy import BLOCK_NBYTES, BlockCopy, divide, item_nbytes
from chunkwise.core.api.open import OTHERS_LEFT, SpecLike, others_left
from chunkwise.core.arrays.base_array import array_sources
from chunkwise.core.base.arguments import as_integer, as_items, as_nbytes, check_choice, check_flag
from chunkwise.core.base.binding import MISSING, dump, dump_bytes, load_json, parse_json, plain_json
from chunkwise.core.base.cached import cached_property, put_bounded
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.base.command import as_json
from chunkwise.core.base.extras import MissingPackageError, is_of, load, needs
from chunkwise.core.base.foreign_names import instead_of
from chunkwise.core.base.html import RecordList, brief, codec_text, panel, plate_drawing, table
from chunkwise.core.base.limits import hold, memory_limit, n_processors, release
from chunkwise.core.base.public_names import (
    explains_foreign_names,
    missing_name,
    name_members,
    options_of,
    warn_caller,
)
from chunkwise.core.base.stand_in import stand_in_for
from chunkwise.core.base.threads import new_lock, start_thread
from chunkwise.core.driver.n5.attribute_path import get_attribute, parse_attribute_path
from chunkwise.core.driver.n5.metadata import DATASET_MEMBERS
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.as_array import elements_of, is_missing, plain_array
from chunkwise.core.dtypes.conversion import implicit_converter
from chunkwise.core.dtypes.zarr3 import parse_fill_value_zarr3
from chunkwise.core.engine.concurrent_requests import work_through
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.engine.unasked import fail_at_exit, in_background, watches
from chunkwise.core.grid import ChunkGrid
from chunkwise.core.index_space import align
from chunkwise.core.index_space.numpy_rules import as_key, as_slice, position, positions
from chunkwise.core.kvstore.adapter.guarded import GuardedStore, Written
from chunkwise.core.kvstore.atomic import answers_at_once
from chunkwise.core.kvstore.compare_and_swap import compare_and_swap
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.platform import TRAITS as PLATFORM_TRAITS
from chunkwise.core.kvstore.files.platform import extended_path
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import delete_all_below
from chunkwise.core.kvstore.places.lease import HeldError, check_alone, is_of_ended
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    UNKNOWN_GENERATION,
    EntryListable,
    ListEntry,
    Reader,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import open_size, read_bounded, stored_nbytes
from chunkwise.core.plan.blocks import Blocks, block_shape
from chunkwise.core.specs.chunk_layout import DimensionLink, one_to_one
from chunkwise.core.specs.context import default_resources
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstore_spec import Locatable, is_kvstore_object
from chunkwise.core.specs.storage_options import url_with_storage_options, with_storage_options
from chunkwise.core.specs.unit import parse_unit, unit_text
from chunkwise.core.specs.url import is_url, shown_text
from chunkwise.core.trees.append import Append, Growing, appending, excluding, sizes_before

__all__ = [
    "BLOCK_NBYTES",
    "DATASET_MEMBERS",
    "MISSING",
    "MISSING_GENERATION",
    "OTHERS_LEFT",
    "PLATFORM_TRAITS",
    "UNKNOWN_GENERATION",
    "Append",
    "ArrayInfo",
    "BlockCopy",
    "Blocks",
    "ChunkGrid",
    "DimensionLink",
    "DriverSpec",
    "EntryListable",
    "FileStore",
    "Growing",
    "GuardedStore",
    "HeldError",
    "KeyRange",
    "ListEntry",
    "Locatable",
    "MissingPackageError",
    "Pool",
    "Reader",
    "RecordList",
    "Room",
    "SpecLike",
    "Stop",
    "StoredArray",
    "Written",
    "align",
    "answers_at_once",
    "appending",
    "array_sources",
    "as_integer",
    "as_items",
    "as_json",
    "as_key",
    "as_nbytes",
    "as_slice",
    "block_shape",
    "brief",
    "cached_property",
    "check_alone",
    "check_choice",
    "check_flag",
    "codec_text",
    "compare_and_swap",
    "default_resources",
    "delete_all_below",
    "divide",
    "dump",
    "dump_bytes",
    "elements_of",
    "excluding",
    "explains_foreign_names",
    "extended_path",
    "fail_at_exit",
    "get_attribute",
    "hold",
    "hooks",
    "implicit_converter",
    "in_background",
    "instead_of",
    "is_kvstore_object",
    "is_missing",
    "is_of",
    "is_of_ended",
    "is_url",
    "item_nbytes",
    "load",
    "load_json",
    "memory_limit",
    "missing_name",
    "n_processors",
    "name_members",
    "needs",
    "new_lock",
    "not_writable",
    "offers",
    "one_to_one",
    "open_size",
    "options_of",
    "others_left",
    "panel",
    "parse_attribute_path",
    "parse_fill_value_zarr3",
    "parse_json",
    "parse_unit",
    "plain_array",
    "plain_json",
    "plate_drawing",
    "position",
    "positions",
    "put_bounded",
    "read_bounded",
    "release",
    "shown_text",
    "sizes_before",
    "stand_in_for",
    "start_thread",
    "stored_axis",
    "stored_nbytes",
    "table",
    "traits_of",
    "unit_text",
    "url_with_storage_options",
    "warn_caller",
    "watches",
    "with_storage_options",
    "work_through",
]
