"""A process that forks while its threads read and write: the child goes on with every handle."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import child_process
import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.base import threads

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PROGRAM = Path(__file__).parents[1] / "forking_program.py"
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CHUNKS = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}}}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [4, 4],
        "codecs": [BYTES, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        "index_codecs": [BYTES, {"name": "crc32c"}],
    },
}
ARRAYS: dict[str, dict[str, Any]] = {
    "file": {"driver": "zarr3", "metadata": CHUNKS},
    "sync": {"driver": "zarr3", "metadata": CHUNKS, "context": {"file_io_sync": True}},
    "lockfile": {"driver": "zarr3", "metadata": CHUNKS, "context": {"file_io_locking": {"mode": "lockfile"}}},
    "cache": {"driver": "zarr3", "metadata": CHUNKS, "context": {"cache_pool": {"total_bytes_limit": 3000}}},
    "shards": {"driver": "zarr3", "metadata": {"codecs": [SHARDS]}},
    "pools": {
        "driver": "zarr3",
        "metadata": CHUNKS,
        "context": {"data_copy_concurrency": {"limit": 2}, "file_io_concurrency": {"limit": 2}},
    },
    "n5": {"driver": "n5", "metadata": {"blockSize": [8, 8]}},
    "zarr2": {"driver": "zarr2", "metadata": {"chunks": [8, 8]}},
    "zip": {"driver": "zarr3", "metadata": CHUNKS},
}


def run(spec: dict[str, Any], action: str, log: Path) -> None:
    command = [sys.executable, str(PROGRAM), json.dumps(spec), action, "12"]
    assert child_process.run(command, log=log) == 0, log.read_text()


@pytest.mark.each_once
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("action", ["write", "transaction"])
def test_a_child_goes_on(tmp_path: Path, name: str, action: str) -> None:
    spec = {**ARRAYS[name], "kvstore": f"file://{tmp_path}/a/"}
    if name == "zip":
        spec["kvstore"] = f"file://{tmp_path}/a.zip|zip:a/"
    spec["context"] = {"file_io_sync": False, **spec.get("context", {})}
    if name == "cache":
        spec["recheck_cached_data"] = True
    ts.open(spec, create=True, dtype="uint8", shape=[32, 32]).result().write(np.uint8(1)).result()
    run(spec, action, tmp_path / "log")


@pytest.mark.parametrize("driver", ["stack", "cast", "downsample"])
def test_a_child_goes_on_with_virtual_arrays(tmp_path: Path, driver: str) -> None:
    base = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/", "metadata": CHUNKS}
    layer = {**base, "transform": {"input_inclusive_min": [0, 0], "input_exclusive_max": [32, 32]}}
    shape = [64, 32] if driver == "downsample" else [32, 32]
    array = ts.open(base, create=True, dtype="uint8", shape=shape).result()
    array.write(np.uint8(1)).result()
    spec: dict[str, Any] = {
        "stack": {"driver": "stack", "dtype": "uint8", "layers": [layer]},
        "cast": {"driver": "cast", "dtype": "uint8", "base": base},
        "downsample": {
            "driver": "downsample",
            "base": base,
            "downsample_factors": [2, 1],
            "downsample_method": "mean",
        },
    }[driver]
    run(spec, "read", tmp_path / "log")


@pytest.mark.filterwarnings("ignore:This process")
def test_all_locks_are_free_in_a_child() -> None:
    """Those that another thread holds at the moment of the fork too."""
    lock, several, twice = threads.new_lock(), threads.KeyLocks(), threads.new_rlock()
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with lock, several.of("a"), twice, twice:
            held.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def work() -> int:
        free = lock.acquire(timeout=0) and several.of("a").acquire(timeout=0) and twice.acquire(timeout=0)
        return 0 if free else 1

    try:
        assert child_process.forked_exit_code(work) == 0
        assert lock.locked() and several.of("a").locked()
    finally:
        go_on.set()
        thread.join()
