"""Mode "w" over an existing store: the new one takes its place when it is complete; files of others stay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.backends.errors import UnsupportedOperation
from hdmf.build import DatasetBuilder, GroupBuilder
from nwb_content import file_of, new_file
from pynwb import TimeSeries, get_manager

sys.path.insert(0, str(Path(__file__).parents[1]))

from failing_store import place_in, replaced_or_not

from chunkwise.cli.main import main
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.errors import StorageError
from chunkwise.hdmf import NWBZarrIO, ZarrIO, convert, open_store

FORMATS = ("zarr2", "zarr3", "n5")
pytestmark = pytest.mark.filterwarnings("ignore")


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def write(path: Path, format: str, **series: Any) -> None:
    nwb = new_file("-".join(series))
    for name, data in series.items():
        nwb.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0))
    with NWBZarrIO(path, "w", format=format) as io:
        io.write(nwb)


@pytest.fixture(params=FORMATS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A store with files of somebody else in it."""
    path = tmp_path / "a"
    write(path, request.param, old=np.arange(5.0), gone=np.arange(3.0))
    (path / "notes.txt").write_text("mine")
    (path / "acquisition" / "notes.bin").write_bytes(b"mine")
    return path, request.param


def test_what_fails_leaves_the_old_store_as_it_was(store: tuple[Path, str], tmp_path: Path) -> None:
    path, format = store
    before = tree(path)
    with pytest.raises(ValueError, match="/acquisition/bad/data"):
        write(path, format, good=np.arange(3), bad=np.array([object()]))

    def rows() -> Any:
        yield np.arange(3)
        raise KeyboardInterrupt

    from hdmf.data_utils import DataChunkIterator

    with pytest.raises(KeyboardInterrupt):
        write(path, format, stopped=DataChunkIterator(rows(), buffer_size=1))
    with pytest.raises(ZeroDivisionError), NWBZarrIO(path, "w", format=format) as io:
        io.write_group("/", GroupBuilder("part"))
        raise ZeroDivisionError
    broken = tmp_path / "broken"
    write(broken, format, t=np.arange(3))
    with NWBZarrIO(broken, "r+") as io:
        io.write_attributes("/acquisition/t", {"not in n5": 1})
    with pytest.raises(ValueError, match="codec"):
        convert(broken, path, overwrite=True, format=format, codec="no such codec")
    assert tree(path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "broken"]


@pytest.mark.each_once
@pytest.mark.parametrize("to", FORMATS)
def test_files_of_others_stay_and_nothing_else_does(store: tuple[Path, str], tmp_path: Path, to: str) -> None:
    path, _ = store
    write(path, to, new=np.arange(4))
    write(tmp_path / "fresh", to, new=np.arange(4))
    names = {name for name in tree(path) if "specifications" not in name}
    fresh = {name for name in tree(tmp_path / "fresh") if "specifications" not in name}
    assert names - fresh == {"notes.txt", str(Path("acquisition") / "notes.bin")}
    assert fresh <= names
    with NWBZarrIO(path) as io:
        assert list(io.read().acquisition) == ["new"]
    convert(tmp_path / "fresh", path, overwrite=True, format=to)  # type: ignore[arg-type]
    assert main(["nwb", "repack", str(path), "--quiet", "--format", to]) == 0
    assert (path / "notes.txt").read_text() == "mine"
    assert open_store(path).format == to
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "fresh"]


def test_data_that_is_read_from_the_store_that_is_replaced(store: tuple[Path, str]) -> None:
    path, format = store
    with NWBZarrIO(path) as old:
        data = old.read().acquisition["old"].data
        write(path, format, old=data, again=data)
    with NWBZarrIO(path, strict_links=True) as io:
        found = io.read().acquisition
        assert {name: series.data[:].tolist() for name, series in found.items()} == {
            "old": [0.0, 1.0, 2.0, 3.0, 4.0],
            "again": [0.0, 1.0, 2.0, 3.0, 4.0],
        }


@pytest.mark.each_once
@pytest.mark.parametrize("shared", [False, True])
def test_containers_that_were_read_from_the_store_that_is_replaced(
    store: tuple[Path, str], shared: bool
) -> None:
    path, format = store
    before = tree(path)
    with NWBZarrIO(path) as old:
        nwb = old.read()
        options = {"manager": old.manager} if shared else {}
        for action in ("write", "export"):
            with (
                NWBZarrIO(path, "w", format=format, **options) as io,
                pytest.raises(UnsupportedOperation, match=r"was read from|to itself"),
            ):
                io.write(nwb) if action == "write" else io.export(old, nwb)
        assert tree(path) == before
        new = new_file()
        new.add_acquisition(nwb.acquisition["old"])
        with NWBZarrIO(path, "w", format=format, **options) as io:
            io.write(new)
    with NWBZarrIO(path, strict_links=True) as io:
        assert io.read().acquisition["old"].data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_what_is_written_can_be_read_and_goes_on(store: tuple[Path, str]) -> None:
    path, format = store
    nwb = file_of("tables")
    with NWBZarrIO(path, "w", format=format, manager=get_manager()) as io:
        io.write(nwb)
        assert io.store.dataset("/identifier").value() == "tables"
        io.write_dataset("/", DatasetBuilder("later", np.arange(3)))
        assert io.store.dataset("/later").read().tolist() == [0, 1, 2]
    assert open_store(path).dataset("/later").read().tolist() == [0, 1, 2]


def test_a_conversion_by_workers_over_a_store(store: tuple[Path, str], tmp_path: Path) -> None:
    path, format = store
    before = tree(path)
    write(tmp_path / "large", format, t=np.arange(300_000))

    def stop(nbytes: int) -> None:
        raise ZeroDivisionError

    options: Any = {"format": format, "memory": "5MB", "overwrite": True}
    with pytest.raises(ZeroDivisionError):
        convert(tmp_path / "large", path, progress=stop, **options)
    assert tree(path) == before
    convert(tmp_path / "large", path, resume=True, **options)
    assert open_store(path).dataset("/acquisition/t/data").read().tolist() == list(range(300_000))
    assert (path / "notes.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "large"]


def _fill(store: KvStoreDriver) -> None:
    _write(store, "zarr3", 1)
    store.write("a/notes", b"mine")


def _write(store: KvStoreDriver, format: str, value: int) -> None:
    root = GroupBuilder(
        "root",
        groups=[GroupBuilder(f"g{value}", datasets=[DatasetBuilder("words", ["a", "b"])])],
        datasets=[DatasetBuilder("d", np.arange(3) + value)],
        attributes={"data_type": "File", "value": value},
    )
    with ZarrIO(place_in(store, "a/"), "w", format=format) as io:
        io.write_builder(root, consolidate_metadata=False)  # copies say which store they are of


@pytest.mark.parametrize(("plain", "step"), [(False, 5), (True, 9)])
@pytest.mark.parametrize("format", FORMATS)
def test_a_store_that_fails_has_the_old_or_the_new(format: str, plain: bool, step: int) -> None:
    def fail() -> None:
        raise StorageError("full")

    found = replaced_or_not(
        MemoryStore, _fill, lambda kv: _write(kv, format, 2), fail, (StorageError,), plain=plain, step=step
    )
    assert "old" in found and found <= {"old", "new", "beside"}
