"""Objects in memory that are pickled: another process never takes them for something else."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import FailedPreconditionError

READ = """
import pickle, sys
try:
    print(pickle.load(sys.stdin.buffer).read().result().tolist())
except Exception as e:
    print(f"{type(e).__name__}: {e}")
"""


def read_elsewhere(pickled: bytes) -> str:
    """Return what another process reads of a pickled array, or how it fails."""
    done = subprocess.run([sys.executable, "-c", READ], input=pickled, capture_output=True, check=True)
    return done.stdout.decode().strip()


def create(kvstore: Any, **options: Any) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": kvstore}
    store = ts.open(spec, create=True, dtype="uint8", shape=[3], **options).result()
    store[...] = [1, 2, 3]
    return store


def in_fsspec() -> ts.TensorStore:
    memory = fsspec.filesystem("memory")
    return create({"driver": "object", "object": memory, "path": "other_process/", "single_writer": True})


ARRAYS = {
    "memory": lambda: create("memory://"),
    "in a context": lambda: create("memory://", context=ts.Context()),
    "resource": lambda: create({"driver": "memory", "memory_key_value_store": {}}),
    "object": lambda: create({"driver": "object", "object": MemoryStore()}),
    "fsspec": in_fsspec,
    "cast": lambda: create("memory://").astype("int16"),
    "stack": lambda: ts.stack([create("memory://")])[0],
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_memory_is_the_same_here_and_an_error_elsewhere(kind: str) -> None:
    store = ARRAYS[kind]()
    pickled = pickle.dumps(store)
    again = pickle.loads(pickled)
    again[0] = 7
    assert store.read().result().tolist() == [7, 2, 3]
    said = read_elsewhere(pickled)
    assert said.startswith("FailedPreconditionError: ")
    assert f"in the memory of process {os.getpid()}" in said and "chunkwise.array(values)" in said
    fsspec.filesystem("memory").store.clear()


def test_what_is_elsewhere_too_is_read_there(tmp_path: Path) -> None:
    context = ts.Context()
    create("memory://", context=context)
    store = create(f"file://{tmp_path}/a/", context=context)
    assert read_elsewhere(pickle.dumps(store)) == "[1, 2, 3]"
    assert read_elsewhere(pickle.dumps(ts.array(np.array([4, 5])))) == "[4, 5]"


def test_a_forked_process_has_another_memory() -> None:
    pickled = pickle.dumps(create("memory://"))
    received, sent = os.pipe()
    if (child := os.fork()) == 0:
        try:
            pickle.loads(pickled).read().result()
            os.write(sent, b"it was read")
        except FailedPreconditionError:
            os.write(sent, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(received, 99) == b"refused"


def test_memory_that_is_gone_is_an_error() -> None:
    pickled = pickle.dumps(create("memory://", context=ts.Context()))
    again = pickle.loads(pickled)
    with pytest.raises(FailedPreconditionError, match="had been deleted"):
        again.read().result()


def test_what_is_sent_on_from_elsewhere_comes_home() -> None:
    store = create("memory://")
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(store), capture_output=True, check=True
    )
    pickle.loads(done.stdout)[1] = 8
    assert store.read().result().tolist() == [1, 8, 3]


def test_a_copy_has_a_memory_of_its_own() -> None:
    store = create("memory://")
    copied = copy.deepcopy(store)
    copied[0] = 9
    assert store.read().result().tolist() == [1, 2, 3]
    values = MemoryStore()
    values.write("a", b"1")
    other = copy.copy(values)
    other.write("a", b"2")
    assert values.read("a").value == b"1"
    assert values.identity != other.identity
