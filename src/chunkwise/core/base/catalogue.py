"""A table of all built-in extensions: name, module, and the names in each format.

Targets are strings, so reading this file imports nothing; `chunkwise.registry.Registry` loads
one on first use.  To add an extension, such as a codec or a store, add its file and a row here.
"""

from __future__ import annotations

from chunkwise.core.base.registry import Entry, Registry

__all__ = [
    "arrays",
    "codec_specs",
    "codecs",
    "context_resources",
    "data_types",
    "drivers",
    "grids",
    "hooks",
    "key_encodings",
    "kvstores",
    "metadata_observers",
]

CODECS: dict[str, Entry] = {
    # array -> bytes
    "bytes": Entry("chunkwise.core.codec.bytes:Bytes", zarr3=("bytes", "endian")),
    "packbits": Entry("chunkwise.core.codec.bytes:PackBits", zarr3=("packbits",)),
    "sharding_indexed": Entry("chunkwise.core.codec.sharding:ShardingIndexed", zarr3=("sharding_indexed",)),
    "vlen-utf8": Entry("chunkwise.core.codec.vlen:VlenUtf8", zarr3=("vlen-utf8",), zarr2=("vlen-utf8",)),
    "vlen-bytes": Entry("chunkwise.core.codec.vlen:VlenBytes", zarr3=("vlen-bytes",), zarr2=("vlen-bytes",)),
    "vlen-array": Entry("chunkwise.core.codec.vlen:VlenArray", zarr2=("vlen-array",)),
    "json2": Entry("chunkwise.core.codec.objects:Json2", zarr2=("json2",)),
    "msgpack2": Entry("chunkwise.core.codec.objects:MsgPack2", zarr2=("msgpack2",)),
    "pickle": Entry("chunkwise.core.codec.objects:Pickle", zarr2=("pickle",)),
    "numcodecs.pcodec": Entry("chunkwise.core.codec.numcodecs_generic:PCodec", zarr3=("numcodecs.pcodec",)),
    "numcodecs.zfpy": Entry("chunkwise.core.codec.numcodecs_generic:Zfpy", zarr3=("numcodecs.zfpy",)),
    # array -> array
    "transpose": Entry("chunkwise.core.codec.reshape:Transpose", zarr3=("transpose",)),
    "reshape": Entry("chunkwise.core.codec.reshape:Reshape", zarr3=("reshape",)),
    "bitround": Entry(
        "chunkwise.core.codec.numbers:BitRound",
        zarr3=("bitround", "numcodecs.bitround"),
        zarr2=("bitround",),
    ),
    "scale_offset": Entry("chunkwise.core.codec.numbers:ScaleOffset", zarr3=("scale_offset",)),
    "cast_value": Entry("chunkwise.core.codec.cast_value:CastValue", zarr3=("cast_value",)),
    "categorize": Entry("chunkwise.core.codec.numcodecs:Categorize", zarr2=("categorize",)),
    "numcodecs.astype": Entry(
        "chunkwise.core.codec.numcodecs:AsType", zarr3=("numcodecs.astype",), zarr2=("astype",)
    ),
    "numcodecs.delta": Entry(
        "chunkwise.core.codec.numcodecs:Delta", zarr3=("numcodecs.delta",), zarr2=("delta",)
    ),
    "numcodecs.fixedscaleoffset": Entry(
        "chunkwise.core.codec.numcodecs:FixedScaleOffset",
        zarr3=("numcodecs.fixedscaleoffset",),
        zarr2=("fixedscaleoffset",),
    ),
    "numcodecs.packbits": Entry(
        "chunkwise.core.codec.numcodecs:PackBitsFilter",
        zarr3=("numcodecs.packbits",),
        zarr2=("packbits",),
    ),
    "numcodecs.quantize": Entry(
        "chunkwise.core.codec.numcodecs:Quantize", zarr3=("numcodecs.quantize",), zarr2=("quantize",)
    ),
    # bytes -> bytes
    "blosc": Entry(
        "chunkwise.core.codec.blosc:Blosc",
        zarr3=("blosc", "numcodecs.blosc"),
        zarr2=("blosc",),
        n5=("blosc",),
    ),
    "gzip": Entry(
        "chunkwise.core.codec.gzip:Gzip", zarr3=("gzip", "numcodecs.gzip"), zarr2=("gzip",), n5=("gzip",)
    ),
    "zstd": Entry(
        "chunkwise.core.codec.zstd:Zstd", zarr3=("zstd", "numcodecs.zstd"), zarr2=("zstd",), n5=("zstd",)
    ),
    "crc32c": Entry(
        "chunkwise.core.codec.crc32c:Crc32c", zarr3=("crc32c", "numcodecs.crc32c"), zarr2=("crc32c",)
    ),
    "numcodecs.bz2": Entry("chunkwise.core.codec.bz2_lzma:Bz2", zarr3=("numcodecs.bz2",), zarr2=("bz2",)),
    "numcodecs.lz4": Entry("chunkwise.core.codec.lz4:Lz4", zarr3=("numcodecs.lz4",), zarr2=("lz4",)),
    "numcodecs.lzma": Entry("chunkwise.core.codec.bz2_lzma:Lzma", zarr3=("numcodecs.lzma",), zarr2=("lzma",)),
    "numcodecs.zlib": Entry("chunkwise.core.codec.gzip:Zlib", zarr3=("numcodecs.zlib",), zarr2=("zlib",)),
    "numcodecs.adler32": Entry(
        "chunkwise.core.codec.numcodecs:Adler32", zarr3=("numcodecs.adler32",), zarr2=("adler32",)
    ),
    "numcodecs.base64": Entry(
        "chunkwise.core.codec.numcodecs:Base64", zarr3=("numcodecs.base64",), zarr2=("base64",)
    ),
    "numcodecs.crc32": Entry(
        "chunkwise.core.codec.numcodecs:Crc32", zarr3=("numcodecs.crc32",), zarr2=("crc32",)
    ),
    "numcodecs.fletcher32": Entry(
        "chunkwise.core.codec.numcodecs:Fletcher32",
        zarr3=("numcodecs.fletcher32",),
        zarr2=("fletcher32",),
    ),
    "numcodecs.jenkins_lookup3": Entry(
        "chunkwise.core.codec.numcodecs:JenkinsLookup3",
        zarr3=("numcodecs.jenkins_lookup3",),
        zarr2=("jenkins_lookup3",),
    ),
    "numcodecs.shuffle": Entry(
        "chunkwise.core.codec.numcodecs:Shuffle", zarr3=("numcodecs.shuffle",), zarr2=("shuffle",)
    ),
    # N5
    "bzip2": Entry("chunkwise.core.codec.bz2_lzma:Bzip2", n5=("bzip2",)),
    "xz": Entry("chunkwise.core.codec.bz2_lzma:Xz", n5=("xz",)),
    "lz4_java": Entry("chunkwise.core.codec.lz4:Lz4Java", n5=("lz4",)),
    "jpeg": Entry("chunkwise.core.codec.pictures:Jpeg", n5=("jpeg",)),
    "n5_block": Entry("chunkwise.core.codec.n5_block:N5Block"),
    "n5_string_block": Entry("chunkwise.core.codec.n5_varlength:N5StringBlock"),
    "n5_default": Entry("chunkwise.core.codec.n5_block:N5Default", zarr3=("n5_default",)),
}

