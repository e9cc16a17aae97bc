"""Large N-dimensional arrays in Zarr v1, v2, v3 and N5, behind one TensorStore-compatible API."""

import sys as _sys

if _sys.version_info < (3, 11):  # noqa: UP036  (a source tree on the path: no installer has looked)
    raise ImportError(f"chunkwise needs Python 3.11 or later, and this is {_sys.version.split()[0]}")

from chunkwise.core.base import interrupt as _interrupt  # noqa: F401  isort: skip (first: it covers what follows)

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from chunkwise.core.api.open import open
from chunkwise.core.api.storage_view import StorageStatistics
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.api.transaction import Transaction
from chunkwise.core.base.public_names import Later as _Later
from chunkwise.core.base.public_names import name_members as _name_members
from chunkwise.core.dtypes.data_type import DataType, DTypeLike, dtypes
from chunkwise.core.engine.batch import Batch
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.index_space import (
    Dim,
    DimExpression,
    DimSelection,
    Indexable,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
    d,
    inf,
    newaxis,
)
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.unit import Unit
from chunkwise.version import __version__ as __version__

if _TYPE_CHECKING:
    from chunkwise import xarray as xarray
    from chunkwise.copying.copy import ArrayCopyReport, copy, plan_copy
    from chunkwise.copying.copy_plan import CopyPlan
    from chunkwise.copying.difference import Difference, diff
    from chunkwise.copying.losses import CopyReport
    from chunkwise.copying.migrate import Migration, migrate
    from chunkwise.copying.verify import NodeReport, verify
    from chunkwise.copying.verify_step import BadKey
    from chunkwise.core.api.annotations import (
        DimSelectionLike,
        DownsampleMethod,
        FutureLike,
        NumpyIndexingSpec,
        NumpyIndexTerm,
        RecheckCacheOption,
        T,
    )
    from chunkwise.core.api.held import array
    from chunkwise.core.api.kvstore import KvStore
    from chunkwise.core.api.monitoring import (
        experimental_collect_matching_metrics,
        experimental_collect_prometheus_format_metrics,
        experimental_push_metrics_to_prometheus,
        experimental_update_verbose_logging,
        parse_tensorstore_flags,
    )
    from chunkwise.core.api.stack import concat, overlay, stack
    from chunkwise.core.api.views import cast, downsample
    from chunkwise.core.api.virtual_chunked import virtual_chunked
    from chunkwise.core.arrays.chunk_functions import (
        VirtualChunkedReadParameters,
        VirtualChunkedWriteParameters,
    )
    from chunkwise.core.base.stand_in import install_as_tensorstore
    from chunkwise.core.trees.container import create_container
    from chunkwise.core.trees.link import Link
    from chunkwise.core.trees.node_attributes import Attributes
    from chunkwise.dask import from_dask, store, to_dask
    from chunkwise.groups.copy_tree import copy_tree
    from chunkwise.groups.group import Group
    from chunkwise.groups.n5_uri import open_n5_uri
    from chunkwise.groups.new_array import create_array, open_array, read
    from chunkwise.groups.open_group import create_group, open_group
    from chunkwise.hdmf.stand_in import install_as_hdmf_zarr
    from chunkwise.images.conventions.ome_groups import ImageCollection
    from chunkwise.images.conventions.ome_plates import Plate, Well
    from chunkwise.images.multiscale.edit_image import edit_image
    from chunkwise.images.multiscale.image import MultiscaleImage
    from chunkwise.images.multiscale.open import open_multiscale
    from chunkwise.images.pyramid.downsample_pyramid import downsample_pyramid
    from chunkwise.images.pyramid.pyramid_work import Pyramid, PyramidProgress
    from chunkwise.images.server.app import asgi_app
    from chunkwise.images.server.running import serve
    from chunkwise.n5.blocks import N5Blocks
    from chunkwise.n5.label_multisets import create_n5_blocks, open_label_multisets, open_n5_blocks
    from chunkwise.z5py.stand_in import install_as_z5py

dtype = DataType
# One line each, for type checkers.
bool = dtypes["bool"]
char = dtypes["char"]
byte = dtypes["byte"]
int2 = dtypes["int2"]
int4 = dtypes["int4"]
uint2 = dtypes["uint2"]
uint4 = dtypes["uint4"]
int8 = dtypes["int8"]
uint8 = dtypes["uint8"]
int16 = dtypes["int16"]
uint16 = dtypes["uint16"]
int32 = dtypes["int32"]
uint32 = dtypes["uint32"]
int64 = dtypes["int64"]
uint64 = dtypes["uint64"]
float4_e2m1fn = dtypes["float4_e2m1fn"]
float6_e2m3fn = dtypes["float6_e2m3fn"]
float6_e3m2fn = dtypes["float6_e3m2fn"]
float8_e3m4 = dtypes["float8_e3m4"]
float8_e4m3 = dtypes["float8_e4m3"]
float8_e4m3fn = dtypes["float8_e4m3fn"]
float8_e4m3fnuz = dtypes["float8_e4m3fnuz"]
float8_e4m3b11fnuz = dtypes["float8_e4m3b11fnuz"]
float8_e5m2 = dtypes["float8_e5m2"]
float8_e5m2fnuz = dtypes["float8_e5m2fnuz"]
float8_e8m0fnu = dtypes["float8_e8m0fnu"]
bfloat16 = dtypes["bfloat16"]
float16 = dtypes["float16"]
float32 = dtypes["float32"]
float64 = dtypes["float64"]
complex64 = dtypes["complex64"]
complex128 = dtypes["complex128"]
string = dtypes["string"]
ustring = dtypes["ustring"]
json = dtypes["json"]

