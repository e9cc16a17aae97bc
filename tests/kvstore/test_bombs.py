"""Values that are far larger than what belongs there, in each store and codec: an error, and no memory."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import numcodecs
import numcodecs.blosc
import numpy as np
import obstore.store
import PIL.Image
import pytest
import zarr.storage
import zstandard

sys.path.insert(0, str(Path(__file__).parents[1] / "remote"))

from test_web_servers import web

import chunkwise as ts
from chunkwise.copying.plain_read import read_plainly
from chunkwise.core.base import limits
from chunkwise.core.base.limits import DOCUMENT
from chunkwise.errors import ChunkwiseError

LARGE = 40_000_000
LARGE_DOCUMENT = 100_000_000
MOST = 10_000_000
"""Bytes that reading a chunk of 16 may take at most; LZMA has a dictionary of 8 MiB."""
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def metadata(codecs: list[Any], **members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": codecs, **members,
    }  # fmt: skip


def open_array(kvstore: Any, document: dict[str, Any], **options: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": document}
    return ts.open(spec, assume_metadata=True, open=True, **options).result()


def refused(act: Callable[[], object], what: str = "") -> str:
    """Call; return the message of the error, after little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ChunkwiseError) as e:
            act()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST, f"{what}: {peak} bytes; {e.value}"
    return str(e.value)


USES: dict[str, Callable[[Any], object]] = {
    "read": lambda array: array.read().result(),
    "one chunk": lambda array: array[0:4].read().result(),
    "element": lambda array: array[1].read().result(),
    "write": lambda array: array[1:3].write(1).result(),
    "plainly": read_plainly,
}

# -- stores ------------------------------------------------------------------------------------------------


def sparse(path: Path, n: int = LARGE) -> None:
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(n)


def of_file(root: Path) -> Any:
    sparse(root / "a/c/0")
    return f"file://{root}/a/"


def of_zip(method: int) -> Callable[[Path], Any]:
    def make(root: Path) -> Any:
        with zipfile.ZipFile(root / "a.zip", "w", method) as archive:
            archive.writestr("c/0", bytes(LARGE))
        return f"file://{root}/a.zip|zip:"

    return make


def of_ocdbt(root: Path) -> Any:
    database = {"driver": "ocdbt", "base": f"file://{root}/db/"}
    ts.KvStore.open(database).result()["c/0"] = bytes(LARGE)
    return database


