"""Arguments that users of other libraries give to functions, and what to write instead, as errors say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

__all__ = [
    "CREATE_ARRAY",
    "FOREIGN_ARGUMENTS",
    "NO_H5",
    "NO_LOCK",
    "RESIZABLE",
    "TEXT",
    "Instead",
    "Rows",
]


class Instead(NamedTuple):
    """The name to write instead of another, as Python code, and a remark."""

    code: str = ""  # empty if the name is to be left out; {} stands for the name
    why: str = ""

    def __str__(self) -> str:
        text = f"did you mean {self.code}?" if self.code else "leave it out"
        return f"{text} ({self.why})" if self.why else text


Rows: TypeAlias = Mapping[Instead, str]
"""What to write, and the names instead of which it is written."""

_ATTRIBUTES = Instead('attributes={"unit": "mV"}')
CREATE_ARRAY = Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)")
_DETECTED = Instead(why="the format is detected")
_FORMAT = Instead('format="zarr3"', 'or "zarr2"')
_IN_GROUP = Instead("chunkwise.open_group(path)[name]")
_IN_PATH = Instead(why="it belongs to the path")
NO_H5 = Instead(why="only HDF5 has it")
NO_LOCK = Instead(why="writers of parts of one chunk lose nothing")
RESIZABLE = Instead(why="every array can be resized: array.resize(exclusive_max=shape).result()")
_STORE = Instead("chunkwise.store(dask_array, array[selection])")
TEXT = Instead('dtype="ustring"')

_PLACE: Rows = {
    Instead(why="the store, a path or a URL is the first argument, without a name"): "store",
    NO_LOCK: "synchronizer",
}
_OPENED: Rows = {**_PLACE, _DETECTED: "format zarr_format zarr_version", _IN_GROUP: "path"}
_MADE: Rows = {**_PLACE, _ATTRIBUTES: "attrs", _FORMAT: "zarr_format zarr_version"}
_LAYOUT: Rows = {
    Instead("chunks=(4, 4)"): "chunk_shape output_chunks",
    Instead('codec="gzip"'): "compression",
    Instead("shards=(8, 8)"): "shard_shape",
}

FOREIGN_ARGUMENTS: Mapping[str, Rows] = {
    "create_array": {
        **_MADE,
        **_LAYOUT,
        Instead('dimension_names=["y", "x"]'): "axes dims",
        Instead(
            why="metadata is cached; recheck_cached_data of open says how long"
        ): "cache_attrs cache_metadata",
        Instead('metadata={"chunk_key_encoding": {"name": "v2"}}'): "chunk_key_encoding",
        Instead("overwrite=True"): "clobber",
        Instead('codec="gzip:5"'): "compression_opts",
        Instead(why='an order in memory is asked for in reading: array.read(order="F")'): "config",
        Instead('format="zarr2", metadata={"dimension_separator": "/"}'): "dimension_separator",
        Instead(why="shape and data type have to be the same anyway"): "exact",
        NO_H5: "external track_order track_times",
        Instead("fill_value=0"): "fillvalue",
        Instead("checksum=True"): "fletcher32",
        RESIZABLE: "maxshape",
        Instead("overwrite=True", 'as mode="w"'): "mode",
        _IN_PATH: "name path",
        TEXT: "object_codec",
        Instead('format="zarr2", metadata={"order": "F"}'): "order",
        Instead('codec="zstd:5"'): "scaleoffset",
        Instead('codec="blosc:zstd:5:shuffle"'): "shuffle",
        Instead('dimension_units=["4 nm", "4 nm"]'): "unit units",
        Instead(why="data=None makes an array without data"): "write_data",
        Instead(why="chunks of fill values alone are not stored"): "write_empty_chunks",
    },
    "create_group": {
        **_MADE,
        Instead('chunkwise.open_group(path, "a")'): "mode",
    },
    "group.create_group": {
        _ATTRIBUTES: "attrs",
        Instead(why="the format is that of the group"): "format zarr_format zarr_version",
        Instead('group.create_group("a")', "a path"): "name",
    },
    "group.get": {
        Instead("type(group.get(path))"): "getclass",
        Instead("group.get_link(path)"): "getlink",
    },
    "group.move": {
        Instead("group.move(path, destination)"): "dest",
    },
    "group.require_group": {
        Instead("group.require_group(path)"): "name",
        Instead("group.create_group(path, overwrite=True)"): "overwrite",
    },
    "group.tree": {
        Instead(why="everything is shown, as text or HTML"): "expand max_nodes plain",
        Instead("group.tree(depth=2)"): "level max_depth",
    },
    "copy": {
        **_LAYOUT,
        Instead(why='it is the end of the path: group.copy(source, "b/name")'): "name",
        _FORMAT: "zarr_format zarr_version",
    },
    "diff": {
        **_OPENED,
        Instead(
            "numpy.allclose(left, right, atol=1e-6)", "of the arrays as read; here values are equal or not"
        ): "atol rtol",
    },
    "downsample_pyramid": {
        **_LAYOUT,
        Instead('chunkwise.edit_image(path, channels=["DAPI"], colors=["0000FF"])', "once it is made"): (
            "channel_colors channel_names channels colors"
        ),
        Instead('chunkwise.edit_image(path, translation={"y": 2.5})', "once it is made"): "translation",
        Instead('units=["4 nm", "4 nm"]'): "coordinate_transformations dimension_units scale",
        Instead('axes=["y", "x"]'): "dimension_names",
        Instead(why="levels have that of the source"): "fill_value",
        Instead('convention="ome-ngff-0.4"', "that is Zarr v2; others are in its documentation"): "format",
        Instead('convention="n5-viewer"'): "layout",
        Instead("levels=3"): "max_layer n_levels",
        Instead("factors=(2, 2)"): "scale_factors",
        Instead('method="mean"'): "scaler",
        Instead('convention="ome-ngff-0.4"', "that is Zarr v2; 0.5 is Zarr v3"): "zarr_format",
    },
    "from_dask": {
        Instead("array.attrs.update(attributes)", "of the array that it returns"): "attributes attrs",
        _IN_PATH: "component",
        NO_LOCK: "lock",
        Instead("delete_existing=True"): "overwrite",
        _STORE: "region regions",
        Instead('spec={"driver": "zarr", "kvstore": path}', "the driver is the format"): "zarr_format",
    },
    "migrate": {
        Instead("apply=False"): "dry_run",
        Instead(why="Zarr v1 and v2 become v3"): "zarr_format",
    },
    "open": {
        **_OPENED,
        CREATE_ARRAY: (
            "attributes attrs checksum chunks compression compressor compressors data dimension_names "
            "filters shards"
        ),
        Instead(
            "chunkwise.open_array(path, mode)", "chunkwise.create_array makes one, open_group a group"
        ): "mode",
        Instead("delete_existing=True, create=True"): "overwrite",
        Instead("chunkwise.open_group(path, consolidated=True)"): "use_consolidated",
    },
    "create_n5_blocks": {
        Instead("block_size=(4, 4)"): "chunks",
        Instead('compression={"type": "gzip"}'): "codec",
        Instead('data_type="uint64"'): "dtype",
        Instead("dimensions=(8, 8)"): "shape",
    },
    "open_n5_blocks": {
        Instead(why="blocks can be read and written"): "mode",
    },
    "open_array": {
        **_OPENED,
        CREATE_ARRAY: "chunks dtype fill_value overwrite shape",
    },
    "open_group": {
        **_MADE,
        Instead('mode="w"'): "overwrite",
        _IN_GROUP: "path",
        Instead("consolidated=True"): "use_consolidated",
        _FORMAT: "use_zarr_format zarr_format zarr_version",
    },
    "open_multiscale": {
        Instead(why="images are opened for reading"): "mode",
        _DETECTED: "zarr_format zarr_version",
    },
    "read": _OPENED,
    "resize": {
        Instead("array.resize(exclusive_max=[size, None])", "None leaves a size unchanged"): "axis size",
        Instead("array.resize(exclusive_max=shape)"): "new_shape shape",
    },
    "serve": {
        Instead('host="0.0.0.0"'): "address bind bind_address",
        Instead(why="any page may read served data"): "cors",
    },
    "stack": {
        Instead("axis=0"): "concat_dim dim",
        Instead("chunkwise.stack(layers).read(out=out).result()"): "out",
    },
    "store": {
        Instead("chunkwise.from_dask(dask_array, path)", "it makes an array; a target is there already"): (
            "attributes checksum chunk_layout chunks codec component compressor compressors "
            "delete_existing dimension_names dimension_units dtype fill_value filters format mode "
            "overwrite path serializer shards storage_options zarr_format"
        ),
        NO_LOCK: "lock",
        _STORE: "region regions",
    },
    "to_dask": {
        Instead(why="blocks are NumPy arrays"): "asarray meta",
        _IN_GROUP: "component",
        Instead(why="blocks are read by slices"): "fancy",
        Instead(why="any number of threads can read"): "lock",
        Instead("chunkwise.open(path, storage_options=options).result()"): "storage_options",
    },
    "verify": _OPENED,
    "write_dataset": {
        NO_LOCK: "safe_chunks synchronizer",
        Instead("target=path"): "store",
        Instead(why="every dimension can be appended to"): "unlimited_dims",
        _FORMAT: "zarr_format zarr_version",
    },
}
"""By function."""
