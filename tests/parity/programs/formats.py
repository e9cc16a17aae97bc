"""Families of random programs over files: pictures, precomputed volumes, pipelines of URLs, codecs."""

from __future__ import annotations

from io import BytesIO
from random import Random
from typing import Any

import numpy as np
from PIL import Image
from tests.parity.programs.parts import DRIVERS, expression, index_of, shape_of

__all__ = ["codecs", "images", "pipelines", "precomputed"]

_FORMATS = ("png", "jpeg", "tiff", "bmp", "webp", "avif")
_MODES = {"L": 1, "RGB": 3, "RGBA": 4, "LA": 2, "P": 1, "1": 1, "I;16": 1}
_OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "png": {"compression_level": (-1, 0, 9, 10, "x")},
    "jpeg": {"quality": (75, 0, 100, 101)},
    "tiff": {"page": (0, 1, -1, None)},
    "bmp": {},
    "webp": {"lossless": (True, False, 1), "quality": (95, 101)},
    "avif": {"quantizer": (0, 64), "speed": (6, 11)},
}


def _picture(r: Random, form: str) -> bytes:
    """Return a file of a form, or one that Pillow can write instead."""
    mode = r.choice(("L", "RGB", "RGB", "RGBA", *_MODES))
    size = (r.randint(1, 9), r.randint(1, 9))
    channels = _MODES[mode]
    pixels = np.array([r.randrange(256) for _ in range(size[0] * size[1] * channels)], "u1")
    pixels = pixels.reshape(*size, channels) if channels > 1 else pixels.reshape(size)
    if mode == "I;16":
        picture = Image.fromarray(pixels.astype("u2") * 200)
    elif mode in ("P", "1"):
        picture = Image.fromarray(pixels).convert(mode)
    else:
        picture = Image.fromarray(pixels)
    out = BytesIO()
    options: dict[str, Any] = {"quality": 90} if form == "jpeg" else {}
    if form == "tiff":
        options = {"compression": r.choice((None, "tiff_lzw", "tiff_adobe_deflate", "packbits"))}
        if r.random() < 0.15:
            options |= {"save_all": True, "append_images": [picture]}
    if form == "webp":
        options = {"lossless": True}
    try:
        picture.save(out, form, **options)
    except (OSError, ValueError):
        out = BytesIO()
        picture.convert("RGB").save(out, form)
    data = bytearray(out.getvalue())
    damage = r.random()
    if damage < 0.06:
        data[0] ^= 255
    elif damage < 0.1:
        del data[r.randrange(8) :]
    return bytes(data)


def images(r: Random) -> list[str]:
    """Pictures of each format by driver, URL and content, with constraints, in parts."""
    form = r.choice(_FORMATS)
    data, other = _picture(r, form), r.choice(_FORMATS)
    spec: dict[str, Any] = {"driver": form if r.random() < 0.93 else other, "kvstore": "memory://i"}
    for name, values in _OPTIONS[form].items():
        if r.random() < 0.15:
            spec[name] = r.choice(values)
    for name, value in (
        ("dtype", r.choice(("uint8", "uint16"))),
        ("rank", r.choice((3, 2))),
        ("schema", {"domain": {"labels": ["y", "x", "c"]}}),
        ("schema", {"domain": {"shape": [r.randint(1, 9), r.randint(1, 9), r.choice((1, 3))]}}),
        ("schema", {"fill_value": 3}),
        ("schema", {"dimension_units": ["nm", None, None]}),
        ("schema", {"chunk_layout": {"read_chunk": {"shape": [4, 4, 1]}}}),
        ("recheck_cached_data", r.choice((True, False, "open"))),
        ("path", "x"),
        ("open", True),
    ):
        if r.random() < 0.05:
            spec[name] = value
    where = r.choice(
        (repr(spec), repr(spec), f"'memory://i|{form}:'", "'memory://i'", "{'driver': 'memory', 'path': 'i'}")
    )
    keywords = r.choice(("", "", "", ", read=True", ", write=True", ", create=True", ", open=True"))
    return [
        "c = ts.Context()",
        "k = ts.KvStore.open('memory://', context=c).result()",
        f"k.write('i', {data!r}).result().generation != b''",
        f"ts.Spec({where})",
        f"ts.Spec({where}).domain",
        f"a = ts.open({where}, context=c{keywords}).result()",
        "a.mode if hasattr(a, 'mode') else None",
        "a.schema",
        "a.chunk_layout",
        "a.spec()",
        "a.spec(minimal_spec=True)",
        "a.spec().url",
        "a.read().result()",
        f"a[{index_of(r, 3)}].read().result()",
        f"a[{expression(r, 3)}].read().result()",
        "a.storage_statistics(query_not_stored=True).result().not_stored",
        r.choice(
            (
                "a.write(1).result()",
                "a.resize(exclusive_max=[3, 3, 1]).result()",
                "ts.open(a.spec(), context=c).result().read().result()",
                "a.kvstore",
                "a.fill_value",
                "a.codec",
                "a.dimension_units",
                "k.delete_range(ts.KvStore.KeyRange()).result()",
            )
        ),
        "a.read().result()",
    ]