GRIDS: dict[str, Entry] = {
    "regular": Entry("chunkwise.core.grid:RegularGrid", zarr3=("regular",)),
    "rectilinear": Entry("chunkwise.core.grid:RectilinearGrid", zarr3=("rectilinear",)),
}

KEY_ENCODINGS: dict[str, Entry] = {
    "default": Entry("chunkwise.core.chunk_key:default_keys", zarr3=("default",)),
    "v2": Entry("chunkwise.core.chunk_key:v2_keys", zarr3=("v2",)),
}

# The data types of NumPy and ml_dtypes are in dtypes/names.py.
DATA_TYPES: dict[str, Entry] = {
    "complex_bfloat16": Entry("chunkwise.core.dtypes.floating:ComplexBfloat16", zarr3=("complex_bfloat16",)),
    "complex_float4_e2m1fn": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat4E2m1fn", zarr3=("complex_float4_e2m1fn",)
    ),
    "complex_float6_e2m3fn": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat6E2m3fn", zarr3=("complex_float6_e2m3fn",)
    ),
    "complex_float6_e3m2fn": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat6E3m2fn", zarr3=("complex_float6_e3m2fn",)
    ),
    "complex_float8_e3m4": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E3m4", zarr3=("complex_float8_e3m4",)
    ),
    "complex_float8_e4m3": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E4m3", zarr3=("complex_float8_e4m3",)
    ),
    "complex_float8_e4m3b11fnuz": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E4m3b11fnuz", zarr3=("complex_float8_e4m3b11fnuz",)
    ),
    "complex_float8_e4m3fnuz": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E4m3fnuz", zarr3=("complex_float8_e4m3fnuz",)
    ),
    "complex_float8_e5m2": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E5m2", zarr3=("complex_float8_e5m2",)
    ),
    "complex_float8_e5m2fnuz": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E5m2fnuz", zarr3=("complex_float8_e5m2fnuz",)
    ),
    "complex_float8_e8m0fnu": Entry(
        "chunkwise.core.dtypes.floating:ComplexFloat8E8m0fnu", zarr3=("complex_float8_e8m0fnu",)
    ),
    "complex_float16": Entry("chunkwise.core.dtypes.floating:ComplexFloat16", zarr3=("complex_float16",)),
}

