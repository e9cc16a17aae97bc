"""Every chunked format, and ways of storing that change what a chunk is, keep the contract."""

from chunkwise.testing.driver_contract import DriverContract


class TestZarr1(DriverContract):
    driver = "zarr1"
    metadata_name = "meta"
    companions = ("attrs",)


class TestZarr2(DriverContract):
    driver = "zarr"
    metadata_name = ".zarray"


class TestZarr2FortranBigEndian(DriverContract):
    driver = "zarr"
    metadata_name = ".zarray"
    metadata = {"order": "F", "dimension_separator": "/", "compressor": {"id": "zlib", "level": 1}}

    def create(self, place, url, shape, chunks, dtype="uint16", **members):
        import numpy as np

        self.metadata = {**type(self).metadata, "dtype": np.dtype(dtype).newbyteorder(">").str}
        return super().create(place, url, shape, chunks, dtype, **members)


class TestZarr3(DriverContract):
    driver = "zarr3"
    metadata_name = "zarr.json"


class TestZarr3BigEndianTransposed(DriverContract):
    driver = "zarr3"
    metadata_name = "zarr.json"
    metadata = {
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        "codecs": [
            {"name": "transpose", "configuration": {"order": "F"}},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "zstd", "configuration": {"level": 1}},
            {"name": "crc32c"},
        ],
    }


class TestZarr3Sharded(DriverContract):
    driver = "zarr3"
    metadata_name = "zarr.json"
    shard = 2


class TestN5(DriverContract):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None


class TestN5Cropped(DriverContract):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None

    def spec(self, url, **members):
        return super().spec(url, crop_end_blocks=True, **members)


class TestN5Gzip(DriverContract):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None
    metadata = {"compression": {"type": "gzip", "level": 1}}
