"""Names that users of other libraries write, and what to write instead, as errors say it."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.core.base.foreign_arguments import (
    CREATE_ARRAY,
    FOREIGN_ARGUMENTS,
    NO_H5,
    NO_LOCK,
    RESIZABLE,
    TEXT,
    Instead,
    Rows,
)

__all__ = ["FOREIGN_NAMES", "Instead", "instead_of"]

_OF_NUMPY = (
    "all any argmax argmin argpartition argsort byteswap choose clip compress conj conjugate copy "
    "ctypes cumprod cumsum device diagonal dot dump dumps flags flat flatten getfield imag item mT "
    "max mean min nonzero partition prod put ravel real repeat reshape round searchsorted setfield "
    "setflags sort squeeze std strides sum swapaxes take to_device tobytes tofile tolist trace var"
)
_OF_ARRAYS = (
    "T append astype attrs chunk_layout chunks codec dimension_units domain dtype explain fill_value "
    "info kvstore label nbytes ndim oindex path rank read resize resolve schema shape size spec "
    "translate_to transpose url vindex write"
)
_DATASET = Instead('xarray.open_dataset(path, engine="chunkwise")')
_NO_CLOSE = Instead(why="there is nothing to close: data is stored once the write is done")
_VIRTUAL = Instead("chunkwise.stack([array, array])", "or concat, overlay")

_NAMES: Mapping[str, Rows] = {
    "chunkwise": {
        Instead('chunkwise.KvStore.open("memory://").result()', "a path or a URL names a store"): (
            "ABSStore ConsolidatedMetadataStore DirectoryStore FsspecStore FSStore KVStore LMDBStore "
            "LocalStore LRUStoreCache MemoryStore N5FSStore N5Store NestedDirectoryStore ObjectStore "
            "SQLiteStore storage Store TempStore ZipStore"
        ),
        Instead("chunkwise.open_group(path)"): "AnnData read_h5ad read_zarr",
        Instead("chunkwise.TensorStore"): "Array Dataset",
        Instead("chunkwise.read(path)"): "asarray imread imread_collection load read_elem",
        Instead('codec="zstd:5"'): "Blosc GZip Zstd",
        Instead('codec="zstd:5"', "or JSON, or an object of numcodecs or zarr.codecs"): (
            "BloscCodec BytesCodec BZ2 codecs Crc32cCodec Delta FixedScaleOffset GzipCodec JSON LZ4 "
            "LZMA numcodecs ShardingCodec TransposeCodec VLenUTF8 Zlib ZstdCodec"
        ),
        TEXT: "check_dtype check_string_dtype enum_dtype string_dtype",
        Instead(
            'dtype="ustring"', "of text; rows of numbers are numpy.concatenate(rows) and where each ends"
        ): "special_dtype vlen_dtype",
        Instead('chunkwise.Context({"data_copy_concurrency": {"limit": 4}})', "of a context"): "config",
        Instead(
            why="it is a command: chunkwise help"
        ): "consolidate convert cp info ls move mv pyramid rm rmtree view zip",
        Instead('chunkwise.open_group(path, "r+").consolidate()'): "consolidate_metadata",
        Instead("chunkwise.copy_tree(source, destination)"): "copy_all copy_store",
        CREATE_ARRAY: "create empty",
        Instead('chunkwise.open_group(path, "a")'): "create_hierarchy File group",
        _DATASET: "DataArray DataTree open_dataarray open_dataset open_datatree open_mfdataset open_zarr",
        Instead("chunkwise.create_array(path, shape=(0,), dtype=dtype)"): "Empty",
        Instead(
            "chunkwise.create_array(path, shape=values.shape, dtype=values.dtype)"
        ): "empty_like full_like ones_like open_like zeros_like",
        Instead("chunkwise.hdmf.ZarrDataIO"): "H5DataIO",
        Instead("chunkwise.hdmf.{}"): "NWBZarrIO ZarrDataIO ZarrIO",
        Instead("pynwb.{}"): "NWBFile NWBHDF5IO TimeSeries",
        Instead("group.create_link(name, target)"): "ExternalLink HardLink SoftLink",
        Instead(
            "chunkwise.create_array(path, values)"
        ): "from_array from_numpy imsave imwrite save save_array write",
        Instead("chunkwise.open_multiscale(path)"): "from_ngff_zarr open_ome_zarr parse_url Reader TiffFile",
        Instead("chunkwise.to_dask(path)"): "from_zarr",
        Instead("chunkwise.create_array(path, shape=shape, dtype=dtype, fill_value=value)"): "full",
        Instead("chunkwise.z5py.{}"): "N5File ZarrFile",
        Instead("chunkwise.create_array(path, shape=shape, dtype=dtype, fill_value=1)"): "ones",
        Instead("chunkwise.open_group(path, consolidated=True)"): "open_consolidated",
        NO_LOCK: "ProcessSynchronizer ThreadSynchronizer",
        Instead(
            'dtype="ustring"', "the path of what is referred to"
        ): "ref_dtype Reference regionref_dtype RegionReference",
        Instead("group[path] = values"): "save_group write_elem",
        Instead(
            "chunkwise.downsample_pyramid(values, path)"
        ): "to_multiscales to_ngff_image to_ngff_zarr write_image write_multiscale",
        Instead(
            "chunkwise.create_array(path, values)", "chunkwise.xarray.write_dataset of a Dataset"
        ): "to_zarr",
        Instead("chunkwise.open_group(path).tree()"): "tree",
        RESIZABLE: "UNLIMITED",
        _VIRTUAL: "VirtualLayout VirtualSource",
        Instead("chunkwise.xarray.{}"): "write_dataset write_datatree",
        Instead("chunkwise.downsample_pyramid(values, path, labels=True)"): "write_labels",
        Instead("chunkwise.create_array(path, shape=shape, dtype=dtype, fill_value=0)"): "zeros",
    },
    "Future": {
        Instead("future.result().{}", "opening and reading give a Future"): f"{_OF_NUMPY} {_OF_ARRAYS}",
    },
    "TensorStore": {
        Instead(
            "array.read().result()", "an array of NumPy; chunkwise.to_dask(array) computes block by block"
        ): f"{_OF_NUMPY} median",
        Instead("chunkwise.to_dask(array).{}"): (
            "argtopk dask map_blocks map_overlap moment npartitions numblocks partitions persist "
            "rechunk to_backend to_dask_dataframe to_delayed to_hdf5 to_svg topk visualize"
        ),
        Instead(
            "array.read().result()", "an array of NumPy"
        ): "as_numpy compute data load to_numpy value values",
        Instead(
            'numpy.char.decode(array.read().result(), "utf-8")', "of bytes; text is read as str"
        ): "asstr",
        Instead("array.read()", "it can be awaited"): "async_array",
        Instead(
            "array.domain.labels", "create_array(..., dimension_names=...) names dimensions"
        ): "attach_scale is_scale make_scale",
        Instead('array.path.rpartition("/")[2]'): "basename",
        Instead("chunkwise.to_dask(array).blocks[block]"): "blocks get_block_selection",
        Instead("chunkwise.to_dask(array).numblocks"): "cdata_shape chunks_per_dimension",
        Instead("array.kvstore"): "chunk_store file store store_path",
        Instead("array.chunks"): "chunksize",
        Instead("array.codec.to_json()"): (
            "compression compression_options compression_opts compressor compressors filter_ids "
            "filter_names filters fletcher32 scaleoffset serializer shuffle"
        ),
        Instead("array.spec().to_json()"): "config external is_virtual virtual_sources",
        Instead("array.domain.labels"): "dimensions dims",
        Instead("list(array.attrs)"): "ncattrs",
        Instead("array.attrs[name] = value"): "setncattr",
        Instead('array["x"]', "a field of records"): "fields",
        Instead("array[...] = value"): "fill",
        Instead("array.fill_value"): "fillvalue",
        _NO_CLOSE: "close flush",
        Instead("array[selection].read().result()"): "get_basic_selection",
        Instead("array.vindex[indices].read().result()"): "get_coordinate_selection get_mask_selection",
        Instead("array.oindex[indices].read().result()"): "get_orthogonal_selection",
        Instead("array.url", "a path or a URL names an array"): "id ref regionref",
        Instead("array.nbytes_stored()", "array.info() has the rest"): "info_complete",
        Instead(
            'array[chunkwise.d["x"][2:5]]',
            "of a dimension that is called x; xarray.open_dataset of its group selects by coordinate",
        ): "isel sel",
        Instead("array.dtype.numpy_dtype.itemsize"): "itemsize",
        Instead(
            "dask.array.core.slices_from_chunks(chunkwise.to_dask(array).chunks)",
            "of view.translate_to[0], if it is a view",
        ): "iter_chunks",
        Instead("len(array)"): "len",
        RESIZABLE: "maxshape",
        Instead('array.spec().to_json()["metadata"]'): "metadata",
        Instead("array.explain().requests.n_chunks", "of the view"): "nchunks number_of_chunks",
        Instead("chunkwise.verify(array.url)[0].n_chunks", "which reads them"): "nchunks_initialized",
        Instead("array.chunk_layout.inner_order"): "order",
        Instead(why="chunkwise.open_group(path) opens the group"): "parent",
        Instead("chunkwise.to_dask(array).blocks[block].compute()"): "read_chunk",
        Instead("array[selection].read(out=out).result()"): "read_direct",
        Instead("not array.writable"): "read_only",
        Instead("array.resolve().result()"): "refresh",
        Instead("array", "it is open already"): "result",
        Instead("array[selection] = values"): "set_basic_selection set_block_selection write_direct",
        Instead("array.vindex[indices] = values"): "set_coordinate_selection set_mask_selection",
        Instead("array.oindex[indices] = values"): "set_orthogonal_selection",
        Instead("array.chunk_layout.write_chunk.shape"): "shards",
        Instead("dict(zip(array.domain.labels, array.shape))"): "sizes",
        Instead("chunkwise.copy(array, path)"): "to_zarr",
        Instead("array.attrs.update(attributes)"): "setncatts update_attributes",
    },
    "LazyDataset": {
        Instead("dataset[:]", "an array of NumPy"): f"{_OF_NUMPY} T asstr astype load value values",
        Instead("dataset.compressors"): "compression compression_opts",
        Instead("dataset[selection]"): "get_basic_selection get_orthogonal_selection oindex read_direct",
        Instead("dataset.extend(rows)"): "resize",
        Instead("dataset[selection] = values"): "set_basic_selection set_orthogonal_selection write_direct",
    },
    "N5Blocks": {
        Instead("blocks[cell]", "None if there is none"): "get",
        Instead("[(cell, blocks[cell]) for cell in blocks]"): "items",
        Instead("list(blocks)"): "keys",
        Instead("del blocks[cell]"): "pop",
        Instead("[blocks[cell] for cell in blocks]"): "values",
    },
    "Group": {
        Instead("[name for name, _ in group.arrays()]"): "array_keys",
        Instead("[array for _, array in group.arrays()]"): "array_values",
        _VIRTUAL: "build_virtual_dataset create_virtual_dataset",
        _DATASET: "chunk coords dimensions dims isel load sel sizes to_zarr variables",
        Instead('del group["a"]', "for each of them"): "clear pop popitem",
        _NO_CLOSE: "close flush",
        Instead(
            "group.create_array(path, shape=shape, dtype=dtype)"
        ): "create createDataset createVariable empty",
        Instead(why="create_array(..., dimension_names=...) names dimensions"): "createDimension",
        Instead("group.create_group(path)"): "createGroup",
        Instead("path in group"): "datasetExists exists",
        Instead("group.attrs[name]"): "getAttribute getncattr",
        Instead("group.attrs[name] = value", "of group[path] too"): "setAttribute setncattr",
        Instead("list(group.attrs)"): "ncattrs",
        Instead(
            "group.create_array(path, shape=values.shape, dtype=values.dtype)"
        ): "create_dataset_like empty_like full_like ones_like zeros_like",
        NO_H5: "driver in_memory libver swmr_mode userblock_size",
        Instead("group.root"): "file",
        Instead("group.root.location.url"): "filename",
        Instead("group.create_array(path, shape=shape, dtype=dtype, fill_value=value)"): "full",
        Instead('group["a"]'): "get_array get_group",
        Instead("[name for name, _ in group.groups()]"): "group_keys",
        Instead("[child for _, child in group.groups()]"): "group_values",
        Instead("group.location.url", "a path or a URL names a group"): "id ref regionref",
        Instead("group.tree()"): "info info_complete",
        Instead('group.format != "n5"'): "is_zarr",
        Instead("group.items()"): "members",
        Instead("group.attrs"): "metadata",
        Instead("len(group)"): "nmembers",
        Instead("group.create_array(path, shape=shape, dtype=dtype, fill_value=1)"): "ones",
        Instead('group.mode == "r"'): "read_only",
        Instead("group.move(path, destination)"): "rename",
        Instead("group.require_group(path)"): "require_groups",
        Instead("group.require_array(path, shape=shape, dtype=dtype)"): "setdefault",
        Instead("group.location.url"): "store store_path",
        Instead("group[path] = values", "for each of them"): "update",
        Instead("group.attrs.update(attributes)"): "setAttributes setncatts update_attributes",
        Instead("[path for path, _ in group.walk()]"): "visitkeys",
        Instead("[member for _, member in group.walk()]"): "visitvalues",
        Instead("group.create_array(path, shape=shape, dtype=dtype, fill_value=0)"): "zeros",
    },
    "Attributes": {
        Instead("attrs[name] = value"): "create modify",
        Instead("attrs.update(attributes)"): "update_attributes",
    },
    "MultiscaleImage": {
        Instead(
            "image.levels[0].read().result()"
        ): "array as_array as_numpy asarray compute get_image_data image_data numpy read values",
        Instead("image.metadata"): "attributes attrs multiscales zattrs",
        Instead("[axis.name for axis in image.axes]"): "axes_names axis_labels dims",
        Instead("[axis.unit for axis in image.axes]"): "axes_units axis_units units",
        Instead("[channel.label for channel in image.channels]"): "channel_labels channel_names",
        Instead("image.levels[0].{}"): "chunks dtype nbytes ndim shape size",
        _NO_CLOSE: "close",
        Instead("[channel.color for channel in image.channels]"): "colormap colors",
        Instead("[channel.window for channel in image.channels]"): "contrast_limits windows",
        Instead(
            "image.scales", "and image.translations"
        ): "coordinate_transformations coordinateTransformations scale_factors",
        Instead(
            "[chunkwise.to_dask(level) for level in image.levels]"
        ): "dask_data get_image_dask_data pyramid to_dask",
        Instead("image.levels"): "data datasets images pages resolutions series",
        Instead("image.levels[0]"): "get_image get_level",
        Instead("image.labels[name]"): "get_label",
        Instead("image.location"): "group path root store uri url",
        Instead('image.levels[0][chunkwise.d["x"][2:5]]'): "isel sel",
        Instead("list(image.labels)"): "label_names list_labels",
        Instead("image.paths"): "level_paths",
        Instead("[level.shape for level in image.levels]"): "level_shapes shapes",
        Instead("len(image.levels)"): "n_levels num_levels",
        Instead("image.translations[0]"): "offset origin translate translation",
        Instead("image.channels"): "omero",
        Instead("image.scales[0]"): "physical_pixel_sizes pixel_size scale spacing voxel_size",
    },
    "Plate": {
        Instead("plate.metadata"): "attributes attrs zattrs",
        _NO_CLOSE: "close",
        Instead("plate.columns"): "column_names",
        Instead('plate.fields["A/1/0"].levels'): "data levels",
        Instead("plate.fields"): "get_images image images positions",
        Instead('plate.wells["A/1"]'): "get_well",
        Instead("plate.wells"): "get_wells",
        Instead("plate.location"): "group path root store uri url",
        Instead("plate.rows"): "row_names",
        Instead("list(plate.wells)"): "well_paths wells_paths",
    },
    "Well": {
        _NO_CLOSE: "close",
        Instead('well.fields["0"].levels'): "data levels",
        Instead("well.fields"): "get_images image images positions",
        Instead("well.location"): "group path root store uri url",
        Instead("list(well.fields)"): "image_paths paths",
    },
    "ImageCollection": {
        _NO_CLOSE: "close",
        Instead("collection[name].levels"): "data levels",
        Instead("collection[name]"): "get_image",
        Instead("collection.location"): "group path root store uri url",
        Instead("collection.values()"): "images series",
        Instead("list(collection)"): "paths scenes",
    },
}

FOREIGN_NAMES: Mapping[str, Mapping[str, Instead]] = {
    owner: {
        name: instead._replace(code=instead.code.replace("{}", name))
        for instead, names in rows.items()
        for name in names.split()
    }
    for owner, rows in {**_NAMES, **FOREIGN_ARGUMENTS}.items()
}
"""By owner; the names of functions are those of their arguments."""


def instead_of(owner: str, name: str) -> str:
    """Return what to write instead of `name`, as the end of a message; the empty string if unknown."""
    found = FOREIGN_NAMES[owner].get(name)
    return "" if found is None else f"; {found}"