CODEC_SPECS: dict[str, Entry] = {
    "n5": Entry("chunkwise.core.driver.n5.constraints:N5CodecSpec"),
    "neuroglancer_precomputed": Entry(
        "chunkwise.core.driver.neuroglancer_precomputed.constraints:PrecomputedCodecSpec"
    ),
    "zarr": Entry("chunkwise.core.driver.zarr2.constraints:Zarr2CodecSpec"),
    "zarr2": Entry("chunkwise.core.driver.zarr2.constraints:Zarr2CodecSpec"),
    "zarr3": Entry("chunkwise.core.driver.zarr3.constraints:Zarr3CodecSpec"),
}

CONTEXT_RESOURCES: dict[str, Entry] = {
    "cache_pool": Entry("chunkwise.core.specs.resources:CachePoolConfig"),
    "data_copy_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "memory_key_value_store": Entry("chunkwise.core.specs.resources:MemoryKeyValueStore"),
    "file_io_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "file_io_sync": Entry("chunkwise.core.specs.resources:FileIoSync"),
    "file_io_locking": Entry("chunkwise.core.specs.resources:FileIoLocking"),
    "file_io_mode": Entry("chunkwise.core.specs.resources:FileIoMode"),
    "file_io_retries": Entry("chunkwise.core.specs.resources:FileIoRetries"),
    "http_request_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "s3_request_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "gcs_request_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "http_request_retries": Entry("chunkwise.core.specs.resources:RequestRetries"),
    "s3_request_retries": Entry("chunkwise.core.specs.resources:RequestRetries"),
    "gcs_request_retries": Entry("chunkwise.core.specs.resources:RequestRetries"),
    "azure_request_concurrency": Entry("chunkwise.core.specs.resources:Concurrency"),
    "azure_request_retries": Entry("chunkwise.core.specs.resources:RequestRetries"),
    "azure_credentials": Entry("chunkwise.core.specs.resources:AzureCredentials"),
    "request_coalescing": Entry("chunkwise.core.specs.resources:RequestCoalescing"),
    "experimental_s3_rate_limiter": Entry("chunkwise.core.specs.resources:RateLimiter"),
    "experimental_gcs_rate_limiter": Entry("chunkwise.core.specs.resources:RateLimiter"),
    "aws_credentials": Entry("chunkwise.core.specs.resources:AwsCredentials"),
    "gcs_user_project": Entry("chunkwise.core.specs.resources:GcsUserProject"),
}

