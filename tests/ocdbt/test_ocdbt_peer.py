"""Databases of TensorStore and orbax, read and changed here; those made here, read and changed there."""

from __future__ import annotations

import itertools
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_commit import Storage
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import KeyRange, decode_key
from chunkwise.core.kvstore.ocdbt.fields import frame_body
from chunkwise.core.kvstore.ocdbt.history import VersionName
from chunkwise.core.kvstore.ocdbt.manifest import (
    Subtree,
    encode_manifest,
    encode_version_node,
    parse_config,
    read_manifest,
    read_version_node,
)
from chunkwise.core.kvstore.ocdbt.node import encode_node
from chunkwise.core.kvstore.ocdbt.places import Place as DataPlace
from chunkwise.core.kvstore.ocdbt.tree import NodeRef, child_ref, read_checked, root_of

SYNC = {"file_io_sync": False}
CONFIGS = {
    "default": {},
    "numbered": {"manifest_kind": "numbered", "version_tree_arity_log2": 2},
    "small": {"compression": None, "max_decoded_node_bytes": 300, "version_tree_arity_log2": 1},
    "outside": {"max_inline_value_bytes": 0, "compression": {"id": "zstd", "level": 5}},
}


def ours(path: Path, config: object = None, **options: object) -> OcdbtStore:
    folder = Folder(FileStore(path, sync=False), "")
    return OcdbtStore(folder, folder, Options(parse_config(config or {}), **options))


def theirs(path: Path, **members: object) -> tensorstore.KvStore:
    spec = {"driver": "ocdbt", "base": f"file://{path}/", "context": SYNC, **members}
    return tensorstore.KvStore.open(spec).result()


def content(kv: tensorstore.KvStore) -> dict[str, bytes]:
    return {decode_key(key): kv[key] for key in kv.list().result()}


def own_content(store: OcdbtStore) -> dict[str, bytes]:
    read = store.open_reader()
    return {key: bytes(read(key) or b"") for key in store.list()}


def test_keys_that_differ_in_zeros_at_their_end(tmp_path: Path) -> None:
    """Many keys, each with the next one's beginning; TensorStore has the same ones."""
    words = [
        decode_key(bytes(letters)) for n in range(1, 7) for letters in itertools.product((0, 1), repeat=n)
    ]
    values = {word: word.encode("utf-8", "surrogateescape") for word in words}
    store = ours(tmp_path)
    assert store.write_all(values, conditions={}) is None
    assert own_content(ours(tmp_path)) == content(theirs(tmp_path)) == values


@pytest.mark.parametrize("config", CONFIGS)
def test_what_tensorstore_writes_is_encoded_as_it_was(tmp_path: Path, config: str) -> None:
    """Manifests, nodes of versions and nodes of keys, of all heights."""
    kv = theirs(tmp_path, config=CONFIGS[config])
    for i in range(21):
        kv.write(f"k{i}", bytes(i)).result()
    with tensorstore.Transaction(atomic=True) as transaction:
        for i in range(200):
            kv.with_transaction(transaction)[f"a/b/{i % 3}/c{i:05}"] = bytes(i)
    manifests = sorted(tmp_path.glob("manifest.*"))
    manifest = read_manifest((manifests[-2] if config == "numbered" else manifests[0]).read_bytes())
    level, arity = manifest.config.level, manifest.config.version_tree_arity_log2
    heights = []

    def same(one: bytes, other: bytes) -> bool:
        if level is None:
            return one == other
        # Another version of zstd may find other bytes for a large body.
        magic = int.from_bytes(other[:4], "big")
        return frame_body(one, magic) == frame_body(other, magic)

    def raw(place: DataPlace) -> bytes:
        return (tmp_path / place.file.key).read_bytes()[place.offset : place.offset + place.length]

    def check_versions(subtree: Subtree) -> None:
        node = read_version_node(raw(subtree.place), subtree, arity)
        assert same(encode_version_node(node, arity, level), raw(subtree.place))
        for child in node.subtrees:
            check_versions(child)

    def check_node(ref: NodeRef) -> None:
        node = read_checked(raw(ref.place), ref)
        heights.append(ref.height)
        again, _ = encode_node(node, level, not ref.shared)
        assert same(again, raw(ref.place))
        if ref.height:
            for i, below in enumerate(node.entries):
                check_node(child_ref(node, i, ref.keys))
                assert below.statistics.n_keys > 0

    for one in manifests:
        assert same(encode_manifest(read_manifest(one.read_bytes())), one.read_bytes())
    assert len(manifest.subtrees) >= 1
    for subtree in manifest.subtrees:
        check_versions(subtree)
    root = root_of(manifest.latest)
    assert root is not None
    check_node(root)
    assert (max(heights) > 1) == (config == "small")
    assert own_content(ours(tmp_path)) == content(kv)


