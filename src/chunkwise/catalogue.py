"""Every built-in extension, as a table of contents: name, where it is, what each format calls it.

Targets are strings, so reading this file imports nothing; `chunkwise.registry.Registry` loads
one on first use.  Adding an extension is adding its file and its row here.
"""

from __future__ import annotations

from chunkwise.registry import Entry, Registry

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
    "bytes": Entry("chunkwise.codec.bytes:Bytes", zarr3=("bytes", "endian")),
    "packbits": Entry("chunkwise.codec.packbits:PackBits", zarr3=("packbits",)),
    "sharding_indexed": Entry("chunkwise.codec.sharding:ShardingIndexed", zarr3=("sharding_indexed",)),
    "vlen-utf8": Entry("chunkwise.codec.vlen:VlenUtf8", zarr3=("vlen-utf8",), zarr2=("vlen-utf8",)),
    "vlen-bytes": Entry("chunkwise.codec.vlen:VlenBytes", zarr3=("vlen-bytes",), zarr2=("vlen-bytes",)),
    "vlen-array": Entry("chunkwise.codec.vlen:VlenArray", zarr2=("vlen-array",)),
    "json2": Entry("chunkwise.codec.json2:Json2", zarr2=("json2",)),
    "msgpack2": Entry("chunkwise.codec.json2:MsgPack2", zarr2=("msgpack2",)),
    "pickle": Entry("chunkwise.codec.pickle:Pickle", zarr2=("pickle",)),
    "numcodecs.pcodec": Entry("chunkwise.codec.numcodecs_generic:PCodec", zarr3=("numcodecs.pcodec",)),
    "numcodecs.zfpy": Entry("chunkwise.codec.numcodecs_generic:Zfpy", zarr3=("numcodecs.zfpy",)),
    # array -> array
    "transpose": Entry("chunkwise.codec.transpose:Transpose", zarr3=("transpose",)),
    "reshape": Entry("chunkwise.codec.reshape:Reshape", zarr3=("reshape",)),
    "bitround": Entry(
        "chunkwise.codec.bitround:BitRound", zarr3=("bitround", "numcodecs.bitround"), zarr2=("bitround",)
    ),
    "scale_offset": Entry("chunkwise.codec.scale_offset:ScaleOffset", zarr3=("scale_offset",)),
    "cast_value": Entry("chunkwise.codec.cast_value:CastValue", zarr3=("cast_value",)),
    "categorize": Entry("chunkwise.codec.numcodecs_array:Categorize", zarr2=("categorize",)),
    "numcodecs.astype": Entry(
        "chunkwise.codec.numcodecs_array:AsType", zarr3=("numcodecs.astype",), zarr2=("astype",)
    ),
    "numcodecs.delta": Entry(
        "chunkwise.codec.numcodecs_array:Delta", zarr3=("numcodecs.delta",), zarr2=("delta",)
    ),
    "numcodecs.fixedscaleoffset": Entry(
        "chunkwise.codec.numcodecs_array:FixedScaleOffset",
        zarr3=("numcodecs.fixedscaleoffset",),
        zarr2=("fixedscaleoffset",),
    ),
    "numcodecs.packbits": Entry(
        "chunkwise.codec.numcodecs_array:PackBitsFilter", zarr3=("numcodecs.packbits",), zarr2=("packbits",)
    ),
    "numcodecs.quantize": Entry(
        "chunkwise.codec.numcodecs_array:Quantize", zarr3=("numcodecs.quantize",), zarr2=("quantize",)
    ),
    # bytes -> bytes
    "blosc": Entry(
        "chunkwise.codec.blosc:Blosc", zarr3=("blosc", "numcodecs.blosc"), zarr2=("blosc",), n5=("blosc",)
    ),
    "gzip": Entry(
        "chunkwise.codec.gzip:Gzip", zarr3=("gzip", "numcodecs.gzip"), zarr2=("gzip",), n5=("gzip",)
    ),
    "zstd": Entry(
        "chunkwise.codec.zstd:Zstd", zarr3=("zstd", "numcodecs.zstd"), zarr2=("zstd",), n5=("zstd",)
    ),
    "crc32c": Entry("chunkwise.codec.crc32c:Crc32c", zarr3=("crc32c", "numcodecs.crc32c"), zarr2=("crc32c",)),
    "numcodecs.bz2": Entry("chunkwise.codec.bz2:Bz2", zarr3=("numcodecs.bz2",), zarr2=("bz2",)),
    "numcodecs.lz4": Entry("chunkwise.codec.lz4:Lz4", zarr3=("numcodecs.lz4",), zarr2=("lz4",)),
    "numcodecs.lzma": Entry("chunkwise.codec.lzma:Lzma", zarr3=("numcodecs.lzma",), zarr2=("lzma",)),
    "numcodecs.zlib": Entry("chunkwise.codec.zlib:Zlib", zarr3=("numcodecs.zlib",), zarr2=("zlib",)),
    "numcodecs.adler32": Entry(
        "chunkwise.codec.numcodecs_bytes:Adler32", zarr3=("numcodecs.adler32",), zarr2=("adler32",)
    ),
    "numcodecs.base64": Entry(
        "chunkwise.codec.numcodecs_bytes:Base64", zarr3=("numcodecs.base64",), zarr2=("base64",)
    ),
    "numcodecs.crc32": Entry(
        "chunkwise.codec.numcodecs_bytes:Crc32", zarr3=("numcodecs.crc32",), zarr2=("crc32",)
    ),
    "numcodecs.fletcher32": Entry(
        "chunkwise.codec.numcodecs_bytes:Fletcher32", zarr3=("numcodecs.fletcher32",), zarr2=("fletcher32",)
    ),
    "numcodecs.jenkins_lookup3": Entry(
        "chunkwise.codec.numcodecs_bytes:JenkinsLookup3",
        zarr3=("numcodecs.jenkins_lookup3",),
        zarr2=("jenkins_lookup3",),
    ),
    "numcodecs.shuffle": Entry(
        "chunkwise.codec.numcodecs_bytes:Shuffle", zarr3=("numcodecs.shuffle",), zarr2=("shuffle",)
    ),
    # N5
    "bzip2": Entry("chunkwise.codec.bzip2:Bzip2", n5=("bzip2",)),
    "xz": Entry("chunkwise.codec.xz:Xz", n5=("xz",)),
    "lz4_java": Entry("chunkwise.codec.lz4_java:Lz4Java", n5=("lz4",)),
    "jpeg": Entry("chunkwise.codec.jpeg:Jpeg", n5=("jpeg",)),
    "n5_block": Entry("chunkwise.codec.n5_block:N5Block"),
    "n5_string_block": Entry("chunkwise.codec.n5_string_block:N5StringBlock"),
    "n5_default": Entry("chunkwise.codec.n5_default:N5Default", zarr3=("n5_default",)),
}

