"""Jobs that are shared with helper processes, and helpers that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from one_helper import start_one_helper

import chunkwise as ts
from chunkwise.catalogue import codecs
from chunkwise.errors import DataCorruptionError, NotFoundError
from chunkwise.execute.helper import conductor, helpers, share
from chunkwise.execute.helper.job import Job

ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0},
}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
# driver, metadata, dtype, shape, chunk, shard; small pieces, so that there are many of them
FORMS = {
    "raw": ("zarr3", {"codecs": [LITTLE]}, "uint16", (90, 70, 128), (8, 8, 8), None),
    "whole": ("zarr3", {"codecs": [LITTLE]}, "uint16", (64, 64, 128), (8, 8, 16), None),
    "big": ("zarr3", {"codecs": [BIG, ZSTD]}, "float32", (64, 64, 128), (8, 8, 8), None),
    "blosc": ("zarr3", {"codecs": [LITTLE, BLOSC]}, "uint16", (128, 128, 128), (8, 8, 64), None),
    "shards": ("zarr3", {"codecs": [LITTLE, ZSTD]}, "uint16", (128, 64, 128), (8, 8, 8), (32, 32, 32)),
    "shards cut": ("zarr3", {"codecs": [LITTLE, ZSTD]}, "uint16", (70, 90, 110), (8, 8, 8), (32, 32, 32)),
    "zarr2": ("zarr", {"compressor": {"id": "zlib", "level": 1}}, "int32", (64, 64, 96), (8, 8, 8), None),
    "fortran": ("zarr", {"order": "F", "compressor": None}, "int32", (64, 64, 96), (8, 8, 8), None),
    "n5": ("n5", {"compression": {"type": "gzip", "level": 1}}, "uint16", (90, 70, 64), (8, 8, 8), None),
    "rows": ("zarr3", {"codecs": [LITTLE]}, "float64", (300_000,), (1000,), None),
}


@pytest.fixture
def helper(monkeypatch):
    """One helper that takes part in everything, in pieces of 64 KiB; gives what it was asked for."""
    monkeypatch.setattr(conductor, "_PIECE", 1 << 16)
    monkeypatch.setattr(conductor, "_OWN_PIECE", 1 << 14)
    start_one_helper(monkeypatch)
    asked = []
    message = Job.message

    def noted(job, piece):
        asked.append((job.do, piece.parts is not None and ("picked" if piece.region is None else True)))
        return message(job, piece)

    monkeypatch.setattr(Job, "message", noted)
    yield asked
    helpers._close()


def _limited():
    # two workers, however many processors there are: one of them may be a helper
    return {"file_io_sync": False, "data_copy_concurrency": {"limit": 2}}


def _create(path, form):
    driver, metadata, dtype, shape, chunk, shard = FORMS[form]
    if shard is None:
        layout = {"chunk": {"shape": chunk}}
    else:
        layout = {"read_chunk": {"shape": chunk}, "write_chunk": {"shape": shard}}
    return ts.open(
        {
            "driver": driver,
            "kvstore": f"file://{path}/",
            "metadata": metadata,
            "schema": {"chunk_layout": layout},
            "context": _limited(),
        },
        create=True,
        dtype=dtype,
        shape=shape,
    ).result()


def _values(array, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 200, array.shape).astype(array.dtype.numpy_dtype)
    values[:16] = 0  # some chunks are the fill value, and not stored
    return values


@pytest.mark.parametrize("form", FORMS)
def test_what_helpers_read_and_write_is_right(helper, tmp_path, form):
    array = _create(tmp_path, form)
    values = _values(array)
    array.write(values).result()
    assert ("write", True) in helper or ("write", False) in helper
    helper.clear()
    assert np.array_equal(array.read().result(), values)
    assert any(do == "read" for do, _ in helper)
    assert len(list(tmp_path.rglob("*"))) == len(list(_plain(tmp_path, form, values).rglob("*")))

    inside = tuple(slice(5, n - 3) for n in array.shape)
    changed = values.copy()
    changed[inside] += 1
    array[inside].write(changed[inside]).result()
    helper.clear()
    assert np.array_equal(array[inside].read().result(), changed[inside])
    assert any(do == "read" for do, _ in helper)
    if array.rank > 1:
        turned = array[ts.d[:].transpose[::-1]]
        assert np.array_equal(turned.read().result(), changed.T)
        assert np.array_equal(array[ts.d[0][::-1]].read().result(), changed[::-1])
        turned.write(values.T.copy()).result()
        assert np.array_equal(array.read().result(), values)


def _plain(tmp_path, form, values):
    """Write the same without helpers; return the directory."""
    path = tmp_path.parent / (tmp_path.name + "-plain")
    array = _create(path, form)
    n = helpers._most
    helpers._most = lambda: 0
    try:
        array.write(values).result()
    finally:
        helpers._most = n
    return path


@pytest.mark.parametrize(
    ("form", "packed"), [("whole", True), ("big", True), ("shards", True), ("n5", False)]
)
def test_whole_chunks_are_handed_over_one_after_the_other(helper, tmp_path, form, packed):
    array = _create(tmp_path, form)
    array.write(_values(array)).result()
    array.read().result()
    reads = {one for do, one in helper if do == "read"}
    assert reads == {packed}


def _selections(shape):
    """Selections that are no boxes: what to ask the store for, and the same of NumPy."""
    rng = np.random.default_rng(5)
    some = [np.sort(rng.choice(n, n // 3, replace=False)) for n in shape]
    any_order = rng.integers(0, shape[0], shape[0] // 2)
    points = tuple(rng.integers(0, n, (70, 30)) for n in shape)
    every = (slice(None),) * (len(shape) - 1)
    grid = (any_order, *some[1:])
    strides = tuple(slice(i, None, 3 - i) for i in range(len(shape)))
    mask = rng.integers(0, 2, shape).astype(bool)
    return {
        "strides": (lambda s: s[strides], lambda a: a[strides]),
        "backwards": (
            lambda s: s[tuple(slice(None, None, -2) for _ in shape)],
            lambda a: a[(slice(None, None, -2),) * a.ndim],
        ),
        "planes": (lambda s: s.oindex[(any_order, *every)], lambda a: a[any_order]),
        "last": (lambda s: s.oindex[(*every, some[-1])], lambda a: a[..., some[-1]]),
        "grid": (lambda s: s.oindex[grid], lambda a: a[np.ix_(*grid)]),
        "points": (lambda s: s.vindex[points], lambda a: a[points]),
        "mask": (lambda s: s.vindex[mask], lambda a: a[mask]),
    }


@pytest.mark.parametrize("form", ["raw", "whole", "big", "blosc", "zarr2", "fortran", "rows"])
def test_elements_are_picked_of_what_helpers_decode(helper, tmp_path, form):
    array = _create(tmp_path, form)
    values = _values(array)
    array.write(values).result()
    for name, (of_store, of_numpy) in _selections(array.shape).items():
        helper.clear()
        got = of_store(array).read().result()
        np.testing.assert_array_equal(got, of_numpy(values), err_msg=name)
        # in Fortran order a chunk is no row of the caller's, and is left to this process
        assert (("read", "picked") in helper) == (form != "fortran"), name


def test_picking_meets_failures_as_reading_does(helper, tmp_path, monkeypatch):
    array = _create(tmp_path, "big")
    values = _values(array)
    array.write(values).result()
    index = np.arange(array.shape[0])[::-1]
    helper.clear()
    pid = helpers._helpers[0]._process.pid
    message = Job.message

    def kill(job, piece):
        if len(helper) == 1:
            os.kill(pid, signal.SIGKILL)
        return message(job, piece)

    monkeypatch.setattr(Job, "message", kill)
    np.testing.assert_array_equal(array.oindex[index].read().result(), values[::-1])
    assert len(helper) >= 2
    monkeypatch.setattr(Job, "message", message)
    damaged = tmp_path / "c" / "7" / "7" / "15"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    with pytest.raises(DataCorruptionError, match=r"c/7/7/15"):
        array.oindex[index].read().result()
    damaged.unlink()
    values[-8:, -8:, -8:] = 0
    np.testing.assert_array_equal(array.oindex[index].read().result(), values[::-1])
    strict = ts.open(
        {**array.spec().to_json(), "fill_missing_data_reads": False, "context": _limited()}
    ).result()
    with pytest.raises(NotFoundError, match="missing"):
        strict.oindex[index].read().result()


@pytest.mark.parametrize("form", ["raw", "shards", "n5"])
def test_a_helper_that_is_killed_loses_nothing(helper, tmp_path, form, monkeypatch):
    array = _create(tmp_path, form)
    values = _values(array)
    pid = helpers._helpers[0]._process.pid
    message = Job.message

    def kill(job, piece):
        if len(helper) == 1:  # it has one piece, and is to get a second one
            os.kill(pid, signal.SIGKILL)
        return message(job, piece)

    monkeypatch.setattr(Job, "message", kill)
    array.write(values).result()
    assert len(helper) >= 2
    monkeypatch.setattr(Job, "message", message)
    assert np.array_equal(array.read().result(), values)
    for _ in range(200):  # there is a new one, as soon as the system has ended the old one
        helpers.ready_helpers(1, 1)
        if helpers._helpers[0]._process.pid != pid:
            break
        time.sleep(0.05)
    assert helpers._helpers[0]._process.pid != pid


def test_what_a_helper_can_not_read_gives_the_error_of_this_process(helper, tmp_path):
    array = _create(tmp_path, "big")
    values = _values(array)
    array.write(values).result()
    at_the_end = tmp_path / "c" / "7" / "7" / "15"
    at_the_end.write_bytes(at_the_end.read_bytes()[:-3])
    with pytest.raises(DataCorruptionError, match=r"c/7/7/15"):
        array.read().result()
    at_the_end.unlink()
    values[-8:, -8:, -8:] = 0
    assert np.array_equal(array.read().result(), values)
    strict = ts.open({**array.spec().to_json(), "fill_missing_data_reads": False, "context": _limited()})
    with pytest.raises(NotFoundError, match="missing"):
        strict.result().read().result()


def test_files_of_helpers_have_the_mode_that_the_umask_gives(helper, tmp_path):
    array = _create(tmp_path, "whole")
    before = os.umask(0o077)
    try:
        array.write(_values(array)).result()
    finally:
        os.umask(before)
    assert ("write", True) in helper
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "c").rglob("*") if path.is_file()}
    assert modes == {0o600}


def test_two_jobs_at_the_same_time(helper, tmp_path):
    arrays = [_create(tmp_path / name, "whole") for name in "ab"]
    values = [_values(array, seed) for seed, array in enumerate(arrays)]
    writes = [array.write(value) for array, value in zip(arrays, values, strict=True)]
    for write in writes:
        write.result()
    for _ in range(5):
        reads = [array.read() for array in arrays]
        for read, value in zip(reads, values, strict=True):
            assert np.array_equal(read.result(), value)


def test_a_codec_of_this_process_alone_keeps_helpers_out(helper, tmp_path, monkeypatch):
    array = _create(tmp_path, "whole")
    monkeypatch.setattr(codecs, "changed", True)
    values = _values(array)
    array.write(values).result()
    assert np.array_equal(array.read().result(), values)
    assert helper == []


def test_stores_that_are_no_files_are_left_alone(helper):
    array = ts.open(
        {"driver": "zarr3", "kvstore": "memory://", "schema": {"chunk_layout": {"chunk": {"shape": [8, 8]}}}},
        create=True,
        dtype="uint16",
        shape=[512, 512],
    ).result()
    array.write(7).result()
    assert np.all(array.read().result() == 7)
    assert helper == []


SCRIPT = """
import json, os, sys, time
import numpy as np
import chunkwise as ts
from chunkwise.execute.helper import helpers
helpers._WORTH_STARTING = helpers._WORTH_ASKING = 0
helpers._most = lambda: 1
array = ts.open({"driver": "zarr3", "kvstore": "file://" + sys.argv[1] + "/"}).result()
for _ in range(600):
    array.read().result()
    if helpers.ready_helpers(1, 1):
        break
    time.sleep(0.05)