@pytest.mark.parametrize("config", CONFIGS)
def test_both_ways(tmp_path: Path, config: str) -> None:
    """Both write in turn, delete ranges and everything; both see the same, in all versions."""
    store, kv = ours(tmp_path, CONFIGS[config]), None
    expected: dict[str, bytes] = {}
    for i in range(12):
        store.write(f"k/{i}", bytes(50 * i))
        kv = kv or theirs(tmp_path)
        kv.write(f"t/{i}", bytes(40 * i)).result()
        expected |= {f"k/{i}": bytes(50 * i), f"t/{i}": bytes(40 * i)}
        assert own_content(store) == content(kv) == expected
    store.delete_range("k/3", "t/4")
    kv.delete_range(tensorstore.KvStore.KeyRange(b"t/7", b"t/9")).result()
    expected = {k: v for k, v in expected.items() if not ("k/3" <= k < "t/4" or "t/7" <= k < "t/9")}
    assert own_content(store) == content(kv) == expected
    assert store.list_children("").prefixes == ["k", "t"]
    store.delete_range()
    assert own_content(store) == content(kv) == {}
    kv.write("z", b"1" * 200).result()
    assert own_content(store) == {"z": b"1" * 200}
    assert store.delete("z") and content(kv) == {}
    latest = store._database.current().manifest.latest.generation
    assert latest > 24
    for generation in range(1, latest + 1):
        one = ours(tmp_path, version=VersionName(generation))
        assert own_content(one) == content(theirs(tmp_path, version=generation))
    with pytest.raises(ValueError, match=f"Version where generation_number={latest + 1} not present"):
        list(ours(tmp_path, version=VersionName(latest + 1)).list())


@pytest.mark.parametrize("config", ["default", "numbered"])
def test_versions_by_time(tmp_path: Path, config: str) -> None:
    """A time names the latest version up to then, as in TensorStore; a named version is read-only."""
    store = ours(tmp_path, CONFIGS[config])
    times = [time.time_ns()]
    for i in range(40):
        store.write(f"k{i}", b"")
        times.append(time.time_ns())
    for i, at in list(enumerate(times))[1::3]:
        name = f"{datetime.fromtimestamp(at // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{at % 10**9:09}Z"
        url = f"file://{tmp_path}/|ocdbt:@{name}/"
        assert len(ts.KvStore.open(url).result().list().result()) == i
        assert len(tensorstore.KvStore.open(url).result().list().result()) == i
    before = "1999-12-31T23:59:59Z"
    for library in (ts, tensorstore):
        kv = library.KvStore.open(f"file://{tmp_path}/|ocdbt:@{before}/").result()
        with pytest.raises(
            ValueError, match=r"NOT_FOUND: .*Version where commit_time<=1999|Version where 1999"
        ):
            kv.list().result()
        with pytest.raises(ValueError, match=f"Writing is not supported with version={before} specified"):
            kv.write("k", b"").result()
        old = library.KvStore.open(f"file://{tmp_path}/|ocdbt:@v3/").result()
        with pytest.raises(ValueError, match="Writing is not supported with version=v3 specified"):
            old.delete_range(library.KvStore.KeyRange()).result()
        assert old.list().result() == [b"k0", b"k1"]
        none = library.KvStore.open(f"file://{tmp_path}/none/|ocdbt:@v1/").result()
        with pytest.raises(ValueError, match="OCDBT manifest not present"):
            none.read("k").result()