GRIDS: dict[str, Entry] = {
    "regular": Entry("chunkwise.grid.regular:RegularGrid", zarr3=("regular",)),
    "rectilinear": Entry("chunkwise.grid.rectilinear:RectilinearGrid", zarr3=("rectilinear",)),
}

KEY_ENCODINGS: dict[str, Entry] = {
    "default": Entry("chunkwise.chunk_key.key_encoding:default_keys", zarr3=("default",)),
    "v2": Entry("chunkwise.chunk_key.key_encoding:v2_keys", zarr3=("v2",)),
}

# Beyond those of NumPy and ml_dtypes, whose names are in dtype/names.py.
DATA_TYPES: dict[str, Entry] = {
    "complex_bfloat16": Entry("chunkwise.dtypes.complex_pair:ComplexBfloat16", zarr3=("complex_bfloat16",)),
    "complex_float4_e2m1fn": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat4E2m1fn", zarr3=("complex_float4_e2m1fn",)
    ),
    "complex_float6_e2m3fn": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat6E2m3fn", zarr3=("complex_float6_e2m3fn",)
    ),
    "complex_float6_e3m2fn": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat6E3m2fn", zarr3=("complex_float6_e3m2fn",)
    ),
    "complex_float8_e3m4": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E3m4", zarr3=("complex_float8_e3m4",)
    ),
    "complex_float8_e4m3": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E4m3", zarr3=("complex_float8_e4m3",)
    ),
    "complex_float8_e4m3b11fnuz": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E4m3b11fnuz", zarr3=("complex_float8_e4m3b11fnuz",)
    ),
    "complex_float8_e4m3fnuz": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E4m3fnuz", zarr3=("complex_float8_e4m3fnuz",)
    ),
    "complex_float8_e5m2": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E5m2", zarr3=("complex_float8_e5m2",)
    ),
    "complex_float8_e5m2fnuz": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E5m2fnuz", zarr3=("complex_float8_e5m2fnuz",)
    ),
    "complex_float8_e8m0fnu": Entry(
        "chunkwise.dtypes.complex_pair:ComplexFloat8E8m0fnu", zarr3=("complex_float8_e8m0fnu",)
    ),
    "complex_float16": Entry("chunkwise.dtypes.complex_pair:ComplexFloat16", zarr3=("complex_float16",)),
}

