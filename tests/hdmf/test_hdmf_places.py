"""Places: what is in the way there, what is there instead of a store, and what is said of it."""

from __future__ import annotations

import socket
import time
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.errors import UnsupportedOperation
from hdmf.build import DatasetBuilder, GroupBuilder
from nwb_content import new_file
from pynwb import TimeSeries, get_manager

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.trees.consolidated_tree import check_consolidated
from chunkwise.core.trees.node import require_node
from chunkwise.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    StorageError,
)
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, convert, open_store


def _root(value: int) -> GroupBuilder:
    return GroupBuilder("root", datasets=[DatasetBuilder("a", np.full(3, value))])


def _write(path: Path, value: int, mode: str = "w", **options: Any) -> None:
    with ZarrIO(path, mode=mode, **options) as io:
        io.write_builder(_root(value))


def _read(path: Path) -> int:
    with ZarrIO(path) as io:
        return int(io.read_builder().datasets["a"].data[0])


@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
@pytest.mark.parametrize("mode", ["q", None])
def test_a_wrong_mode_is_told_before_the_place_is_looked_at(io_class: Any, mode: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"mode: expected one of r, r-, r\+"):
        io_class(tmp_path / "none", mode=mode)


def test_what_is_no_place_is_told_by_type() -> None:
    class LocalStore:
        pass

    with pytest.raises(
        TypeError, match=r"LocalStore, but expected a local path, a URL, a chunkwise\.KvStore or one "
    ):
        ZarrIO(LocalStore())  # type: ignore[arg-type]


def test_the_error_says_what_is_there_instead(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nwb", "w"):
        pass
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "y")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, words in {
        "none": "nothing is there",
        "a.nwb": "it is an HDF5 file; pynwb.NWBHDF5IO reads it",
        "a.zip": r'ZIP archive, whose content is at ".*a\.zip\|zip:"',
        "a.txt": "it is a file$",
        "empty": "no zarr.json, .zgroup or attributes.json with hdmf_n5",
    }.items():
        for io_class in (ZarrIO, NWBZarrIO):
            with pytest.raises(NotFoundError, match=words):
                io_class(tmp_path / name)


def test_an_interrupted_store_is_none_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ZarrIO(path, mode="w") as io, pytest.raises(InvalidArgumentError):
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("b", [object()])]))
    assert not ZarrIO.can_read(path)
    with pytest.raises(NotFoundError, match="its writing was interrupted or goes on"):
        ZarrIO(path)
    _write(path, 2)
    assert _read(path) == 2


def test_a_file_in_the_way_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    path.write_text("precious")
    for mode in ("w", "w-", "x", "a"):
        with pytest.raises(AlreadyExistsError):
            ZarrIO(path, mode=mode)
    with pytest.raises(AlreadyExistsError, match=r"already, a file: .* force_overwrite=True"):
        ZarrIO(path, mode="w")
    assert path.read_text() == "precious"
    _write(path, 1, force_overwrite=True)
    assert _read(path) == 1


def test_an_array_that_takes_the_place_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    path.write_text("precious")
    with (
        pytest.raises(AlreadyExistsError, match=r"a\.zarr was made by another process"),
        ZarrIO(path, mode="w", force_overwrite=True) as io,
    ):
        io.write_group("/", GroupBuilder("g"))
        path.unlink()
        cw.create_array(path, [1, 2])
    assert cw.read(path).tolist() == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("call", ["exchange_directories", "delete"])
