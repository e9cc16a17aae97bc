"""Guarantees of docs/consistency.md for files, on simulated macOS and Windows: several processes.

What a simulation can't show is named there.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def run_two(children: Any, environment: Any) -> Any:
    """Run code in two processes at once, and return what each prints after "ready"."""

    def run_two(code: str, *arguments: object) -> list[str]:
        processes = [
            children.python(code, *arguments, who, env=environment, stdin=subprocess.PIPE) for who in range(2)
        ]
        for process in processes:
            assert process.stdout.readline() == b"ready\n", process.communicate(timeout=20)
        for process in processes:
            process.stdin.write(b"go\n")
            process.stdin.flush()
        done = [process.communicate(timeout=100) for process in processes]
        assert [process.returncode for process in processes] == [0, 0], done
        return [out.decode() for out, _ in done]

    return run_two


COUNTER = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
root, locking, n, _ = sys.argv[1:]
store = FileStore(root, sync=False, locking=locking)
value, generation, _time = store.read("a/n")  # both have read before either writes, so one conflict is sure
print("ready", flush=True)
sys.stdin.readline()
conflicts = 0
for _ in range(int(n)):
    while store.write("a/n", b"%d" % (int(value) + 1), if_equal=generation) is None:
        conflicts += 1
        value, generation, _time = store.read("a/n")
    value, generation, _time = store.read("a/n")
print(conflicts)
"""


@pytest.mark.each_once
@pytest.mark.parametrize("locking", ["os", "lockfile"])
def test_no_update_of_a_value_is_lost(run_two: Any, tmp_path: Path, locking: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "n").write_bytes(b"0")
    conflicts = run_two(COUNTER, tmp_path, locking, 100)
    assert sum(map(int, conflicts)) > 0, "the processes did not meet; the test has shown nothing"
    assert (tmp_path / "a" / "n").read_bytes() == b"200"
    assert os.listdir(tmp_path / "a") == ["n"]


ELEMENTS = """
import sys, time
import chunkwise as cw
path, n, who = sys.argv[1], *map(int, sys.argv[2:])
array = cw.open(path, read=True, write=True, context=cw.Context({"file_io_sync": False})).result()
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
for i in range(n):
    array[2 * i + who] = i + 1
    while i == n // 2 and int(array[2 * i + 1 - who].read().result()) == 0:
        time.sleep(0.001)  # until the other has come as far
print(start, time.monotonic())
"""


@pytest.mark.each_once
@pytest.mark.parametrize("members", [{}, {"shards": [200]}, {"format": "n5"}], ids=["zarr3", "shards", "n5"])
def test_no_part_of_a_chunk_is_lost(run_two: Any, run: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    """Two processes write the elements of one chunk in turn, each every other one."""
    path = f"{tmp_path}/a"
    create = "import sys, chunkwise as cw; cw.create_array(sys.argv[1], shape=[200], dtype='u2', **{!r})"
    run(create.format({"chunks": [100] if "shards" in members else [200], **members}), path)
    times = [tuple(map(float, out.split())) for out in run_two(ELEMENTS, path, 100)]
    assert max(start for start, _ in times) < min(end for _, end in times), "the processes did not meet"
    read = "import sys, chunkwise as cw; print(cw.read(sys.argv[1]).tolist())"
    assert run(read, path) == f"{[i // 2 + 1 for i in range(200)]}\n"
    assert list(tmp_path.rglob("*.__lock")) == []


CREATORS = """
import sys
import chunkwise as cw
from chunkwise.errors import AlreadyExistsError
path, n, who = sys.argv[1], *map(int, sys.argv[2:])
print("ready", flush=True)
sys.stdin.readline()
won = []
for i in range(n):
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/{i}/"}}
    try:
        array = cw.open(spec, create=True, dtype="u1", shape=[2], fill_value=who + 1).result()
        won.append(i)
    except AlreadyExistsError:
        array = cw.open(spec, write=True).result()
    array[who] = 7
print(won)
"""


def test_one_creator_wins(run_two: Any, tmp_path: Path) -> None:
    first, second = (eval(out) for out in run_two(CREATORS, tmp_path, 12))
    assert sorted(first + second) == list(range(12))
    assert list(tmp_path.rglob("*.__lock")) == []


def test_a_killed_process_holds_nobody_up(
    children: Any, environment: Any, run: Any, platform: str, tmp_path: Path
) -> None:
    """Its lock goes with it; what it leaves is no key, and goes with its directory."""
    code = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
def fill(file):
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
FileStore(sys.argv[1]).write("d/k", b"old")
FileStore(sys.argv[1]).write_file("d/k", fill)
"""
    process = children.python(code, tmp_path, env=environment, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.kill()
    process.wait(20)
    assert len(os.listdir(tmp_path / "d")) == {"macos": 2, "windows": 3}[platform]
    after = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
store = FileStore(sys.argv[1], acquire_timeout=5)
print(list(store.list()), bytes(store.read("d/k").value))
store.write("d/k", b"new")
print(bytes(store.read("d/k").value))
store.delete_range()
"""
    assert run(after, tmp_path) == "['d/k'] b'old'\nb'new'\n"
    assert os.listdir(tmp_path) == []


NO_LOCKS = """
import errno, sys
def refuse(*_):
    raise OSError(errno.EINVAL if sys.argv[2] == "windows" else errno.ENOTSUP, "")
if sys.argv[2] == "macos":
    import fcntl
    fcntl.flock = refuse
else:
    import sitecustomize
    sitecustomize.locking = refuse
import chunkwise as cw
spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": sys.argv[1] + "/a/"}}
new = {"create": True, "dtype": "u1", "shape": [2]}
try:
    cw.open(spec, **new).result()
except cw.errors.StorageError as e:
    print(e)
array = cw.open({**spec, "context": {"file_io_locking": {"mode": "lockfile"}}}, **new).result()
array[1] = 1
print(array.read().result().tolist())
"""


def test_a_file_system_without_locks(run: Any, platform: str, tmp_path: Path) -> None:
    """The error names the member that chooses another way of locking, which works."""
    error, values = run(NO_LOCKS, tmp_path, platform).splitlines()
    assert 'with "file_io_locking" of {"mode": "lockfile"} none are needed' in error
    assert values == "[0, 1]"