def of_reference(text: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def make(root: Path) -> Any:
        sparse(root / "data/large")
        (root / "refs.json").write_text(json.dumps({"version": 1, "refs": {"c/0": text(root)}}))
        return f"file://{root}/refs.json|reference:"

    return make


def of_object(store: Any, **members: Any) -> Any:
    return {"driver": "object", "object": store, "single_writer": True, **members}


PLACES: dict[str, Callable[[Path], Any]] = {
    "file": of_file,
    "memmap": lambda root: {"driver": "file", "path": of_file(root)[7:], "file_io_mode": {"mode": "memmap"}},
    "zip stored": of_zip(zipfile.ZIP_STORED),
    "zip deflate": of_zip(zipfile.ZIP_DEFLATED),
    "zip bzip2": of_zip(zipfile.ZIP_BZIP2),
    "ocdbt": of_ocdbt,
    "reference": of_reference(lambda root: [f"file://{root}/data/large"]),
    "part": of_reference(lambda root: [f"file://{root}/data/large", 0, LARGE]),
    "kvstack": lambda root: {
        "driver": "kvstack",
        "layers": [{"base": of_file(root)}],
    },
    "cache": lambda root: {"driver": "cache", "base": of_file(root)},
    "fsspec": lambda root: of_object(fsspec.filesystem("file"), path=of_file(root)[7:]),
    "zarr-python": lambda root: of_object(zarr.storage.LocalStore(of_file(root)[7:])),
}
CODECS: dict[str, list[Any]] = {"raw": [BYTES], "zstd": [BYTES, "zstd"]}


@pytest.mark.each_once
@pytest.mark.parametrize("codecs", CODECS)
@pytest.mark.parametrize("place", PLACES)
def test_values_of_stores(place: str, codecs: str, tmp_path: Path) -> None:
    kvstore = PLACES[place](tmp_path)
    for use, act in USES.items():
        if use == "write" and place in ("reference", "part", "kvstack", "cache"):
            continue
        for context in (None, ts.Context({"cache_pool": {"total_bytes_limit": 1 << 30}})):
            array = open_array(kvstore, metadata(CODECS[codecs]), context=context)
            said = refused(lambda: act(array), use)  # noqa: B023
            assert "c/0" in said or "data/large" in said
    with_write = place in ("file", "zip deflate", "ocdbt")
    if with_write:  # all of its elements replace it
        array = open_array(kvstore, metadata(CODECS[codecs]))
        array[0:4].write(7).result()
        assert array.read().result().tolist() == [7] * 4 + [0] * 4


def said_to_be_large(target: str, head: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\nETag: x\r\n\r\n".encode()
    for _ in range(LARGE // 100_000):
        yield bytes(100_000)


def endless(target: str, head: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n"
    while True:
        yield b"10000\r\n" + bytes(1 << 16) + b"\r\n"


ZIPPED = gzip.compress(bytes(LARGE // 2))


def zipped(target: str, head: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(ZIPPED)}\r\n\r\n".encode()
    yield ZIPPED


def obstore_of(url: str) -> Any:
    store = obstore.store.S3Store(
        "bucket",
        config={"aws_endpoint_url_s3": url, "region": "us-east-1", "skip_signature": True},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    return of_object(store, path="a/")


def azure(url: str) -> dict[str, str]:
    return {"account_name": "acc", "endpoint": f"{url}/acc"}


SERVERS: dict[str, Callable[[str], Any]] = {
    "http": lambda url: {"driver": "http", "base_url": url, "path": "a/"},
    "s3": lambda url: {
        "driver": "s3", "bucket": "bucket", "endpoint": url, "aws_region": "us-east-1", "path": "a/",
    },
    "gcs": lambda url: {"driver": "gcs", "bucket": "bucket", "path": "a/"},
    "azure": lambda url: {"driver": "azure", "container": "bucket", "path": "a/", **azure(url)},
    "obstore": obstore_of,
}  # fmt: skip


@pytest.mark.each_once
@pytest.mark.parametrize("answers", [said_to_be_large, endless, zipped])
@pytest.mark.parametrize("name", SERVERS)
def test_values_of_servers(answers: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with web(answers) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        kvstore = SERVERS[name](server.url)
        for codecs in CODECS.values():
            array = open_array(kvstore, metadata(codecs))
            assert "/a/c/" in refused(lambda: array.read().result())  # noqa: B023
            assert "/a/c/" in refused(lambda: array[1].read().result())  # noqa: B023


# -- codecs ------------------------------------------------------------------------------------------------

ZEROS = bytes(LARGE)
COMPRESSORS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "gzip": ("gzip", lambda data: gzip.compress(data, 1)),
    "zstd": ("zstd", lambda data: zstandard.ZstdCompressor().compress(data)),
    "zstd of unknown size": (
        "zstd", lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    ),
    "blosc": ("blosc", lambda data: numcodecs.blosc.compress(data, b"zstd", 1)),
    "zlib": ("numcodecs.zlib", lambda data: zlib.compress(data, 1)),
    "bz2": ("numcodecs.bz2", lambda data: bz2.compress(data, 1)),
    "lzma": ("numcodecs.lzma", lambda data: lzma.compress(data, preset=0)),
    "lz4": ("numcodecs.lz4", lambda data: numcodecs.get_codec({"id": "lz4"}).encode(data)),
}  # fmt: skip


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    return {name: bytes(encode(ZEROS)) for name, (_, encode) in COMPRESSORS.items()}


@pytest.mark.each_once
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
@pytest.mark.parametrize("inner", ["", "gzip", "zstd", "crc32c"])
@pytest.mark.parametrize("outer", COMPRESSORS)
def test_chains(outer: str, inner: str, sharded: bool, bombs: dict[str, bytes]) -> None:
    """The last codec decodes to far more than the one before it ever writes, whose size is not fixed."""
    codecs: list[Any] = [BYTES, *([inner] if inner else []), COMPRESSORS[outer][0]]
    encoded = bombs[outer]
    if sharded:
        configuration = {"chunk_shape": [2], "codecs": codecs, "index_codecs": [BYTES]}
        codecs = [{"name": "sharding_indexed", "configuration": configuration}]
        encoded += struct.pack("<4Q", 0, len(encoded), 2**64 - 1, 2**64 - 1)
    kvstore = ts.KvStore.open("memory://").result()
    kvstore["c/0"] = encoded
    for use, act in USES.items():
        refused(lambda: act(open_array(kvstore, metadata(codecs))), use)  # noqa: B023


N5: dict[str, Any] = {
    "gzip": {"type": "gzip"}, "bzip2": {"type": "bzip2"}, "xz": {"type": "xz"}, "zstd": {"type": "zstd"},
    "lz4": {"type": "lz4"}, "blosc": {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 0},
}  # fmt: skip


@pytest.mark.parametrize("compression", N5)
def test_n5_headers_and_payloads(compression: str, bombs: dict[str, bytes]) -> None:
    kvstore = ts.KvStore.open("memory://").result()
    spec = {
        "driver": "n5", "kvstore": kvstore,
        "schema": {"dtype": "int32", "domain": {"shape": [8]}},
        "metadata": {"blockSize": [4], "compression": N5[compression]},
    }  # fmt: skip
    array = ts.open(spec, create=True).result()
    named = {"bzip2": "bz2", "xz": "lzma"}.get(compression, compression)
    for n in (4, LARGE // 4, 2**32 - 1):
        kvstore["0"] = struct.pack(">HHI", 0, 1, n) + bombs[named]
        for use, act in USES.items():
            refused(lambda: act(array), use)  # noqa: B023


# -- what has no size of its own -----------------------------------------------------------------------------


@pytest.mark.each_once
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("dtype", ["string", "bytes", "json"])
@pytest.mark.parametrize("outer", ["zstd", "zstd of unknown size", "blosc", "bz2", "lzma"])
def test_elements_of_any_length(
    outer: str, dtype: str, n: int, bombs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DOCUMENT", DOCUMENT._replace(nbytes=1 << 20))
    encoded = bombs[outer]
    kvstore = ts.KvStore.open("memory://").result()
    if dtype == "json":
        compressor = {"id": outer.partition(" ")[0]}
        document = {
            "zarr_format": 2, "shape": [8], "chunks": [4], "dtype": "|O", "fill_value": "", "order": "C",
            "filters": [{"id": "json2"}], "compressor": compressor,
        }  # fmt: skip
        kvstore[".zarray"] = json.dumps(document).encode()
        array = ts.open({"driver": "zarr", "kvstore": kvstore}).result()
    else:
        vlen = {"string": "vlen-utf8", "bytes": "vlen-bytes"}[dtype]
        codecs = [vlen, *[COMPRESSORS[outer][0]] * n]
        array = open_array(kvstore, metadata(codecs, data_type=dtype, fill_value=""))
        if n == 2:
            encoded = bytes(COMPRESSORS[outer][1](encoded))
    kvstore["c/0"] = kvstore["0"] = encoded
    for use, act in USES.items():
        if use != "write":
            refused(lambda: act(array), use)  # noqa: B023
    array[0:4].write(array[4:8].read().result()).result()  # all elements replace it
    assert array.read().result().shape == (8,)


def test_text_that_nobody_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DOCUMENT", DOCUMENT._replace(nbytes=1 << 20))
    array = open_array("memory://", metadata(["vlen-utf8", "zstd"], data_type="string", fill_value=""))
    array.write(np.array(["x" * 200_000, *"abcdefg"], object)).result()
    with pytest.raises(ChunkwiseError, match="would not be read again: make chunks smaller"):
        array.write(np.array(["x" * 2_000_000, *"abcdefg"], object)).result()
    assert array.read().result()[0] == "x" * 200_000


@pytest.mark.parametrize("codecs", CODECS)
def test_whole_shards(codecs: str, tmp_path: Path) -> None:
    """A codec around shards makes them wholes."""
    configuration = {"chunk_shape": [2], "codecs": CODECS[codecs], "index_codecs": [BYTES]}
    chain = [{"name": "sharding_indexed", "configuration": configuration}, "crc32c"]
    sparse(tmp_path / "a/c/0")
    for act in USES.values():
        refused(lambda: act(open_array(f"file://{tmp_path}/a/", metadata(chain))))  # noqa: B023


@pytest.mark.each_once
@pytest.mark.parametrize("encoding", ["raw", "compressed_segmentation", "png"])
@pytest.mark.parametrize("sharded", [False, True])
def test_precomputed_volumes(encoding: str, sharded: bool, tmp_path: Path) -> None:
    sharding = {
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 0,
        "minishard_bits": 0, "shard_bits": 0, "data_encoding": "gzip",
    }  # fmt: skip
    small = {"size": [8, 4, 4], "chunk_size": [4, 4, 4], "resolution": [1, 1, 1], "encoding": encoding}
    if encoding == "compressed_segmentation":
        small["compressed_segmentation_block_size"] = [4, 4, 4]
    place = f"file://{tmp_path}/v/"
    spec = {
        "driver": "neuroglancer_precomputed", "kvstore": place,
        "multiscale_metadata": {
            "type": "image", "num_channels": 1,
            "data_type": "uint32" if encoding == "compressed_segmentation" else "uint8",
        },
        "scale_metadata": {**small, "key": "s", **({"sharding": sharding} if sharded else {})},
    }  # fmt: skip
    array = ts.open(spec, create=True).result()
    if sharded:
        shards = {"driver": "neuroglancer_uint64_sharded", "metadata": sharding, "base": place + "s/"}
        ts.KvStore.open(shards).result()[bytes(8)] = bytes(LARGE)
    else:
        sparse(tmp_path / "v/s/0-4_0-4_0-4")
    for use, act in USES.items():
        if use != "write" and (use != "one chunk" or not sharded):
            refused(lambda: act(array), use)  # noqa: B023
    array[0:4].write(7).result()
    assert array[0:4].read().result().min() == 7


@pytest.mark.parametrize("format", ["png", "webp"])
def test_pictures_that_say_they_are_large(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = PIL.Image.new("L" if format != "webp" else "RGB", (8000, 4000))
    image.save(tmp_path / f"a.{format}", lossless=True)
    picture = ts.open({"driver": format, "kvstore": f"file://{tmp_path}/a.{format}"}).result()
    assert picture.shape[:2] == (4000, 8000)
    monkeypatch.setattr(limits, "_memory", lambda: MOST)
    said = refused(lambda: picture[0, 0].read().result())
    assert f"the {format.upper()} picture" in said and "this process has memory for" in said


# -- documents ---------------------------------------------------------------------------------------------

DOCUMENTS = {
    "zarr3": ("zarr.json", lambda kvstore: ts.open({"driver": "zarr3", "kvstore": kvstore}).result()),
    "zarr": (".zarray", lambda kvstore: ts.open({"driver": "zarr", "kvstore": kvstore}).result()),
    "n5": ("attributes.json", lambda kvstore: ts.open({"driver": "n5", "kvstore": kvstore}).result()),
    "group": ("zarr.json", lambda kvstore: ts.open_group(kvstore, mode="r")),
    "auto": ("zarr.json", lambda kvstore: ts.open(kvstore).result()),
    "precomputed": (
        "info",
        lambda kvstore: ts.open({"driver": "neuroglancer_precomputed", "kvstore": kvstore}).result(),
    ),
}


@pytest.mark.each_once
@pytest.mark.parametrize("how", ["file", "zip"])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents(document: str, how: str, tmp_path: Path) -> None:
    key, act = DOCUMENTS[document]
    if how == "zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(key, b" " * LARGE_DOCUMENT)
        kvstore = f"file://{tmp_path}/a.zip|zip:"
    else:
        sparse(tmp_path / "a" / key, LARGE_DOCUMENT)
        kvstore = f"file://{tmp_path}/a/"
    said = refused(lambda: act(kvstore))
    assert key in said and "a metadata document may have 67108864" in said


# -- claims ------------------------------------------------------------------------------------------------


@pytest.mark.each_once
@pytest.mark.parametrize("claim", [2**31, 2**32 - 2, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("field", ["file_size", "compress_size", "header_offset"])
@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_claims_of_archives(method: int, field: str, claim: int, tmp_path: Path) -> None:
    """Sizes and positions in the directory of an archive, of 64 bits."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        for name in ("c/0", "zarr.json"):
            archive.writestr(name, bytes(100))
            [info] = [i for i in archive.infolist() if i.filename == name]
            setattr(info, field, claim)
    kvstore = f"file://{tmp_path}/a.zip|zip:"
    array = open_array(kvstore, metadata([BYTES]))
    for act in USES.values():
        refused(lambda: act(array))  # noqa: B023
    refused(lambda: ts.open({"driver": "zarr3", "kvstore": kvstore}).result())
    store = ts.KvStore.open(kvstore).result()
    refused(lambda: store.read("c/0").result())
    with suppress(ChunkwiseError):  # a part of a stored member needs no size
        store.read("c/0", byte_range=slice(2, 5)).result()


def test_what_is_as_large_as_allowed(tmp_path: Path) -> None:
    """Incompressible chunks, tiny ones, and blocks of N5 that are larger than their cell."""
    data = np.random.default_rng(0).integers(0, 2**31, 300_000, "int32")
    for codecs in (
        [BYTES, "gzip"],
        [BYTES, "gzip", "zstd", "blosc", "numcodecs.bz2"],
        [BYTES, "numcodecs.base64"],
    ):
        for size in (1, 300_000):
            document = metadata(codecs, shape=[size])
            document["chunk_grid"]["configuration"]["chunk_shape"] = [size]
            array = open_array(f"file://{tmp_path}/{len(codecs)}{size}/", document)
            array.write(data[:size]).result()
            np.testing.assert_array_equal(array.read().result(), data[:size])
            np.testing.assert_array_equal(read_plainly(array), data[:size])


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_documents_that_nobody_could_read_are_not_written(
    format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ts.open_group(str(tmp_path / "g"), mode="w", format=format, attributes={"a": 1})
    most = 1 << 26
    if format != "zarr3":
        most = 1 << 20
        monkeypatch.setattr(limits, "DOCUMENT", DOCUMENT._replace(nbytes=most))
    text = "x" * most
    for act in (
        lambda: group.attrs.update(a=text),
        lambda: group.create_array("x", shape=[1], dtype="int8", attributes={"a": text}),
        lambda: group.create_group("g", attributes={"a": text}),
    ):
        with pytest.raises(ChunkwiseError, match=f"a metadata document may have {most}"):
            act()
    again = ts.open_group(str(tmp_path / "g"), mode="r")
    assert dict(again.attrs) == {"a": 1} and list(again) == []
