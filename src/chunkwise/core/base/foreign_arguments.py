"""Arguments that users of other libraries give to functions, and what to write instead, as errors say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["FOREIGN_ARGUMENTS", "NO_H5", "RESIZABLE", "TEXT", "Instead", "Owner"]

Owner: TypeAlias = Literal[
    "chunkwise",
    "Future",
    "TensorStore",
    "Group",
    "Attributes",
    "create_array",
    "create_group",
    "group.create_group",
    "copy",
    "diff",
    "downsample_pyramid",
    "from_dask",
    "migrate",
    "open",
    "open_array",
    "open_group",
    "open_multiscale",
    "read",
    "resize",
    "serve",
    "stack",
    "store",
    "to_dask",
    "verify",
    "write_dataset",
]


class Instead(NamedTuple):
    """The name to write instead of another, as Python code, and a remark."""

    code: str = ""  # empty if the name is to be left out
    why: str = ""

    def __str__(self) -> str:
        text = f"did you mean {self.code}?" if self.code else "leave it out"
        return f"{text} ({self.why})" if self.why else text


RESIZABLE = Instead(why="every array can be resized: array.resize(exclusive_max=shape).result()")
_FORMAT = Instead('format="zarr3"', 'or "zarr2"')
_OF_GROUP = Instead(why="the format is that of the group")
_DETECTED = Instead(why="the format is detected")
_OPEN_ARRAY = Instead("chunkwise.open_array(path, mode)")
_CREATE_ARRAY = Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)")
_ATTRIBUTES = Instead('attributes={"unit": "mV"}')
_CONSOLIDATED = Instead("consolidated=True")
_NO_LOCK = Instead(why="writers of parts of one chunk lose nothing")
_IN_GROUP = Instead("chunkwise.open_group(path)[name]")
_TOLERANCE = Instead(
    "numpy.allclose(left, right, atol=1e-6)", "of the arrays as read; here values are equal or not"
)
_FIRST = Instead(why="the store, a path or a URL is the first argument, without a name")
_IN_PATH = Instead(why="it belongs to the path")
_FROM_DASK = Instead("chunkwise.from_dask(dask_array, path)", "it makes an array; a target is there already")
_STORE = Instead("chunkwise.store(dask_array, array[selection])")

TEXT = Instead('dtype="ustring"')
_NO_CACHE = Instead(why="metadata is cached; recheck_cached_data of open says how long")
NO_H5 = Instead(why="only HDF5 has it")

FOREIGN_ARGUMENTS: Mapping[Owner, Mapping[str, Instead]] = {
    "create_array": {
        **dict.fromkeys(("cache_attrs", "cache_metadata"), _NO_CACHE),
        **dict.fromkeys(("external", "track_order", "track_times"), NO_H5),
        "attrs": _ATTRIBUTES,
        "axes": Instead('dimension_names=["y", "x"]'),
        "config": Instead(why="an order in memory is asked for in reading: array.read(order=\"F\")"),
        "chunk_key_encoding": Instead('metadata={"chunk_key_encoding": {"name": "v2"}}'),
        "chunk_shape": Instead("chunks=(4, 4)"),
        "clobber": Instead("overwrite=True"),
        "compression": Instead('codec="gzip"'),
        "compression_opts": Instead('codec="gzip:5"'),
        "dimension_separator": Instead('format="zarr2", metadata={"dimension_separator": "/"}'),
        "dims": Instead('dimension_names=["y", "x"]'),
        "fillvalue": Instead("fill_value=0"),
        "fletcher32": Instead("checksum=True"),
        "maxshape": RESIZABLE,
        "mode": Instead("overwrite=True", 'as mode="w"'),
        "name": _IN_PATH,
        "object_codec": TEXT,
        "order": Instead('format="zarr2", metadata={"order": "F"}'),
        "path": _IN_PATH,
        "scaleoffset": Instead('codec="zstd:5"'),
        "shard_shape": Instead("shards=(8, 8)"),
        "shuffle": Instead('codec="blosc:zstd:5:shuffle"'),
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "unit": Instead('dimension_units=["4 nm", "4 nm"]'),
        "units": Instead('dimension_units=["4 nm", "4 nm"]'),
        "write_data": Instead(why="data=None makes an array without data"),
        "write_empty_chunks": Instead(why="chunks of fill values alone are not stored"),
        "zarr_format": _FORMAT,
        "zarr_version": _FORMAT,
    },
    "create_group": {
        "attrs": _ATTRIBUTES,
        "mode": Instead('chunkwise.open_group(path, "a")'),
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "zarr_format": _FORMAT,
        "zarr_version": _FORMAT,
    },
    "group.create_group": {
        "attrs": _ATTRIBUTES,
        "format": _OF_GROUP,
        "name": Instead('group.create_group("a")', "a path"),
        "zarr_format": _OF_GROUP,
        "zarr_version": _OF_GROUP,
    },
    "copy": {
        "chunk_shape": Instead("chunks=(4, 4)"),
        "compression": Instead('codec="gzip"'),
        "shard_shape": Instead("shards=(8, 8)"),
        "zarr_format": _FORMAT,
        "zarr_version": _FORMAT,
    },
    "diff": {
        "atol": _TOLERANCE,
        "format": _DETECTED,
        "rtol": _TOLERANCE,
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "downsample_pyramid": {
        "chunk_shape": Instead("chunks=(4, 4)"),
        "compression": Instead('codec="gzip"'),
        "coordinate_transformations": Instead('units=["4 nm", "4 nm"]'),
        "dimension_names": Instead('axes=["y", "x"]'),
        "dimension_units": Instead('units=["4 nm", "4 nm"]'),
        "fill_value": Instead(why="levels have that of the source"),
        "format": Instead('convention="ome-ngff-0.4"', "that is Zarr v2; others are in its documentation"),
        "layout": Instead('convention="n5-viewer"'),
        "max_layer": Instead("levels=3"),
        "n_levels": Instead("levels=3"),
        "output_chunks": Instead("chunks=(4, 4)"),
        "scale": Instead('units=["4 nm", "4 nm"]'),
        "scale_factors": Instead("factors=(2, 2)"),
        "scaler": Instead('method="mean"'),
        "zarr_format": Instead('convention="ome-ngff-0.4"', "that is Zarr v2; 0.5 is Zarr v3"),
    },
    "from_dask": {
        "attributes": Instead("array.attrs.update(attributes)", "of the array that it returns"),
        "attrs": Instead("array.attrs.update(attributes)", "of the array that it returns"),
        "component": _IN_PATH,
        "lock": _NO_LOCK,
        "overwrite": Instead("delete_existing=True"),
        "region": _STORE,
        "regions": _STORE,
        "zarr_format": Instead('spec={"driver": "zarr", "kvstore": path}', "the driver is the format"),
    },
    "migrate": {
        "dry_run": Instead("apply=False"),
        "zarr_format": Instead(why="Zarr v1 and v2 become v3"),
    },
    "open": {
        **dict.fromkeys(
            ("attributes", "attrs", "checksum", "chunks", "compression", "compressor", "compressors", "data",
             "dimension_names", "filters", "shards"),
            _CREATE_ARRAY,
        ),
        "format": _DETECTED,
        "mode": _OPEN_ARRAY,
        "overwrite": Instead("delete_existing=True, create=True"),
        "path": _IN_GROUP,
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "use_consolidated": Instead("chunkwise.open_group(path, consolidated=True)"),
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "open_array": {
        "chunks": _CREATE_ARRAY,
        "dtype": _CREATE_ARRAY,
        "fill_value": _CREATE_ARRAY,
        "format": _DETECTED,
        "overwrite": _CREATE_ARRAY,
        "path": _IN_GROUP,
        "shape": _CREATE_ARRAY,
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "open_group": {
        "attrs": _ATTRIBUTES,
        "overwrite": Instead('mode="w"'),
        "path": _IN_GROUP,
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "use_consolidated": _CONSOLIDATED,
        "use_zarr_format": _FORMAT,
        "zarr_format": _FORMAT,
        "zarr_version": _FORMAT,
    },
    "open_multiscale": {
        "mode": Instead(why="images are opened for reading"),
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "read": {
        "format": _DETECTED,
        "path": _IN_GROUP,
        "store": _FIRST,
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "resize": {
        "axis": Instead("array.resize(exclusive_max=[size, None])", "None leaves a size unchanged"),
        "new_shape": Instead("array.resize(exclusive_max=shape)"),
        "shape": Instead("array.resize(exclusive_max=shape)"),
        "size": Instead("array.resize(exclusive_max=[size, None])", "None leaves a size unchanged"),
    },
    "serve": {
        "address": Instead('host="0.0.0.0"'),
        "bind": Instead('host="0.0.0.0"'),
        "bind_address": Instead('host="0.0.0.0"'),
        "cors": Instead(why="any page may read served data"),
    },
    "stack": {
        "concat_dim": Instead("axis=0"),
        "dim": Instead("axis=0"),
        "out": Instead("chunkwise.stack(layers).read(out=out).result()"),
    },
    "store": {
        **dict.fromkeys(
            ("attributes", "checksum", "chunk_layout", "chunks", "codec", "component", "compressor",
             "compressors", "delete_existing", "dimension_names", "dimension_units", "dtype", "fill_value",
             "filters", "format", "mode", "overwrite", "path", "serializer", "shards", "storage_options",
             "zarr_format"),
            _FROM_DASK,
        ),
        "lock": _NO_LOCK,
        "region": _STORE,
        "regions": _STORE,
    },
    "to_dask": {
        "asarray": Instead(why="blocks are NumPy arrays"),
        "component": _IN_GROUP,
        "fancy": Instead(why="blocks are read by slices"),
        "lock": Instead(why="any number of threads can read"),
        "meta": Instead(why="blocks are NumPy arrays"),
        "storage_options": Instead("chunkwise.open(path, storage_options=options).result()"),
    },
    "verify": {
        "format": _DETECTED,
        "zarr_format": _DETECTED,
        "zarr_version": _DETECTED,
    },
    "write_dataset": {
        "safe_chunks": Instead(why="writers of parts of one chunk lose nothing"),
        "store": Instead("target=path"),
        "synchronizer": _NO_LOCK,
        "zarr_format": _FORMAT,
        "zarr_version": _FORMAT,
    },
}  # fmt: skip
"""By function, sorted by name."""
