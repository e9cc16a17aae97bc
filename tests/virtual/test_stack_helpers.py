"""Helper processes read small chunks of many layers, and nothing else is different for that."""

import os
import signal
import time

import numpy as np
import pytest
from one_helper import start_one_helper

import chunkwise as ts
from chunkwise.errors import ChunkwiseError, NotFoundError
from chunkwise.execute.helper import conductor, helpers
from chunkwise.execute.helper.box_job import BoxJob

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
FORMS = {
    "raw": ("zarr3", {"codecs": [LITTLE]}),
    "zstd": ("zarr3", {"codecs": [LITTLE, ZSTD]}),
    "zarr2": ("zarr", {"compressor": {"id": "zlib", "level": 1}}),
}
EDGE = 8


@pytest.fixture
def asked(monkeypatch):
    """One helper that takes part in everything, in small pieces; gives the keys that it was asked for."""
    monkeypatch.setattr(conductor, "_PIECE", 1 << 13)
    monkeypatch.setattr(conductor, "_LEAST_PIECE", 1 << 12)
    start_one_helper(monkeypatch)
    keys: list[str] = []
    message = BoxJob.message

    def noted(job, piece):
        told = message(job, piece)
        keys.extend(told["keys"])
        return told

    monkeypatch.setattr(BoxJob, "message", noted)
    yield keys
    helpers._close()


def _mosaic(path, form, tiles, chunks):
    """Return the specs of layers that lie next to each other, and what is seen of them."""
    driver, metadata = FORMS[form]
    shape = [EDGE * c for c in chunks]
    whole = np.random.default_rng(0).integers(0, 999, [t * n for t, n in zip(tiles, shape, strict=True)])
    canvas = whole.astype("uint16")
    canvas[: shape[0], : shape[1]] = 0  # not stored
    layers = []
    for tile in np.ndindex(*tiles):
        at = [t * n for t, n in zip(tile, shape, strict=True)]
        kvstore = {"driver": "file", "path": f"{path}/{'-'.join(map(str, tile))}/"}
        made = ts.open(
            {
                "driver": driver,
                "kvstore": kvstore,
                "metadata": metadata,
                "schema": {"chunk_layout": {"chunk": {"shape": [EDGE] * 3}}},
                "context": {"file_io_sync": False},
            },
            create=True,
            dtype="uint16",
            shape=shape,
        ).result()
        box = tuple(slice(a, a + n) for a, n in zip(at, shape, strict=True))
        made[...] = canvas[box]
        output = [{"input_dimension": d, "offset": -a} for d, a in enumerate(at)]
        where = {"input_inclusive_min": at, "input_shape": shape, "output": output}
        layers.append({"driver": driver, "kvstore": kvstore, "transform": where})
    return layers, canvas


def _stack(layers, *, opened=False, **more):
    # two workers, however many processors there are: one of them may be a helper
    context = {"data_copy_concurrency": {"limit": 2}}
    if opened:
        layers = [ts.open({**layer, **more, "context": context}, read=True).result() for layer in layers]
        return ts.overlay(layers, context=ts.Context(context))
    layers = [{**layer, **more} for layer in layers]
    return ts.open({"driver": "stack", "dtype": "uint16", "layers": layers, "context": context}).result()


MANY = (8, 8, 8), (1, 1, 1)  # of one chunk each
FEW = (2, 2, 2), (5, 5, 5)  # of many


@pytest.mark.parametrize(
    ("form", "layout"), [("raw", MANY), ("zstd", MANY), ("raw", FEW), ("zstd", FEW), ("zarr2", FEW)]
)
def test_what_helpers_read_is_right(asked, tmp_path, form, layout):
    layers, canvas = _mosaic(tmp_path, form, *layout)
    _compare(_stack(layers), canvas, asked)
    _compare(_stack(layers, opened=True), canvas, asked)


def _compare(store, canvas, asked):
    n = canvas.shape[0]
    for region in (
        np.s_[...],
        np.s_[3:, 8 : n - 2, 5 : n - 1],
        np.s_[:, ::-1],
        np.s_[(slice(8, n - 8),) * 3],
    ):
        asked.clear()
        assert np.array_equal(store[region].read().result(), canvas[region]), region
        assert asked, region
        assert len(set(asked)) == len(asked)
    assert np.array_equal(store.T.read().result(), canvas.T)


def test_a_helper_that_is_killed_loses_nothing(asked, tmp_path, monkeypatch):
    layers, canvas = _mosaic(tmp_path, "zstd", *MANY)
    store = _stack(layers)
    pid = helpers._helpers[0]._process.pid
    message = BoxJob.message

    def kill(job, piece):
        if asked:  # it has one piece, and is to get a second one
            os.kill(pid, signal.SIGKILL)
        return message(job, piece)

    monkeypatch.setattr(BoxJob, "message", kill)
    assert np.array_equal(store.read().result(), canvas)
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(pid, 0)
            helpers.ready_helpers(1, 1)  # which looks after those that have ended
            time.sleep(0.05)


@pytest.mark.parametrize("layout", [MANY, FEW], ids=["many", "few"])
@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-3], lambda raw: b"x" * len(raw)], ids=["short", "wrong"]
)
def test_a_damaged_chunk_is_named(asked, tmp_path, layout, damage):
    """The chunk is the last one, which a helper is asked for."""
    layers, _ = _mosaic(tmp_path, "zstd", *layout)
    last = max(tmp_path.rglob("c/*/*/*"))
    last.write_bytes(damage(last.read_bytes()))
    with pytest.raises(ChunkwiseError, match=str(last.relative_to(tmp_path))):
        _stack(layers).read().result()
    assert str(last)[1:] in asked


@pytest.mark.parametrize("layout", [MANY, FEW], ids=["many", "few"])
def test_a_missing_chunk_is_fill_value_or_named(asked, tmp_path, layout):
    layers, canvas = _mosaic(tmp_path, "raw", *layout)
    last = max(tmp_path.rglob("c/*/*/*"))
    last.unlink()
    canvas[-EDGE:, -EDGE:, -EDGE:] = 0
    assert np.array_equal(_stack(layers).read().result(), canvas)
    assert str(last)[1:] in asked
    assert np.array_equal(_stack(layers, opened=True).read().result(), canvas)
    with pytest.raises(NotFoundError, match=r"chunk .*missing|missing .*chunk"):
        _stack(layers, fill_missing_data_reads=False).read().result()


def test_large_chunks_are_left_to_threads(asked, tmp_path):
    kvstores = [{"driver": "file", "path": f"{tmp_path}/{i}/"} for i in range(2)]
    values = np.random.default_rng(0).integers(0, 99, (2, 256, 512)).astype("uint16")
    opened = []
    for kvstore, part in zip(kvstores, values, strict=True):
        layout = {"chunk_layout": {"chunk": {"shape": [256, 256]}}}
        made = ts.open(
            {"driver": "zarr3", "kvstore": kvstore, "metadata": {"codecs": [LITTLE, ZSTD]}, "schema": layout},
            create=True,
            dtype="uint16",
            shape=part.shape,
        ).result()
        made[...] = part
        opened.append(made)
    stack = ts.stack(opened)
    assert np.array_equal(stack.read().result(), values)
    assert not asked
