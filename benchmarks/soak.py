"""Processes that write, append, resize, copy, delete and kill each other for a long time, beside an oracle.

python benchmarks/soak.py [--minutes 60] [--on local s3 http] [--workers 3] [--seed 0]

Each place, a folder and a bucket of moto, has workers, one of which is killed every few seconds and started
again.  Each owns some rows of a shared array, an array that it resizes, and copies; all append to one array.
What a worker is about to do, and has done, is in a journal of its own, so that it can say after a kill what
must be there and what may be.  Readers read a constant array from a server whose answers fail, end early, or
are late.  Each minute a line says what was done, and what the processes that are never killed hold.  Exit
status 1 if a value is wrong, or if memory, descriptors, threads, sockets or leftovers still grow at the end.
Runs on Linux only; needs requirements-test.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw
from chunkwise.errors import ChunkwiseError

ROWS, WIDTH = 8, 96  # rows of each worker, in chunks of 5 rows, so that workers share chunks
CHUNKS = (5, 17)
NO_WORKER = 1000
SIGNS = (".chunkwise", ".lock", "__lock", ".tmp")


class WrongValueError(Exception):
    """A value that no order of what was done explains."""


class Oracle:
    """What a worker has done, and the one thing it was about to do, in a file that a kill leaves whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state: dict[str, Any] = {"rows": {}, "appended": 0, "resized": None, "doing": None, "done": 0}
        if path.exists():
            self.state = json.loads(path.read_text())

    def save(self) -> None:
        """Replace the file."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.state))
        new.replace(self._path)

    @contextlib.contextmanager
    def doing(self, what: Any) -> Iterator[dict[str, Any]]:
        """Note what is about to be done; whoever leaves the block has done it."""
        self.state["doing"] = what
        self.save()
        yield self.state
        self.state["doing"] = None
        self.state["done"] += 1
        self.save()


class Worker:
    """One process at one place."""

    def __init__(self, place: dict[str, Any], number: int, folder: Path, seed: int) -> None:
        self._place = place
        self._number = number
        self._oracle = Oracle(folder / f"{number}.json")
        self._random = random.Random(seed)

    def at(self, name: str) -> dict[str, Any]:
        """Return the place of an array."""
        return {**self._place, "path": f"{self._place['path']}{name}/"}

    def run(self) -> None:
        """Work until killed."""
        self._recover()
        changes = [self._write, self._append, self._resize, self._copy]
        jobs: list[Callable[[], None]] = [*changes, self._write, self._read]
        while True:
            self._random.choice(jobs)()

    def _rows(self) -> range:
        return range(self._number * ROWS, (self._number + 1) * ROWS)

    def _recover(self) -> None:
        """Check what a kill has left, and take it as the state."""
        state, doing = self._oracle.state, self._oracle.state["doing"]
        self._read(may_be=doing["row"] if doing and "row" in doing else {})
        if doing and "row" in doing:  # may be done in part: it is done again
            row, stamp = doing["row"]["row"], doing["row"]["stamp"]
            cw.open_array(self.at("shared"), mode="r+")[row].write(np.uint32(stamp)).result()
            state["rows"][str(row)] = stamp
        if doing and "append" in doing:  # the next append finishes it, or clears it
            cw.open_array(self.at("appended"), mode="r+").append(np.array([[NO_WORKER, 0]], "u4"))
        self._check_appends(may_be_one_more=bool(doing and "append" in doing))
        target = self.at(f"copy-{self._number}")
        with contextlib.suppress(ChunkwiseError):
            cw.KvStore.open(target).result().delete_range(cw.KvStore.KeyRange()).result()
        if state["resized"] is not None or (doing and "size" in doing):
            with contextlib.suppress(ChunkwiseError):
                self._make_sized()
        state["doing"] = None
        self._oracle.save()

    def _write(self) -> None:
        row, stamp = self._random.choice(self._rows()), self._random.randrange(1, 1 << 32)
        with self._oracle.doing({"row": {"row": row, "stamp": stamp}}) as state:
            cw.open_array(self.at("shared"), mode="r+")[row].write(np.uint32(stamp)).result()
            state["rows"][str(row)] = stamp

    def _read(self, may_be: dict[str, int] | None = None) -> None:
        found = cw.open_array(self.at("shared"))[self._rows().start : self._rows().stop].read().result()
        for row, values in zip(self._rows(), found, strict=True):
            allowed = {self._oracle.state["rows"].get(str(row), 0)}
            if may_be and may_be["row"] == row:
                allowed.add(may_be["stamp"])
            if not set(values.tolist()) <= allowed:
                raise WrongValueError(f"row {row}: {set(values.tolist())}, expected {allowed}")

    def _append(self) -> None:
        n = self._oracle.state["appended"]
        with self._oracle.doing({"append": n}) as state:
            cw.open_array(self.at("appended"), mode="r+").append(np.array([[self._number, n]], "u4"))
            state["appended"] = n + 1
        if self._random.randrange(20) == 0:
            self._check_appends()

    def _check_appends(self, *, may_be_one_more: bool = False) -> None:
        found = cw.open_array(self.at("appended")).read().result()
        mine = found[found[:, 0] == self._number, 1].tolist()
        n = self._oracle.state["appended"]
        if may_be_one_more and mine == list(range(n + 1)):
            self._oracle.state["appended"] = n + 1
        elif mine != list(range(n)):
            raise WrongValueError(f"{len(mine)} rows of worker {self._number}, expected {n}: {mine[-5:]}")

    def _make_sized(self) -> None:
        cw.create_array(
            self.at(f"sized-{self._number}"), np.arange(40, dtype="u4"), chunks=(7,), overwrite=True
        )
        self._oracle.state["resized"] = 40

    def _resize(self) -> None:
        if self._oracle.state["resized"] is None:
            with self._oracle.doing({"size": 40}):
                self._make_sized()
        size = self._random.randrange(1, 60)
        with self._oracle.doing({"size": size}) as state:
            array = cw.open_array(self.at(f"sized-{self._number}"), mode="r+")
            kept = min(size, array.shape[0])
            array = array.resize(exclusive_max=[size]).result()
            array[kept:].write(np.arange(kept, size, dtype="u4")).result()
            found = array.read().result().tolist()
            if found != list(range(size)):
                raise WrongValueError(f"resized to {size}: {found}")
            state["resized"] = size

    def _copy(self) -> None:
        target = self.at(f"copy-{self._number}")
        chunks = (self._random.randrange(1, 9), self._random.randrange(1, 99))
        with self._oracle.doing({"copy": chunks}):
            cw.copy(self.at("constant"), target, chunks=chunks, overwrite=True)
            found = cw.open_array(target).read().result()
            if not np.array_equal(found, constant()):
                raise WrongValueError("a copy differs from its source")
            cw.KvStore.open(target).result().delete_range(cw.KvStore.KeyRange()).result()


def constant() -> Any:
    """Return the values that never change."""
    return np.arange(60 * 200, dtype="u2").reshape(60, 200)


def work(place: dict[str, Any], number: int, folder: str, seed: int) -> None:
    """Run a worker; say what is wrong, and end with status 3."""
    try:
        Worker(place, number, Path(folder), seed).run()
    except WrongValueError as e:
        print(f"WRONG at {place['driver']}: {e}", flush=True)
        raise SystemExit(3) from e


def read_for_ever(url: str, place: dict[str, Any], number: int, folder: str) -> None:
    """Read random regions from the failing server, or of the constant array of a place."""
    oracle, r, values = Oracle(Path(folder) / f"{number}.json"), random.Random(number), constant()
    while True:
        array = cw.open_array(url) if url else cw.open_array({**place, "path": f"{place['path']}constant/"})
        with oracle.doing(None):
            a, b = sorted(r.sample(range(61), 2))
            if not np.array_equal(array[a:b].read().result(), values[a:b]):
                print(f"WRONG: rows {a}:{b} from {url or place['driver']}", flush=True)
                raise SystemExit(3)


class _Faults(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; one answer in ten is an error, ends early, or is late."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        fault, path = random.randrange(30), Path(self.translate_path(self.path))
        if fault == 0:
            self.send_error(503)
        elif fault == 1 and path.is_file():
            whole = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])
            self.close_connection = True
        else:
            if fault == 2:
                time.sleep(0.3)
            super().do_GET()


# -- the program that starts, kills and counts -----------------------------------------------------------


def held(pids: list[int]) -> dict[str, float]:
    """Return what some processes hold together."""
    out = {"MB": 0.0, "descriptors": 0.0, "threads": 0.0, "sockets": 0.0}
    for pid in pids:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            fields = dict(line.split(":", 1) for line in status.splitlines())
            out["MB"] += int(fields["VmRSS"].split()[0]) / 1e3
            out["threads"] += int(fields["Threads"])
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    out["descriptors"] += 1
                    out["sockets"] += os.readlink(link).startswith("socket:")
    return out


def leftovers(place: dict[str, Any]) -> int:
    """Return how many keys are of unfinished work or locks."""
    keys = cw.KvStore.open(place).result().list().result()
    return sum(any(sign in key.decode() for sign in SIGNS) for key in keys)


class Soak:
    """All processes, and what they have done."""

    def __init__(self, folder: Path, on: list[str], n_workers: int, seed: int) -> None:
        self._folder, self._seed, self._n_workers = folder, seed, n_workers
        self._random = random.Random(seed)
        self._places: dict[str, dict[str, Any]] = {}
        self._processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._readers: list[subprocess.Popen[bytes]] = []
        self._server: subprocess.Popen[bytes] | None = None
        self.n_kills = 0
        self._log = open(folder / "log", "wb")  # noqa: SIM115
        if "local" in on:
            self._places["local"] = {"driver": "file", "path": f"{folder}/local/"}
        if "s3" in on:
            self._places["s3"] = self._bucket()
        for name, place in self._places.items():
            (folder / f"oracle-{name}").mkdir()
            self._prepare(place)
            for number in range(n_workers):
                self._start(name, number)
            self._read("", place, f"{name}-reader")
        if "http" in on:
            cw.create_array(folder / "web/constant", constant(), chunks=(7, 30), checksum=True)
            handler = lambda *a: _Faults(*a, directory=str(folder / "web"))  # noqa: E731
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._read(f"http://127.0.0.1:{server.server_port}/constant/|zarr3:", {}, "http-reader")

    def _bucket(self) -> dict[str, Any]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script = Path(__file__).parents[1] / "tests/remote/moto_server.py"
        self._server = subprocess.Popen(
            [sys.executable, str(script), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_EC2_METADATA_DISABLED="true")
        import boto3

        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        for _ in range(300):
            time.sleep(0.2)
            with contextlib.suppress(Exception):
                client.create_bucket(Bucket="soak")
                break
        s3 = {"driver": "s3", "bucket": "soak", "endpoint": endpoint, "aws_region": "us-east-1"}
        return {**s3, "path": "soak/"}

    def _prepare(self, place: dict[str, Any]) -> None:
        def at(name: str) -> dict[str, Any]:
            return {**place, "path": f"{place['path']}{name}/"}

        shape = (self._n_workers * ROWS, WIDTH)
        cw.create_array(at("shared"), shape=shape, dtype="u4", chunks=CHUNKS, checksum=True)
        cw.create_array(at("appended"), shape=(0, 2), dtype="u4", chunks=(50, 2))
        cw.create_array(at("constant"), constant(), chunks=(7, 30))

    def _child(self, call: str) -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import soak; soak.{call}"
        return subprocess.Popen([sys.executable, "-c", code], stderr=self._log)

    def _start(self, name: str, number: int) -> None:
        words = self._places[name], number, str(self._folder / f"oracle-{name}")
        call = f"work(*{words!r}, seed={self._random.randrange(1 << 30)})"
        self._processes[name, number] = self._child(call)

    def _read(self, url: str, place: dict[str, Any], name: str) -> None:
        (self._folder / f"oracle-{name}").mkdir()
        words = url, place, 900 + len(self._readers), str(self._folder / f"oracle-{name}")
        self._readers.append(self._child(f"read_for_ever(*{words!r})"))

    def kill_one(self) -> None:
        """Kill a worker and start it again; raise WrongValueError if one has ended by itself."""
        for key, process in self._processes.items():
            if process.poll() == 3:
                raise WrongValueError(f"worker {key} found a wrong value")
            if process.poll() is not None:  # an error of a store, such as a lost answer: it recovers
                self._start(*key)
        for reader in self._readers:
            if reader.poll() is not None:
                raise WrongValueError(f"a reader ended with {reader.poll()}")
        key = self._random.choice(list(self._processes))
        self._processes[key].send_signal(signal.SIGKILL)
        self._processes[key].wait()
        self.n_kills += 1
        self._start(*key)

    def row(self) -> dict[str, float]:
        """Return what was done since the beginning, and what is held now."""
        done = 0
        for path in self._folder.glob("oracle-*/*.json"):
            with contextlib.suppress(ValueError, OSError):
                done += json.loads(path.read_text())["done"]
        kept = [process.pid for process in self._readers]
        left = sum(map(leftovers, self._places.values()))
        return {"done": done, "kills": self.n_kills, **held([os.getpid(), *kept]), "leftovers": left}

    def end(self) -> None:
        """Kill all."""
        for process in (*self._processes.values(), *self._readers, *([self._server] if self._server else [])):
            process.kill()
            process.wait()


def growing(rows: list[dict[str, float]]) -> list[str]:
    """Return what is larger in the last third of the rows than in the second by more than a tenth and 5."""
    third = len(rows) // 3
    out = []
    for name in ("MB", "descriptors", "threads", "sockets", "leftovers"):
        earlier = statistics.median(row[name] for row in rows[third : 2 * third])
        later = statistics.median(row[name] for row in rows[2 * third :])
        if later > earlier * 1.1 + 5:
            out.append(f"{name} grow from {earlier:.0f} to {later:.0f}")
    return out


def main() -> None:
    """Soak, and print a line each minute."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--on", nargs="+", choices=("local", "s3", "http"), default=["local", "s3", "http"])
    parser.add_argument("--workers", type=int, default=3, help="at each place")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        soak = Soak(Path(directory), arguments.on, arguments.workers, arguments.seed)
        end = time.monotonic() + arguments.minutes * 60
        try:
            print("| minute | operations | kills | MB | descriptors | threads | sockets | leftovers |")
            print("|---|---|---|---|---|---|---|---|", flush=True)
            while time.monotonic() < end:
                minute = min(end, time.monotonic() + 60)
                while time.monotonic() < minute:
                    time.sleep(random.uniform(1, 5))
                    if arguments.on != ["http"]:
                        soak.kill_one()
                rows.append(soak.row())
                print("|", " | ".join(f"{n:.0f}" for n in (len(rows), *rows[-1].values())), "|", flush=True)
        except WrongValueError as e:
            told = (Path(directory) / "log").read_text(errors="replace").splitlines()
            raise SystemExit("\n".join([*told[-8:], f"wrong: {e}"])) from e
        finally:
            soak.end()
    if len(rows) >= 6 and (found := growing(rows)):
        raise SystemExit(f"it does not level off: {'; '.join(found)}")


if __name__ == "__main__":
    main()