UNSUPPORTED_RESOURCES: dict[str, str] = {
    "ocdbt_coordinator": "each process commits to an OCDBT database for itself",
    "experimental_gcs_grpc_credentials": "requests to Google Cloud are made by HTTP only",
}
"""Context resources of TensorStore that would have no effect here, and why."""

KVSTORES: dict[str, Entry] = {
    "memory": Entry("chunkwise.core.specs.kvstores.local:MemoryKvStoreSpec", url=("memory",)),
    "file": Entry("chunkwise.core.specs.kvstores.local:FileKvStoreSpec", url=("file",)),
    "s3": Entry("chunkwise.core.specs.kvstores.buckets:S3KvStoreSpec", url=("s3",)),
    "gcs": Entry("chunkwise.core.specs.kvstores.buckets:GcsKvStoreSpec", url=("gs",)),
    "azure": Entry("chunkwise.core.specs.kvstores.buckets:AzureKvStoreSpec", url=("az", "abfs", "abfss")),
    "http": Entry("chunkwise.core.specs.kvstores.remote:HttpKvStoreSpec", url=("http", "https")),
    "zip": Entry("chunkwise.core.specs.kvstores.adapters:ZipKvStoreSpec"),
    "ocdbt": Entry("chunkwise.core.specs.kvstores.ocdbt:OcdbtKvStoreSpec"),
    "reference": Entry("chunkwise.core.specs.kvstores.reference:ReferenceKvStoreSpec"),
    "hdf5": Entry("chunkwise.core.specs.kvstores.reference:Hdf5KvStoreSpec"),
    "tiff_images": Entry("chunkwise.core.specs.kvstores.reference:TiffImagesKvStoreSpec"),
    "object": Entry("chunkwise.core.specs.kvstores.object:ObjectKvStoreSpec"),
    "kvstack": Entry("chunkwise.core.specs.kvstores.adapters:KvStackSpec"),
    "neuroglancer_uint64_sharded": Entry("chunkwise.core.specs.kvstores.shards:ShardedKvStoreSpec"),
    "zarr3_sharding_indexed": Entry("chunkwise.core.specs.kvstores.shards:ShardingIndexedKvStoreSpec"),
    "cache": Entry("chunkwise.core.specs.kvstores.adapters:CacheKvStoreSpec"),
}

DRIVERS: dict[str, Entry] = {
    "auto": Entry("chunkwise.core.driver.auto:parse_auto", url=("auto",)),
    "n5": Entry("chunkwise.core.driver.n5.format:parse_n5", url=("n5",)),
    "zarr": Entry("chunkwise.core.driver.zarr2.format:parse_zarr2", url=("zarr2",)),
    "zarr2": Entry("chunkwise.core.driver.zarr2.format:parse_zarr2"),
    "zarr1": Entry("chunkwise.core.driver.zarr1.format:parse_zarr1", url=("zarr1",)),
    "zarr3": Entry("chunkwise.core.driver.zarr3.format:parse_zarr3", url=("zarr3",)),
    "array": Entry("chunkwise.core.driver.in_memory:parse_array"),
    "cast": Entry("chunkwise.core.driver.adapters:parse_cast"),
    "downsample": Entry("chunkwise.core.driver.adapters:parse_downsample"),
    "stack": Entry("chunkwise.core.driver.stack:parse_stack"),
    "json": Entry("chunkwise.core.driver.single_value:parse_json", url=("json",)),
    "png": Entry("chunkwise.core.driver.single_value:parse_png", url=("png",)),
    "jpeg": Entry("chunkwise.core.driver.single_value:parse_jpeg", url=("jpeg",)),
    "tiff": Entry("chunkwise.core.driver.single_value:parse_tiff", url=("tiff",)),
    "webp": Entry("chunkwise.core.driver.single_value:parse_webp", url=("webp",)),
    "avif": Entry("chunkwise.core.driver.single_value:parse_avif", url=("avif",)),
    "bmp": Entry("chunkwise.core.driver.single_value:parse_bmp", url=("bmp",)),
    "neuroglancer_precomputed": Entry(
        "chunkwise.core.driver.neuroglancer_precomputed.format:parse_precomputed",
        url=("neuroglancer-precomputed",),
    ),
}

