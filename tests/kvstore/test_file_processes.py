"""Several processes on one file store: no update is lost, no value is broken, whoever dies when."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import chunkwise.core.kvstore.files.file_store
from chunkwise.core.kvstore.files.file_store import FileStore

SOURCE = str(Path(chunkwise.core.kvstore.files.file_store.__file__).parents[2])

OURS = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
root, locking, n = sys.argv[1:]
store = FileStore(root, sync=False, locking=locking)
value, generation, _time = store.read("a/n")  # all have read before any writes, so one conflict is sure
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

TENSORSTORES = """
import sys
import tensorstore as ts
root, locking, n = sys.argv[1:]
context = ts.Context({"file_io_sync": False, "file_io_locking": {"mode": locking}})
store = ts.KvStore.open({"driver": "file", "path": root + "/"}, context=context).result()
print("ready", flush=True)
sys.stdin.readline()
conflicts = 0
for _ in range(int(n)):
    while True:
        found = store.read("a/n").result()
        value = b"%d" % (int(found.value) + 1)
        if store.write("a/n", value, if_equal=found.stamp.generation).result().generation:
            break
        conflicts += 1
print(conflicts)
"""


@pytest.fixture
def start(children):
    def start(script, *arguments):
        environment = os.environ | {"PYTHONPATH": SOURCE}
        streams = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return children.python(script, *arguments, env=environment, **streams)

    return start


@pytest.mark.each_once
@pytest.mark.parametrize("locking", ["os", "lockfile"])
@pytest.mark.parametrize(
    "scripts", [[OURS] * 4, [OURS, OURS, TENSORSTORES, TENSORSTORES]], ids=["ours", "both"]
)
def test_processes_lose_no_update(start, tmp_path, locking, scripts):
    """Four processes count to 600 together; TensorStore's too, if they take part."""
    store = FileStore(tmp_path)
    store.write("a/n", b"0")
    processes = [start(script, tmp_path, locking, 150) for script in scripts]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:  # all at once
        process.stdin.write(b"go\n")
        process.stdin.flush()
    conflicts = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(conflicts) > 0, "the processes did not meet; the test has shown nothing"
    assert store.read("a/n").value == b"600"
    assert list(store.list()) == ["a/n"]
    assert os.listdir(tmp_path / "a") == ["n"]


WRITER = """
import sys
from chunkwise.core.kvstore.files.file_store import FileStore
root, key, locking = sys.argv[1:]
store = FileStore(root, sync=False, locking=locking)
values = [bytes([i]) * (300_000 + i * 100_000) for i in range(2)]
print("ready", flush=True)
while True:
    for value in values:
        store.write(key, value)
"""


@pytest.mark.parametrize("locking", ["os", "lockfile", "none"])
def test_killed_while_writing(start, tmp_path, locking):
    """A process killed at any moment leaves the old value or the new one, and keys that can be written."""
    values = [bytes([i]) * (300_000 + i * 100_000) for i in range(2)]
    store = FileStore(tmp_path, sync=False)
    choose = random.Random(1)
    keys = [f"d/{i}" for i in range(6)]
    for key in keys:
        store.write(key, values[0])
    writers = [start(WRITER, tmp_path, key, locking) for key in keys]
    for key, writer in zip(keys, writers, strict=True):
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(choose.random() * 0.02)
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=10)
        assert store.read(key).value in values
    assert sorted(store.list()) == keys
    left = [name for name in os.listdir(tmp_path / "d") if name.endswith(".__lock")]
    assert len(left) + len(keys) == len(os.listdir(tmp_path / "d"))
    for key in keys:
        store.write(key, b"after")
        assert store.read(key).value == b"after"
    store.delete_range()
    assert os.listdir(tmp_path) == []


FORKING = """
import os, sys
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.protocol import under_lock
store = FileStore(sys.argv[1], sync=False, acquire_timeout=2)
store.write("k", b"1" * 5000)
read = store.open_reader()
read("k")
begin, end = os.pipe(), os.pipe()
child = None

def fork(fd, _):
    global child
    child = os.fork()
    if child == 0:
        ok = False
        try:
            os.close(begin[1])              # the parent's end: nothing is waited for if the parent is gone
            os.read(begin[0], 1)
            ok = bytes(read("k")) == b"2" * 6000 == store.read("k").value
            store.write("k", b"3")
        finally:
            os._exit(0 if ok else 1)
    return False

under_lock(sys.argv[1] + "/k", "os", 1, fork, None, sync=False, stamped=None)
store.write("k", b"2" * 6000)       # the child has the descriptor too, yet the lock is gone
os.write(begin[1], b"x")
assert os.waitpid(child, 0)[1] == 0
assert bytes(read("k")) == b"3"
"""


def test_fork(start, tmp_path):
    """A forked child goes on with the store and the readers, and keeps no lock of its parent."""
    process = start(FORKING, tmp_path)
    process.communicate(timeout=20)
    assert process.returncode == 0