def test_one_transaction_is_one_version(tmp_path: Path) -> None:
    for atomic in (False, True):
        kv = ts.KvStore.open(f"file://{tmp_path}/{atomic}/|ocdbt:", context=ts.Context(SYNC)).result()
        kv["old"], kv["gone"] = b"1", b"2"
        transaction = ts.Transaction(atomic=atomic)
        inside = kv.with_transaction(transaction)
        for i in range(50):
            inside[f"k{i:02}"] = bytes(i * 10)
        del inside["gone"]
        assert kv.list().result() == [b"gone", b"old"]
        transaction.commit_sync()
        versions = ours(tmp_path / str(atomic))._database.current().manifest.versions
        assert [version.statistics.n_keys for version in versions] == [0, 1, 2, 51]
        assert len(content(theirs(tmp_path / str(atomic)))) == 51
        files = list((tmp_path / str(atomic) / "d").iterdir())
        assert len(files) == 3


def test_a_transaction_whose_condition_fails_changes_nothing(tmp_path: Path) -> None:
    kv = ts.KvStore.open(f"file://{tmp_path}/|ocdbt:", context=ts.Context(SYNC)).result()
    kv["k"] = b"1"
    transaction = ts.Transaction(atomic=True, repeatable_read=True)
    inside = kv.with_transaction(transaction)
    assert inside["k"] == b"1"
    inside["other"] = b"2"
    theirs(tmp_path).write("k", b"by another").result()
    with pytest.raises(ValueError, match="Generation mismatch"):
        transaction.commit_sync()
    assert content(theirs(tmp_path)) == {"k": b"by another"}
    assert len(list((tmp_path / "d").iterdir())) == 2


PREFIXES = {
    "value_data_prefix": "values/x",
    "btree_node_data_prefix": "nodes/",
    "version_tree_node_data_prefix": "versions/",
}


def test_where_data_goes(tmp_path: Path) -> None:
    """Prefixes, manifests elsewhere, sizes of files, a first version that is not empty: as TensorStore."""
    for library in (ts, tensorstore):
        root = tmp_path / library.__name__
        members = {**PREFIXES, "manifest": f"file://{root}/m/", "config": {"version_tree_arity_log2": 1}}
        spec = {"driver": "ocdbt", "base": f"file://{root}/data/", "context": SYNC, **members}
        kv = library.KvStore.open(spec).result()
        for i in range(4):
            kv.write(f"k{i}", bytes(200)).result()
    for pattern in ("values/x*", "nodes/*", "versions/*", "*"):
        counts = [
            len(list((tmp_path / name / "data").glob(pattern))) for name in ("chunkwise", "tensorstore")
        ]
        assert counts[0] == counts[1] > 0, pattern
    swapped = {
        **spec,
        "base": f"file://{tmp_path}/chunkwise/data/",
        "manifest": f"file://{tmp_path}/chunkwise/m/",
    }
    assert len(content(tensorstore.KvStore.open(swapped).result())) == 4

    for library in (ts, tensorstore):
        root = tmp_path / "sizes" / library.__name__
        for size in (0, 250):
            spec = {"driver": "ocdbt", "base": f"file://{root}/{size}/", "target_data_file_size": size}
            kv = library.KvStore.open({**spec, "context": SYNC}).result()
            with library.Transaction(atomic=True) as transaction:
                for i in range(10):
                    kv.with_transaction(transaction)[f"k{i}"] = bytes(200)
        assert len(list((root / "0" / "d").iterdir())) == 1
        assert sorted(path.stat().st_size for path in (root / "250" / "d").iterdir())[1:] == [400] * 5

    for library in (ts, tensorstore):
        root = tmp_path / "assumed" / library.__name__
        members = {"assume_config": True, "config": {"uuid": "0" * 32, "max_inline_value_bytes": 5}}
        spec = {"driver": "ocdbt", "base": f"file://{root}/", "context": SYNC, **members}
        library.KvStore.open(spec).result().write("k", bytes(50)).result()
        manifest = read_manifest((root / "manifest.ocdbt").read_bytes())
        assert (manifest.latest.generation, manifest.latest.statistics.n_value_bytes) == (1, 50)
        assert manifest.config.uuid == bytes(16)


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    ours(tmp_path).write("k", b"1")
    for config, message in (
        ({"max_inline_value_bytes": 7}, "max_inline_value_bytes: expected 7 but received 100"),
        ({"compression": None}, r'compression: expected null but received \{"id":"zstd"'),
        ({"manifest_kind": "numbered"}, 'manifest_kind: expected "numbered" but received "single"'),
        ({"uuid": "0" * 32}, 'uuid: expected "0{32}" but received "'),
    ):
        for kv in (ts.KvStore, tensorstore.KvStore):
            spec = {"driver": "ocdbt", "base": f"file://{tmp_path}/", "config": config}
            with pytest.raises(
                ValueError, match=f"FAILED_PRECONDITION: .*Configuration mismatch on {message}"
            ):
                kv.open(spec).result().list().result()
            with pytest.raises(ValueError, match=f"Configuration mismatch on {message}"):
                kv.open(spec).result().write("k", b"2").result()
    assert own_content(ours(tmp_path)) == {"k": b"1"}