pid = helpers._helpers[0]._process.pid
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        ok = helpers.n_helpers() == 0 and int(array.read().result().sum()) == int(sys.argv[3])
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert helpers.ready_helpers(1, 1) and int(array.read().result().sum()) == int(sys.argv[3])
print(json.dumps(pid), flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""


def _run(tmp_path, how):
    array = _create(tmp_path, "whole")
    values = _values(array)
    array.write(values).result()
    arguments = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path), how, str(int(values.sum()))]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def _is_gone(pid):
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                if stat.read().rsplit(b")", 1)[1].split()[0] == b"Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_helpers_end_with_their_process(tmp_path, how):
    process = _run(tmp_path, how)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert _is_gone(json.loads(out))


def test_helpers_end_with_a_process_that_is_killed(tmp_path):
    process = _run(tmp_path, "wait")
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())
    process.kill()
    process.communicate()
    assert _is_gone(pid)


def test_how_many_there_are(monkeypatch):
    monkeypatch.setenv("CHUNKWISE_HELPERS", "0")
    assert helpers.ready_helpers(8, 10**12) == []
    monkeypatch.setenv("CHUNKWISE_HELPERS", "many")
    with pytest.raises(ValueError, match="CHUNKWISE_HELPERS"):
        helpers.ready_helpers(8, 10**12)