def _sharding(r: Random) -> dict[str, Any]:
    return {
        "@type": "neuroglancer_uint64_sharded_v1",
        "preshift_bits": r.randint(0, 3),
        "minishard_bits": r.randint(0, 3),
        "shard_bits": r.randint(0, 4),
        "hash": r.choice(("identity", "murmurhash3_x86_128")),
        "data_encoding": r.choice(("raw", "gzip")),
        "minishard_index_encoding": r.choice(("raw", "gzip")),
    }


def _scale(r: Random, dtype: str) -> dict[str, Any]:
    encoding = r.choice(("raw", "raw", "compressed_segmentation", "jpeg", "png"))
    scale: dict[str, Any] = {
        "size": shape_of(r, 3),
        "chunk_size": shape_of(r, 3, 1, 4),
        "encoding": encoding,
        "resolution": [r.choice((1, 4, 8, 2.5)) for _ in range(3)],
    }
    if encoding == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [r.choice((1, 2, 8)) for _ in range(3)]
    if encoding == "jpeg" and r.random() < 0.5:
        scale["jpeg_quality"] = r.choice((0, 50, 100, 101))
    if encoding == "png" and r.random() < 0.5:
        scale["png_level"] = r.choice((0, 6, 9, 10))
    if r.random() < 0.3:
        scale["voxel_offset"] = [r.randint(-3, 3) for _ in range(3)]
    if r.random() < 0.3:
        scale["sharding"] = _sharding(r)
    if r.random() < 0.2:
        scale["key"] = r.choice(("s0", "4_4_4", "a/b"))
    for name in list(scale):
        if r.random() < 0.06:
            del scale[name]
    return scale