KEYS = st.lists(st.sampled_from([b"a", b"b/", b"ab", b"\xff", b"long" * 9, b"0"]), max_size=5).map(b"".join)
VALUES = st.one_of(st.none(), st.binary(max_size=9), st.integers(90, 900).map(bytes))
STEPS = st.one_of(
    st.tuples(st.just("ours"), st.dictionaries(KEYS, VALUES, max_size=12)),
    st.tuples(st.just("theirs"), st.dictionaries(KEYS, VALUES, max_size=4)),
    st.tuples(st.just("range"), st.tuples(KEYS, KEYS)),
    st.tuples(st.just("conditional"), st.tuples(KEYS, VALUES, st.booleans())),
)


@settings(max_examples=examples(40), deadline=None)
@given(
    config=st.fixed_dictionaries(
        {
            "manifest_kind": st.sampled_from(["single", "numbered"]),
            "max_inline_value_bytes": st.sampled_from([0, 5, 100]),
            "max_decoded_node_bytes": st.sampled_from([1, 60, 200, 1000]),
            "version_tree_arity_log2": st.integers(1, 3),
            "compression": st.sampled_from([None, {"id": "zstd"}]),
        }
    ),
    steps=st.lists(STEPS, max_size=12),
)
def test_any_sequence(tmp_path_factory: pytest.TempPathFactory, config: dict, steps: list) -> None:
    """Whatever is written and deleted, by whom, both see what a dictionary has."""
    path = tmp_path_factory.mktemp("db")
    store, model, history = ours(path, config), {}, [{}]
    store.write("", b"first")
    model[""] = b"first"
    history.append(dict(model))
    kv = theirs(path)
    for what, argument in steps:
        if what == "range":
            keys = KeyRange(*argument)
            store.delete_range(keys.start, keys.stop)
            model = {key: value for key, value in model.items() if key not in keys}
        elif what == "conditional":
            key, value, holds = decode_key(argument[0]), argument[1], argument[2]
            expected = store.read(key).generation if holds else b"\0another"
            change = store.delete(key, if_equal=expected) if value is None else None
            if value is not None:
                change = store.write(key, value, if_equal=expected)
            assert (change is not None) == holds
            if holds:
                model.pop(key, None)
                model |= {} if value is None else {key: value}
        else:
            values = {decode_key(key): value for key, value in argument.items()}
            if what == "ours":
                assert store.write_all(values, conditions={}) is None
            else:
                for key, value in argument.items():
                    kv.write(key, value).result()
            model = {k: v for k, v in (model | values).items() if v is not None}
        assert own_content(store) == model
    assert content(theirs(path)) == model == own_content(ours(path))
    assert list(store.list()) == sorted(model, key=lambda key: key.encode("utf-8", "surrogateescape"))
    assert store.list_children("b/").keys == sorted(k for k in model if k[:2] == "b/" and "/" not in k[2:])
    statistics = store._database.current().manifest.latest.statistics
    assert statistics.n_keys == len(model)
    assert own_content(ours(path, version=VersionName(2))) == {"": b"first"}


