"""Other parts of the core, for its neighbours: arguments, packages, locks, stores, blocks of arrays.

These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.api.copy import BLOCK_NBYTES, divide
from chunkwise.core.api.open import SpecLike
from chunkwise.core.api.spec_file import read_spec_file
from chunkwise.core.base.arguments import as_nbytes, check_choice
from chunkwise.core.base.binding import MISSING, dump, load_json
from chunkwise.core.base.cached import cached_property
from chunkwise.core.base.command import as_json
from chunkwise.core.base.extras import MissingPackageError, is_of, load, needs
from chunkwise.core.base.fork import new_lock
from chunkwise.core.base.habits import parameters_of_others
from chunkwise.core.base.processors import memory_limit, n_processors
from chunkwise.core.base.public_names import name_members
from chunkwise.core.base.stand_in import stand_in_for
from chunkwise.core.base.thread import start_thread
from chunkwise.core.driver.n5.attribute_path import get_attribute, parse_attribute_path
from chunkwise.core.driver.n5.members import DATASET_MEMBERS
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.zarr3 import parse_fill_value_zarr3
from chunkwise.core.engine.background import in_background
from chunkwise.core.engine.blockwise import work_through
from chunkwise.core.engine.pool import Pool
from chunkwise.core.grid.protocol import ChunkGrid
from chunkwise.core.kvstore.atomic import answers_at_once
from chunkwise.core.kvstore.byte_range import open_size, stored_nbytes
from chunkwise.core.kvstore.file import FileStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, UNKNOWN_GENERATION, EntryListable, offers
from chunkwise.core.kvstore.reference.hdf5_regions import region_json
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value_bound import read_bounded
from chunkwise.core.specs.context import default_resources
from chunkwise.core.specs.kvstore_spec import Locatable
from chunkwise.core.specs.layout_view import DimensionLink, one_to_one
from chunkwise.core.specs.storage_options import url_with_storage_options, with_storage_options
from chunkwise.core.specs.unit import parse_unit, unit_text
from chunkwise.core.specs.url import is_url

__all__ = [
    "BLOCK_NBYTES",
    "DATASET_MEMBERS",
    "MISSING",
    "MISSING_GENERATION",
    "UNKNOWN_GENERATION",
    "ChunkGrid",
    "DimensionLink",
    "EntryListable",
    "FileStore",
    "KeyRange",
    "Locatable",
    "MissingPackageError",
    "Pool",
    "SpecLike",
    "StoredArray",
    "answers_at_once",
    "as_json",
    "as_nbytes",
    "cached_property",
    "check_choice",
    "default_resources",
    "divide",
    "dump",
    "get_attribute",
    "in_background",
    "is_of",
    "is_url",
    "load",
    "load_json",
    "memory_limit",
    "n_processors",
    "name_members",
    "needs",
    "new_lock",
    "offers",
    "one_to_one",
    "open_size",
    "parameters_of_others",
    "parse_attribute_path",
    "parse_fill_value_zarr3",
    "parse_unit",
    "read_bounded",
    "read_spec_file",
    "region_json",
    "stand_in_for",
    "start_thread",
    "stored_nbytes",
    "traits_of",
    "unit_text",
    "url_with_storage_options",
    "with_storage_options",
    "work_through",
]
