"""Names that users of other libraries write, and what to write instead, as errors say it."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.core.base.foreign_arguments import FOREIGN_ARGUMENTS, NO_H5, RESIZABLE, TEXT, Instead, Owner

__all__ = ["FOREIGN_NAMES", "Instead", "Owner", "instead_of"]

_CODEC = Instead("array.codec.to_json()")
_NO_CLOSE = Instead(why="there is nothing to close: data is stored once the write is done")
_LINK = Instead("group.create_link(name, target)")
_LIKE = Instead("chunkwise.create_array(path, shape=values.shape, dtype=values.dtype)")
_READ = Instead("array.read().result()", "an array of NumPy")
_OF_NUMPY = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "byteswap", "choose", "clip", "compress",
    "conj", "conjugate", "copy", "ctypes", "cumprod", "cumsum", "device", "diagonal", "dot", "dump", "dumps",
    "flags", "flat", "flatten", "getfield", "imag", "item", "mT", "max", "mean", "min", "nonzero",
    "partition", "prod", "put", "ravel", "real", "repeat", "reshape", "round", "searchsorted", "setfield",
    "setflags", "sort", "squeeze", "std", "strides", "sum", "swapaxes", "take", "to_device", "tobytes",
    "tofile", "tolist", "trace", "var",
)  # fmt: skip
_CHUNK_OF = Instead("chunkwise.to_dask(array).blocks[block].compute()")
_N_CHUNKS = Instead("array.explain().requests.n_chunks", "of the view")
_BLOCKS = Instead("chunkwise.to_dask(array).blocks[block]")
_NUMBLOCKS = Instead("chunkwise.to_dask(array).numblocks")
_BASIC = Instead("array[selection].read().result()")
_SET_BASIC = Instead("array[selection] = values")
_VINDEX = Instead("array.vindex[indices].read().result()")
_SET_VINDEX = Instead("array.vindex[indices] = values")
_FILLED = "group.create_array(path, shape=shape, dtype=dtype, fill_value={})"
_NEW_FILLED = "chunkwise.create_array(path, shape=shape, dtype=dtype, fill_value={})"
_UPDATE = "attrs.update(attributes)"
_OF_ARRAYS = (
    "T", "append", "astype", "attrs", "chunk_layout", "chunks", "codec", "dimension_units", "domain", "dtype",
    "explain", "fill_value", "info", "kvstore", "label", "nbytes", "ndim", "oindex", "path", "rank", "read",
    "resize", "resolve", "schema", "shape", "size", "spec", "translate_to", "transpose", "url", "vindex",
    "write",
)  # fmt: skip
_NUMPY = Instead(
    "array.read().result()", "an array of NumPy; chunkwise.to_dask(array) computes block by block"
)
_DATASET = Instead('xarray.open_dataset(path, engine="chunkwise")')
_COMMAND = Instead(why="it is a command: chunkwise help")
_STORE_OBJECT = Instead('chunkwise.KvStore.open("memory://").result()', "a path or a URL names a store")
_NAMED = Instead("array.domain.labels", "create_array(..., dimension_names=...) names dimensions")
_PLACE = Instead("array.url", "a path or a URL names an array")
_GROUP_PLACE = Instead("group.location.url", "a path or a URL names a group")
_VIRTUAL = Instead("chunkwise.stack([array, array])", "or concat, overlay")

FOREIGN_NAMES: Mapping[Owner, Mapping[str, Instead]] = {
    "chunkwise": {
        **dict.fromkeys(
            ("consolidate", "convert", "cp", "info", "ls", "move", "mv", "rm", "rmtree", "zip"),
            _COMMAND,
        ),
        **dict.fromkeys(
            ("DirectoryStore", "FSStore", "FsspecStore", "LRUStoreCache", "LocalStore", "MemoryStore",
             "Store", "ZipStore"),
            _STORE_OBJECT,
        ),
        **dict.fromkeys(("Blosc", "GZip", "Zstd"), Instead('codec="zstd:5"')),
        **dict.fromkeys(("DataTree", "open_dataset", "open_datatree", "open_zarr"), _DATASET),
        **dict.fromkeys(("VirtualLayout", "VirtualSource"), _VIRTUAL),
        **dict.fromkeys(("check_dtype", "enum_dtype", "special_dtype", "vlen_dtype"), TEXT),
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
        "asarray": Instead("chunkwise.read(path)"),
        "create": Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)"),
        "create_hierarchy": Instead('chunkwise.open_group(path, "a")'),
        "empty": Instead("chunkwise.create_array(path, shape=shape, dtype=dtype)"),
        "empty_like": _LIKE,
        "from_array": Instead("chunkwise.create_array(path, values)"),
        "from_numpy": Instead("chunkwise.create_array(path, values)"),
        "from_zarr": Instead("chunkwise.to_dask(path)"),
        "full": Instead(_NEW_FILLED.format("value")),
        "full_like": _LIKE,
        "group": Instead('chunkwise.open_group(path, "a")'),
        "imread": Instead("chunkwise.read(path)"),
        "imwrite": Instead("chunkwise.create_array(path, values)"),
        "load": Instead("chunkwise.read(path)"),
        "ones": Instead(_NEW_FILLED.format(1)),
        "ones_like": _LIKE,
        "open_like": _LIKE,
        "open_consolidated": Instead("chunkwise.open_group(path, consolidated=True)"),
        "save": Instead("chunkwise.create_array(path, values)"),
        "save_array": Instead("chunkwise.create_array(path, values)"),
        "save_group": Instead("group[path] = values"),
        "storage": _STORE_OBJECT,
        "string_dtype": TEXT,
        "to_zarr": Instead("chunkwise.create_array(path, values)"),
        "tree": Instead("chunkwise.open_group(path).tree()"),
        "write": Instead("chunkwise.create_array(path, values)"),
        "zeros": Instead(_NEW_FILLED.format(0)),
        "zeros_like": _LIKE,
    },
    "Future": {
        name: Instead(f"future.result().{name}", "opening and reading give a Future")
        for name in (*_OF_NUMPY, *_OF_ARRAYS)
    },
    "TensorStore": {
        **dict.fromkeys(sorted((*_OF_NUMPY, "median")), _NUMPY),
        **dict.fromkeys(("as_numpy", "asstr", "compute", "data", "load", "to_numpy", "values"), _READ),
        **{
            name: Instead(f"chunkwise.to_dask(array).{name}")
            for name in ("argtopk", "dask", "map_blocks", "map_overlap", "moment", "npartitions", "numblocks",
                         "partitions", "persist", "rechunk", "to_backend", "to_dask_dataframe", "to_delayed",
                         "to_hdf5", "to_svg", "topk", "visualize")
        },
        **dict.fromkeys(("filter_ids", "filter_names", "fletcher32", "scaleoffset", "shuffle"), _CODEC),
        **dict.fromkeys(("attach_scale", "is_scale", "make_scale"), _NAMED),
        **dict.fromkeys(("id", "ref", "regionref"), _PLACE),
        **dict.fromkeys(("external", "is_virtual", "virtual_sources"), Instead("array.spec().to_json()")),
        "async_array": Instead("array.read()", "it can be awaited"),
        "config": Instead("array.spec().to_json()"),
        "parent": Instead(why="chunkwise.open_group(path) opens the group"),
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
        "maxshape": RESIZABLE,
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
        **dict.fromkeys(
            ("chunk", "coords", "dims", "isel", "load", "sel", "sizes", "to_zarr", "variables"),
            _DATASET,
        ),
        **dict.fromkeys(("id", "ref", "regionref"), _GROUP_PLACE),
        **dict.fromkeys(("driver", "in_memory", "libver", "swmr_mode", "userblock_size"), NO_H5),
        **dict.fromkeys(("build_virtual_dataset", "create_virtual_dataset"), _VIRTUAL),
        **dict.fromkeys(("clear", "pop", "popitem"), Instead('del group["a"]', "for each of them")),
        **dict.fromkeys(
            ("create_dataset_like", "empty_like", "full_like", "ones_like", "zeros_like"),
            Instead("group.create_array(path, shape=values.shape, dtype=values.dtype)"),
        ),
        "array_keys": Instead("[name for name, _ in group.arrays()]"),
        "array_values": Instead("[array for _, array in group.arrays()]"),
        "close": _NO_CLOSE,
        "create": Instead("group.create_array(path, shape=shape, dtype=dtype)"),
        "empty": Instead("group.create_array(path, shape=shape, dtype=dtype)"),
        "file": Instead("group.root"),
        "filename": Instead("group.root.location.url"),
        "flush": _NO_CLOSE,
        "full": Instead(_FILLED.format("value")),
        **dict.fromkeys(("get_array", "get_group"), Instead('group["a"]')),
        "group_keys": Instead("[name for name, _ in group.groups()]"),
        "group_values": Instead("[child for _, child in group.groups()]"),
        **dict.fromkeys(("info", "info_complete"), Instead("group.tree()")),
        "is_zarr": Instead('group.format != "n5"'),
        "members": Instead("group.items()"),
        "metadata": Instead("group.attrs"),
        "nmembers": Instead("len(group)"),
        "ones": Instead(_FILLED.format(1)),
        "read_only": Instead('group.mode == "r"'),
        "rename": Instead("group.move(path, destination)"),
        "require_groups": Instead("group.require_group(path)"),
        "setdefault": Instead("group.require_array(path, shape=shape, dtype=dtype)"),
        **dict.fromkeys(("store", "store_path"), Instead("group.location.url")),
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
    **FOREIGN_ARGUMENTS,
}  # fmt: skip
"""By owner, sorted by name; the names of functions are those of their arguments."""


def instead_of(owner: Owner, name: str) -> str:
    """Return what to write instead of `name`, as the end of a message; the empty string if unknown."""
    found = FOREIGN_NAMES[owner].get(name)
    return "" if found is None else f"; {found}"