def test_checkpoint_of_orbax(tmp_path: Path) -> None:
    """Data files of another database in it, which orbax merges, stay where they are."""
    shutil.unpack_archive(Path(__file__).parent / "orbax" / "checkpoint.zip", tmp_path)
    kv = ts.KvStore.open(f"file://{tmp_path}/|ocdbt:").result()
    assert len(kv.list().result()) == 8
    expected = {
        "params.w": np.arange(12, dtype=np.float32).reshape(3, 4),
        "params.b": np.array([1, 2, 3], ml_dtypes.bfloat16),
        "step": np.int32(7),
        "table": np.arange(2000, dtype=np.int16).reshape(50, 40),
    }
    kv["step/comment"] = b"x" * 2000
    peer = theirs(tmp_path)
    for name, values in expected.items():
        array = ts.open(f"{tmp_path}|ocdbt:{name}/").result()
        assert array.dtype.numpy_dtype == values.dtype
        np.testing.assert_array_equal(np.asarray(array), values)
        assert peer[f"{name}/.zarray"] == kv[f"{name}/.zarray"]
    assert peer["step/comment"] == b"x" * 2000
    table = ts.open(f"{tmp_path}|ocdbt:table/").result()
    table[3:5] = -1
    again = tensorstore.open(f"file://{tmp_path}/|ocdbt:table/|zarr2:").result()
    np.testing.assert_array_equal(np.asarray(again)[2:6, 0], [80, -1, -1, 200])


def test_an_array_is_found_in_a_database(tmp_path: Path) -> None:
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/|ocdbt:", "context": SYNC}
    tensorstore.open(spec, create=True, dtype="uint8", shape=[4]).result().write([1, 2, 3, 4]).result()
    for place in (f"file://{tmp_path}/a/", f"{tmp_path}/a", f"{tmp_path}/a/|ocdbt:|auto:"):
        found = ts.open(place).result()
        assert found.url == f"file://{tmp_path}/a/|ocdbt:|zarr3:"
        assert found.read().result().tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r'it is an OCDBT database, whose content is ".*/a\|ocdbt:"'):
        ts.open_group(tmp_path / "a")
    shutil.copy(Path(__file__), tmp_path / "a" / "zarr.json")
    for library in (ts, tensorstore):
        with pytest.raises(
            ValueError, match=r"Multiple possible formats detected .*(ocdbt, zarr3|zarr3, ocdbt)"
        ):
            library.open(f"file://{tmp_path}/a/").result()


def test_groups_and_arrays_in_a_database(tmp_path: Path) -> None:
    group = ts.create_group(f"file://{tmp_path}/|ocdbt:g/")
    values = np.random.default_rng(0).integers(0, 9, (100, 100), np.int16)
    group.create_array("x", values, chunks=(10, 10))
    assert np.array_equal(np.asarray(ts.open_group(f"{tmp_path}|ocdbt:g")["x"]), values)
    peer = tensorstore.open(f"file://{tmp_path}/|ocdbt:g/x/|zarr3:").result()
    assert np.array_equal(np.asarray(peer), values)