def precomputed(r: Random) -> list[str]:
    """Volumes from metadata or from a schema: scales, encodings, shards."""
    dtype = r.choice(("uint8", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "float32", "float64"))
    channels = r.choice((1, 1, 2, 3))
    spec: dict[str, Any] = {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/"}
    by_schema = r.random() < 0.4
    if not by_schema or r.random() < 0.3:
        spec["multiscale_metadata"] = {
            "type": r.choice(("image", "segmentation")),
            "data_type": dtype,
            "num_channels": channels,
        }
        for name in list(spec["multiscale_metadata"]):
            if r.random() < 0.06:
                del spec["multiscale_metadata"][name]
    if not by_schema or r.random() < 0.2:
        spec["scale_metadata"] = _scale(r, dtype)
    keywords = ""
    if by_schema:
        shape = [*shape_of(r, 3), channels]
        if r.random() < 0.1:
            shape = shape[:3]
        keywords = f", dtype=ts.{dtype}, shape={shape}"
        if r.random() < 0.4:
            keywords += f", chunk_layout=ts.ChunkLayout(chunk_shape={[*shape_of(r, 3, 1, 4), channels]})"
        elif r.random() < 0.3:
            keywords += (
                f", chunk_layout=ts.ChunkLayout(read_chunk_shape={[*shape_of(r, 3, 1, 2), channels]}, "
                f"write_chunk_shape={[*(2 * n for n in shape_of(r, 3, 1, 3)), channels]})"
            )
        if r.random() < 0.4:
            keywords += (
                f", dimension_units={[r.choice(('4 nm', '1 um', 'nm', None)) for _ in range(3)] + [None]}"
            )
        if r.random() < 0.3:
            codec = {"driver": "neuroglancer_precomputed", "encoding": r.choice(("raw", "png", "jpeg"))}
            keywords += f", codec=ts.CodecSpec({codec!r})"
        if r.random() < 0.1:
            keywords += f", fill_value={r.choice((0, 1))}"
        if r.random() < 0.1:
            keywords += ", domain=ts.IndexDomain(labels=['x', 'y', 'z', 'channel'])"
    second = {"driver": "neuroglancer_precomputed", "kvstore": "memory://v/"}
    again = r.choice(
        (
            {},
            {"scale_index": r.choice((0, 1))},
            {"scale_metadata": {"resolution": [r.choice((1, 4, 8)) for _ in range(3)]}},
            {"multiscale_metadata": {"num_channels": channels}},
            {"schema": {"dtype": "uint8"}},
            {"scale_metadata": {"key": "s0"}},
        )
    )
    steps = [
        "c = ts.Context()",
        f"s = ts.Spec({spec!r})",
        "s.domain",
        "s.chunk_layout",
        "s.codec",
        "s.dimension_units",
        f"a = ts.open(s, context=c, create=True{keywords}).result()",
        "a.schema",
        "a.spec()",
        "a.spec(minimal_spec=True)",
        "k = ts.KvStore.open('memory://v/', context=c).result()",
        "json.loads(k['info'])",
    ]
    for _ in range(r.randint(1, 3)):
        index = f"ts.d[:].translate_to[0]][{index_of(r, 4)}"
        steps.append(
            r.choice(
                (
                    f"a[{index}].write({r.randint(0, 9)}).result()",
                    f"a[{index}].read().result()",
                    "a[...].write(7).result()",
                    "a.storage_statistics(query_not_stored=True, query_fully_stored=True).result().fully_stored",
                )
            )
        )
    return [
        *steps,
        "a.read().result()",
        "sorted(k.list().result())",
        r.choice(
            (
                f"b = ts.open({ ({**second, **again})!r}, context=c).result()",
                "b = ts.open('memory://v/|neuroglancer-precomputed:', context=c).result()",
                "b = ts.open('memory://v/', context=c).result()",
                f"b = ts.open({second!r}, context=c, delete_existing=True, create=True).result()",
                "a.resize(exclusive_max=[3, 3, 3, 1]).result()",
                f"b = ts.open({ {**spec, 'scale_metadata': _scale(r, dtype)}!r}, context=c, create=True).result()",
            )
        ),
        "a.spec().url",
        "b.read().result()",
        "json.loads(k['info'])",
    ]


def pipelines(r: Random) -> list[str]:
    """Places as URLs: made, opened by URL, spec and content, and listed."""
    root = r.choice(("memory://m/", "memory://m", "file://' + D + '/a/", "file://' + D + '/a"))
    middle = r.choice(("", "", "|zip:", "|zip:p/q/", "|ocdbt:", "|ocdbt:p/", "|ocdbt:p/|zip:z/"))
    if "|zip" in middle:
        root = root.rstrip("/") + ".zip" if not middle.startswith("|ocdbt") else root
        middle = middle.replace("p/|zip", "p.zip|zip")
    inner = r.choice(("", "", "x", "x/", "x/y", "%20", "a%2Fb", "é", "x//y", "@"))
    driver = r.choice(("zarr3", "zarr2", "zarr", "n5", "neuroglancer-precomputed", "auto", "json", "zarr1x"))
    front = root if not middle else root + middle + inner
    url = f"'{front}|{driver}:{'' if middle else inner}'"
    kvstore = f"'{front}'"
    dtype = r.choice(("uint8", "int16", "float32"))
    steps = [
        "c = ts.Context()",
        f"s = ts.Spec({url})",
        "s.to_json()",
        "s.url",
        "s.kvstore.url",
        f"k = ts.KvStore.open({kvstore}, context=c).result()",
        "k.url",
        "k.path",
        "k.spec()",
        f"a = ts.open({url}, context=c, create=True, dtype='{dtype}', shape={shape_of(r, 3)}).result()",
        "a.url",
        "a.spec()",
        "a.kvstore.url",
        "a.kvstore.path",
        "a[0].write(3).result()",
        "len(k.list().result())",
        "ts.open(a.url, context=c).result().read().result()",
        "ts.open(a.spec().url, context=c).result().domain",
    ]
    more = r.choice(("/", "b", "b/", "/b", ""))
    return [
        *steps,
        r.choice(
            (
                f"ts.open({kvstore}, context=c).result().spec()",
                f"ts.open({kvstore[:-1]}|auto:', context=c).result().spec()",
                f"ts.open({{'driver': 'auto', 'kvstore': {kvstore}}}, context=c).result().read().result()",
                f"ts.KvStore.Spec({kvstore}).url",
                f"(k / {more!r}).url",
                f"(k + {more!r}).url",
                f"ts.KvStore.Spec({kvstore}).base",
                "a.kvstore.base",
                "k.base",
                f"ts.KvStore.Spec(a.kvstore.spec() / {more!r}).url",
                "ts.Spec(a.spec().to_json()).url",
            )
        ),
    ]


_ZARR3_CODECS: tuple[dict[str, Any], ...] = (
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "bytes", "configuration": {"endian": "big"}},
    {"name": "bytes"},
    {"name": "gzip", "configuration": {"level": 5}},
    {"name": "gzip"},
    {"name": "zstd", "configuration": {"level": 3}},
    {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 3, "shuffle": "shuffle"}},
    {"name": "blosc"},
    {"name": "crc32c"},
    {"name": "transpose", "configuration": {"order": [1, 0]}},
    {"name": "transpose", "configuration": {"order": "C"}},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}},
    {"name": "sharding_indexed"},
    {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": [2, 2], "index_location": "start", "codecs": [{"name": "gzip"}]},
    },
)
_ZARR_CODECS: tuple[dict[str, Any], ...] = (
    {"compressor": None},
    {"compressor": {"id": "zlib", "level": 3}},
    {"compressor": {"id": "gzip"}},
    {"compressor": {"id": "bz2"}},
    {"compressor": {"id": "zstd", "level": 4}},
    {"compressor": {"id": "blosc"}},
    {"compressor": {"id": "blosc", "cname": "zstd", "shuffle": -1}},
    {"compressor": {"id": "blosc", "shuffle": 7}},
    {"compressor": {"id": "nope"}},
    {"filters": None},
    {"filters": []},
    {},
)
_N5_CODECS: tuple[dict[str, Any], ...] = (
    {"compression": {"type": "raw"}},
    {"compression": {"type": "gzip"}},
    {"compression": {"type": "gzip", "level": 3, "useZlib": True}},
    {"compression": {"type": "bzip2"}},
    {"compression": {"type": "xz", "preset": 2}},
    {"compression": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}},
    {"compression": {"type": "zstd"}},
    {"compression": {"type": "lz4"}},
    {},
)


