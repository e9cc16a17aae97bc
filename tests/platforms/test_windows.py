"""Files as Windows has them, simulated: the contracts, several processes, the README and its commands.

What a simulation can't show is named in docs/consistency.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chunkwise

HERE = Path(__file__).parent
TESTS = HERE.parent
SOURCE = str(Path(chunkwise.__file__).parents[1])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(HERE / "windows"), SOURCE))}


@pytest.fixture
def run(children: Any) -> Any:
    """Run Python code to its end on the simulated platform, and return what it prints."""

    def run(code: str, *arguments: object) -> str:
        process = children.python(code, *arguments, env=ENVIRONMENT)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
        return str(out.decode())

    return run


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(["platforms/contract_of_files.py"], id="kvstores"),
        pytest.param(["drivers/test_driver_contract.py", "-k", "Sharded or Cropped"], id="drivers"),
        pytest.param(["drivers/test_driver_contract.py"], id="all drivers", marks=pytest.mark.slow),
        pytest.param(["docs/test_readme.py"], id="README"),
    ],
)
def test_suites_pass(children: Any, tmp_path: Path, tests: list[str]) -> None:
    path, *options = tests
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "t"),
    ]
    process = children.start(
        [*command, "-m", "not slow", str(TESTS / path), *options],
        env=ENVIRONMENT,
        cwd=TESTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = process.communicate(timeout=280)
    assert process.returncode == 0, out.decode()[-4000:]


def test_the_platform_is_simulated(run: Any, tmp_path: Path) -> None:
    """What the other tests stand on: each way to be careless with a file fails."""
    code = """
import os, sys
path = sys.argv[1] + "/file"
def fails(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return True
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.write(fd, b"1\\n")
assert os.fstat(fd).st_size == 3  # in text mode
assert fails(os.unlink, path) and fails(os.replace, path, path + "2")
other = os.open(path + "2", os.O_WRONLY | os.O_CREAT | os.O_BINARY)
os.close(fd)
assert fails(os.replace, path, path + "2") and fails(os.rename, path, path + "2")
os.close(other)
os.replace(path, path + "2")
assert os.path.exists(sys.argv[1] + "/FILE2") and fails(os.open, sys.argv[1], os.O_RDONLY)
assert not hasattr(os, "pread") and not hasattr(os, "O_NOFOLLOW") and not hasattr(os, "fork")
try:
    import fcntl
except ImportError:
    print("no fcntl")
"""
    assert run(code, tmp_path) == "no fcntl\n"


COUNTER = """
import sys
from chunkwise.kvstore.file import FileStore
root, locking, n = sys.argv[1:]
store = FileStore(root, sync=False, locking=locking)
print("ready", flush=True)
sys.stdin.readline()
conflicts = 0
for _ in range(int(n)):
    while True:
        value, generation, _time = store.read("a/n")
        if store.write("a/n", b"%d" % (int(value) + 1), if_equal=generation) is not None:
            break
        conflicts += 1
print(conflicts)
"""


@pytest.mark.parametrize("locking", ["os", "lockfile"])
def test_processes_lose_no_update(children: Any, tmp_path: Path, locking: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "n").write_bytes(b"0")
    processes = [
        children.python(COUNTER, tmp_path, locking, 100, env=ENVIRONMENT, stdin=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:  # all at once
        process.stdin.write(b"go\n")
        process.stdin.flush()
    done = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], done
    assert sum(int(out) for out, _ in done) > 0, "the processes did not meet; the test has shown nothing"
    assert (tmp_path / "a" / "n").read_bytes() == b"200"
    assert os.listdir(tmp_path / "a") == ["n"]


def test_a_killed_process_holds_nobody_up(children: Any, run: Any, tmp_path: Path) -> None:
    """Its lock goes with it; the file beside it is left, is no key, and goes with its directory."""
    code = """
import sys
from chunkwise.kvstore import file_write
from chunkwise.kvstore.file import FileStore
def fill(file):
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
FileStore(sys.argv[1]).write("d/k", b"old")
FileStore(sys.argv[1]).write_file("d/k", fill)
"""
    process = children.python(code, tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.kill()
    process.wait(20)
    assert len(os.listdir(tmp_path / "d")) == 3
    after = """
import sys
from chunkwise.kvstore.file import FileStore
store = FileStore(sys.argv[1], acquire_timeout=5)
print(list(store.list()), store.read("d/k").value)
store.write("d/k", b"new")
print(store.read("d/k").value)
store.delete_range()
"""
    assert run(after, tmp_path) == "['d/k'] b'old'\nb'new'\n"
    assert os.listdir(tmp_path) == []


NAMES = """
import sys
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, UnsupportedError
from chunkwise.kvstore.file import FileStore
store = FileStore(sys.argv[1], sync=False)
def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as e:
        print(str(e).replace(sys.argv[1], ""))
for key in ("CON", "d/nul.txt", "a:b", "a/b.", "a ", "q\\n", "a?/b"):
    refused(InvalidArgumentError, store.write, key, b"")
store.write("Group/zarr.json", b"1")
writer = store.open_writer()
refused(FailedPreconditionError, store.write, "group/zarr.json", b"2")
refused(FailedPreconditionError, writer.write, "Group/ZARR.json", b"2")
refused(FailedPreconditionError, store.delete, "group/zarr.json")
assert store.read("Group/zarr.json").value == b"1"
refused(UnsupportedError, lambda: FileStore(sys.argv[1], io_mode="memmap"))
"""


def test_names_that_are_no_names_there(run: Any, tmp_path: Path) -> None:
    assert run(NAMES, tmp_path).splitlines() == [
        'Invalid key: "/CON": Windows has reserved the name for a device',
        'Invalid key: "/d/nul.txt": Windows has reserved the name for a device',
        "Invalid key: \"/a:b\": ':' can't be in the name of a file on Windows",
        'Invalid key: "/a/b.": Windows drops a final dot or space',
        'Invalid key: "/a ": Windows drops a final dot or space',
        "Invalid key: \"/q\\n\": '\\n' can't be in the name of a file on Windows",
        "Invalid key: \"/a?/b\": '?' can't be in the name of a file on Windows",
        'FAILED_PRECONDITION: Can\'t change "/group/zarr.json": "Group" is there, which the system takes for '
        '"group"',
        'FAILED_PRECONDITION: Can\'t change "/Group/ZARR.json": "zarr.json" is there, which the system takes '
        'for "ZARR.json"',
        'FAILED_PRECONDITION: Can\'t change "/group/zarr.json": "Group" is there, which the system takes for '
        '"group"',
        "io_mode memmap is not supported on Windows, which replaces no mapped file",
    ]


READERS = """
import sys, threading
from chunkwise.kvstore.file import FileStore
store = FileStore(sys.argv[1], sync=False)
values = [bytes([i]) * 50_000 for i in range(2)]
store.write("k", values[0])
done, seen = threading.Event(), []
def read():
    reader = store.open_reader()
    while not done.is_set():
        seen.append(bytes(reader("k")) in values)
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
writer = store.open_writer()
for i in range(200):
    (store if i % 3 else writer).write("k", values[i % 2])
done.set()
for thread in threads:
    thread.join()
print(all(seen), len(seen) > 100)
"""


def test_values_are_replaced_while_others_read_them(run: Any, tmp_path: Path) -> None:
    assert run(READERS, tmp_path) == "True True\n"