def test_data_prefixes_stay_inside() -> None:
    for beginning in ("../", "/x", "a//b", "a/../b", "\0"):
        with pytest.raises(ValueError, match=r"value_data_prefix.*Expected the beginning of a relative path"):
            ts.KvStore.Spec({"driver": "ocdbt", "base": "memory://", "value_data_prefix": beginning})
    assert Storage().value_prefix == "d/"


def test_a_copied_range_refers_to_the_values_that_are_there(tmp_path):
    url = f"file://{tmp_path}/|ocdbt:"
    store = ts.KvStore.open(url).result()
    store["p/a"] = bytes(10**6)
    store["p/b"] = b"old"
    before = ts.KvStore.open(f"{url}@v3/").result()
    store["p/b"] = b"new"
    (store / "p/").experimental_copy_range_to(store / "q/").result()
    (before / "p/").experimental_copy_range_to(store / "then/").result()
    peer = tensorstore.KvStore.open(url).result()
    assert {key: len(peer[key]) for key in ("p/a", "q/a", "then/a")} == dict.fromkeys(
        ("p/a", "q/a", "then/a"), 10**6
    )
    assert [peer[key] for key in ("q/b", "then/b")] == [b"new", b"old"]
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 1.1 * 10**6


@pytest.mark.parametrize("atomic", [None, False, True])
@pytest.mark.parametrize("base", ["file", "memory"])
def test_a_database_takes_the_values_of_one_below_its_directory(tmp_path, base, atomic):
    context = ts.Context()
    root = f"file://{tmp_path}/" if base == "file" else "memory://d/"
    large = bytes(10**5)

    def database(path):
        spec = {"driver": "ocdbt", "base": f"{root}{path}", "config": {"max_inline_value_bytes": 8}}
        return ts.KvStore.open(spec, context=context).result()

    whole, parts = database(""), [database(f"part.{i}/") for i in range(2)]
    whole["before"] = b"x"
    for i, part in enumerate(parts):
        part[f"large{i}"] = large
        part[f"small{i}"] = b"inline"
    transaction = None if atomic is None else ts.Transaction(atomic=atomic)
    target = whole if transaction is None else whole.with_transaction(transaction)
    for part in parts:
        part.experimental_copy_range_to(target / "all/").result()
    expected = {b"before", *(b"all/%s%d" % (name, i) for name in (b"large", b"small") for i in range(2))}
    assert set(target.list().result()) == expected
    assert target["all/large1"] == large
    if transaction is not None:
        assert whole.list().result() == [b"before"]
        transaction.commit_sync()
    assert set(whole.list().result()) == expected
    # A copy of a copy refers to the same file.
    whole.experimental_copy_range_to(whole / "again/", ts.KvStore.KeyRange("all/", "all0")).result()
    assert whole["again/all/large0"] == large
    if base == "file":
        peer = tensorstore.KvStore.open(f"{root}|ocdbt:").result()
        assert set(peer.list().result()) >= expected
        assert (peer["all/large0"], peer["again/all/small1"]) == (large, b"inline")
        nbytes = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        assert nbytes < 2.1 * len(large)
    for source, into in ((whole, parts[0]), (parts[0], parts[1])):
        with pytest.raises(NotImplementedError, match="CopyRange not supported"):
            source.experimental_copy_range_to(into).result()


def test_a_reference_can_be_changed_in_its_transaction(tmp_path):
    url = f"file://{tmp_path}/"
    part = ts.KvStore.open(f"{url}p/|ocdbt:").result()
    part["a.json"] = b'{"x": 1}' + b" " * 1000
    whole = ts.KvStore.open(f"{url}|ocdbt:").result()
    with ts.Transaction() as transaction:
        inside = whole.with_transaction(transaction)
        part.experimental_copy_range_to(inside).result()
        member = ts.open(
            {"driver": "json", "kvstore": inside.spec() / "a.json", "json_pointer": "/y"},
            transaction=transaction,
        ).result()
        member.write(2).result()
    assert tensorstore.KvStore.open(f"{url}|ocdbt:").result()["a.json"] == b'{"x":1,"y":2}'
