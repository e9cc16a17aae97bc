"""Names that users of other libraries write, and what to write instead, as errors say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["FOREIGN_NAMES", "Instead", "Owner", "instead_of"]

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


_CODEC = Instead("array.codec.to_json()")
_NO_CLOSE = Instead(why="there is nothing to close: data is stored once the write is done")
_LINK = Instead("group.create_link(name, target)")
_LIKE = Instead("chunkwise.create_array(path, shape=values.shape, dtype=values.dtype)")
_READ = Instead("array.read().result()", "an array of NumPy")
_CHUNK_OF = Instead("chunkwise.to_dask(array).blocks[block].compute()")
_N_CHUNKS = Instead("array.explain().requests.n_chunks", "of the view")
_BLOCKS = Instead("chunkwise.to_dask(array).blocks[block]")
_NUMBLOCKS = Instead("chunkwise.to_dask(array).numblocks")
_BASIC = Instead("array[selection].read().result()")
_SET_BASIC = Instead("array[selection] = values")
_VINDEX = Instead("array.vindex[indices].read().result()")
_SET_VINDEX = Instead("array.vindex[indices] = values")
_RESIZABLE = Instead(why="every array can be resized: array.resize(exclusive_max=shape).result()")
_FILLED = "group.create_array(path, shape=shape, dtype=dtype, fill_value={})"
_NEW_FILLED = "chunkwise.create_array(path, shape=shape, dtype=dtype, fill_value={})"
_UPDATE = "attrs.update(attributes)"
_FORMAT = Instead('format="zarr2"')
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
_NUMPY = Instead(
    "array.read().result()", "an array of NumPy; chunkwise.to_dask(array) computes block by block"
)
_FROM_DASK = Instead("chunkwise.from_dask(dask_array, path)", "it makes an array; a target is there already")
_STORE = Instead("chunkwise.store(dask_array, array[selection])")

FOREIGN_NAMES: Mapping[Owner, Mapping[str, Instead]] = {
    "chunkwise": {
        "Array": Instead("chunkwise.TensorStore"),
        "Dataset": Instead("chunkwise.TensorStore"),
        "ExternalLink": _LINK,
        "File": Instead('chunkwise.open_group(path, "a")'),
        "SoftLink": _LINK,
        "codecs": Instead('codec="zstd:5"', "or JSON, or an object of numcodecs or zarr.codecs"),
        "config": Instead('chunkwise.Context({"data_copy_concurrency": {"limit": 4}})', "of a context"),
        "consolidate_metadata": Instead('chunkwise.open_group(path, "r+").consolidate()'),
        "copy_all": Instead("chunkwise.copy_tree(source, destination)"),
        "copy_store": Instead("chunkwise.copy_tree(source, destination)"),
        "create": Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)"),
        "empty": Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)"),
        "empty_like": _LIKE,
        "from_array": Instead("chunkwise.create_array(path, values)"),
        "full": Instead(_NEW_FILLED.format("value")),
        "full_like": _LIKE,
        "group": Instead('chunkwise.open_group(path, "a")'),
        "imread": Instead("chunkwise.read(path)"),
        "load": Instead("chunkwise.read(path)"),
        "ones": Instead(_NEW_FILLED.format(1)),
        "ones_like": _LIKE,
        "open_consolidated": Instead("chunkwise.open_group(path, consolidated=True)"),
        "save": Instead("chunkwise.create_array(path, values)"),
        "save_array": Instead("chunkwise.create_array(path, values)"),
        "save_group": Instead("group[path] = values"),
        "storage": Instead("chunkwise.KvStore.open(\"memory://\").result()", "a path or a URL names a store"),
        "string_dtype": Instead('dtype="ustring"'),
        "tree": Instead("chunkwise.open_group(path).tree()"),
        "write": Instead("chunkwise.create_array(path, values)"),
        "zeros": Instead(_NEW_FILLED.format(0)),
        "zeros_like": _LIKE,
    },
    "Future": {
        name: Instead(f"future.result().{name}", "opening and reading give a Future")
        for name in ("T", "astype", "attrs", "chunks", "domain", "dtype", "max", "mean", "min", "ndim",
                     "read", "resize", "shape", "sum", "tolist", "write")
    },
    "TensorStore": {
        **dict.fromkeys(
            ("all", "any", "argmax", "argmin", "argsort", "clip", "conj", "copy", "cumprod", "cumsum",
             "diagonal", "dot", "flatten", "imag", "item", "max", "mean", "median", "min", "nonzero", "prod",
             "ravel", "real", "repeat", "reshape", "round", "searchsorted", "sort", "squeeze", "std", "sum",
             "swapaxes", "take", "tobytes", "tolist", "trace", "var"),
            _NUMPY,
        ),
        **dict.fromkeys(("as_numpy", "asstr", "compute", "data", "load", "to_numpy", "values"), _READ),
        **{
            name: Instead(f"chunkwise.to_dask(array).{name}")
            for name in ("map_blocks", "persist", "rechunk")
        },
        "basename": Instead('array.path.rpartition("/")[2]'),
        "blocks": _BLOCKS,
        "cdata_shape": _NUMBLOCKS,
        "chunk_store": Instead("array.kvstore"),
        "chunksize": Instead("array.chunks"),
        "chunks_per_dimension": _NUMBLOCKS,
        "compression": _CODEC,
        "compression_options": _CODEC,
        "compression_opts": _CODEC,
        "compressor": _CODEC,
        "compressors": _CODEC,
        "dims": Instead("array.domain.labels"),
        "file": Instead("array.kvstore"),
        "fill": Instead("array[...] = value"),
        "fillvalue": Instead("array.fill_value"),
        "filters": _CODEC,
        "flush": _NO_CLOSE,
        "get_basic_selection": _BASIC,
        "get_block_selection": _BLOCKS,
        "get_coordinate_selection": _VINDEX,
        "get_mask_selection": _VINDEX,
        "get_orthogonal_selection": Instead("array.oindex[indices].read().result()"),
        "info_complete": Instead("array.nbytes_stored()", "array.info() has the rest"),
        "itemsize": Instead("array.dtype.numpy_dtype.itemsize"),
        "iter_chunks": Instead("chunkwise.to_dask(array).blocks.ravel()"),
        "len": Instead("len(array)"),
        "maxshape": _RESIZABLE,
        "isel": Instead('array[chunkwise.d["x"][2:5]]', "of a dimension that is called x"),
        "metadata": Instead('array.spec().to_json()["metadata"]'),
        "nchunks": _N_CHUNKS,
        "nchunks_initialized": Instead("chunkwise.verify(array.url)[0].n_chunks", "which reads them"),
        "number_of_chunks": _N_CHUNKS,
        "order": Instead("array.chunk_layout.inner_order"),
        "read_chunk": _CHUNK_OF,
        "read_direct": Instead("array[selection].read(out=out).result()"),
        "read_only": Instead("not array.writable"),
        "refresh": Instead("array.resolve().result()"),
        "result": Instead("array", "it is open already"),
        "serializer": _CODEC,
        "set_basic_selection": _SET_BASIC,
        "set_block_selection": _SET_BASIC,
        "set_coordinate_selection": _SET_VINDEX,
        "set_mask_selection": _SET_VINDEX,
        "set_orthogonal_selection": Instead("array.oindex[indices] = values"),
        "shards": Instead("array.chunk_layout.write_chunk.shape"),
        "sizes": Instead("dict(zip(array.domain.labels, array.shape))"),
        "store": Instead("array.kvstore"),
        "store_path": Instead("array.kvstore"),
        "to_zarr": Instead("chunkwise.copy(array, path)"),
        "update_attributes": Instead(f"array.{_UPDATE}"),
        "value": _READ,
        "write_direct": _SET_BASIC,
    },
    "Group": {
        "array_keys": Instead("[name for name, _ in group.arrays()]"),
        "array_values": Instead("[array for _, array in group.arrays()]"),
        "close": _NO_CLOSE,
        "create": Instead("group.create_array(path, shape=shape, dtype=dtype)"),
        "empty": Instead("group.create_array(path, shape=shape, dtype=dtype)"),
        "file": Instead("group.root"),
        "filename": Instead("group.root.location.url"),
        "flush": _NO_CLOSE,
        "full": Instead(_FILLED.format("value")),
        "group_keys": Instead("[name for name, _ in group.groups()]"),
        "group_values": Instead("[child for _, child in group.groups()]"),
        "info": Instead("group.tree()"),
        "is_zarr": Instead('group.format != "n5"'),
        "members": Instead("group.items()"),
        "nmembers": Instead("len(group)"),
        "ones": Instead(_FILLED.format(1)),
        "read_only": Instead('group.mode == "r"'),
        "rename": Instead("group.move(path, destination)"),
        "store": Instead("group.location.url"),
        "store_path": Instead("group.location.url"),
        "update": Instead("group[path] = values", "for each of them"),
        "update_attributes": Instead(f"group.{_UPDATE}"),
        "visitkeys": Instead("[path for path, _ in group.walk()]"),
        "visitvalues": Instead("[member for _, member in group.walk()]"),
        "zeros": Instead(_FILLED.format(0)),
    },
    "Attributes": {
        "create": Instead("attrs[name] = value"),
        "modify": Instead("attrs[name] = value"),
        "update_attributes": Instead(_UPDATE),
    },
    "create_array": {
        "attrs": _ATTRIBUTES,
        "axes": Instead('dimension_names=["y", "x"]'),
        "chunk_key_encoding": Instead('metadata={"chunk_key_encoding": {"name": "v2"}}'),
        "chunk_shape": Instead("chunks=(4, 4)"),
        "clobber": Instead("overwrite=True"),
        "compression": Instead('codec="gzip"'),
        "compression_opts": Instead('codec="gzip:5"'),
        "dims": Instead('dimension_names=["y", "x"]'),
        "fillvalue": Instead("fill_value=0"),
        "fletcher32": Instead("checksum=True"),
        "maxshape": _RESIZABLE,
        "object_codec": Instead('dtype="ustring"'),
        "shard_shape": Instead("shards=(8, 8)"),
        "shuffle": Instead('codec="blosc:zstd:5:shuffle"'),
        "store": _FIRST,
        "synchronizer": _NO_LOCK,
        "unit": Instead('dimension_units=["4 nm", "4 nm"]'),
        "units": Instead('dimension_units=["4 nm", "4 nm"]'),
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
"""By owner, sorted by name; the names of functions are those of their arguments."""


def instead_of(owner: Owner, name: str) -> str:
    """Return what to write instead of `name`, as the end of a message; the empty string if unknown."""
    found = FOREIGN_NAMES[owner].get(name)
    return "" if found is None else f"; {found}"
