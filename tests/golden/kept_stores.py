"""Small stores that a version writes, for the tests of all later versions, in one archive.

python -m tests.golden.kept_stores [--replace]

Writes tests/golden/stores/VERSION.zip, with the stores and a manifest of what is in them, from the version
that is installed.  It is made once, when a version is released: what is there is replaced only if told so.
Values are kept as bytes and text in JSON, so that reading them takes nothing of chunkwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import chunkwise as cw
from chunkwise.core.base import catalogue
from chunkwise.core.dtypes.names import NAMED
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.places.staging import new_owner
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.errors import ChunkwiseError
from chunkwise.images.conventions.known import PYRAMIDS
from chunkwise.images.conventions.n5_viewers import N5_CONVENTIONS
from chunkwise.images.conventions.precomputed import PRECOMPUTED
from chunkwise.version import __version__

ARCHIVES = Path(__file__).with_name("stores")
# In documents and specs: the folder, and the owner of unfinished work, who is dead.
PLACE, HOST, MACHINE, PROCESS = "@PLACE@", "@HOST@", "@MACHINE@", "@PROCESS@"
TREES = ("zarr3", "zarr2", "n5")
_DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}

# Pickles would run code, packages for some are in no extra, JPEG is in a volume, and no data type has arrays
# as elements.
NOT_WRITTEN = {"pickle", "msgpack2", "numcodecs.pcodec", "numcodecs.zfpy", "jpeg", "vlen-array"}


def content(values: Any) -> dict[str, Any]:
    """Return an array as JSON: bytes of fixed size in hexadecimal notation, other elements one by one."""
    array = np.asarray(values)
    if array.dtype.kind == "T":
        array = array.astype(object)
    out: dict[str, Any] = {"shape": list(array.shape)}
    if array.dtype.hasobject:
        return {**out, "elements": [_element(value) for value in array.reshape(-1).tolist()]}
    if array.dtype.isbuiltin != 2:
        array = array.astype(array.dtype.newbyteorder("<"))
    return {**out, "dtype": _name(array.dtype), "bytes": array.tobytes().hex()}


def _element(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray):
        return content(value)
    return value


def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.names is None else str(dtype.descr)


# -- arrays ----------------------------------------------------------------------------------------------

SHAPE, CHUNKS = (7, 5), (3, 2)
_SIZED = ("S3", "U2", "V5", "datetime64[ns]", "timedelta64[10us]")
_RECORD = np.dtype([("a", "u1"), ("b", "<i4", (2,)), ("c", [("d", "<f8"), ("e", "S3")])])
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
_CRC = {"name": "crc32c"}


def numbers(dtype: Any, shape: tuple[int, ...] = SHAPE) -> Any:
    """Return values of a NumPy type: a ramp, and what isn't finite where there is such."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape))
    if dtype.names is not None or (dtype.kind == "V" and dtype.type is np.void):
        return np.frombuffer(bytes(i % 251 for i in range(n * dtype.itemsize)), dtype).reshape(shape)
    if dtype.kind == "S":
        return np.array([b"abcdefgh"[: i % (dtype.itemsize + 1)] for i in range(n)], dtype).reshape(shape)
    if dtype.kind == "U":
        return np.array(["äb日d"[: i % (dtype.itemsize // 4 + 1)] for i in range(n)], dtype).reshape(shape)
    if dtype.kind in "mM":
        values = np.arange(n).astype(dtype)
        values[1] = "NaT"
        return values.reshape(shape)
    values = (np.arange(n) % 2 if dtype.itemsize == 1 else np.arange(n) * 3 % 101).astype(dtype)
    if dtype.kind in "fc" and dtype.itemsize > 1:
        values[:4] = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
    return values.reshape(shape)


def objects(name: str) -> Any:
    """Return values of a data type whose elements have any length."""
    elements: dict[str, list[Any]] = {
        "string": [b"", b"a", b"\xff\0b", b"q" * 40],
        "ustring": ["", "a", "é😀", "日本" * 10],
        "json": [{"a": 1}, "b", None, [1, [2.5]], True],
    }
    out = np.empty(SHAPE, object)
    for i in range(out.size):
        out.flat[i] = elements[name][i % len(elements[name])]
    return out


def _spec(place: Path, driver: str, metadata: dict[str, Any], **schema: Any) -> dict[str, Any]:
    return {
        "driver": driver, "kvstore": {"driver": "file", "path": f"{place}/"}, "metadata": metadata,
        "schema": schema,
    }  # fmt: skip


def _written(spec: dict[str, Any], values: Any) -> dict[str, Any]:
    """Write all but the last rows; return the spec that opens the array."""
    array = cw.open(spec, open=True, create=True).result()
    array[:5].write(values[:5]).result()
    return {"driver": spec["driver"], "kvstore": spec["kvstore"]}


def data_types(folder: Path) -> Iterator[tuple[str, Any]]:
    """Write every data type in every format that has it."""
    names = [*NAMED, *_SIZED, "record", *catalogue.DATA_TYPES]
    for name in names:
        for format, driver in _DRIVERS.items():
            dtype = cw.dtype(_RECORD if name == "record" else name)
            values = objects(name) if name in ("string", "ustring", "json") else _values(dtype)
            schema = {"dtype": dtype.name, "domain": {"shape": list(SHAPE)}}
            label = name.replace("[", "_").replace("]", "")
            spec = _spec(folder / format / label, driver, {}, **schema)
            spec["schema"]["chunk_layout"] = {"chunk": {"shape": list(CHUNKS)}}
            try:
                cw.open(spec, create=True).result()
            except ChunkwiseError as e:
                print(f"{format} has no {name}: {str(e)[-100:]}")
            else:
                yield f"data type {name} in {format}", _written(spec, values)


def _values(dtype: Any) -> Any:
    numpy = dtype.numpy_dtype
    if dtype.name in catalogue.DATA_TYPES:
        values = np.zeros(SHAPE, dtype.memory_dtype)
        for i, part in enumerate(("real", "imag")):
            values[part] = 1 << (np.arange(values.size).reshape(SHAPE) + i) % 2
        return values
    return numbers(NAMED[dtype.name][1] if dtype.name in NAMED else numpy)


def _codecs() -> Iterator[tuple[str, str, str, dict[str, Any], str]]:
    """Yield format, name, label, metadata and data type of arrays that have each codec."""

    def three(name: str, configuration: dict[str, Any], dtype: str = "int16", *, array: bool = False) -> Any:
        codec = {"name": name, "configuration": configuration}
        chain = [codec, _LITTLE] if array else [_LITTLE, codec]
        return "zarr3", name, json.dumps(configuration), {"codecs": chain}, dtype

    def two(id: str, configuration: dict[str, Any], dtype: str = "int16", *, filter: bool = False) -> Any:
        codec = {"id": id, **configuration}
        members = {"filters": [codec], "compressor": None} if filter else {"compressor": codec}
        return "zarr2", id, json.dumps(configuration), members, dtype

    def five(type: str, configuration: dict[str, Any], dtype: str = "int16") -> Any:
        return "n5", type, json.dumps(configuration), {"compression": {"type": type, **configuration}}, dtype

    big = {"name": "bytes", "configuration": {"endian": "big"}}
    yield "zarr3", "bytes", "big", {"codecs": [big]}, "int32"
    yield "zarr3", "packbits", "bool", {"codecs": [{"name": "packbits"}]}, "bool"
    yield "zarr3", "packbits", "int4", {"codecs": [{"name": "packbits"}]}, "int4"
    yield three("transpose", {"order": [1, 0]}, array=True)
    yield three("reshape", {"shape": [-1]}, array=True)
    yield three("bitround", {"keepbits": 5}, "float32", array=True)
    yield three("scale_offset", {"offset": 3, "scale": 2}, array=True)
    yield three("cast_value", {"data_type": "int32"}, array=True)
    yield three("numcodecs.astype", {"encode_dtype": "<i4", "decode_dtype": "<i2"}, array=True)
    yield three("numcodecs.delta", {"dtype": "<i2"}, array=True)
    scaled = {"offset": 2, "scale": 10, "dtype": "<f8", "astype": "<i4"}
    yield three("numcodecs.fixedscaleoffset", scaled, "float64", array=True)
    yield three("numcodecs.quantize", {"digits": 2, "dtype": "<f8"}, "float64", array=True)
    yield three("numcodecs.packbits", {}, "bool", array=True)
    for cname in ("lz4", "lz4hc", "blosclz", "zlib", "zstd"):
        blosc = {"cname": cname, "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
        yield three("blosc", blosc)
    yield three("blosc", {**blosc, "cname": "lz4", "shuffle": "bitshuffle"})
    yield three("numcodecs.blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})
    yield three("gzip", {"level": 6})
    yield three("numcodecs.gzip", {"level": 1})
    yield three("zstd", {"level": 3, "checksum": False})
    yield three("zstd", {"level": -5, "checksum": True})
    yield three("numcodecs.zstd", {"level": 1})
    yield three("crc32c", {})
    for name, level in (("bz2", "level"), ("lz4", "acceleration"), ("lzma", "preset"), ("zlib", "level")):
        yield three(f"numcodecs.{name}", {level: 1})
        yield two(name, {level: 1})
    for name in ("adler32", "crc32", "fletcher32", "jenkins_lookup3"):
        yield three(f"numcodecs.{name}", {})
        yield two(name, {}, filter=True)
    yield three("numcodecs.crc32c", {})
    yield two("crc32c", {}, filter=True)
    yield three("numcodecs.base64", {})
    yield two("base64", {}, filter=True)
    yield three("numcodecs.shuffle", {"elementsize": 2})
    yield two("shuffle", {"elementsize": 2}, filter=True)
    inner = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        big,
        {"name": "gzip", "configuration": {"level": 5}},
    ]
    yield (
        "zarr3",
        "n5_default",
        "",
        {"codecs": [{"name": "n5_default", "configuration": {"codecs": inner}}]},
        "int16",
    )
    yield two("categorize", {"dtype": "|O", "labels": ["x", "yy"], "astype": "u1"}, "ustring", filter=True)
    yield two("bitround", {"keepbits": 5}, "float32", filter=True)
    yield two("delta", {"dtype": "<i2"}, filter=True)
    yield two("astype", {"encode_dtype": "<i4", "decode_dtype": "<i2"}, filter=True)
    yield two("fixedscaleoffset", scaled, "float64", filter=True)
    yield two("quantize", {"digits": 2, "dtype": "<f8"}, "float64", filter=True)
    yield two("packbits", {}, "bool", filter=True)
    yield two("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0})
    yield two("gzip", {"level": 6})
    yield two("zstd", {"level": 3})
    yield five("raw", {})
    yield five("gzip", {"level": 6})
    yield five("gzip", {"level": -1, "useZlib": True})
    yield five("bzip2", {"blockSize": 2})
    yield five("xz", {"preset": 1})
    yield five("lz4", {"blockSize": 256})
    yield five("zstd", {"level": 3})
    yield five("blosc", {"cname": "zstd", "clevel": 6, "shuffle": 1, "blocksize": 0})


def codecs(folder: Path) -> Iterator[tuple[str, Any]]:
    """Write an array with each codec, of which the last chunks aren't stored."""
    for i, (format, name, label, metadata, dtype) in enumerate(_codecs()):
        values = numbers(dtype if dtype not in ("ustring", "int4") else "int16")
        if dtype == "int4":
            values = values.astype(ml_dtypes.int4)
        if name == "bitround" or "fixedscaleoffset" in name or "quantize" in name:
            values = np.arange(35, dtype=dtype).reshape(SHAPE) / 3
        if dtype == "ustring":
            values = np.array(["x", "yy", ""], object)[np.arange(35) % 3].reshape(SHAPE)
        place = folder / format / f"{i:02} {name}"
        schema = {
            "dtype": dtype,
            "domain": {"shape": list(SHAPE)},
            "chunk_layout": {"chunk": {"shape": list(CHUNKS)}},
        }
        spec = _spec(place, _DRIVERS[format], metadata, **schema)
        yield f"codec {name} {label} in {format}", _written(spec, values)


def layouts(folder: Path) -> Iterator[tuple[str, Any]]:
    """Write shards, grids, chunk keys, orders and older formats."""
    values = numbers("uint16", (12, 10))
    inner = [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    shards = {
        "end": {"index_location": "end"},
        "start": {"index_location": "start"},
        "nested": {
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [2, 1], "codecs": [_LITTLE, *inner], "index_codecs": [_LITTLE, _CRC]}}]
        },
        "plain index": {"index_codecs": [_LITTLE]},
    }  # fmt: skip
    for name, members in shards.items():
        configuration = {
            "chunk_shape": [2, 5], "codecs": [_LITTLE, *inner], "index_codecs": [_LITTLE, _CRC], **members,
        }  # fmt: skip
        metadata = {
            "codecs": [{"name": "sharding_indexed", "configuration": configuration}],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 5]}},
            "fill_value": 7,
            "data_type": "uint16",
        }
        spec = _spec(folder / f"shards {name}", "zarr3", metadata, dtype="uint16", domain={"shape": [12, 10]})
        yield f"shards, {name}", _written(spec, values)
    edges = {"kind": "inline", "chunk_shapes": [[2, 3, [1, 7]], 4]}
    metadata = {"chunk_grid": {"name": "rectilinear", "configuration": edges}}
    spec = _spec(folder / "rectilinear", "zarr3", metadata, dtype="uint16", domain={"shape": [12, 10]})
    yield "rectilinear", _written(spec, values)
    for name in ("default", "v2"):
        for separator in (".", "/"):
            keys = {"name": name, "configuration": {"separator": separator}}
            place = folder / f"keys {name} {'slash' if separator == '/' else 'dot'}"
            metadata = {"chunk_key_encoding": keys}
            spec = _spec(place, "zarr3", metadata, dtype="uint16", domain={"shape": [12, 10]})
            yield f"keys {name} {separator}", _written(spec, values)
    for name, members in {
        "F": {"order": "F"}, "big": {"dtype": ">u2"}, "nested": {"dimension_separator": "/"},
    }.items():  # fmt: skip
        metadata = {"shape": [12, 10], "chunks": [5, 4], "dtype": "<u2", "fill_value": 9, **members}
        spec = _spec(folder / f"zarr2 {name}", "zarr", metadata)
        yield f"zarr2, {name}", _written(spec, values)
    cw.create_array(folder / "zarr1", values, format="zarr1", chunks=(5, 4))
    yield "zarr1", f"{folder}/zarr1/|zarr1:"
    cw.create_array(folder / "scalar", np.float32(2.5), format="zarr3")
    yield "scalar", f"{folder}/scalar/|zarr3:"
    cw.create_array(folder / "empty", shape=(0, 3), dtype="int8", format="zarr2")
    yield "empty", f"{folder}/empty/|zarr2:"


def containers(folder: Path) -> Iterator[tuple[str, Any]]:
    """Write databases, archives, volumes, pictures and JSON documents."""
    values = numbers("uint16", (12, 10))
    for name, config in {
        "defaults": {}, "small nodes": {"max_inline_value_bytes": 4, "max_decoded_node_bytes": 300},
        "uncompressed": {"compression": None}, "manifests": {"manifest_kind": "numbered"},
    }.items():  # fmt: skip
        database = {"driver": "ocdbt", "base": f"file://{folder}/ocdbt {name}/", "config": config}
        spec = {"driver": "zarr3", "kvstore": {**database, "path": "a/"}}
        schema = {
            "dtype": "uint16",
            "domain": {"shape": [12, 10]},
            "chunk_layout": {"chunk": {"shape": [3, 2]}},
        }
        yield f"OCDBT, {name}", _written({**spec, "schema": schema}, values)
    cw.create_group(folder / "tree").create_array("a", values, chunks=(5, 4), checksum=True)
    _command("zip", folder / "tree", folder / "tree.zip")
    yield "zip", f"{folder}/tree.zip|zip:a/|zarr3:"
    volume = numbers("uint8", (9, 8, 6, 1))
    sharding = {
        "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 1, "hash": "identity",
        "minishard_bits": 1, "shard_bits": 1, "minishard_index_encoding": "gzip", "data_encoding": "gzip",
    }  # fmt: skip
    for name, dtype, scale in (
        ("raw", "uint8", {"encoding": "raw"}),
        ("sharded", "uint16", {"encoding": "raw", "sharding": sharding}),
        (
            "segmentation",
            "uint32",
            {"encoding": "compressed_segmentation", "compressed_segmentation_block_size": [4, 4, 4]},
        ),
        ("jpeg", "uint8", {"encoding": "jpeg", "jpeg_quality": 90}),
    ):
        kind = "segmentation" if name == "segmentation" else "image"
        spec = {
            "driver": "neuroglancer_precomputed", "kvstore": f"file://{folder}/volume {name}/",
            "multiscale_metadata": {"type": kind, "data_type": dtype, "num_channels": 1},
            "scale_metadata": {
                "size": [9, 8, 6], "chunk_size": [4, 4, 3], "resolution": [4, 4, 40], **scale,
            },
        }  # fmt: skip
        # What is equal in a chunk is what any decoder of JPEG returns.
        stored = np.full_like(volume, 136) if name == "jpeg" else volume.astype(dtype)
        cw.open(spec, create=True).result().write(stored).result()
        opened = {"driver": "neuroglancer_precomputed", "kvstore": spec["kvstore"]}
        yield f"volume, {name}", opened
    cw.open({"driver": "json", "kvstore": f"file://{folder}/document.json"}).result().write(
        {"a": [1, None, "x"]}
    ).result()
    yield "json", f"{folder}/document.json|json:"
    _command("stack", folder / "stack.json", folder / "tree/a", folder / "tree/a", "--concat", "0")
    yield "stack", json.loads((folder / "stack.json").read_bytes())
    _command("slice", folder / "tree" / "a", "--png", folder / "slice.png")
    yield "png", f"{folder}/slice.png|png:"


ARRAYS = (data_types, codecs, layouts, containers)


def _command(*words: object, status: tuple[int, ...] = (0,)) -> None:
    from chunkwise.cli.main import main

    found = main([str(word) for word in words]) or 0
    assert found in status, (words, found)


# -- trees -----------------------------------------------------------------------------------------------


def trees(folder: Path) -> Iterator[tuple[str, str]]:
    """Write groups, attributes, links, copies of metadata, datasets, images at several resolutions, NWB."""
    import xarray

    import chunkwise.xarray as cwx

    values = numbers("uint16", (12, 10))
    dataset = xarray.Dataset(
        {
            "t": (("time", "y"), numbers("float32", (3, 4)), {"units": "K"}),
            "n": (("y",), np.arange(4, dtype="int16"), {"_FillValue": np.int16(-1)}),
            "name": (("y",), np.array(["a", "bb", "", "d"])),
        },
        coords={"time": np.array(["2001-01-01", "2001-01-02", "2001-01-05"], "datetime64[ns]"), "z": 3.5},
        attrs={"title": "dataset"},
    )
    for format in TREES:
        group = cw.create_group(folder / f"tree {format}", format=format, attributes={"n": 1, "l": [1, "x"]})
        group.create_array("inner/a", values, chunks=(5, 4), dimension_names=("y", "x"),
                           dimension_units=("4 nm", "1 um"), attributes={"unit": "um"})  # fmt: skip
        group.create_array("text", np.array(["a", "bcd", "é"], object), dtype="ustring")
        group.create_array("nothing", shape=(4,), dtype="int8")
        group.create_link("linked", "inner/a")
        group.create_link("linked group", "inner")
        if format != "n5":
            group.consolidate()
        yield f"tree in {format}", f"tree {format}"
        cwx.write_dataset(dataset, folder / f"dataset {format}", mode="w", format=format)
        yield f"dataset in {format}", f"dataset {format}"
        source, image = folder / f"tree {format}" / "inner/a", folder / f"image {format}"
        convention = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}[format]
        cw.downsample_pyramid(source, image, convention=convention, levels=2, name="p").result()
        yield f"image in {format}", f"image {format}"
        cw.copy(source, folder / f"kept {format}", keep_fingerprint=True, format=format, chunks=(3, 4))
        yield f"fingerprint in {format}", f"kept {format}"
        write_nwb(folder / f"nwb {format}", format)
        yield f"NWB in {format}", f"nwb {format}"


