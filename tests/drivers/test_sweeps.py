"""Long sweeps: writers that are killed, writers that overlap, documents and chunks that are damaged.

Each has a short form that `make test` runs; the long one is behind `make test-all`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import chunkwise as ts

HERE = Path(__file__).parent
FORMS = {
    "n5": ("n5", {"compression": {"type": "gzip", "level": 1}}, {"chunk": {"shape": [16, 16]}}),
    "zarr": ("zarr", {}, {"chunk": {"shape": [16, 16]}}),
    "zarr3": ("zarr3", {}, {"chunk": {"shape": [16, 16]}}),
    "shards": (
        "zarr3",
        {"codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1}}]},
        {"read_chunk": {"shape": [8, 8]}, "write_chunk": {"shape": [32, 32]}},
    ),
}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def _create(path, form, shape):
    driver, metadata, layout = FORMS[form]
    spec = {"driver": driver, "kvstore": f"file://{path}/", "context": {"file_io_sync": False}}
    store = ts.open(
        {**spec, "metadata": metadata, "schema": {"chunk_layout": layout}},
        create=True,
        dtype="uint16",
        shape=shape,
    ).result()
    return spec, store


def _worker(*arguments, **options):
    command = [sys.executable, str(HERE / "sweep_worker.py"), *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, **options)


# -- overlapping writers ----------------------------------------------------------------------------------


def _expected(shape, n_workers, n_writes):
    """Return the array after all writes of all workers, in any order: their columns are their own."""
    want = np.zeros(shape, np.uint16)
    for worker in range(n_workers):
        rng = random.Random(worker)
        for _ in range(n_writes):
            a, b = sorted(rng.sample(range(shape[0] + 1), 2))
            want[a:b, worker::n_workers] = rng.randrange(1, 60000)
    return want


def _overlap(path, form, n_workers, n_writes):
    shape = (48, 40)
    spec, store = _create(path, form, shape)
    processes = [
        _worker("overlap", json.dumps(spec), worker, n_workers, n_writes) for worker in range(n_workers)
    ]
    assert [process.wait(300) for process in processes] == [0] * n_workers
    np.testing.assert_array_equal(store.read().result(), _expected(shape, n_workers, n_writes))


def test_overlapping_writers(tmp_path):
    _overlap(tmp_path, "shards", 3, 25)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", list(FORMS))
def test_many_overlapping_writers(form, tmp_path):
    """8 processes with 200 overlapping partial writes each, 50 runs altogether."""
    for run in range(13):
        _overlap(tmp_path / str(run), form, 8, 200)


# -- killed writers ---------------------------------------------------------------------------------------


def _check_survivor(path, spec, form, highest):
    """The array opens; each chunk is one that was written, and nothing but lock files is left over."""
    store = ts.open(spec).result()
    values = store.read().result()
    chunk = store.chunk_layout.write_chunk.shape
    last = values.shape[0] - 1
    for i in range(0, values.shape[0], chunk[0]):
        for j in range(0, values.shape[1], chunk[1]):
            part = values[i : i + chunk[0], j : j + chunk[1]]
            inner = part[(1 if i == 0 else 0) : (len(part) - 1 if i + len(part) > last else len(part))]
            # All of the latest write, and in the rows that every second write leaves out the one before.
            assert len(np.unique(inner)) == 1, (i, j, np.unique(inner))
            latest, every = int(inner[0, 0]), set(np.unique(part).tolist())
            assert every <= {latest, latest - 1}, (i, j, every)
            highest = max(highest, latest)
    return highest


def _kill_writers(root, n_kills, form, seed):
    spec, _ = _create(root, form, (48, 48))
    rng = random.Random(seed)
    highest, longest = 0, 0.1
    for _ in range(n_kills):
        process = _worker("endless", json.dumps(spec), stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.random() * longest)
        finally:
            process.kill()
            process.wait(30)
            process.stdout.close()
        highest = _check_survivor(root, spec, form, highest)
        if highest == 0:  # on a busy machine, nothing may be written so soon
            longest *= 2
        # Also that the next writer is not held up by what the killed one left behind.
        store = ts.open(spec).result()
        store[0, 0] = store[0, 0].read().result()
    assert highest > 0
    strange = [p.name for p in root.rglob("*") if p.is_file() and ".__lock" not in p.name]
    document = {"n5": "attributes.json", "zarr": ".zarray"}.get(form, "zarr.json")
    n_chunks = 4 if form == "shards" else 9
    assert len(strange) == 1 + n_chunks and document in strange


def test_killed_writers(tmp_path):
    _kill_writers(tmp_path, 4, "shards", 0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", list(FORMS))
def test_writers_killed_at_200_moments(form, tmp_path):
    _kill_writers(tmp_path, 50, form, form)


# -- damaged documents and chunks -------------------------------------------------------------------------


def _mutate(seed, count, timeout):
    done = subprocess.run(
        [sys.executable, str(HERE / "mutation_worker.py"), seed, str(count)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == []


def test_mutations():
    _mutate("short", 300, 200)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(10))
def test_20000_mutations(seed):
    _mutate(str(seed), 2000, 3600)
