"""Requests of user jobs on S3: number, longest chain, most at the same time, and time if each takes 20 ms.

    python benchmarks/remote_requests.py [--peers tensorstore,zarr] [--jobs PATTERN] [--delay SECONDS]
                                         [--server moto|rgw|URL]

A proxy between library and server counts and delays them.  The time of the server itself is added to that, so
compare the first two figures.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "remote"))

from remote import BUCKET, KEYS, s3_server  # noqa: E402

SHARDS, EDGE = 32, 16
SHUFFLED = np.random.default_rng(0).permutation(SHARDS * 4)[:64]
N_GROUPS, N_ARRAYS = 10, 200


@contextmanager
def counted(upstream: str, work: Path) -> Iterator[Any]:
    """Run the proxy in front of a server."""
    from conftest import Proxy
    from servers import HERE, free_port, server

    port = free_port()
    command = [sys.executable, str(HERE / "proxy.py"), str(port), upstream]
    with server(command, port, work / "proxy"):
        yield Proxy(f"http://127.0.0.1:{port}")


def prepare(url: str, work: Path) -> str:
    """Store the input of the jobs; return the prefix of the keys in the bucket."""
    import chunkwise as cw

    prefix = uuid.uuid4().hex
    place = f"s3://{BUCKET}/{prefix}"
    os.environ["AWS_ENDPOINT_URL_S3"] = url
    data = np.arange(SHARDS * 4 * EDGE * EDGE, dtype=np.uint16).reshape(-1, EDGE, EDGE)
    shape = {"chunks": (1, EDGE, EDGE), "shards": (4, EDGE, EDGE)}
    cw.create_array(f"{place}/shards", data, codec="zstd:1", **shape)
    for name in ("rows", "old"):
        cw.create_array(f"{place}/{name}", data[:8], chunks=(1, EDGE, EDGE), codec="zstd:1")
    tree = cw.create_group(work / "tree")
    for i in range(N_ARRAYS):
        tree.create_array(f"g{i % N_GROUPS}/a{i}", np.arange(4, dtype=np.uint8), codec="none")
    for name in ("tree", "gone"):
        cw.copy_tree(work / "tree", f"{place}/{name}")
    make_plate(work / "plate")
    cw.copy_tree(work / "plate", f"{place}/plate")
    twenty = cw.create_group(work / "twenty")
    for i in range(20):
        twenty.create_array(f"a{i}", np.ones((8, 8), np.uint8), chunks=(4, 4))
    cw.copy_tree(work / "twenty", f"{place}/arrays")
    return prefix


def make_plate(path: Path) -> None:
    """Make an OME-Zarr plate of 8 wells with one field each."""
    import chunkwise as cw

    def ome(**members: Any) -> dict[str, Any]:
        return {"ome": {"version": "0.5", **members}}

    columns = [str(i + 1) for i in range(8)]
    wells = [{"path": f"A/{name}", "rowIndex": 0, "columnIndex": i} for i, name in enumerate(columns)]
    described = {"columns": [{"name": name} for name in columns], "rows": [{"name": "A"}], "wells": wells}
    plate = cw.create_group(path, attributes=ome(plate=described))
    scale = [{"type": "scale", "scale": [1.0, 1.0]}]
    level = {"path": "0", "coordinateTransformations": scale}
    axes = [{"name": name, "type": "space"} for name in "yx"]
    for name in columns:
        well = plate.create_group(f"A/{name}", attributes=ome(well={"images": [{"path": "0"}]}))
        image = well.create_group("0", attributes=ome(multiscales=[{"axes": axes, "datasets": [level]}]))
        image.create_array("0", np.zeros((4, 4), np.uint8), dimension_names=["y", "x"])


class Chunkwise:
    """The jobs as chunkwise does them."""

    def __init__(self, url: str, prefix: str, work: Path) -> None:
        import chunkwise as cw

        self.ts: Any = cw
        self.work = work
        self.place = f"s3://{BUCKET}/{prefix}"

    def store(self, name: str) -> Any:
        return self.ts.open({"driver": "zarr3", "kvstore": f"{self.place}/{name}/"}).result()

    def elements(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array[::4, 5, 5].read().result()

    def plane(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array[:, 5].read().result()

    def samples(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array[SHUFFLED].read().result()

    def futures(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: [future.result() for future in [array[int(i)].read() for i in SHUFFLED]]

    def batch(self) -> Callable[[], Any]:
        array = self.store("shards")

        def read() -> None:
            with self.ts.Batch() as batch:
                futures = [array[int(i)].read(batch=batch) for i in SHUFFLED]
            for future in futures:
                future.result()

        return read

    def append(self) -> Callable[[], Any]:
        array = self.store("rows")
        n = array.shape[0]
        row = np.ones((EDGE, EDGE), np.uint16)

        def write() -> None:
            grown = array.resize(exclusive_max=[n + 1, EDGE, EDGE]).result()
            grown[n].write(row).result()

        return write

    def walk(self) -> Callable[[], Any] | None:
        return lambda: list(self.ts.open_group(f"{self.place}/tree").walk())

    def tree(self) -> Callable[[], Any] | None:
        return self._command("tree", "tree")

    def info(self) -> Callable[[], Any] | None:
        return self._command("info", "tree")

    def verify(self) -> Callable[[], Any] | None:
        return self._command("verify", "tree")

    def consolidate(self) -> Callable[[], Any] | None:
        return self._command("consolidate", "tree")

    def delete(self) -> Callable[[], Any] | None:
        return self._command("rm", "-r", "gone")

    def copy(self) -> Callable[[], Any] | None:
        return self._command("cp", "-r", "tree", "copy")

    def plate_tree(self) -> Callable[[], Any] | None:
        return self._command("tree", "plate")

    def plate_info(self) -> Callable[[], Any] | None:
        return self._command("info", "plate")

    def upload(self) -> Callable[[], Any] | None:
        return lambda: self.ts.copy_tree(self.work / "twenty", f"{self.place}/uploaded")

    def within(self) -> Callable[[], Any] | None:
        return lambda: self.ts.copy_tree(f"{self.place}/arrays", f"{self.place}/copied")

    def detect(self) -> Callable[[], Any] | None:
        return lambda: self.ts.open(f"{self.place}/shards").result()

    def create(self) -> Callable[[], Any]:
        return lambda: self.ts.create_array(f"{self.place}/new", shape=(8, 8), chunks=(4, 4), dtype="uint8")

    def group(self) -> Callable[[], Any]:
        return lambda: self.ts.create_group(f"{self.place}/new-group")

    def twenty(self) -> Callable[[], Any]:
        group = self.ts.create_group(f"{self.place}/twenty")

        def create() -> None:
            for i in range(20):
                group.create_array(f"a{i}", shape=(8, 8), chunks=(4, 4), dtype="uint8")

        return create

    def together(self) -> Callable[[], Any] | None:
        group = self.ts.create_group(f"{self.place}/together")
        options = {"shape": (8, 8), "chunks": (4, 4), "dtype": "uint8"}

        def create() -> None:
            with ThreadPoolExecutor(20) as pool:
                list(pool.map(lambda i: group.create_array(f"a{i}", **options), range(20)))

        return create

    def replace(self) -> Callable[[], Any]:
        options = {"dtype": "uint16", "shape": [8, 8], "create": True, "delete_existing": True}
        return lambda: self.ts.open(f"{self.place}/old/|zarr3:", **options).result()

    def diff(self) -> Callable[[], Any]:
        group = self.ts.create_group(f"{self.place}/left")
        for i in range(20):
            group.create_array(f"a{i}", np.ones((8, 8), np.uint8), chunks=(4, 4))
        self.ts.copy_tree(f"{self.place}/left", f"{self.place}/right")
        return lambda: self.ts.diff(f"{self.place}/left", f"{self.place}/right")

    def dataset(self) -> Callable[[], Any]:
        return dataset_of(self.ts, f"{self.place}/dataset", "chunkwise")

    def typo(self) -> Callable[[], Any]:
        return self._command("info", "typo", status=1)

    def attribute(self) -> Callable[[], Any]:
        group = self.ts.open_group(f"{self.place}/tree", "r+")
        return lambda: group.attrs.update(answer=42)

    def read(self) -> Callable[[], Any]:
        return lambda: self.ts.read(f"{self.place}/rows")

    def _command(self, *words: str, status: int = 0) -> Callable[[], Any]:
        from chunkwise.cli.main import main

        places = {name: f"{self.place}/{name}" for name in ("tree", "gone", "copy", "typo", "plate")}

        def run() -> None:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                assert main([words[0], *(places.get(word, word) for word in words[1:])]) == status

        return run


class TensorStore(Chunkwise):
    """The jobs as TensorStore does them; it has no trees."""

    def __init__(self, url: str, prefix: str, work: Path) -> None:
        import tensorstore

        self.ts = tensorstore
        self.kvstore = {"driver": "s3", "bucket": BUCKET, "endpoint": url, "aws_region": "us-east-1"}
        self.prefix = prefix

    def store(self, name: str) -> Any:
        kvstore = {**self.kvstore, "path": f"{self.prefix}/{name}/"}
        return self.ts.open({"driver": "zarr3", "kvstore": kvstore}).result()

    def walk(self) -> None:
        return None

    tree = info = verify = consolidate = delete = copy = walk
    plate_tree = plate_info = upload = within = together = walk
    group = twenty = diff = dataset = typo = attribute = walk

    def _new(self, name: str, **options: Any) -> Any:
        kvstore = {**self.kvstore, "path": f"{self.prefix}/{name}/"}
        spec = {"driver": "zarr3", "kvstore": kvstore}
        return self.ts.open(spec, dtype=self.ts.uint16, shape=[8, 8], create=True, **options).result()

    def create(self) -> Callable[[], Any]:
        return lambda: self._new("new")

    def replace(self) -> Callable[[], Any]:
        return lambda: self._new("old", delete_existing=True)

    def read(self) -> Callable[[], Any]:
        return lambda: self.store("rows").read().result()

    def detect(self) -> Callable[[], Any]:
        kvstore = {**self.kvstore, "path": f"{self.prefix}/shards/"}
        return lambda: self.ts.open({"driver": "auto", "kvstore": kvstore}).result()


class ZarrPython:
    """The jobs as zarr-python does them, on obstore."""

    def __init__(self, url: str, prefix: str, work: Path) -> None:
        import obstore.store
        import zarr
        import zarr.storage

        options = {"endpoint": url, "region": "us-east-1", "allow_http": True}

        def store(name: str) -> Any:
            own = obstore.store.S3Store(BUCKET, prefix=f"{prefix}/{name}", config=options)
            return zarr.storage.ObjectStore(own)

        self.zarr, self._store = zarr, store

    def store(self, name: str) -> Any:
        return self.zarr.open_array(self._store(name), mode="r+")

    def elements(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array[::4, 5, 5]

    def plane(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array[:, 5]

    def samples(self) -> Callable[[], Any]:
        array = self.store("shards")
        return lambda: array.oindex[np.sort(SHUFFLED)]

    def append(self) -> Callable[[], Any]:
        array = self.store("rows")
        return lambda: array.append(np.ones((1, EDGE, EDGE), np.uint16))

    def walk(self) -> Callable[[], Any]:
        group = self.zarr.open_group(self._store("tree"), mode="r")
        return lambda: list(group.members(max_depth=None))

    def consolidate(self) -> Callable[[], Any]:
        return lambda: self.zarr.consolidate_metadata(self._store("tree"))

    def delete(self) -> Callable[[], Any]:
        group = self.zarr.open_group(self._store(""), mode="a")

        def remove() -> None:
            del group["gone"]

        return remove

    def none(self) -> None:
        return None

    futures = batch = tree = info = verify = detect = copy = diff = typo = none
    plate_tree = plate_info = upload = within = together = none

    def create(self) -> Callable[[], Any]:
        options = {"shape": (8, 8), "chunks": (4, 4), "dtype": "uint8"}
        return lambda: self.zarr.create_array(self._store("new"), **options)

    def group(self) -> Callable[[], Any]:
        return lambda: self.zarr.create_group(self._store("new-group"))

    def twenty(self) -> Callable[[], Any]:
        group = self.zarr.create_group(self._store("twenty"))

        def create() -> None:
            for i in range(20):
                group.create_array(f"a{i}", shape=(8, 8), chunks=(4, 4), dtype="uint8")

        return create

    def replace(self) -> Callable[[], Any]:
        options = {"shape": (8, 8), "chunks": (4, 4), "dtype": "uint8", "overwrite": True}
        return lambda: self.zarr.create_array(self._store("old"), **options)

    def dataset(self) -> Callable[[], Any]:
        import xarray

        group = self.zarr.create_group(self._store("dataset"))
        for i in range(42):
            group.create_array(f"v{i}", data=np.arange(4), dimension_names=["x"])
        store = self._store("dataset")
        return lambda: xarray.open_dataset(store, engine="zarr", consolidated=False)

    def attribute(self) -> Callable[[], Any]:
        group = self.zarr.open_group(self._store("tree"), mode="r+")
        return lambda: group.attrs.update({"answer": 42})

    def read(self) -> Callable[[], Any]:
        return lambda: self.zarr.open_array(self._store("rows"), mode="r")[:]


def dataset_of(cw: Any, place: str, engine: str) -> Callable[[], Any]:
    """Store 42 variables, and return how xarray opens them."""
    import xarray

    group = cw.create_group(place, format="zarr3")
    for i in range(42):
        group.create_array(f"v{i}", np.arange(4), dimension_names=["x"])
    return lambda: xarray.open_dataset(place, engine=engine, consolidated=False)


JOBS = {
    "read": "read by URL, 8 chunks",
    "create": "create an array",
    "group": "create a group",
    "twenty": "create 20 arrays in a group",
    "together": "the same by 20 threads",
    "replace": "open(create, delete_existing)",
    "diff": "`diff` of trees of 20 arrays of 4 chunks",
    "dataset": "xarray, 42 variables, not consolidated",
    "typo": "`info` of a missing array",
    "attribute": "one attribute",
    "plate_tree": "`tree` of a plate of 8 wells",
    "plate_info": "`info` of it",
    "upload": "`cp -r` of 20 arrays of 4 chunks to S3",
    "within": "the same within S3",
    "elements": "one element of each of 32 shards",
    "plane": "plane through 32 shards",
    "samples": "64 shuffled samples of 32 shards in one read",
    "futures": "the same by 64 futures",
    "batch": "the same by 64 reads in a batch",
    "walk": "walk of 200 arrays",
    "tree": "`tree`",
    "info": "`info`",
    "verify": "`verify`",
    "consolidate": "consolidate",
    "delete": "`rm -r`",
    "copy": "`cp -r` within the bucket",
    "append": "append of a row",
    "detect": "open without a format",
}
LIBRARIES: dict[str, Any] = {"chunkwise": Chunkwise, "tensorstore": TensorStore, "zarr": ZarrPython}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default="tensorstore,zarr")
    parser.add_argument("--jobs", default="*")
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--server", default="moto")
    arguments = parser.parse_args()
    names = ["chunkwise", *filter(None, arguments.peers.split(","))]
    os.environ.update(KEYS)
    with tempfile.TemporaryDirectory() as folder, s3_server(arguments.server, Path(folder)) as (server, url):
        print(f"{server}, {arguments.delay * 1e3:g} ms a request: requests / rounds / at a time / seconds\n")
        print("| job | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
        with counted(url, Path(folder)) as proxy:
            rows: dict[str, list[str]] = {}
            for number, name in enumerate(names):
                work = Path(folder) / str(number)
                work.mkdir()
                prefix = prepare(url, work)
                library = LIBRARIES[name](proxy.url, prefix, work)
                os.environ["AWS_ENDPOINT_URL_S3"] = proxy.url
                for job in fnmatch.filter(JOBS, arguments.jobs):
                    rows.setdefault(job, []).append(measured(proxy, getattr(library, job)(), arguments.delay))
            for job, cells in rows.items():
                print(f"| {JOBS[job]} | " + " | ".join(cells) + " |", flush=True)


def measured(proxy: Any, act: Callable[[], Any] | None, delay: float) -> str:
    """Do a job once, and return its figures."""
    if act is None:
        return ""
    proxy.set(delay=delay)
    begin = time.monotonic()
    try:
        act()
    except Exception as e:
        return f"fails: {str(e)[:60]}"
    seconds = time.monotonic() - begin
    log, flight, rounds = proxy.log(), proxy.flight(), proxy.rounds()
    proxy.set()
    return f"{len(log)} / {rounds} / {max(flight, default=0)} / {seconds:.2f}"


if __name__ == "__main__":
    main()