def images(folder: Path) -> Iterator[tuple[str, str]]:
    """Write an image in each convention that is written, with channels or as labels where it has them."""
    values = numbers("uint16", (2, 4, 6, 8))
    four = {"axes": list("czyx"), "units": [None, "40 nm", "4 nm", "4 nm"], "factors": [1, 2, 2, 2]}
    three = {name: value[1:] for name, value in four.items()}
    for version in ("0.4", "0.5"):
        place = folder / f"ome {version}.zarr"
        how = {"levels": 2, "convention": f"ome-ngff-{version}"}
        cw.downsample_pyramid(cw.array(values), place, chunks=[1, 2, 4, 4], **how, **four).result()
        cw.edit_image(place, channels=["DAPI", "µ"], colors={1: "00ff80"})
        ids = place / "labels/cells"
        cw.downsample_pyramid(cw.array(values[0] // 9), ids, labels=True, **how, **three).result()
        yield f"OME-Zarr {version}", place.name
        yield f"labels in OME-Zarr {version}", f"{place.name}/labels/cells"
        yield f"plate of OME-Zarr {version}", _plate(folder, version)
    one = folder / "one.zarr"
    cw.downsample_pyramid(cw.array(values[0]), one, chunks=[2, 4, 4], levels=2, **three).result()
    for name in ("n5-viewer", "cosem"):
        cw.downsample_pyramid(one, folder / f"{name}.n5", convention=name, levels=2, **three).result()
        yield name, f"{name}.n5"
    for name, at in (("paintera", "paintera.n5"), ("bdv", "bdv.n5/setup0")):
        _command("cp", "-r", one, folder / f"{name}.n5", "--layout", name, "--quiet")
        yield name, at
    yield "file of BigDataViewer", "bdv.xml"
    _command("cp", "-r", one, folder / "volume", "--format", "neuroglancer_precomputed", "--quiet")
    yield "precomputed", "volume"


def _plate(folder: Path, version: str) -> str:
    """Copy a plate with two wells, of which one has two fields; return its name."""
    made, fields = folder / f"made {version}.zarr", {"A/1": 2, "B/2": 1}

    def group(path: str, **members: Any) -> None:
        attributes = members if version == "0.4" else {"ome": {"version": version, **members}}
        format = "zarr2" if version == "0.4" else "zarr3"
        cw.create_group(made / path, format=format, attributes=attributes)

    wells = [{"path": well, "rowIndex": i, "columnIndex": i} for i, well in enumerate(fields)]
    rows, columns = [{"name": "A"}, {"name": "B"}], [{"name": "1"}, {"name": "2"}]
    group("", plate={"rows": rows, "columns": columns, "wells": wells, "version": version, "field_count": 2})
    for well, n in fields.items():
        group(well, well={"images": [{"path": str(field)} for field in range(n)], "version": version})
        for field in range(n):
            values = cw.array(numbers("uint8", (6, 8)) + np.uint8(field))
            how = {"levels": 2, "convention": f"ome-ngff-{version}", "axes": ["y", "x"]}
            cw.downsample_pyramid(values, made / well / str(field), **how).result()
    cw.copy_tree(made, folder / f"plate {version}.zarr")
    shutil.rmtree(made)
    return f"plate {version}.zarr"


def image(place: Path) -> dict[str, Any]:
    """Return what an image says of itself, and the values of its levels; of a collection the last image."""
    found = cw.open_multiscale(place)
    names = []
    if not hasattr(found, "levels"):  # a collection or a plate
        names = list(found)
        found = found[names[-1]]
    return {
        "images": names,
        "convention": found.convention,
        "is_labels": found.is_labels,
        "axes": [[axis.name, axis.type, axis.unit] for axis in found.axes],
        "scales": _plain(found.scales),
        "translations": _plain(found.translations),
        "channels": [[channel.label, channel.color] for channel in found.channels or ()],
        "levels": [content(level.read().result()) for level in found.levels],
    }


def blocks(folder: Path) -> Iterator[tuple[str, str]]:
    """Write the blocks that only N5 has: of any length, of text, of bytes, label multisets."""
    size = {"dimensions": [6, 4], "block_size": [2, 2]}
    texts, sets = np.array([["a", ""], ["日本", "é"]], object), np.empty((2, 2), object)
    sets[:] = [[[[7, 3], [8, 5]], [[1, 8]]], [[], [[2, 1]]]]
    written: dict[str, tuple[str, dict[str, Any], Any]] = {
        "numbers": ("uint64", {}, [3, 5, 1 << 60]),
        "texts": ("string", {}, texts),
        "bytes": ("object", {}, b"\xac\xed\0\5"),
        "label multisets": ("uint8", {"isLabelMultiset": True}, sets),
    }
    for name, (data_type, attributes, value) in written.items():
        made = cw.create_n5_blocks(folder / name, data_type=data_type, attributes=attributes, **size)
        made[2, 1] = value
        yield name, name


def block(place: Path) -> dict[str, Any]:
    """Return all blocks of a dataset of N5, by their cells."""
    found = cw.open_n5_blocks(place)
    values = {cell: found[cell] for cell in found}
    return {
        json.dumps(cell): content(value) if isinstance(value, np.ndarray) else _element(value)
        for cell, value in values.items()
    }


def write_nwb(place: Path, format: str) -> None:
    from hdmf.common import DynamicTable, VectorData
    from pynwb import NWBFile
    from pynwb.ecephys import ElectricalSeries

    from chunkwise.hdmf import NWBZarrIO, ZarrDataIO

    start = datetime(2024, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
    nwb = NWBFile("kept: ünï 日本", "kept", start, file_create_date=[start], keywords=["a", "bb"])
    shank = nwb.create_electrode_group("shank", "d", "CA1", nwb.create_device("probe"))
    shank.position = np.array((1.0, 2.0, 3.0), [("x", "f4"), ("y", "f4"), ("z", "f4")])
    for i in range(3):
        nwb.add_electrode(group=shank, location="CA1", x=float(i))
        nwb.add_unit(spike_times=np.arange(i + 1) / 7)
    region = nwb.create_electrode_table_region([0, 2], "some")
    data = ZarrDataIO(numbers("int16", (12, 2)), chunks=(5, 2))
    nwb.add_acquisition(ElectricalSeries(name="raw", data=data, electrodes=region, rate=30000.0))
    words = VectorData(name="words", description="d", data=["a", "", "日本"])
    nwb.add_acquisition(DynamicTable(name="table", description="d", columns=[words]))
    with NWBZarrIO(place, mode="w", format=format) as io:
        io.write(nwb)


def nodes(place: Path) -> dict[str, Any]:
    """Return what is in a tree: attributes of all nodes, values of all arrays, links."""

    def known(node: Any) -> dict[str, Any]:
        out: dict[str, Any] = {"attributes": _plain(node.attrs.asdict())}
        if isinstance(node, cw.Group):
            return {**out, "links": {name: str(link) for name, link in node.links().items()}}
        labels = [label for label in node.domain.labels if label]
        return {**out, "content": content(node.read().result()), "labels": labels}

    try:
        group = cw.open_group(place)
    except ValueError:
        return {"": known(cw.open_array(place))}
    return {"": known(group), **{path: known(node) for path, node in group.walk()}}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


# What writes things of a kind, and what is read of each.
KINDS: dict[str, tuple[Callable[[Path], Iterator[tuple[str, str]]], Callable[[Path], Any]]] = {
    "trees": (trees, nodes),
    "images": (images, image),
    "blocks": (blocks, block),
}


# -- unfinished work -------------------------------------------------------------------------------------


def killed(work: Callable[[], object]) -> bool:
    """Run `work` in a process of its own; return whether it died of `die`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    try:
        work()
    except BaseException as e:
        print(repr(e), file=sys.stderr)
    os._exit(0)


def dies_at(calls: int, *, saved: bool = True) -> Callable[..., None]:
    """Return a function of progress that ends the process, once the journal knows what is done."""
    left = calls

    def progress(*_: object) -> None:
        nonlocal left
        left -= 1
        if saved and left == 1:
            time.sleep(1.1)
        if left <= 0:
            os._exit(9)

    return progress


def dies_before_writing(key: str, at: int = 1) -> None:
    """End this process before a key with this ending is written or deleted for the `at`-th time."""
    left = at

    def dying(method: Any) -> Any:
        def call(self: Any, found: str, *arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            left -= found.endswith(key)
            if left <= 0:
                os._exit(9)
            return method(self, found, *arguments, **keywords)

        return call

    FileStore.write = dying(FileStore.write)  # type: ignore[method-assign]
    FileStore.delete = dying(FileStore.delete)  # type: ignore[method-assign]


def unfinished(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Leave work as killed processes leave it; yield its name, what goes on with it."""
    values = numbers("uint16", (24, 20))
    source, tree, image = folder / "source", folder / "source tree", folder / "image"
    cw.create_array(source, values, chunks=(2, 20), codec="none", format="zarr2")
    group = cw.create_group(tree, attributes={"title": "t"})
    group.create_array("a", values, chunks=(2, 20), codec="none")
    group.create_array("b/c", numbers("float32", (6,)), attributes={"u": 1})
    cw.create_array(image, values, chunks=(4, 4))
    memory = {"memory": 2000}

    def leave(call: str, at: Path, to: Path, options: dict[str, Any], progress: Any) -> dict[str, Any]:
        function = getattr(cw, call)

        def work() -> None:
            made = function(at, to, **options, progress=progress)
            if call == "downsample_pyramid":
                made.result()

        assert killed(work), to
        return {"call": call, "source": str(at), "target": str(to), "options": options}

    for name, more in {
        "copy": {"chunks": [4, 20]},
        "copy to n5": {"chunks": [4, 20], "format": "n5"},
        "copy to shards": {"chunks": [2, 20], "shards": [4, 20], "format": "zarr3", "keep_fingerprint": True},
        "copy in two passes": {"chunks": [24, 1], "memory": 1300},
    }.items():  # fmt: skip
        yield name, leave("copy", source, folder / name, {**memory, **more}, dies_at(3))
    volume = {**memory, "format": "neuroglancer_precomputed"}
    yield "volume", leave("copy", source, folder / "volume", volume, dies_at(3))
    yield "copy just begun", leave("copy", source, folder / "begun", memory, dies_at(1, saved=False))
    yield "tree", leave("copy_tree", tree, folder / "tree", memory, dies_at(3))
    part = {**memory, "part": "1/2"}
    yield "part", leave("copy_tree", tree, folder / "part", part, dies_at(2))
    cw.create_array(folder / "replaced", values + 1, chunks=(5, 20))
    options = {**memory, "overwrite": True}
    yield "replacement", leave("copy", source, folder / "replaced", options, dies_at(3))
    pyramid = {"levels": 2, "convention": "ome-ngff-0.5", "memory": 4000}
    yield "pyramid", leave("downsample_pyramid", image, folder / "pyramid", pyramid, dies_at(3))

    for name, at in (("append before it counts", 1), ("append that counts", 2)):
        cw.create_array(folder / name, values, chunks=(5, 20))

        def append(place: Path = folder / name, at: int = at) -> None:
            array = cw.open_array(place, mode="r+")
            dies_before_writing("zarr.json" if at == 2 else ".chunkwise-append.json", at=1 if at == 2 else 2)
            array.append(values[:3])

        assert killed(append), name
        yield name, {"call": "append", "target": str(folder / name), "rows": [24, 24, 27][at]}
    cw.create_group(folder / "migrated", format="zarr2").create_array("a", values, chunks=(5, 20))

    def migrate() -> None:
        dies_before_writing("zarr.json", at=2)
        cw.migrate(folder / "migrated", apply=True)

    assert killed(migrate)
    yield "migration", {"call": "migrate", "target": str(folder / "migrated")}

    for format in TREES:
        place = folder / f"nwb {format}"

        def write(place: Path = place, format: str = format) -> None:
            dies_before_writing(".chunkwise-copies")
            write_nwb(place, format)

        assert killed(write), format
        yield f"NWB in {format}", {"call": "open", "target": str(place)}


def _made(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = {"version": __version__, "arrays": {}, "unfinished": {}}
    for function in ARRAYS:
        place = folder / function.__name__
        place.mkdir()
        for name, spec in function(place):
            assert name not in manifest["arrays"], name
            manifest["arrays"][name] = {"spec": spec, **content(cw.open(spec).result().read().result())}
    for kind, (written, known) in KINDS.items():
        (folder / kind).mkdir()
        manifest[kind] = {
            name: {"path": f"{kind}/{path}", "known": known(folder / kind / path)}
            for name, path in written(folder / kind)
        }
    (folder / "unfinished").mkdir()
    for name, how in unfinished(folder / "unfinished"):
        manifest["unfinished"][name] = how
    return manifest


def check_whole(folder: Path, manifest: dict[str, Any]) -> None:
    """End the program if a codec, grid, key encoding, data type or convention of images is in no store."""
    names: dict[str, set[str]] = {"zarr3": set(), "zarr2": set(), "n5": set()}
    for file, format in (("zarr.json", "zarr3"), (".zarray", "zarr2"), ("attributes.json", "n5")):
        for path in folder.rglob(file):
            names[format] |= set(_names(json.loads(path.read_bytes())))
    rows = {**catalogue.CODECS, **catalogue.GRIDS, **catalogue.KEY_ENCODINGS}
    missing = [
        f"{name} in {format}"
        for name, row in rows.items()
        for format, stored in row.names.items()
        if name not in NOT_WRITTEN and not set(stored) & names.get(format, set(stored))
    ]
    missing += [
        name for name in catalogue.DATA_TYPES if f"data type {name} in zarr3" not in manifest["arrays"]
    ]
    written = {known["known"]["convention"] for known in manifest["images"].values()}
    missing += sorted({*PYRAMIDS, *N5_CONVENTIONS, PRECOMPUTED.name} - written)
    if missing:
        raise SystemExit(f"no store has {missing}: add what writes it, or a reason to NOT_WRITTEN")


def _names(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (document[m] for m in ("name", "id", "type") if isinstance(document.get(m), str))
        document = list(document.values())
    if isinstance(document, list):
        for member in document:
            yield from _names(member)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replace", action="store_true")
    archive = ARCHIVES / f"{__version__}.zip"
    if archive.exists() and not parser.parse_args().replace:
        raise SystemExit(f"{archive} is there: it is what {__version__} wrote; --replace makes it anew")
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory).resolve()
        manifest = _made(folder)
        check_whole(folder, manifest)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                out.writestr(
                    _entry(path.relative_to(folder).as_posix()), _portable(path.read_bytes(), folder)
                )
            text = json.dumps(manifest, indent=1, ensure_ascii=False).replace(str(folder), PLACE)
            out.writestr(_entry("manifest.json"), text)
    print(f"{archive}: {archive.stat().st_size / 1e6:.2f} MB")


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # of 1980, so that the same stores are the same archive
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _portable(raw: bytes, folder: Path) -> bytes:
    if not raw.startswith(b"{"):
        return raw
    text = raw.decode("latin-1").replace(str(folder), PLACE)  # a chunk may begin so, too
    text = re.sub(rf'"{re.escape(process_name().host)}:\d+:', f'"{HOST}:{PROCESS}:', text)
    return re.sub(rf'"{_machine()}-\d+-', f'"{MACHINE}-{PROCESS}-', text).encode("latin-1")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive; owners of unfinished work become dead processes of this machine."""
    with zipfile.ZipFile(archive) as stores:
        stores.extractall(folder)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    names = {PLACE: str(folder), HOST: process_name().host, MACHINE: _machine(), PROCESS: str(dead.pid)}
    for path in folder.rglob("*"):
        if path.is_file() and (text := path.read_bytes()).startswith(b"{"):
            for token, name in names.items():
                text = text.replace(token.encode(), name.encode())
            path.write_bytes(text)


def _machine() -> str:
    return new_owner().partition("-")[0]


if __name__ == "__main__":
    main()
