"""Keys, links and directories of a file store, and deleting them: as TensorStore."""

import os
import shutil

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Children
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, StorageError


@pytest.fixture
def store(tmp_path):
    return FileStore(tmp_path / "root", sync=False)


def tensorstore(root):
    context = ts.Context({"file_io_sync": False})
    return ts.KvStore.open({"driver": "file", "path": f"{root}/"}, context=context).result()


BAD = ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../b", "x\0y", "a.__lock"]
BAD += ["a.__lock/b", "a/b.__lock/c", ".__lock", "a/../../etc/passwd"]


@pytest.mark.parametrize("key", BAD, ids=ascii)
def test_invalid_keys(store, key):
    """Everything refuses them, with TensorStore's text, and TensorStore does so too."""
    requests = [
        lambda: store.read(key),
        lambda: store.open_reader()(key),
        lambda: store.open_value(key),
        lambda: store.read_size(key),
        lambda: store.read_ranges(key, [0], [0]),
        lambda: store.write(key, b""),
        lambda: store.delete(key),
    ]
    if read_into := store.open_into_reader():
        requests.append(lambda: read_into(key, memoryview(bytearray(1))))
    for request in requests:
        with pytest.raises(InvalidArgumentError, match=r"^Invalid key: ") as e:
            request()
        assert store.root in str(e.value)
    with pytest.raises(ValueError, match=r"^Invalid key: "):
        tensorstore(store.root[:-1]).write(key, b"").result()
    assert not os.path.exists(store.root)


@pytest.mark.parametrize("root", ["/tmp/../x", "..", "a/..", "x\0"])
def test_invalid_roots(root):
    with pytest.raises(InvalidArgumentError, match="Invalid path"):
        FileStore(root)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"locking": "flock"}, "Expected locking to be one of os, lockfile, none, non_atomic, .*'flock'"),
        ({"io_mode": "mmap"}, "Expected io_mode to be one of default, memmap, direct, .*'mmap'"),
        ({"acquire_timeout": -1}, "Expected acquire_timeout .*-1"),
        ({"acquire_timeout": float("nan")}, "Expected acquire_timeout .*nan"),
    ],
)
def test_invalid_options(options, text):
    with pytest.raises(InvalidArgumentError, match=text):
        FileStore("x", **options)


def test_relative_root_is_that_of_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = FileStore("r")
    monkeypatch.chdir("/")
    store.write("k", b"1")
    assert (tmp_path / "r" / "k").read_bytes() == b"1"
    assert store.describe("k") == f'local file "{tmp_path}/r/k"'
    assert repr(store) == (
        f"FileStore('{tmp_path}/r/', sync=True, locking='os', acquire_timeout=60, io_mode='default')"
    )


def test_identity_sees_through_links(tmp_path):
    (tmp_path / "link").symlink_to("real")
    store = FileStore(tmp_path / "real")
    assert FileStore(tmp_path / "link", sync=False).identity == store.identity
    assert FileStore(tmp_path / "other").identity != store.identity


def test_identity_of_a_root_that_is_spelled_otherwise(tmp_path):
    """POSIX lets two slashes at the beginning mean something else; nothing that is supported does."""
    for root in (f"/{tmp_path}", f"{tmp_path}//", f"{tmp_path}/./"):
        assert FileStore(root).identity == FileStore(tmp_path).identity


def test_directory_in_the_place_of_a_key(store):
    store.write("d/k", b"1")
    assert store.open_reader()("d") is None
    assert store.open_reader()("d", 0, 1) is None
    assert store.open_reader()("d", 0, 0) is None
    assert store.read("d").generation == MISSING_GENERATION
    assert store.read_ranges("d", [0], [1]) is None
    for request in (
        lambda: store.write("d", b""),
        lambda: store.write("d", b"", if_equal=MISSING_GENERATION),
        lambda: store.delete("d"),
    ):
        with pytest.raises(FailedPreconditionError, match="Is a directory"):
            request()
    assert list(store.list()) == ["d/k"]
    assert os.listdir(store.root) == ["d"]


def test_file_in_the_place_of_a_directory(store):
    store.write("f", b"1")
    assert store.open_reader()("f/k") is None
    assert store.read("f/k").generation == MISSING_GENERATION
    for request in (lambda: store.write("f/k", b""), lambda: store.delete("f/k")):
        with pytest.raises(FailedPreconditionError, match=r"Not a directory \[os_error_code='20'\]"):
            request()
    with pytest.raises(NotFoundError, match="Cannot list non-directory"):
        list(FileStore(store.root + "f").list())


def test_name_too_long(store):
    store.write("k", b"")
    for request in (store.open_reader(), store.read, lambda k: store.write(k, b""), store.delete):
        with pytest.raises(InvalidArgumentError, match="File name too long"):
            request("n" * 300)