def _codec(r: Random, driver: str) -> dict[str, Any]:
    if driver == "zarr":
        own: dict[str, Any] = dict(r.choice(_ZARR_CODECS))
    elif driver == "n5":
        own = dict(r.choice(_N5_CODECS))
    else:
        own = {"codecs": r.sample(_ZARR3_CODECS, r.randint(0, 3))}
        if r.random() < 0.1:
            own = {}
    return {"driver": driver, **own}


def codecs(r: Random) -> list[str]:
    """Codec specs merged in some order, by schemas and metadata, and what is stored then."""
    driver = r.choice(DRIVERS)
    first, second, third = (
        repr(_codec(r, driver if r.random() < 0.95 else r.choice(DRIVERS))) for _ in range(3)
    )
    steps = [
        f"x = ts.CodecSpec({first})",
        "x",
        f"y = ts.CodecSpec({second})",
        "x == y",
        "s = ts.Schema(codec=x)",
        "s.update(codec=y)" if r.random() < 0.5 else "s",
        "s.codec",
        f"spec = ts.Spec({{'driver': '{driver}', 'kvstore': 'memory://a/'}})",
    ]
    if driver == "zarr3" and r.random() < 0.3:
        metadata = {key: value for key, value in _codec(r, driver).items() if key == "codecs"}
        steps[-1] = f"spec = ts.Spec({ {'driver': driver, 'kvstore': 'memory://a/', 'metadata': metadata}!r})"
    steps += [
        f"spec.update({r.choice(('schema=s', 'codec=x', f'codec=ts.CodecSpec({third})'))})",
        "spec.update(schema=s)",
        "spec.codec",
        "c = ts.Context()",
    ]
    layout = r.choice(
        ("", ", chunk_layout=ts.ChunkLayout(chunk_shape=[4, 4])",
         ", chunk_layout=ts.ChunkLayout(read_chunk_shape=[2, 2], write_chunk_shape=[4, 4])",
         ", chunk_layout=ts.ChunkLayout(inner_order=[1, 0])")
    )  # fmt: skip
    dtype = r.choice(("uint8", "int32", "float64", "bool"))
    return [
        *steps,
        f"a = ts.open(spec, context=c, create=True, dtype=ts.{dtype}, shape=[6, 5]{layout}).result()",
        "a.codec",
        "a.chunk_layout",
        "a.spec()",
        "a.spec(minimal_spec=True)",
        "a[1:4].write(1).result()",
        "ts.open(a.spec(), context=c).result().read().result()",
        f"ts.open(spec, context=c, codec=ts.CodecSpec({third})).result().codec",
    ]