CODEC_SPECS: dict[str, Entry] = {
    "n5": Entry("chunkwise.driver.n5.codec_spec:N5CodecSpec"),
    "neuroglancer_precomputed": Entry(
        "chunkwise.driver.neuroglancer_precomputed.codec_spec:PrecomputedCodecSpec"
    ),
    "zarr": Entry("chunkwise.driver.zarr2.codec_spec:Zarr2CodecSpec"),
    "zarr2": Entry("chunkwise.driver.zarr2.codec_spec:Zarr2CodecSpec"),
    "zarr3": Entry("chunkwise.driver.zarr3.codec_spec:Zarr3CodecSpec"),
}

CONTEXT_RESOURCES: dict[str, Entry] = {
    "cache_pool": Entry("chunkwise.spec.resources.live:CachePoolConfig"),
    "data_copy_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "memory_key_value_store": Entry("chunkwise.spec.resources.live:MemoryKeyValueStore"),
    "file_io_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "file_io_sync": Entry("chunkwise.spec.resources.file_io:FileIoSync"),
    "file_io_locking": Entry("chunkwise.spec.resources.file_io:FileIoLocking"),
    "file_io_mode": Entry("chunkwise.spec.resources.file_io:FileIoMode"),
    "file_io_retries": Entry("chunkwise.spec.resources.requests:FileIoRetries"),
    "http_request_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "s3_request_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "gcs_request_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "http_request_retries": Entry("chunkwise.spec.resources.requests:RequestRetries"),
    "s3_request_retries": Entry("chunkwise.spec.resources.requests:RequestRetries"),
    "gcs_request_retries": Entry("chunkwise.spec.resources.requests:RequestRetries"),
    "azure_request_concurrency": Entry("chunkwise.spec.resources.live:Concurrency"),
    "azure_request_retries": Entry("chunkwise.spec.resources.requests:RequestRetries"),
    "azure_credentials": Entry("chunkwise.spec.resources.credentials:AzureCredentials"),
    "request_coalescing": Entry("chunkwise.spec.resources.requests:RequestCoalescing"),
    "experimental_s3_rate_limiter": Entry("chunkwise.spec.resources.requests:RateLimiter"),
    "experimental_gcs_rate_limiter": Entry("chunkwise.spec.resources.requests:RateLimiter"),
    "aws_credentials": Entry("chunkwise.spec.resources.credentials:AwsCredentials"),
    "gcs_user_project": Entry("chunkwise.spec.resources.credentials:GcsUserProject"),
}

UNSUPPORTED_RESOURCES: dict[str, str] = {
    "ocdbt_coordinator": "each process commits to an OCDBT database for itself",
    "experimental_gcs_grpc_credentials": "requests to Google Cloud are made by HTTP only",
}
"""Context resources of TensorStore for which there is nothing here that they could act on, and why."""

KVSTORES: dict[str, Entry] = {
    "memory": Entry("chunkwise.spec.kvstores.memory:MemoryKvStoreSpec", url=("memory",)),
    "file": Entry("chunkwise.spec.kvstores.file:FileKvStoreSpec", url=("file",)),
    "s3": Entry("chunkwise.spec.kvstores.s3:S3KvStoreSpec", url=("s3",)),
    "gcs": Entry("chunkwise.spec.kvstores.gcs:GcsKvStoreSpec", url=("gs",)),
    "azure": Entry("chunkwise.spec.kvstores.azure:AzureKvStoreSpec", url=("az", "abfs", "abfss")),
    "http": Entry("chunkwise.spec.kvstores.http:HttpKvStoreSpec", url=("http", "https")),
    "zip": Entry("chunkwise.spec.kvstores.zip:ZipKvStoreSpec"),
    "ocdbt": Entry("chunkwise.spec.kvstores.ocdbt:OcdbtKvStoreSpec"),
    "reference": Entry("chunkwise.spec.kvstores.reference:ReferenceKvStoreSpec"),
    "hdf5": Entry("chunkwise.spec.kvstores.reference:Hdf5KvStoreSpec"),
    "tiff_images": Entry("chunkwise.spec.kvstores.reference:TiffImagesKvStoreSpec"),
    "object": Entry("chunkwise.spec.kvstores.object:ObjectKvStoreSpec"),
    "kvstack": Entry("chunkwise.spec.kvstores.kvstack:KvStackSpec"),
    "neuroglancer_uint64_sharded": Entry("chunkwise.spec.kvstores.uint64_sharded:ShardedKvStoreSpec"),
    "zarr3_sharding_indexed": Entry("chunkwise.spec.kvstores.sharding_indexed:ShardingIndexedKvStoreSpec"),
    "cache": Entry("chunkwise.spec.kvstores.cache:CacheKvStoreSpec"),
}