def test_a_file_or_its_store_is_there_at_any_moment(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zarr"
    path.write_text("precious")

    def fail(*_: object, **__: object) -> None:
        assert path.exists()
        raise StorageError("the process ends")

    with (
        monkeypatch.context() as patched,
        pytest.raises(StorageError),
        ZarrIO(path, mode="w", force_overwrite=True) as io,
    ):
        patched.setattr(FileStore, call, fail)
        io.write_builder(_root(1))
    assert path.read_text() == "precious" if path.is_file() else _read(path) == 1


def test_a_store_is_replaced_when_something_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    _write(path, 1)
    ZarrIO(path, mode="w").close()
    assert _read(path) == 1
    _write(path, 2)
    assert _read(path) == 2


def test_a_store_is_not_exported_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    _write(path, 1)
    (tmp_path / "link").symlink_to(path)
    refused = pytest.raises(UnsupportedOperation, match="to itself")
    with ZarrIO(path) as source, ZarrIO(tmp_path / "link", mode="w") as io, refused:
        io.export(source)
    assert _read(path) == 1
    for target in (path, tmp_path / "link"):
        with pytest.raises(InvalidArgumentError, match="which is the same"):
            convert(path, target, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="which is inside it"):
        convert(path, path / "inside")
    assert _read(path) == 1


def test_hdf5_files_are_written_to_directories_that_exist(tmp_path: Path) -> None:
    _write(tmp_path / "a", 1)
    with pytest.raises(NotFoundError, match=r"b\.nwb: there is no directory .*none"):
        convert(tmp_path / "a", tmp_path / "none" / "b.nwb")


def test_can_read_does_not_wait_for_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    assert not NWBZarrIO.can_read(f"http://127.0.0.1:{port}/a.nwb.zarr")
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_an_array_is_no_file(format: str, tmp_path: Path) -> None:
    _write(tmp_path / "a", 1, format=format)
    with pytest.raises(FailedPreconditionError, match="is an array, not a group"):
        ZarrIO(tmp_path / "a" / "a")
    with pytest.raises(FailedPreconditionError, match="is an array, not a group"):
        convert(tmp_path / "a" / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(("given", "codec"), [(None, "json2"), (numcodecs.Pickle, "pickle")])
def test_the_codec_of_objects_is_told(given: Any, codec: str, tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", "w", object_codec_class=given) as io:
        assert io.object_codec_class.codec_id == codec


def store_of_zarr2(name: str, path: Path) -> Any:
    """A store object as zarr-python 2 has them; the release that is installed here has none."""
    return type(name, (), {"__module__": "zarr.storage", "path": str(path)})()


@pytest.mark.parametrize("name", ["DirectoryStore", "NestedDirectoryStore", "TempStore"])
def test_store_objects_of_zarr_python_2(tmp_path: Path, name: str) -> None:
    store = store_of_zarr2(name, tmp_path / "a")
    data = ZarrDataIO(np.arange(12).reshape(4, 3), chunks=(2, 3))
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", data)], attributes={"data_type": "x"})
    with ZarrIO(store, mode="w") as io:
        assert io.source == io.abspath == str(tmp_path / "a")
        io.write_builder(root)
    assert open_store(store).format == "zarr2"
    nested = name == "NestedDirectoryStore"
    assert (tmp_path / "a" / "d" / ("1/0" if nested else "1.0")).is_file()
    assert ZarrIO.can_read(store)
    with ZarrIO(store, mode="r+") as io:
        data = io.read_builder().datasets["d"].data
        data.append([1, 2, 3])
        assert data[:, 1].tolist() == [1, 4, 7, 10, 2]


def test_store_objects_of_zarr_python_3(tmp_path: Path) -> None:
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", np.arange(3))])
    with ZarrIO(zarr.storage.LocalStore(tmp_path / "a"), mode="w") as io:
        io.write_builder(root)
    archive = zarr.storage.ZipStore(tmp_path / "a.zip", mode="w")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for path in (tmp_path / "a").rglob("*"):
            file.write(path, path.relative_to(tmp_path / "a"))
    for place in (zarr.storage.LocalStore(tmp_path / "a"), archive):
        with ZarrIO(place) as io:
            assert io.read_builder().datasets["d"].data[:].tolist() == [0, 1, 2]


def _fsspec_memory(name: str) -> Any:
    fs = fsspec.filesystem("memory")
    if fs.exists(name):
        fs.rm(name, recursive=True)
    return zarr.storage.FsspecStore.from_url(f"memory://{name}")


def _fsspec_local(path: Path) -> Any:
    return zarr.storage.FsspecStore.from_url(f"file://{path}")


@pytest.mark.each_once
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["memory", "fsspec", "fsspec-local", "mapping-2"])
@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_store_objects_in_memory_and_of_fsspec(kind: str, format: str, tmp_path: Path) -> None:
    held: dict[str, Any] = {}
    store: Any = {
        "memory": lambda: zarr.storage.MemoryStore(held),
        "fsspec": lambda: _fsspec_memory(f"{kind}-{format}"),
        "fsspec-local": lambda: _fsspec_local(tmp_path / "a"),
        "mapping-2": lambda: type("KVStore", (dict,), {"__module__": "zarr.storage"})(),
    }[kind]()
    with NWBZarrIO(store, "w", format=format) as io:
        nwb = new_file()
        nwb.add_acquisition(TimeSeries("ts", np.arange(5.0), "V", rate=1.0))
        nwb.add_trial(start_time=0.0, stop_time=1.0, timeseries=[nwb.acquisition["ts"]])
        io.write(nwb)
    assert NWBZarrIO.can_read(store)
    with NWBZarrIO(store, "r+") as io:
        nwb = io.read()
        nwb.acquisition["ts"].data.append(5.0)
        nwb.add_trial(start_time=1.0, stop_time=2.0, timeseries=[nwb.acquisition["ts"]])
        io.write(nwb)
    with NWBZarrIO(store) as io:
        nwb = io.read()
        assert nwb.acquisition["ts"].data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert nwb.trials["timeseries"][1][0].timeseries is nwb.acquisition["ts"]
    if kind in ("memory", "fsspec") and format != "n5":
        path = "acquisition/ts/data"
        assert zarr.open_array(store, path=path, mode="r", zarr_format=int(format[-1]))[5] == 5.0
    with pytest.raises(AlreadyExistsError):
        NWBZarrIO(store, "w-")


def test_a_read_only_store_object_is_not_written_to(tmp_path: Path) -> None:
    for store in (
        zarr.storage.LocalStore(tmp_path / "a", read_only=True),
        zarr.storage.MemoryStore(read_only=True),
    ):
        for mode in ("w", "r+", "a"):
            with pytest.raises(InvalidArgumentError, match="is read-only"):
                ZarrIO(store, mode)


def test_positional_arguments_have_the_order_of_hdmf(tmp_path: Path) -> None:
    """The mode is the second argument of ``NWBHDF5IO`` and of hdmf-zarr's classes, too."""
    manager = get_manager()
    with NWBZarrIO(tmp_path / "a", "w", manager) as io:
        io.write(new_file())
        assert io.manager is manager
    with NWBZarrIO(tmp_path / "a", "r", None, {}, False, False) as io:
        assert io.read().identifier == "content"
    with ZarrIO(tmp_path / "b", "w", manager, None, True) as io:
        assert io.manager is manager
    with pytest.raises(InvalidArgumentError, match=r"mode: expected one of .*, not <"):
        ZarrIO(tmp_path / "a", manager)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_groups_above_have_copies_of_all_that_is_written(format: str, tmp_path: Path) -> None:
    above = cw.create_group(tmp_path / "g", format=format)
    above.consolidate()
    _write(tmp_path / "source", 1, format="zarr3")
    place = tmp_path / "g/o"

    def check() -> None:
        group = cw.open_group(tmp_path / "g")
        assert check_consolidated(require_node(group.location), below=False) == [] and "o/a" in group

    convert(tmp_path / "source", place, format=format)
    check()
    convert(tmp_path / "source", place, format=format, overwrite=True)
    check()
    _write(place, 2, format=format)
    check()
    with ZarrIO(place, mode="r+") as io:
        root = io.read_builder()
        root.attributes["b"] = 2
        root.set_dataset(DatasetBuilder("more", np.arange(4)))
        io.write_builder(root)
        check()  # before it is closed, too
    check()
