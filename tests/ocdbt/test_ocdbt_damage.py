"""Databases that are damaged, or made to do harm: errors that name the file, in little time and memory."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest
from ocdbt_mutations import frames, mutated
from tests.trace_store import TraceStore

from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.ocdbt.fields import make_frame, varint, varints
from chunkwise.core.kvstore.ocdbt.manifest import (
    Config,
    ConfigMembers,
    Manifest,
    Statistics,
    Subtree,
    Version,
    VersionNode,
    encode_manifest,
    encode_version_node,
)
from chunkwise.core.kvstore.ocdbt.node import Child, Entry, Inner, Leaf, Node, encode_node
from chunkwise.core.kvstore.ocdbt.places import DataFile, Place
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.errors import ChunkwiseError, DataCorruptionError, UnsupportedError

NODE, MANIFEST, VERSIONS = 0x0CDB20DE, 0x0CDB3A2A, 0x0CDB1234
STATISTICS = Statistics(1, 100, 0)
PLAIN = {"level": None, "max_decoded_node_bytes": 200, "version_tree_arity_log2": 1}


def over(base: KvStoreDriver, config: dict[str, object] | None = None) -> OcdbtStore:
    folder = Folder(base, "")
    return OcdbtStore(folder, folder, Options(ConfigMembers(config or {})))


def place(name: str, length: int, offset: int = 0) -> Place:
    return Place(DataFile(b"", name.encode()), offset, length)


def put_root(base: MemoryStore, root: Place, height: int = 0, **options: object) -> None:
    """Write the manifest of a database with one version."""
    version = Version(1, root, height, STATISTICS, 1)
    base.write("manifest.ocdbt", encode_manifest(Manifest(Config(bytes(16), level=None), [version], [])))


def put_node(base: MemoryStore, name: str, node: Node, *, is_root: bool = True) -> Place:
    raw, _ = encode_node(node, None, is_root)
    base.write(name, raw)
    return place(name, len(raw))


def leaf(*keys: bytes) -> Leaf:
    return Leaf(list(keys), [Entry(key, b"v") for key in keys])


def inner(height: int, *children: tuple[bytes, int, Place]) -> Inner:
    entries = [Child(key, shared, at, STATISTICS) for key, shared, at in children]
    return Inner([child.key for child in entries], entries, height)


def read_all(store: OcdbtStore) -> dict[str, bytes]:
    read = store.open_reader()
    return {key: bytes(read(key) or b"") for key in store.list()}


def everything(store: OcdbtStore) -> None:
    """Do all that reads nodes."""
    found = read_all(store)
    assert len(found) < 10_000
    store.list_children("a/")
    store.write("a/new", bytes(300))
    store.delete_range("b", "c")
    store.delete("a/new")


def small_database(config: dict[str, object]) -> dict[str, bytes]:
    base = MemoryStore()
    store = over(base, config)
    for i in range(9):
        values = {f"{'abc'[i % 3]}/{i}/{j}": bytes(j * 40) for j in range(5)}
        assert store.write_all(values, conditions={}) is None
    return {key: bytes(base.read(key).value or b"") for key in base.list()}


@pytest.mark.parametrize(
    "count", [50, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_mutations(kind: str, count: int) -> None:
    """Whatever a frame with a valid checksum holds, all ends in a typed error or goes well, and quickly."""
    files = small_database({**PLAIN, "manifest_kind": kind})
    trace = TraceStore(_store(files))
    everything(over(trace))
    used = {request.key for request in trace.requests if request.key in files}
    damaged = sorted(key for key in used if frames(files[key]))
    failed = 0
    tracemalloc.start()
    for i in range(count):
        rng = random.Random(f"{kind}/{i}")
        key = rng.choice(damaged)
        base = MemoryStore()
        for name, raw in files.items():
            base.write(name, mutated(raw, rng) if name == key else raw)
        began = time.process_time()
        tracemalloc.reset_peak()
        try:
            everything(over(base))
        except ChunkwiseError as e:
            failed += 1
            assert any(name in str(e) for name in files), (key, str(e))
        assert time.process_time() - began < 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()
    # A third of many are errors.  Names, and so what is damaged, differ in each run: of 50 it may be fewer.
    assert failed > count / (3 if count > 1000 else 6)


def test_any_damaged_byte_is_an_error() -> None:
    """Without a new checksum a change of any byte is noticed where the byte is used."""
    config = {**PLAIN, "level": 0, "max_inline_value_bytes": 1000}
    files = small_database(config)
    expected = read_all(over(_store(files)))
    rng = random.Random(0)
    for _ in range(150):
        key = rng.choice(list(files))
        raw, at = files[key], rng.randrange(len(files[key]))
        changed = raw[:at] + bytes((raw[at] ^ 0xFF,)) + raw[at + 1 :]
        try:
            assert read_all(over(_store({**files, key: changed}))) == expected
            assert key != "manifest.ocdbt"
        except DataCorruptionError as e:
            assert key in str(e)


def _store(files: dict[str, bytes]) -> MemoryStore:
    base = MemoryStore()
    for key, raw in files.items():
        base.write(key, raw)
    return base


def test_a_node_that_is_its_own_child() -> None:
    base = MemoryStore()
    at = place("d/x", 0)
    size = len(encode_node(inner(3, (b"a", 0, at)), None, True)[0])
    for height in (1, 3, 255):
        put_node(base, "d/x", inner(height, (b"a", 0, place("d/x", size))))
        put_root(base, place("d/x", size), height)
        with pytest.raises(DataCorruptionError, match=rf'"d/x": height {height}, but {height - 1} in'):
            read_all(over(base))
        with pytest.raises(DataCorruptionError, match='Error reading the node at byte 0 of "d/x"'):
            over(base).write("k", b"")


def test_nodes_that_are_shared_until_a_listing_never_ends() -> None:
    """A tree of height 60 in which every node is there twice has 2**60 keys, and is small."""
    base = MemoryStore()
    below = put_node(base, "d/0", leaf(b""), is_root=False)
    for height in range(1, 61):
        children = ((b"a", 1, below), (b"b", 1, below))
        below = put_node(base, f"d/{height}", inner(height, *children))
    put_root(base, below, 60)
    store = over(base)
    assert store.read("a" * 60).value == b"v"
    began = time.process_time()
    with pytest.raises(DataCorruptionError, match="refer to the same nodes again and again"):
        for _ in store.list():
            pass
    with pytest.raises(DataCorruptionError, match="again and again"):
        store.list_children("")
    assert time.process_time() - began < 5


CASES = {
    "keys are not in order": leaf(b"b", b"a"),
    "its keys are not in order": leaf(b"a", b"a"),
}


@pytest.mark.parametrize("message", CASES)
def test_keys_that_are_not_in_order(message: str) -> None:
    base = MemoryStore()
    put_root(base, put_node(base, "d/x", CASES[message]))
    with pytest.raises(DataCorruptionError, match=f'"d/x": .*{message}'):
        read_all(over(base))


def test_keys_that_belong_to_other_nodes() -> None:
    base = MemoryStore()
    first, second = put_node(base, "d/1", leaf(b"a", b"n")), put_node(base, "d/2", leaf(b"m"))
    put_root(base, put_node(base, "d/x", inner(1, (b"a", 0, first), (b"m", 0, second))), 1)
    with pytest.raises(DataCorruptionError, match=r'"d/1": it has the keys .* which belong to other nodes'):
        read_all(over(base))
    # Also for a node that was read already, on another way to it.
    put_root(base, put_node(base, "d/x", inner(1, (b"m", 0, second), (b"x", 0, second))), 1)
    store = over(base)
    assert store.read("m").value == b"v"
    with pytest.raises(DataCorruptionError, match='"d/2": it has the keys'):
        store.read("x")


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (place("d/x", 30, 5), "is cut off"),
        (place("d/x", 1 << 62), f"it has {1 << 62} bytes, expected at most"),
        (place("d/none", 30), '"d/none", to which "manifest.ocdbt" leads, is missing'),
        (place("../secret", 30), 'the path "../secret" of a data file leads out of the database'),
        (place("/etc/passwd", 30), 'the path "/etc/passwd" of a data file leads out'),
        (place("a//b", 30), "leads out"),
    ],
)
def test_places_that_are_not_there(root: Place, message: str) -> None:
    base = MemoryStore()
    base.write("../secret", bytes(100))
    put_node(base, "d/x", leaf(b"a"))
    put_root(base, root)
    store = over(base)
    for act in (lambda: read_all(store), lambda: store.write("k", b"1"), lambda: store.list_children("")):
        with pytest.raises(DataCorruptionError) as e:
            act()
        assert message in str(e.value)
    assert set(base.list()) == {"../secret", "d/x", "manifest.ocdbt"}


def test_a_value_that_is_not_there() -> None:
    base = MemoryStore()
    base.write("d/v", b"12345")
    values = {b"long": place("d/v", 5, 3), b"none": place("d/w", 5), b"ok": place("d/v", 2, 3)}
    put_root(base, put_node(base, "d/x", Leaf(list(values), [Entry(*item) for item in values.items()])))
    store = over(base)
    read = store.open_reader()
    assert store.read("ok").value == b"45" == read("ok")
    for key, message in (("long", '"d/v", to .*, is cut off'), ("none", '"d/w", to .*, is missing')):
        for act in (store.read, read, lambda key: store.read_ranges(key, [4], [5])):
            with pytest.raises(DataCorruptionError, match=message):
                act(key)
    store.write("long", b"mended")
    assert store.read("long").value == b"mended"


def body_of_leaf(n: int, *columns: bytes) -> bytes:
    return b"".join((b"\0\0", varint(n), *columns))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (body_of_leaf(0), DataCorruptionError, "it has no entries"),
        (body_of_leaf(2**63), DataCorruptionError, f"{2**63} entries, but only 0 bytes are left"),
        (body_of_leaf(1, b"\xff" * 10), DataCorruptionError, "integers at byte 3|more than 64 bits"),
        (body_of_leaf(1, b"\xff" * 9 + b"\x02"), DataCorruptionError, "more than 64 bits"),
        (body_of_leaf(1, b"\x05abc"), DataCorruptionError, "5 bytes at byte 4, but 3 are left"),
        (
            body_of_leaf(1, varint(70_000), bytes(70_002)),
            DataCorruptionError,
            "70000 bytes, expected at most",
        ),
        (body_of_leaf(2, b"\2\1\1ab\0\0\0\0"), DataCorruptionError, "2 bytes shared with a key or path of 1"),
        (body_of_leaf(1, b"\1a\1\2v"), DataCorruptionError, "a value of kind 2"),
        (body_of_leaf(1, b"\1a\1\1\0\0"), DataCorruptionError, "data file 0 of 0"),
        (body_of_leaf(1, b"\1a\1\0vx"), DataCorruptionError, "1 bytes are left after its end"),
        (b"\0\1\1\2d" + varint(1), DataCorruptionError, "is too long or short"),
        # Memory for keys that share a long beginning, and for very many entries.
        (
            body_of_leaf(5001, varints([60_000] * 5000), varint(60_000), b"\1" * 5000, bytes(65_000)),
            DataCorruptionError,
            r"keys or paths of \d+ bytes in all",
        ),
        (body_of_leaf(3_000_000, bytes(20_000_000)), UnsupportedError, "a node of 3000000 entries"),
    ],
)
@pytest.mark.parametrize("level", [None, 0])
def test_bodies(body: bytes, error: type[Exception], message: str, level: int | None) -> None:
    base = MemoryStore()
    raw = make_frame(body, NODE, level)
    base.write("d/x", raw)
    put_root(base, place("d/x", len(raw)))
    began = time.process_time()
    tracemalloc.start()
    with pytest.raises(error, match=f'Error reading the node at byte 0 of "d/x": .*({message})'):
        read_all(over(base))
    assert tracemalloc.get_traced_memory()[1] < 1 << 28
    tracemalloc.stop()
    assert time.process_time() - began < 3


def test_what_decompresses_to_too_much() -> None:
    base = MemoryStore()
    raw = make_frame(bytes(100 << 20), NODE, 1)
    assert len(raw) < 20_000
    base.write("d/x", raw)
    put_root(base, place("d/x", len(raw)))
    with pytest.raises(DataCorruptionError, match=r'"d/x": it holds more than 67108864 bytes'):
        read_all(over(base))
    base.write("manifest.ocdbt", make_frame(bytes(100 << 20), MANIFEST, 1))
    with pytest.raises(DataCorruptionError, match=r'"manifest.ocdbt": it holds more than 67108864 bytes'):
        read_all(over(base))


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        (b"", DataCorruptionError, "it has 0 bytes, expected 18 at least"),
        (bytes(40), DataCorruptionError, "it begins with 0x00000000, expected 0x0cdb3a2a"),
        (make_frame(bytes(40), NODE, None), DataCorruptionError, "it begins with 0x0cdb20de"),
        (make_frame(bytes(40), MANIFEST, None)[:-1], DataCorruptionError, "says that it has 58 bytes"),
        (make_frame(bytes(40), MANIFEST, None)[:-1] + b"x", DataCorruptionError, "CRC-32C is"),
        (
            make_frame(bytes(16) + b"\2" + bytes(40), MANIFEST, None),
            DataCorruptionError,
            "manifest_kind is 2",
        ),
        (
            make_frame(bytes(17) + varint(1 << 21) + bytes(40), MANIFEST, None),
            DataCorruptionError,
            "max_inline_value_bytes is 2097152, expected 0 to 1048576",
        ),
        (make_frame(bytes(60), MANIFEST, None), DataCorruptionError, "version_tree_arity_log2 is 0"),
        (
            make_frame(bytes(19) + b"\1\2" + bytes(40), MANIFEST, None),
            UnsupportedError,
            "compression method 2 is not supported",
        ),
    ],
)
def test_manifests(raw: bytes, error: type[Exception], message: str) -> None:
    base = MemoryStore()
    base.write("manifest.ocdbt", raw)
    for act in (read_all, lambda store: store.write("k", b"1")):
        with pytest.raises(error, match=f'Error reading "manifest.ocdbt": .*{message}'):
            act(over(base))
    assert base.read("manifest.ocdbt").value == raw


def test_versions_that_lead_astray() -> None:
    """Nodes of versions that are their own children, end elsewhere, or have another arity."""
    base = MemoryStore()
    latest = Version(9, place("d/x", 1), 0, STATISTICS, 9)
    config = Config(bytes(16), level=None, version_tree_arity_log2=1)

    def put(node: VersionNode, arity: int, generation: int, height: int) -> None:
        raw = encode_version_node(node, arity, None)
        base.write("d/v", raw)
        subtree = Subtree(generation, place("d/v", len(raw)), 1, 1, height)
        base.write("manifest.ocdbt", encode_manifest(Manifest(config, [latest], [subtree])))

    def error() -> str:
        from chunkwise.core.kvstore.ocdbt.history import VersionName

        folder = Folder(base, "")
        with pytest.raises(DataCorruptionError) as e:
            list(OcdbtStore(folder, folder, Options(version=VersionName(2))).list())
        return str(e.value)

    size = len(encode_version_node(VersionNode(1, [], [Subtree(8, place("d/v", 0), 1, 1, 0)]), 1, None))
    itself = Subtree(8, place("d/v", size), 1, 1, 0)
    put(VersionNode(1, [], [itself]), 1, 8, 1)
    assert 'd/v": height 1, but 0 in the node above' in error()
    put(VersionNode(1, [], [itself]), 1, 6, 1)
    assert 'd/v": it ends at version [8], but 6 in the node above' in error()
    put(VersionNode(1, [], [itself]), 2, 8, 1)
    assert 'd/v": arity 2**2, but 2**1 in the manifest' in error()