def test_links(store, tmp_path):
    """A link to a file is that file; one to a directory is a key, not looked into; broken: missing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"out")
    store.write("d/k", b"1")
    for name, target in [("file", "d/k"), ("dir", outside), ("broken", "nowhere"), ("loop", "loop")]:
        os.symlink(target, store.root + name)
    read = store.open_reader()
    assert bytes(read("file")) == b"1"
    assert bytes(read("dir/x")) == b"out"
    assert read("broken") is None
    assert read("dir") is None
    with pytest.raises(StorageError, match="Too many levels of symbolic links"):
        read("loop")
    assert sorted(store.list()) == ["broken", "d/k", "dir", "file", "loop"]
    assert sorted(tensorstore(store.root[:-1]).list().result()) == [k.encode() for k in sorted(store.list())]
    assert list(store.list("dir/", "dir0")) == ["dir/x"]
    assert store.list_children("").prefixes == ["d"]
    store.write("file", b"2")
    store.write("broken", b"3")
    assert bytes(read("d/k")) == b"1" and bytes(read("file")) == b"2" and bytes(read("broken")) == b"3"
    store.delete_range("dir", "dis")
    assert (outside / "x").read_bytes() == b"out"
    assert not os.path.lexists(store.root + "dir")


def test_a_planted_lock_file_leads_nowhere(store, tmp_path):
    """A lock file that is a link is not followed: a write would go to its target."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.mkdir(store.root)
    os.symlink(victim, store.root + "k.__lock")
    with pytest.raises(StorageError, match="a lock file is one"):
        store.write("k", b"1")
    assert victim.read_bytes() == b"precious"


def test_missing_root(store):
    assert list(store.list()) == []
    assert store.list_children("") == Children([], [])
    store.delete_range()
    assert not os.path.exists(store.root)


@pytest.mark.parametrize(
    ("start", "stop", "left"),
    [
        ("a/b", "a/c", {"a", "a/z"}),
        ("a/b/", "a/b0", {"a", "a/b", "a/z"}),
        ("a/b", "a/b0", {"a", "a/b", "a/z"}),
        ("", "", set()),
    ],
)
def test_delete_range_removes_directories_in_the_range(store, start, stop, left):
    for key in ("a/b/c/d", "a/b/e", "a/z"):
        store.write(key, b"")
    open(store.root + "a/b/stale.__lock", "w").close()
    os.makedirs(store.root + "a/b/empty/inner")
    store.delete_range(start, stop)
    found = {
        os.path.relpath(os.path.join(d, n), store.root) for d, ds, fs in os.walk(store.root) for n in ds + fs
    }
    assert found == left


keys = st.sampled_from(["a", "a/b", "a/b/c", "a/b/d", "a.b", "a0", "b/c", "b/c/d", "é/x", "z"])
bounds = st.sampled_from(["", "a", "a/", "a/b", "a/b/", "a/b0", "a0", "b", "b/c", "b/c/", "c", "é", "z"])
steps = st.one_of(
    st.tuples(st.just("write"), keys),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("delete_range"), bounds, bounds),
    st.tuples(st.just("list"), bounds, bounds),
)


def outcome(request):
    try:
        result = request()
    except ValueError as e:
        return str(e).split(":")[0]
    return sorted(result) if isinstance(result, list) else None


def tree(root):
    return {os.path.join(d, n)[len(root) :] for d, ds, fs in os.walk(root) for n in ds + fs}


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(steps, max_size=12))
def test_same_tree_as_tensorstore(tmp_path_factory, todo):
    """After any operations, both have the same files, directories, listings and kinds of error."""
    base = tmp_path_factory.getbasetemp() / "trees"
    shutil.rmtree(base, ignore_errors=True)
    ours, theirs = FileStore(base / "ours", sync=False), tensorstore(base / "theirs")
    for kind, *arguments in todo:
        a, b = arguments[0], arguments[-1]
        between = ts.KvStore.KeyRange(a, b)
        if kind == "write":
            got = outcome(lambda a=a: ours.write(a, b"1"))
            want = outcome(lambda a=a: theirs.write(a, b"1").result())
        elif kind == "delete":
            if not os.path.isdir(os.path.dirname(f"{base}/theirs/{a}")):
                continue  # TensorStore makes the directories of a key that it is to delete
            got = outcome(lambda a=a: ours.delete(a))
            want = outcome(lambda a=a: theirs.write(a, None).result())
        elif between.empty:
            continue
        elif kind == "list":
            got = outcome(lambda a=a, b=b: list(ours.list(a, b)))
            want = outcome(lambda k=between: [x.decode() for x in theirs.list(k).result()])
        else:
            got = outcome(lambda a=a, b=b: ours.delete_range(a, b))
            want = outcome(lambda k=between: theirs.delete_range(k).result())
        assert got == want, (kind, arguments)
        assert tree(f"{base}/ours") == tree(f"{base}/theirs"), (kind, arguments)
