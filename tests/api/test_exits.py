"""Python ends with status 0 and says nothing, whatever is open in whichever thread."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import chunkwise as cw

PROGRAM = """
import sys, threading, time
import chunkwise as cw

place, where = sys.argv[1:]
ready, kept = threading.Event(), []

def work(again):
    array = cw.open_array(place)
    kept.append(array)
    array.read().result()
    while again:
        array[2:5].read().result()
        ready.set()
    ready.set()
    time.sleep(1000)

if where == "main":
    kept.append(cw.open_array(place))
    kept[0].read().result()
elif where == "future":
    array = cw.open_array(place)
    kept.append([array.read() for _ in range(20)])
else:
    for _ in range(2):
        threading.Thread(target=work, args=[where == "reading"], daemon=True).start()
    assert ready.wait(60)
"""
CODECS = {
    "blosc": {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "noshuffle"}},
    "zstd": {"name": "zstd", "configuration": {"level": 1}},
    "gzip": {"name": "gzip", "configuration": {"level": 1}},
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One array for each library that has handlers of its own at exit."""
    import h5py
    from PIL import Image

    root = tmp_path_factory.mktemp("exits")
    data = np.arange(10000.0).reshape(100, 100)
    for name, codec in CODECS.items():
        cw.create_array(root / f"{name}.zarr", data, chunks=(10, 100), codec=codec)
    with h5py.File(root / "a.h5", "w") as file:
        file.create_dataset("d", data=data, chunks=(10, 100), compression="lzf")
        text = np.array(["a", "b"] * 50, dtype=object)
        file.create_dataset("t", data=text, dtype=h5py.string_dtype())
    Image.fromarray(data.astype("uint8")).save(root / "a.png")
    names = [*(f"{name}.zarr" for name in CODECS), "a.png"]
    return {**{name: str(root / name) for name in names}, **{n: f"{root}/a.h5|hdf5:{n}" for n in "dt"}}


def _ends(place: str, where: str) -> None:
    command = [sys.executable, "-c", PROGRAM, place, where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WHERE = ["main", "idle", "reading", "future"]
PLACES = [*(f"{name}.zarr" for name in CODECS), "a.png", "d", "t"]


@pytest.mark.parametrize("where", ["idle", "reading"])
def test_an_exit(places: dict[str, str], where: str) -> None:
    _ends(places["t"], where)


@pytest.mark.slow
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", PLACES)
def test_twenty_exits(places: dict[str, str], name: str, where: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: _ends(places[name], where), range(20)))
