"""Programs that end, or are interrupted, while they read or write."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import child_process
import numpy as np
import pytest

import chunkwise as ts

ZSTD = {"name": "zstd", "configuration": {"level": 9, "checksum": True}}
GZIP = {"name": "gzip", "configuration": {"level": 6}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0},
}

PROGRAM = """
import sys, time
import numpy as np
import chunkwise as ts
path, action = sys.argv[1:]
array = ts.open({"driver": "zarr3", "kvstore": "file://" + path, "context": {"file_io_sync": False}}).result()
values = np.random.default_rng(0).integers(0, 60, array.shape).astype("u2")
future = array.read() if action == "read" else array.write(values)
if action == "interrupt":
    future.result()  # all modules are loaded by now: Python ignores an interrupt in the lock of an import
time.sleep(0.02)
print("under way", flush=True)
if action == "interrupt":
    while True:
        array.write(values).result()
"""


def _create(path: Path, codec: dict[str, Any]) -> Any:
    return ts.open(
        {
            "driver": "zarr3",
            "kvstore": f"file://{path}/",
            "metadata": {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, codec]},
            "schema": {"chunk_layout": {"chunk": {"shape": [64, 64, 64]}}},
            "context": {"file_io_sync": False},
        },
        create=True,
        dtype="uint16",
        shape=[256, 256, 128],
    ).result()


@pytest.mark.each_once
@pytest.mark.parametrize("codec", [ZSTD, GZIP, BLOSC], ids=["zstd", "gzip", "blosc"])
@pytest.mark.parametrize("action", ["write", "read", "interrupt"])
def test_ends_without_a_crash(tmp_path: Path, action: str, codec: dict[str, Any]) -> None:
    array = _create(tmp_path / "a", codec)
    if action == "read":
        array.write(np.random.default_rng(0).integers(0, 60, array.shape).astype("u2")).result()
    command = [sys.executable, "-c", PROGRAM, f"{tmp_path}/a/", action]
    with (tmp_path / "errors").open("wb") as errors:
        child = child_process.start(command, stdout=-1, stderr=errors)
    assert child.stdout is not None
    assert child.stdout.readline() == b"under way\n"
    if action == "interrupt":
        child.send_signal(signal.SIGINT)
    child.wait(60)
    child.stdout.close()
    assert child.returncode == (-signal.SIGINT if action == "interrupt" else 0)
    told = (tmp_path / "errors").read_text()
    assert told.count("Traceback") == (1 if action == "interrupt" else 0), told
    if action == "interrupt":
        # lines of source may stand in the traceback: only what is not indented is a message
        messages = [line for line in told.splitlines() if line and not line.startswith(" ")]
        assert messages == ["Traceback (most recent call last):", "KeyboardInterrupt"], told
    elif told:  # the work had not ended, which nobody waited for: that is told, and nothing else
        first, second = told.splitlines()
        assert first.startswith("Future exception was never retrieved: nothing called result()"), told
        assert second.endswith("ABORTED: the program ended before the work was done"), told
    # every chunk is there or not, and whole
    found = ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}).result().read().result()
    whole = np.random.default_rng(0).integers(0, 60, array.shape).astype("u2")
    for z in range(0, 256, 64):
        for y in range(0, 256, 64):
            for x in range(0, 128, 64):
                at = np.s_[z : z + 64, y : y + 64, x : x + 64]
                assert np.array_equal(found[at], whole[at]) or not found[at].any()