DRIVERS: dict[str, Entry] = {
    "auto": Entry("chunkwise.driver.auto.spec:parse_auto", url=("auto",)),
    "n5": Entry("chunkwise.driver.n5.format:parse_n5", url=("n5",)),
    "zarr": Entry("chunkwise.driver.zarr2.format:parse_zarr2", url=("zarr2",)),
    "zarr2": Entry("chunkwise.driver.zarr2.format:parse_zarr2"),
    "zarr1": Entry("chunkwise.driver.zarr1.format:parse_zarr1", url=("zarr1",)),
    "zarr3": Entry("chunkwise.driver.zarr3.format:parse_zarr3", url=("zarr3",)),
    "array": Entry("chunkwise.driver.array.spec:parse_array"),
    "cast": Entry("chunkwise.driver.cast.spec:parse_cast"),
    "downsample": Entry("chunkwise.driver.downsample.spec:parse_downsample"),
    "stack": Entry("chunkwise.driver.stack.spec:parse_stack"),
    "json": Entry("chunkwise.driver.json.spec:parse_json", url=("json",)),
    "png": Entry("chunkwise.driver.image.spec:parse_png", url=("png",)),
    "jpeg": Entry("chunkwise.driver.image.spec:parse_jpeg", url=("jpeg",)),
    "tiff": Entry("chunkwise.driver.image.spec:parse_tiff", url=("tiff",)),
    "webp": Entry("chunkwise.driver.image.spec:parse_webp", url=("webp",)),
    "avif": Entry("chunkwise.driver.image.spec:parse_avif", url=("avif",)),
    "bmp": Entry("chunkwise.driver.image.spec:parse_bmp", url=("bmp",)),
    "neuroglancer_precomputed": Entry(
        "chunkwise.driver.neuroglancer_precomputed.spec:parse_precomputed", url=("neuroglancer-precomputed",)
    ),
}

ARRAYS: dict[str, Entry] = {
    "auto": Entry("chunkwise.arrays.auto:open_auto"),
    "n5": Entry("chunkwise.arrays.open_chunked:open_chunked"),
    "zarr": Entry("chunkwise.arrays.open_chunked:open_chunked"),
    "zarr1": Entry("chunkwise.arrays.open_chunked:open_chunked"),
    "zarr3": Entry("chunkwise.arrays.open_chunked:open_chunked"),
    "array": Entry("chunkwise.arrays.memory_array:open_memory_array"),
    "cast": Entry("chunkwise.arrays.cast:open_cast"),
    "downsample": Entry("chunkwise.arrays.downsample:open_downsample"),
    "stack": Entry("chunkwise.arrays.stack:open_stack"),
    "json": Entry("chunkwise.arrays.json_value:open_json"),
    "neuroglancer_precomputed": Entry("chunkwise.arrays.precomputed:open_precomputed"),
    "png": Entry("chunkwise.arrays.image:open_image"),
    "jpeg": Entry("chunkwise.arrays.image:open_image"),
    "tiff": Entry("chunkwise.arrays.image:open_image"),
    "webp": Entry("chunkwise.arrays.image:open_image"),
    "avif": Entry("chunkwise.arrays.image:open_image"),
    "bmp": Entry("chunkwise.arrays.image:open_image"),
    "virtual_chunked": Entry("chunkwise.arrays.virtual_chunked:open_virtual_chunked"),
}

METADATA_OBSERVERS: dict[str, Entry] = {
    "consolidated": Entry("chunkwise.hierarchy.consolidated:update_consolidated"),
}

HOOKS: dict[str, Entry] = {
    "dask token": Entry("chunkwise.dask.convert:token_of"),
    "notebook widget": Entry("chunkwise.notebook.widget:SliceWidget"),
}
"""What methods of `TensorStore` and `MultiscaleImage` do by a layer above their own."""

arrays = Registry("open function of driver", ARRAYS, "chunkwise.arrays")
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
