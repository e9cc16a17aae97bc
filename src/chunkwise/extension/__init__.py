"""The API for plug-ins, in addition to the public API: all that they may import.

Codecs derive from `BytesToBytes`, `ArrayToBytes` or `ArrayToArray`; stores from `PluginStore`, and have a
`KvStoreSpec` if specs are to name them; data types are classes with the methods of `DataTypeExtension`.
`Members` and the functions ``expect_*`` take options apart.
An object that is registered in a registry, or published as an entry point of its group, is known by name:

============= ============================ ==========================================
registry      group of entry points        entry
============= ============================ ==========================================
codecs        ``chunkwise.codecs``         a class of codecs
commands      ``chunkwise.commands``       a module: ``add_arguments``, ``run``
data_types    ``chunkwise.data_types``     a class with ``parse``
key_encodings ``chunkwise.key_encodings``  a function from options to a `KeyEncoding`
kvstores      ``chunkwise.kvstores``       a subclass of `KvStoreSpec`
============= ============================ ==========================================

`chunkwise.testing` has the suites that each of them is to pass.  Other modules of the package may change from
one version to the next; this one, and the public API, keep their names.
"""

from __future__ import annotations

from chunkwise.core.base.binding import JSON, Members, expect_bool, expect_int, expect_string
from chunkwise.core.base.catalogue import codecs, commands, data_types, key_encodings, kvstores
from chunkwise.core.base.command import UsageError, message, show
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.protocol import ArrayToArray, ArrayToBytes, Buffer, BytesToBytes
from chunkwise.core.dtypes.extension import Extension as DataTypeExtension
from chunkwise.core.kvstore.libraries.plugin_store import PluginStore
from chunkwise.core.kvstore.protocol import ByteRange, Children, KvStoreDriver, Stamped
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.core.kvstore.value import slice_range
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    SpecError,
    UnsupportedError,
)

__all__ = [
    "DEFAULT_TRAITS",
    "JSON",
    "AlreadyExistsError",
    "ArrayToArray",
    "ArrayToBytes",
    "Buffer",
    "ByteRange",
    "BytesToBytes",
    "Children",
    "ChunkwiseError",
    "DataCorruptionError",
    "DataTypeExtension",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "KeyEncoding",
    "KvStoreDriver",
    "KvStoreSpec",
    "Members",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "PluginStore",
    "SpecError",
    "Stamped",
    "StoreTraits",
    "UnsupportedError",
    "UsageError",
    "codecs",
    "commands",
    "data_types",
    "expect_bool",
    "expect_int",
    "expect_string",
    "key_encodings",
    "kvstores",
    "message",
    "show",
    "slice_range",
]