ARRAYS: dict[str, Entry] = {
    "auto": Entry("chunkwise.core.arrays.open_chunked:open_auto"),
    "n5": Entry("chunkwise.core.arrays.open_chunked:open_chunked"),
    "zarr": Entry("chunkwise.core.arrays.open_chunked:open_chunked"),
    "zarr1": Entry("chunkwise.core.arrays.open_chunked:open_chunked"),
    "zarr3": Entry("chunkwise.core.arrays.open_chunked:open_chunked"),
    "array": Entry("chunkwise.core.arrays.memory_array:open_memory_array"),
    "cast": Entry("chunkwise.core.arrays.cast:open_cast"),
    "downsample": Entry("chunkwise.core.arrays.downsample:open_downsample"),
    "stack": Entry("chunkwise.core.arrays.stack:open_stack"),
    "json": Entry("chunkwise.core.arrays.json_value:open_json"),
    "neuroglancer_precomputed": Entry("chunkwise.core.arrays.precomputed:open_precomputed"),
    "png": Entry("chunkwise.core.arrays.image:open_image"),
    "jpeg": Entry("chunkwise.core.arrays.image:open_image"),
    "tiff": Entry("chunkwise.core.arrays.image:open_image"),
    "webp": Entry("chunkwise.core.arrays.image:open_image"),
    "avif": Entry("chunkwise.core.arrays.image:open_image"),
    "bmp": Entry("chunkwise.core.arrays.image:open_image"),
    "virtual_chunked": Entry("chunkwise.core.arrays.virtual_chunked:open_virtual_chunked"),
}

METADATA_OBSERVERS: dict[str, Entry] = {
    "consolidated": Entry("chunkwise.core.trees.consolidated:update_consolidated"),
}

HOOKS: dict[str, Entry] = {
    "check of a new place": Entry("chunkwise.core.trees.look:check_new_place"),
    "container of a file": Entry("chunkwise.images.conventions.bdv:container_of_file"),
    "copy of an image": Entry("chunkwise.images.pyramid.image_copy:copy_of_image"),
    "copy to a volume": Entry("chunkwise.images.pyramid.volume_copy:copy_to_volume"),
    "differences of HDMF files": Entry("chunkwise.hdmf.difference:differences_of_nodes"),
    "differences of images": Entry("chunkwise.images.pyramid.image_sources:differences_of_images"),
    "dask token": Entry("chunkwise.dask.convert:token_of"),
    "image left out": Entry("chunkwise.images.pyramid.image_sources:image_left_out"),
    "images of a place": Entry("chunkwise.images.multiscale.find_images:images_of_place"),
    "only image": Entry("chunkwise.images.multiscale.find_images:only_image"),
    "label mark": Entry("chunkwise.images.multiscale.label_marks:label_mark"),
    "label marks": Entry("chunkwise.images.multiscale.label_marks:label_marks"),
    "notebook widget": Entry("chunkwise.notebook.widget:SliceWidget"),
}
"""Functions of higher layers that copies, `chunkwise.diff`, `TensorStore` and `MultiscaleImage` call."""

arrays = Registry("open function of driver", ARRAYS, "chunkwise.core.arrays")
metadata_observers = Registry("metadata observer", METADATA_OBSERVERS, "chunkwise.metadata_observers")
context_resources = Registry("context resource", CONTEXT_RESOURCES, "chunkwise.context_resources")
drivers = Registry("TensorStore driver", DRIVERS, "chunkwise.drivers")
hooks = Registry("hook", HOOKS, "chunkwise.hooks")
kvstores = Registry("KvStore driver", KVSTORES, "chunkwise.kvstores")
codecs = Registry("codec", CODECS, "chunkwise.codecs")
commands = Registry("command", {}, "chunkwise.commands")
data_types = Registry("data type", DATA_TYPES, "chunkwise.data_types")
grids = Registry("chunk grid", GRIDS, "chunkwise.grids")
key_encodings = Registry("chunk key encoding", KEY_ENCODINGS, "chunkwise.key_encodings")
codec_specs = Registry("codec spec", CODEC_SPECS, "chunkwise.codec_specs")