@pytest.mark.parametrize("shape", [(65_000,), (650, 40)])
def test_chunks_of_several_sizes(helper, tmp_path, shape):
    """They are not handed over one after the other: where one ends would not be known."""
    sizes = [[[100, 200], [150, 300]]] if len(shape) == 1 else [[[1, 200], [2, 225]], 40]
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": sizes}}
    array = ts.open(
        {
            "driver": "zarr3",
            "kvstore": f"file://{tmp_path}/",
            "metadata": {"chunk_grid": grid, "codecs": [LITTLE], "data_type": "uint16", "shape": list(shape)},
            "context": _limited(),
        },
        create=True,
    ).result()
    values = _values(array)
    array.write(values).result()
    assert np.array_equal(array.read().result(), values)
    assert set(helper) == {("write", False), ("read", False)}


@pytest.mark.parametrize("form", ["raw", "shards"])
def test_a_helper_that_gets_ready_meanwhile_joins(helper, tmp_path, form, monkeypatch):
    monkeypatch.setattr(share, "ready_helpers", lambda n, nanoseconds: [])
    array = _create(tmp_path, form)
    values = _values(array)
    array.write(values).result()
    assert np.array_equal(array.read().result(), values)
    assert not helper  # the jobs are short

    monkeypatch.setattr(share, "_LONG", 0)
    monkeypatch.setattr(conductor, "_LOOK", 0)
    array.write(values[::-1].copy()).result()
    assert {do for do, _ in helper} == {"write"}
    helper.clear()
    assert np.array_equal(array.read().result(), values[::-1])
    assert {do for do, _ in helper} == {"read"}
