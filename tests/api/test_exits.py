"""Python ends with status 0 and says nothing, whatever is open in whichever thread."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import chunkwise as cw

EXITS = int(os.environ.get("EXITS", "20"))
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
elif where == "asyncio":
    import asyncio

    async def some():
        array = cw.open_array(place)
        kept.append(array)
        await asyncio.gather(*(array[2:5].read() for _ in range(20)))

    asyncio.run(some())
else:
    for _ in range(2):
        threading.Thread(target=work, args=[where == "reading"], daemon=True).start()
    assert ready.wait(60)
"""
COLLECTED = """
import gc, sys
import chunkwise as cw

def work():
    circle = [cw.open_array(place) for place in sys.argv[1:]]
    for array in circle:
        array.read().result()
    circle.append(circle)

work()
gc.collect()
gc.freeze()
"""
# Processes and loaders need a file that they can import.
PROCESSES = """
import multiprocessing, sys, threading
import chunkwise as cw

kept = []


def work(place, where, ready):
    array = cw.open_array(place)
    kept.append(array)
    array.read().result()
    if where == "reading":
        begun = threading.Event()

        def go_on():
            while True:
                array[2:5].read().result()
                begun.set()

        threading.Thread(target=go_on, daemon=True).start()
        assert begun.wait(60)
    elif where == "future":
        kept.append([array.read() for _ in range(20)])
    ready.put(1)


if __name__ == "__main__":
    place, method, where = sys.argv[1:]
    context = multiprocessing.get_context(method)
    kept.append(cw.open_array(place))
    kept[0].read().result()
    ready = context.Queue()
    workers = [context.Process(target=work, args=(place, where, ready)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        assert ready.get(timeout=60) == 1
    for worker in workers:
        worker.join(60)
    if any(worker.exitcode for worker in workers):
        print([worker.exitcode for worker in workers])
"""
LOADER = """
import signal, sys
import numpy as np
import torch
import chunkwise as cw


class Rows(torch.utils.data.Dataset):
    def __init__(self, place, fails):
        self.place, self.fails, self.array = place, fails, None

    def __len__(self):
        return 100

    def __getitem__(self, i):
        if self.array is None:
            self.array = cw.open_array(self.place)
        if self.fails and i == 60:
            raise ValueError("as asked")
        values = np.asarray(self.array[i].read().result())
        return torch.as_tensor(values.astype("float32")) if values.dtype.kind in "uif" else i


if __name__ == "__main__":
    place, method, where = sys.argv[1:]
    torch.set_num_threads(1)
    # After 5 seconds, torch terminates a worker that has not ended; semaphores of libraries are left then.
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 500
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    parent = cw.open_array(place)
    parent[0].read().result()
    loader = torch.utils.data.DataLoader(
        Rows(place, where == "exception"), batch_size=10, num_workers=2,
        persistent_workers=where == "persistent", multiprocessing_context=method,
    )
    n = 0
    try:
        for batch in loader:
            n += 1
            if where == "early" and n == 3:
                break
            if where == "interrupt" and n == 3:
                signal.raise_signal(signal.SIGINT)
    except ValueError as e:
        assert "as asked" in str(e)
    except KeyboardInterrupt:
        pass
    assert n == {"early": 3, "interrupt": 3, "exception": 6}.get(where, 10), n
    if where == "persistent":
        assert sum(1 for _ in loader) == 10
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
    import tifffile
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
    tifffile.imwrite(root / "a.tif", data.astype("u2"), compression="lzw", tile=(16, 16))  # by imagecodecs
    for name, program in (("processes", PROCESSES), ("loader", LOADER)):
        (root / f"{name}.py").write_text(program)
    names = [*(f"{name}.zarr" for name in CODECS), "a.png", "processes.py", "loader.py"]
    places = {**{name: str(root / name) for name in names}, **{n: f"{root}/a.h5|hdf5:{n}" for n in "dt"}}
    return {**places, "a.tif": str(root / "a.tif")}


UNFINISHED = ("Future exception was never retrieved", "chunkwise.errors.AbortedError: ABORTED: the program")


def _ends(*command: str) -> None:
    """Run a program; it may say that reads which nothing waited for had not ended."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=600, check=False
    )
    said = done.stderr.splitlines()
    if command[-1] == "future":
        said = [line for line in said if not line.startswith(UNFINISHED)]
    assert (done.returncode, done.stdout, said) == (0, "", [])


def _twenty(*command: str, processes: int = 1) -> None:
    """Run a program until 20 processes have ended; `processes` end each time."""
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: _ends(*command), range(-(-EXITS // processes))))


def test_an_exit_after_a_collection_of_garbage(places: dict[str, str]) -> None:
    """Files that the collector found in a circle are closed, even if nothing frees them any more."""
    _ends("-c", COLLECTED, places["d"], places["t"])


WHERE = ["main", "idle", "reading", "future", "asyncio"]
PLACES = [*(f"{name}.zarr" for name in CODECS), "a.png", "a.tif", "d", "t"]
METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("where", ["idle", "reading"])
def test_an_exit(places: dict[str, str], where: str) -> None:
    _ends("-c", PROGRAM, places["t"], where)


@pytest.mark.parametrize("method", METHODS)
def test_an_exit_of_processes(places: dict[str, str], method: str) -> None:
    _ends(places["processes.py"], places["t"], method, "reading")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", PLACES)
def test_twenty_exits(places: dict[str, str], name: str, where: str) -> None:
    _twenty("-c", PROGRAM, places[name], where)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("where", ["main", "reading", "future"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PLACES)
def test_twenty_exits_of_processes(places: dict[str, str], name: str, method: str, where: str) -> None:
    _twenty(places["processes.py"], places[name], method, where, processes=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("where", ["end", "early", "exception", "interrupt", "persistent"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["zstd.zarr", "blosc.zarr", "d", "t"])
def test_twenty_exits_of_loaders(places: dict[str, str], name: str, method: str, where: str) -> None:
    _twenty(places["loader.py"], places[name], method, where, processes=3)
