"""Every writer of arrays and groups: whatever goes wrong, what was there is there, or is wholly replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from failing_store import FailingStore, contents, place_in, replaced_or_not

import chunkwise
from chunkwise import create_n5_blocks
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.new_array import create_array, target_spec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import APPEND
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.errors import AlreadyExistsError, StorageError
from chunkwise.xarray import write_dataset, write_datatree

OLD, NEW = np.arange(10), np.arange(7) * 3
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}
MINE = ("t/notes.txt", "t/x/plot.png", "t/x/sub/a.txt")


def _fill(store: KvStoreDriver, format: str) -> None:
    group = chunkwise.create_group(place_in(store, "t/"), format=format, attributes={"a": 1})
    group.create_array("x", OLD, chunks=(4,), attributes={"b": 2})
    group.create_array("deep/y", OLD, chunks=(3,))
    for key in MINE:
        store.write(key, b"mine")


def _delete_existing(store: KvStoreDriver, format: str) -> None:
    spec = {"driver": DRIVERS[format], "kvstore": {"driver": "object", "object": store, "path": "t/deep/y/"}}
    chunkwise.open(spec, create=True, delete_existing=True, dtype="int16", shape=[5]).result()


def _overwrite(place: Any, format: str, data: Any = NEW) -> None:
    chunkwise.create_array(place, data, overwrite=True, chunks=(2,), format=format, attributes={"c": 3})


def _group(store: KvStoreDriver) -> chunkwise.Group:
    return chunkwise.open_group(place_in(store, "t/"), "r+")


WRITERS: dict[str, Callable[[KvStoreDriver, str], object]] = {
    "create_array": lambda store, format: _overwrite(place_in(store, "t/x/"), format),
    "of itself": lambda store, _: _group(store).create_array(
        "x", _group(store)["x"][2:9], overwrite=True, chunks=(2,)
    ),
    "Group.create_array": lambda store, _: _group(store).create_array("x", NEW, overwrite=True, chunks=(2,)),
    "Group.create_group": lambda store, _: _group(store).create_group("x", overwrite=True),
    "create_group": lambda store, format: chunkwise.create_group(
        place_in(store, "t/"), format=format, overwrite=True, attributes={"d": 4}
    ),
    "open_group": lambda store, format: chunkwise.open_group(place_in(store, "t/x/"), "w", format=format),
    "delete_existing": _delete_existing,
}


@pytest.fixture
def new_store(tmp_path: Path) -> Callable[[str], Callable[[], KvStoreDriver]]:
    """Makes makers of empty stores of each kind."""
    numbers = count()
    makers: dict[str, Callable[[], KvStoreDriver]] = {
        "file": lambda: FileStore(tmp_path / str(next(numbers)), sync=False),
        "memory": MemoryStore,
        "zip": lambda: ZipStore(MemoryStore(), "a.zip"),
        "plain": MemoryStore,
    }
    return makers.__getitem__


def _full() -> object:
    raise StorageError(os.strerror(errno.ENOSPC), errno.ENOSPC)


def _interrupt() -> object:
    raise KeyboardInterrupt


FAILURES: dict[str, tuple[Callable[[], object], type[BaseException]]] = {
    "full": (_full, StorageError),
    "interrupt": (_interrupt, KeyboardInterrupt),
}


def _cases() -> Iterator[Any]:
    for writer in WRITERS:
        for kind in ("file", "plain", "memory", "zip"):
            for format in DRIVERS:
                quick = kind in ("file", "plain") and format == "zarr3"
                for failure in FAILURES:
                    marks = () if quick and failure == "full" else (pytest.mark.slow,)
                    yield pytest.param(
                        writer, kind, format, failure, marks=marks, id=f"{writer}-{kind}-{format}-{failure}"
                    )


@pytest.mark.each_once
@pytest.mark.parametrize(("writer", "kind", "format", "failure"), list(_cases()))
def test_an_error_at_any_call(
    writer: str,
    kind: str,
    format: str,
    failure: str,
    new_store: Callable[[str], Callable[[], KvStoreDriver]],
) -> None:
    fail, error = FAILURES[failure]
    found = replaced_or_not(
        new_store(kind),
        lambda store: _fill(store, format),
        lambda store: WRITERS[writer](store, format),
        fail,
        (error,),
        plain=kind == "plain",
    )
    assert "old" in found and found <= {"old", "new", "beside"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes by fork")
@pytest.mark.parametrize(
    "writer",
    [
        pytest.param(
            name, marks=() if name in ("Group.create_array", "delete_existing") else pytest.mark.slow
        )
        for name in WRITERS
    ],
)
def test_a_kill_at_some_calls(writer: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "first", sync=False)
    _fill(store, "zarr3")
    old = contents(store)
    counted = FailingStore(store, lambda: None, 0)
    WRITERS[writer](counted, "zarr3")
    new, n = contents(store), counted.n_calls
    for at in {2, n // 2, *range(max(n - 4, 1), n + 1)}:
        store = FileStore(tmp_path / str(at), sync=False)
        _fill(store, "zarr3")
        process = os.fork()
        if not process:
            try:
                WRITERS[writer](FailingStore(store, lambda: os._exit(9), at), "zarr3")
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
        # The document that excludes others may stay, too; the next takes it over.
        ours = (".chunkwise-new", APPEND)
        found = {k: value for k, value in contents(store).items() if not any(name in k for name in ours)}
        assert found in (old, new)
        if found == old:
            WRITERS[writer](store, "zarr3")
            assert contents(store) == new  # nothing of the killed process is left


@pytest.mark.parametrize("format", DRIVERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_others_survive(writer: str, format: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path, sync=False)
    _fill(store, format)
    WRITERS[writer](store, format)
    assert {key for key, value in contents(store).items() if value == b"mine"} == set(MINE)


WRONG: dict[str, dict[str, Any]] = {
    "codec": {"codec": "zztd"},
    "level": {"codec": "zstd:99"},
    "dtype": {"dtype": "flaot64"},
    "chunks": {"chunks": (0,)},
    "rank of chunks": {"chunks": (2, 2)},
    "shards": {"chunks": (2,), "shards": (3,)},
    "fill value": {"fill_value": "many"},
    "attribute": {"attributes": {"a": object()}},
    "name of an attribute": {"attributes": {5: 1}},
    "NaN": {"attributes": {"a": float("nan")}},
    "names": {"dimension_names": ["y", "x"]},
    "units": {"dimension_units": ["4 nm", "4 nm"]},
    "metadata": {"metadata": {"chunk_grid": 5, "compressor": 5, "compression": 5}},
    "shape of the data": {"shape": (3,)},
    "option": {"colour": "red"},
    "layout": {"chunk_layout": chunkwise.ChunkLayout(inner_order=[1, 0])},
}


@pytest.mark.each_once
@pytest.mark.parametrize("format", DRIVERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_changes_nothing(wrong: str, format: str) -> None:
    store = MemoryStore()
    _fill(store, format)
    before = contents(store)
    group = _group(store)
    for path in ("x", "new", "far/away/new"):
        options = {"chunks": (2,), "overwrite": path == "x", **WRONG[wrong]}
        with pytest.raises((ValueError, TypeError)):
            group.create_array(path, NEW, **options)
        assert contents(store) == before, path
        with pytest.raises((ValueError, TypeError)):
            chunkwise.create_array(place_in(store, f"t/{path}/"), NEW, format=format, **options)
        assert contents(store) == before, path


@pytest.mark.parametrize("format", DRIVERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "flaot64", "shape": [5]},
        {"dtype": "int16"},
        {"dtype": "int16", "shape": [5], "chunk_layout": chunkwise.ChunkLayout(inner_order=[1, 0])},
        {"dtype": "int16", "shape": [5], "rank": 2},
        {"dtype": "int16", "shape": [5], "codec": {"driver": "zarr3", "codecs": [{"name": "zztd"}]}},
        {"dtype": "int16", "shape": [5], "fill_value": [1, 2]},
    ],
)
def test_delete_existing_deletes_nothing_for_what_cannot_be_made(format: str, wrong: dict[str, Any]) -> None:
    store = MemoryStore()
    _fill(store, format)
    before = contents(store)
    spec = {"driver": DRIVERS[format], "kvstore": {"driver": "object", "object": store, "path": "t/x/"}}
    with pytest.raises((ValueError, TypeError)):
        chunkwise.open(spec, create=True, delete_existing=True, **wrong).result()
    assert contents(store) == before


def test_delete_existing_of_a_volume(tmp_path: Path) -> None:
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": str(tmp_path / "v")},
        "multiscale_metadata": {"data_type": "uint8", "num_channels": 1, "type": "image"},
        "scale_metadata": {
            "size": [4, 4, 4],
            "resolution": [1, 1, 1],
            "encoding": "raw",
            "chunk_size": [2, 2, 2],
        },
    }
    volume = chunkwise.open(spec, create=True).result()
    volume[...] = 5
    files = {path: path.read_bytes() for path in (tmp_path / "v").rglob("*") if path.is_file()}
    wrong = {**spec, "scale_metadata": {**spec["scale_metadata"], "encoding": "jpg2"}}  # type: ignore[dict-item]
    for bad in (wrong, {**spec, "multiscale_metadata": {"data_type": "uint8", "type": "image"}}):
        with pytest.raises(ValueError):
            chunkwise.open(bad, create=True, delete_existing=True).result()
        assert {path: path.read_bytes() for path in (tmp_path / "v").rglob("*") if path.is_file()} == files
    again = chunkwise.open(spec, create=True, delete_existing=True).result()
    assert not again.read().result().any()
    assert os.listdir(tmp_path) == ["v"]


@pytest.mark.parametrize("format", DRIVERS)
def test_names_and_links_and_arrays_in_the_way(format: str) -> None:
    store = MemoryStore()
    _fill(store, format)
    group = _group(store)
    group.create_link("link", "/deep")
    before = contents(store)
    for path in ("x/inside", "link/inside", "zarr.json", "attributes.json", "a/.zarray"):
        for make in (
            lambda path: group.create_array(path, NEW, overwrite=True),
            lambda path: group.create_group(path, overwrite=True),
        ):
            with pytest.raises((AlreadyExistsError, ValueError)):
                make(path)
            assert contents(store) == before, path
    for attributes in ({"a": object()}, {"a": float("inf")}, *([{"n5": 1}] if format == "n5" else [])):
        with pytest.raises(ValueError):
            group.create_group("deep", attributes=attributes, overwrite=True)
        with pytest.raises(ValueError):
            chunkwise.open_group(place_in(store, "t/"), "w", format=format, attributes=attributes)
        assert contents(store) == before


@pytest.mark.parametrize("format", DRIVERS)
def test_an_array_may_be_made_of_what_it_replaces(format: str, tmp_path: Path) -> None:
    group = chunkwise.create_group(tmp_path / "a.zarr", format=format)
    made: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "itself": (lambda x: x, OLD),
        "view": (lambda x: x[2:9], OLD[2:9]),
        "reversed": (lambda x: x[::-1], OLD[::-1]),
        "cast": (lambda x: chunkwise.cast(x, "float64"), OLD.astype(float)),
        "stack": (lambda x: chunkwise.stack([x, x]), np.stack([OLD, OLD])),
        "downsampled": (lambda x: chunkwise.downsample(x, [2], "max"), OLD[1::2]),
    }
    for make, expected in made.values():
        x = group.create_array("x", OLD, chunks=(4,), overwrite=True)
        new = group.create_array("x", make(x), overwrite=True)
        np.testing.assert_array_equal(new.read().result(), expected)
        group.create_array("x", OLD, chunks=(4,), overwrite=True)
        place = tmp_path / "a.zarr" / "x"
        new = chunkwise.create_array(place, make(chunkwise.open(str(place)).result()), overwrite=True)
        np.testing.assert_array_equal(new.read().result(), expected)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("format", DRIVERS)
def test_a_failed_write_leaves_no_array(format: str) -> None:
    store = MemoryStore()
    group = chunkwise.create_group(place_in(store, "t/"), format=format)
    before = contents(store)
    source = chunkwise.virtual_chunked(
        _broken, dtype="int64", shape=[8], chunk_layout=chunkwise.ChunkLayout(chunk_shape=[2])
    )
    for path in ("x", "far/away/x"):
        with pytest.raises(Exception, match="no value"):
            group.create_array(path, source, chunks=(2,))
        with pytest.raises(Exception, match="no value"):
            chunkwise.create_array(place_in(store, f"t/{path}/"), source, chunks=(2,), format=format)
        assert contents(store) == before


def _broken(domain: Any, output: Any, parameters: Any) -> None:
    if domain.origin[0] >= 4:
        raise ValueError("no value")
    output[...] = 1


DATASET = xr.Dataset({"a": ("x", NEW), "b": ("x", NEW * 2)})
BLOCKS: dict[str, Any] = {"dimensions": [4], "block_size": [2], "data_type": "uint8"}
MAKERS: dict[str, Callable[[KvStoreDriver, str], object]] = {
    "create_array": lambda store, format: chunkwise.create_array(
        place_in(store, "t/deep/far/away/"), NEW, chunks=(2,), format=format, attributes={"a": 1}
    ),
    "Group.create_array": lambda store, _: _group(store).create_array("far/away", NEW, chunks=(2,)),
    "create_group": lambda store, format: chunkwise.create_group(
        place_in(store, "t/far/away/"), format=format
    ),
    "Group.create_group": lambda store, _: _group(store).create_group("far/away", attributes={"a": 1}),
    "write_dataset": lambda store, format: write_dataset(
        DATASET, place_in(store, "t/far/away/"), format=format
    ),
    "write_datatree": lambda store, format: write_datatree(
        xr.DataTree.from_dict({"/": DATASET, "/below": DATASET}),
        place_in(store, "t/far/away/"),
        format=format,
    ),
    "create_n5_blocks": lambda store, format: (
        format == "n5" and create_n5_blocks(place_in(store, "t/far/away/"), **BLOCKS)
    ),
    "array of a template": lambda store, format: create_array(
        place_in(store, "t/far/away/"), target_spec(ArrayTemplate((4,), DataType("int16")), format)
    ),
}


@pytest.mark.each_once
@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("format", DRIVERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_new_node_is_whole_or_not_there(
    maker: str, format: str, kind: str, new_store: Callable[[str], Callable[[], KvStoreDriver]]
) -> None:
    found = replaced_or_not(
        new_store(kind),
        lambda store: _fill(store, format),
        lambda store: MAKERS[maker](store, format),
        _full,
        (StorageError,),
    )
    assert "old" in found or (maker == "create_n5_blocks" and format != "n5")


@pytest.mark.parametrize("format", DRIVERS)
def test_new_nodes_are_not_put_among_files_of_others(format: str, tmp_path: Path) -> None:
    root = tmp_path / "a.zarr"
    group = chunkwise.create_group(root, format=format)
    (root / "d").mkdir()
    (root / "d" / "mine.txt").write_text("mine")
    makers: dict[str, Callable[[], object]] = {
        "create_array": lambda: chunkwise.create_array(root / "d", NEW, format=format),
        "Group.create_array": lambda: group.create_array("d", NEW),
    }
    if format != "n5":  # where every directory is a group
        makers |= {
            "create_group": lambda: chunkwise.create_group(root / "d", format=format),
            "Group.create_group": lambda: group.create_group("d"),
            "open_group": lambda: chunkwise.open_group(root / "d", "a", format=format),
            "require_group": lambda: group.require_group("d"),
        }
    for make in makers.values():
        with pytest.raises(AlreadyExistsError, match=r"mine\.txt"):
            make()
    assert [path.name for path in (root / "d").iterdir()] == ["mine.txt"]
    group.create_array("d", NEW, overwrite=True)
    assert (root / "d" / "mine.txt").read_text() == "mine"
    with pytest.warns(UserWarning, match=r"1 files in 'd' belong to no array or group.*mine\.txt"):
        del group["d"]
    assert [path.name for path in (root / "d").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("format", DRIVERS)
def test_new_nodes_have_the_format_of_the_group_above(format: str, tmp_path: Path) -> None:
    chunkwise.create_group(tmp_path / "a", format=format)
    assert chunkwise.create_group(tmp_path / "a" / "b").format == format
    assert chunkwise.open_group(tmp_path / "a" / "b" / "c", "w").format == format
    assert chunkwise.open_group(tmp_path / "a" / "b" / "c" / "d", "a").format == format
    chunkwise.create_array(tmp_path / "a" / "b" / "x", NEW)
    assert chunkwise.open_group(tmp_path / "a")["b/x"].read().result().tolist() == NEW.tolist()


@pytest.mark.parametrize("format", DRIVERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_no_directory_is_left_after_a_failure(
    maker: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In N5 an empty one is a group, and in all formats it would be in the way the next time."""
    _fill(FileStore(tmp_path, sync=False), format)
    before = sorted(tmp_path.rglob("*"))
    written = os.write

    def write(fd: int, value: Any, left: Iterator[int]) -> int:
        if next(left) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(fd, value)

    for n in range(0, 40, 3):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", partial(write, left=count(n, -1)))
            try:
                MAKERS[maker](FileStore(tmp_path, sync=False), format)
            except StorageError:
                found = [path for path in sorted(tmp_path.rglob("*")) if not path.name.endswith(".__lock")]
                assert found == before
            else:
                return
    raise AssertionError("it never ended")