__all__ = [
    "ArrayCopyReport",
    "Attributes",
    "BadKey",
    "Batch",
    "ChunkLayout",
    "CodecSpec",
    "Context",
    "CopyPlan",
    "CopyReport",
    "DTypeLike",
    "DataType",
    "Difference",
    "Dim",
    "DimExpression",
    "DimSelection",
    "DimSelectionLike",
    "DownsampleMethod",
    "Future",
    "FutureLike",
    "Group",
    "ImageCollection",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "KvStore",
    "Link",
    "Migration",
    "MultiscaleImage",
    "N5Blocks",
    "NodeReport",
    "NumpyIndexTerm",
    "NumpyIndexingSpec",
    "OpenMode",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "Plate",
    "Promise",
    "Pyramid",
    "PyramidProgress",
    "RecheckCacheOption",
    "Schema",
    "Spec",
    "StorageStatistics",
    "T",
    "TensorStore",
    "Transaction",
    "Unit",
    "VirtualChunkedReadParameters",
    "VirtualChunkedWriteParameters",
    "Well",
    "WriteFutures",
    "array",
    "asgi_app",
    "cast",
    "concat",
    "copy",
    "copy_tree",
    "create_array",
    "create_container",
    "create_group",
    "create_n5_blocks",
    "d",
    "diff",
    "downsample",
    "downsample_pyramid",
    "dtype",
    "edit_image",
    "experimental_collect_matching_metrics",
    "experimental_collect_prometheus_format_metrics",
    "experimental_push_metrics_to_prometheus",
    "experimental_update_verbose_logging",
    "from_dask",
    "inf",
    "install_as_hdmf_zarr",
    "install_as_tensorstore",
    "install_as_z5py",
    "migrate",
    "newaxis",
    "open",
    "open_array",
    "open_group",
    "open_label_multisets",
    "open_multiscale",
    "open_n5_blocks",
    "open_n5_uri",
    "overlay",
    "parse_tensorstore_flags",
    "plan_copy",
    "read",
    "serve",
    "stack",
    "store",
    "to_dask",
    "verify",
    "virtual_chunked",
]
_later = _Later(
    globals(),
    {
        "chunkwise.core.api.annotations": [
            "DimSelectionLike",
            "DownsampleMethod",
            "FutureLike",
            "NumpyIndexingSpec",
            "NumpyIndexTerm",
            "RecheckCacheOption",
            "T",
        ],
        "chunkwise.core.api.held": ["array"],
        "chunkwise.core.api.kvstore": ["KvStore"],
        "chunkwise.core.api.views": ["cast", "downsample"],
        "chunkwise.core.api.monitoring": [
            "experimental_collect_matching_metrics",
            "experimental_collect_prometheus_format_metrics",
            "experimental_push_metrics_to_prometheus",
            "experimental_update_verbose_logging",
            "parse_tensorstore_flags",
        ],
        "chunkwise.core.api.stack": ["concat", "overlay", "stack"],
        "chunkwise.core.api.virtual_chunked": ["virtual_chunked"],
        "chunkwise.core.arrays.chunk_functions": [
            "VirtualChunkedReadParameters",
            "VirtualChunkedWriteParameters",
        ],
        "chunkwise.dask": ["from_dask", "store", "to_dask"],
        "chunkwise.groups.group": ["Group"],
        "chunkwise.groups.n5_uri": ["open_n5_uri"],
        "chunkwise.groups.open_group": ["create_group", "open_group"],
        "chunkwise.groups.new_array": ["create_array", "open_array", "read"],
        "chunkwise.hdmf.stand_in": ["install_as_hdmf_zarr"],
        "chunkwise.core.trees.container": ["create_container"],
        "chunkwise.core.trees.link": ["Link"],
        "chunkwise.core.trees.node_attributes": ["Attributes"],
        "chunkwise.images.multiscale.image": ["MultiscaleImage"],
        "chunkwise.images.conventions.ome_groups": ["ImageCollection"],
        "chunkwise.images.conventions.ome_plates": ["Plate", "Well"],
        "chunkwise.images.multiscale.open": ["open_multiscale"],
        "chunkwise.n5.blocks": ["N5Blocks"],
        "chunkwise.n5.label_multisets": ["create_n5_blocks", "open_label_multisets", "open_n5_blocks"],
        "chunkwise.images.multiscale.edit_image": ["edit_image"],
        "chunkwise.images.pyramid.downsample_pyramid": ["downsample_pyramid"],
        "chunkwise.images.pyramid.pyramid_work": ["Pyramid", "PyramidProgress"],
        "chunkwise.images.server.app": ["asgi_app"],
        "chunkwise.images.server.running": ["serve"],
        "chunkwise.core.base.stand_in": ["install_as_tensorstore"],
        "chunkwise.groups.copy_tree": ["copy_tree"],
        "chunkwise.copying.copy": ["ArrayCopyReport", "copy", "plan_copy"],
        "chunkwise.copying.difference": ["Difference", "diff"],
        "chunkwise.copying.verify": ["NodeReport", "verify"],
        "chunkwise.copying.verify_step": ["BadKey"],
        "chunkwise.copying.copy_plan": ["CopyPlan"],
        "chunkwise.copying.migrate": ["Migration", "migrate"],
        "chunkwise.copying.losses": ["CopyReport"],
        "chunkwise.z5py.stand_in": ["install_as_z5py"],
    },
    packages=["dask", "hdmf", "n5", "napari", "notebook", "ocdbt", "testing", "xarray", "z5py", "zarr"],
)
_name_members(globals(), [name for name in __all__ if name not in _later])
__all__ += list(dtypes)


def __getattr__(name: str) -> _Any:
    """Load rarely used names on demand."""
    return _later.load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_later})
