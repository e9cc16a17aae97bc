"""A program as TensorStore's users write them, run with either library: it prints the same."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

import chunkwise

SHARDED = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 1,
    "minishard_bits": 2,
    "shard_bits": 3,
    "hash": "identity",
    "data_encoding": "gzip",
    "minishard_index_encoding": "gzip",
}


def program(ts: Any, root: str, show: Any) -> None:
    """Use the library in the ways of its documentation; `show` takes what a user would look at."""
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}, "file_io_concurrency": {"limit": 4}})
    show(context["cache_pool"].to_json())
    volume = ts.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{root}/vol"}},
        create=True,
        delete_existing=True,
        dtype=ts.uint16,
        domain=ts.IndexDomain(labels=["x", "y", "z"], shape=[60, 40, 30]),
        chunk_layout=ts.ChunkLayout(read_chunk_shape=[10, 20, 30], write_chunk_shape=[20, 40, 30]),
        fill_value=7,
        dimension_units=["4nm", "4nm", "40nm"],
        context=context,
    ).result()
    show(volume.domain, volume.dtype, volume.dimension_units, volume.chunk_layout, volume.codec)
    show(json.dumps(volume.schema.to_json(), sort_keys=True), volume.spec().to_json())
    volume[...] = np.arange(60 * 40 * 30, dtype=np.uint16).reshape(60, 40, 30)
    volume[10:20, 5].write(np.full((10, 30), 3, np.uint16)).result()
    # index transforms
    show(volume[8:12, 4:7, 0].read().result(), volume.oindex[[1, 5], [2, 3], 4].read().result())
    show(volume.vindex[[1, 5], [2, 3], 4].read().result(), volume[np.arange(60) % 30 == 0, 0, 0])
    show(volume[ts.d["z"][5]][ts.d["x", "y"].translate_to[0]][:2, :3].read().result(), volume.T.shape)
    show(volume[ts.d[:].label["a", "b", "c"]].domain, volume[::10, ::40, ::30].domain)
    show(volume[ts.newaxis, 3].domain, volume[ts.d["x", "y"].diagonal].domain)
    show(volume.translate_by[5, 0, -3].domain, volume[ts.d["x"].stride[-1]].domain)
    view = volume[ts.d["x"][16:2:-2]][..., 3]
    again = ts.open(view.spec().to_json(), context=context).result()
    show(view.domain, np.array_equal(again.read().result(), view.read().result()))
    show(pickle.loads(pickle.dumps(view.spec())) == view.spec(), ts.Spec(view.spec().to_json())[-4].domain)
    # transactions and batches
    transaction = ts.Transaction()
    inside = volume.with_transaction(transaction)
    inside[0:2, 0, 0] = [100, 101]
    show(volume[0:2, 0, 0].read().result(), inside[0:2, 0, 0].read().result())
    transaction.commit_sync()
    try:
        with ts.Transaction() as transaction:
            volume.with_transaction(transaction)[5, 5, 5] = 56
            raise RuntimeError
    except RuntimeError:
        show(volume[0:2, 0, 0].read().result(), volume[5, 5, 5].read().result(), transaction.aborted)
    with ts.Batch() as batch:
        futures = [volume[i, i, i].read(batch=batch) for i in range(5)]
    show([int(future.result()) for future in futures])
    # virtual views
    tiles = [
        ts.open(
            {"driver": "zarr", "kvstore": f"memory://t{i}/", "metadata": {"chunks": [3, 2]}},
            create=True,
            dtype=ts.float32,
            shape=[4, 4],
            context=context,
        ).result()
        for i in range(2)
    ]
    for i, tile in enumerate(tiles):
        tile[...] = i + 1
    show(ts.stack(tiles).read().result(), ts.concat(tiles, axis=1).domain)
    show(ts.overlay([tiles[0], tiles[1].translate_by[2, 0]]).read().result())
    show(ts.cast(volume, ts.float32)[0, 0, :3].read().result())
    for method in ("mean", "median", "max", "mode", "stride"):
        show(ts.downsample(volume, [2, 3, 2], method)[3, 3, :3].read().result())
    computed = ts.virtual_chunked(
        lambda domain, array, _: array.__setitem__(..., sum(domain.origin)),
        dtype=ts.int32,
        domain=ts.IndexDomain(inclusive_min=[5, 5], shape=[4, 4], labels=["p", "q"]),
        chunk_layout=ts.ChunkLayout(chunk_shape=[2, 2], grid_origin=[5, 5]),
    )
    show(computed.domain, computed.T.read().result())
    # resizing
    grown = tiles[0].resize(exclusive_max=[6, 4]).result()
    show(grown.domain, tiles[0].domain, tiles[0].resolve().result().domain, grown[3:, :2].read().result())
    # key-value stores
    kv = ts.KvStore.open("memory://kv/", context=context).result()
    kv["a/b"] = b"hello"
    generation = kv.write("c", b"1").result().generation
    kv.write("c", b"2", if_equal=generation).result()
    show(
        kv.write("c", b"3", if_equal=generation).result().generation,
        kv["c"],
        "d" in kv,
        kv.read("d").result().state,
    )
    show(kv.list(strip_prefix_length=2).result(), kv.list(ts.KvStore.KeyRange("a", "b")).result())
    with ts.Transaction() as transaction:
        del kv.with_transaction(transaction)["c"]
    kv.delete_range(ts.KvStore.KeyRange("a", "b")).result()
    show(kv.list().result(), (kv / "sub/").url, kv.spec().to_json())
    # other formats
    n5 = ts.open(
        {"driver": "n5", "kvstore": f"file://{root}/n5/", "metadata": {"blockSize": [32, 32, 32]}},
        create=True,
        schema=ts.Schema(dtype=volume.dtype, domain=volume.domain, dimension_units=volume.dimension_units),
    ).result()
    n5.write(volume).result()
    show(np.array_equal(n5.read().result(), volume.read().result()), n5.spec().to_json())
    labels = ts.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{root}/labels/",
            "multiscale_metadata": {"data_type": "uint64", "num_channels": 1, "type": "segmentation"},
            "scale_metadata": {
                "size": [64, 64, 64],
                "encoding": "compressed_segmentation",
                "compressed_segmentation_block_size": [8, 8, 8],
                "chunk_size": [32, 32, 32],
                "resolution": [4, 4, 40],
                "sharding": SHARDED,
            },
        },
        create=True,
    ).result()
    labels[0:40, 0:32, 0:32] = np.arange(40, dtype=np.uint64)[:, None, None, None]
    show(labels.domain, labels.dimension_units, labels[38:42, 1, 1, 0].read().result())
    database = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{root}/db/"}).result()
    database["a"] = b"1"
    stored = ts.open(f"file://{root}/db/|ocdbt:array/|zarr3", create=True, dtype=ts.uint8, shape=[4]).result()
    stored[...] = [1, 2, 3, 4]
    show(stored.read().result(), database.list().result())

    async def read() -> int:
        array = await ts.open(volume.spec(), context=context)
        await array[0, 0, 0].write(9)
        return int(await array[0, 0, 0].read())

    show(
        asyncio.run(read()),
        np.asarray(volume[0, 0, :3]),
        volume[0, 0].storage_statistics(query_not_stored=True).result(),
    )


MISTAKES = (
    lambda ts, root: ts.open(f"file://{root}/vol/|zarr3", dtype=ts.int8),
    lambda ts, root: ts.open(f"file://{root}/vol/|zarr3", create=True, dtype=ts.uint16, shape=[60, 40, 30]),
    lambda ts, root: ts.open(f"file://{root}/nothing/|zarr3"),
    lambda ts, root: ts.open(f"file://{root}/vol/|zarr3").result()[60],
    lambda ts, root: ts.open(f"file://{root}/vol/|zarr3").result()[:2, 0, 0].write(np.zeros(3, "u2")),
    lambda ts, root: ts.open({"driver": "zarr3", "kvstoree": 3}),
    lambda ts, root: ts.KvStore.open(f"file://{root}/vol/").result()["nothing"],
)


def _printed(ts: Any, root: Path) -> list[str]:
    out: list[str] = []

    def show(*values: Any) -> None:
        out.extend(re.sub(r"/[^\"' ]*" + root.name, "ROOT", str(value)) for value in values)

    program(ts, str(root), show)
    for mistake in MISTAKES:
        try:
            found = mistake(ts, str(root))
            found.result() if hasattr(found, "result") else found.read().result()
        except Exception as e:
            kinds = [kind.__name__ for kind in type(e).__mro__ if kind.__module__ == "builtins"]
            out.append(f"{kinds[0]} {str(e).split(':')[0]}")
        else:
            out.append("no error")
    return out


def test_a_program_prints_the_same_with_either_library(tmp_path: Path) -> None:
    places = {name: tmp_path / name / "data" for name in ("tensorstore", "chunkwise")}
    for place in places.values():
        place.mkdir(parents=True)
    expected = _printed(tensorstore, places["tensorstore"])
    found = _printed(chunkwise, places["chunkwise"])
    assert len(expected) > 70
    assert "no error" not in expected
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == theirs
