"""Columns written again with a wider type: whenever the process dies, one of the two is there, whole."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from child_process import Children
from dying_store import Died, DyingStore
from hdmf.common import DynamicTable, VectorData, VectorIndex, get_manager
from nwb_content import file_of

from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.location import Location, locate
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, open_store, validate
from chunkwise.hdmf.model.tree import COPIES
from chunkwise.hdmf.replacement import finish_replacement

FORMATS = ["zarr2", "zarr3", "n5"]
INDEX = [0, 0, 100, 200, 250]
"""The first chunk of the column holds nothing but the fill value, and is not stored."""
WORDS = ["a", "bb", "", "dddd", "e"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Readers say how they treat what they don't know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _write_table(place: Location, format: str) -> None:
    numbers = VectorData(name="numbers", description="d", data=np.arange(250.0))
    ends = ZarrDataIO(np.array(INDEX, "u1"), chunks=(2,))
    columns = [
        numbers,
        VectorIndex(name="numbers_index", data=ends, target=numbers),
        VectorData(name="word", description="d", data=WORDS),
    ]
    table = DynamicTable(name="root", description="d", columns=columns, id=list(range(5)))
    with ZarrIO(place, "w", get_manager(), format=format) as io:
        io.write(table)


Fresh = Callable[[], Location]


def _in_memory(format: str) -> Fresh:
    """Return what gives a new copy of a store with the table each time."""
    memory = MemoryStore()
    _write_table(locate(memory), format)
    values = {key: bytes(memory.read(key).value or b"") for key in memory.list()}

    def copy() -> Location:
        store = MemoryStore()
        for key, value in values.items():
            store.write(key, value)
        return locate(store)

    return copy


def _in_files(format: str, path: Path) -> Fresh:
    _write_table(locate(path / "whole"), format)
    numbers = count()

    def copy() -> Location:
        return locate(shutil.copytree(path / "whole", path / str(next(numbers))))

    return copy


def _dying(place: Location, n_changes: int) -> Location:
    return place._replace(store=DyingStore(place.store, n_changes))


def _index(place: Location, mode: str) -> np.ndarray[Any, Any]:
    """Return the index column as it is read; the rows that it tells must be right."""
    with ZarrIO(place, mode, get_manager()) as io:
        table = io.read()
        found: np.ndarray[Any, Any] = table.numbers_index.data[:]
        assert found.tolist() == INDEX
        assert table["numbers"][3].tolist() == list(range(100, 200))
        assert table.numbers_index.data.dtype == found.dtype
        assert table.numbers_index.description and "object_id" in io.store.attributes("/numbers_index")
        assert set(io.store.names("/")) == {"id", "numbers", "numbers_index", "specifications", "word"}
        return found


def _keys(place: Location) -> list[str]:
    # The store of a local path is the whole file system.
    keys = KeyRange.of_prefix(place.path) if place.path else KeyRange()
    # Copies of values are deleted by the first change, and written when the file is closed.
    return [key for key in place.store.list(keys.start, keys.stop) if not key.endswith(COPIES)]


def _leftovers(place: Location) -> list[str]:
    keys = _keys(place)
    marked = [key for key in keys if b"_REPLACING" in bytes(place.store.read(key).value or b"")]
    return [key for key in keys if "chunkwise-replacing" in key] + marked


def _widen(place: Location) -> None:
    with ZarrIO(place, "r+", get_manager()) as io:
        io.read().numbers_index.data.widen(np.dtype("u2"))


def _n_changes(place: Location, work: Callable[[Location], None]) -> int:
    dying = _dying(place, 1 << 20)
    work(dying)
    return (1 << 20) - dying.store.left  # type: ignore[attr-defined, no-any-return]


@pytest.mark.each_once
@pytest.mark.parametrize("where", ["memory", "files"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_column_is_old_or_new_whenever_the_process_dies(format: str, where: str, tmp_path: Path) -> None:
    new = _in_memory(format) if where == "memory" else _in_files(format, tmp_path)
    n_changes = _n_changes(new(), _widen)
    seen = []
    for n in range(n_changes):
        place = new()
        with pytest.raises(Died):
            _widen(_dying(place, n))
        _index(place, "r")
        found = _index(place, "r-").dtype
        seen.append(found.name)
        # Opened for writing, it becomes the one that it was read as, and what is left over is removed.
        with ZarrIO(place, "r+", get_manager()) as io:
            assert io.read().numbers_index.data[:].tolist() == INDEX
        assert _leftovers(place) == []
        assert {_index(place, mode).dtype for mode in ("r", "r-")} == {found}
    assert (seen == sorted(seen) and set(seen) == {"uint16", "uint8"}) or seen == sorted(seen, reverse=True)
    assert (seen[0], seen[-1]) == ("uint8", "uint16")


@pytest.mark.parametrize("format", FORMATS)
def test_it_may_die_again_while_it_is_put_right(format: str) -> None:
    new = _in_memory(format)
    for n in range(0, _n_changes(new(), _widen), 3):
        for again in range(100):
            place = new()
            with pytest.raises(Died):
                _widen(_dying(place, n))
            found = open_store(place, consolidated=False).dataset("/numbers_index").element.name
            try:
                finish_replacement(open_store(_dying(place, again), consolidated=False))
            except Died:
                finished = False
            else:
                finished = True
            for consolidated in (True, False):
                column = open_store(place, consolidated=consolidated).dataset("/numbers_index")
                assert column.read().tolist() == INDEX
            assert column.element.name == found
            if finished:
                break
        assert finished and _leftovers(place) == []


def test_rows_of_text_in_n5_are_old_or_new() -> None:
    def append(place: Location) -> None:
        open_store(place).dataset("/word").append(["another"])

    new = _in_memory("n5")
    seen = []
    for n in range(_n_changes(new(), append)):
        place = new()
        with pytest.raises(Died):
            append(_dying(place, n))
        found = open_store(place).dataset("/word").read().tolist()
        assert found in (WORDS, [*WORDS, "another"])
        seen.append(len(found))
        store = open_store(place)
        finish_replacement(store)
        assert store.dataset("/word").read().tolist() == found
        assert open_store(place).dataset("/word").read().tolist() == found
        assert _leftovers(place) == []
    assert seen == sorted(seen) and set(seen) == {5, 6}


@pytest.mark.parametrize("format", FORMATS)
def test_what_fails_can_be_used_on_and_is_put_right_later(format: str) -> None:
    new = _in_memory(format)
    for n in count():
        place = new()
        with ZarrIO(_dying(place, n), "r+", get_manager()) as io:
            column = io.read().numbers_index.data
            store = io.store.location.store
            try:
                column.widen(np.dtype("u2"))
            except Died:
                died = True
            else:
                died = False
            store.left = 1 << 20  # the server answers again
            assert column[:].tolist() == INDEX
            column.append(np.uint8(250))
            column.widen(np.dtype("u4"))
            assert column[:].tolist() == [*INDEX, 250]
        for consolidated in (True, False):
            found = open_store(place, consolidated=consolidated).dataset("/numbers_index").read()
            assert (found.tolist(), found.dtype.name) == ([*INDEX, 250], "uint32")
        assert _leftovers(place) == []
        if not died:
            break
    assert n > 5


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_consolidated_metadata_of_a_dead_process_has_columns_of_one_length(format: str) -> None:
    def add(place: Location) -> None:
        with ZarrIO(place, "r+", get_manager()) as io:
            table = io.read()
            table.add_row(numbers=[1.0], word="x")
            table.add_row(numbers=list(range(100)), word="x")
            if isinstance(place.store, DyingStore):
                # before consolidated metadata is brought up to date
                place.store.left = min(place.store.left, 0)

    new = _in_memory(format)
    for n in range(4, 40):
        place = new()
        with pytest.raises(Died):
            add(_dying(place, n))
        found = _index(place, "r").dtype
    assert found == "u2"


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_others_see_the_old_column_or_the_new_one_or_an_error(format: str, tmp_path: Path) -> None:
    new = _in_files(format, tmp_path)
    seen = []
    for n in range(_n_changes(new(), _widen)):
        place = new()
        with pytest.raises(Died):
            _widen(_dying(place, n))
        found: Any
        arrays: list[Callable[[], Any]] = [partial(zarr.open_array, f"/{place.path}numbers_index", mode="r")]
        if format == "zarr3":  # in v2 it doesn't know the objects of other datasets
            group = zarr.open_group("/" + place.path, mode="r", use_consolidated=True)
            arrays.append(partial(group.__getitem__, "numbers_index"))
            listed = zarr.open_group("/" + place.path, mode="r", use_consolidated=False)
            assert set(listed.array_keys()) == {"id", "numbers", "numbers_index", "word"}
        for array in arrays:
            try:
                found = array()[:]
            except ValueError as e:
                seen.append(type(e).__name__)
            else:
                assert found.tolist() == INDEX
                seen.append(found.dtype.name)
    # Some of each, and errors only while chunks are copied.
    assert set(seen) == {"uint8", "uint16", "ValueError"}
    assert seen[0] == "uint8" and seen[-1] == "uint16" and seen.count("ValueError") <= 12


_WIDEN = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import numpy as np
from dying_store import DyingStore
from chunkwise.core.trees.location import locate
from chunkwise.hdmf import NWBZarrIO
def die():
    os.kill(os.getpid(), signal.SIGKILL)
place = locate(sys.argv[2])
with NWBZarrIO(place._replace(store=DyingStore(place.store, int(sys.argv[3]), die)), mode="r+") as io:
    io.read().units.spike_times_index.data.widen(np.dtype("u8"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    "format", ["zarr2", *(pytest.param(f, marks=pytest.mark.slow) for f in ("zarr3", "n5"))]
)
def test_units_of_a_process_that_was_killed(format: str, tmp_path: Path, children: Children) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(file_of("ecephys"))
    place = locate(path)
    n_before = len(_keys(place))
    # After two leases, the chunk and the documents of the successor, the marks, and the chunk in its place.
    child = children.python(_WIDEN, Path(__file__).parent, path, {"zarr2": 8, "zarr3": 6, "n5": 6}[format])
    assert child.wait(300) == -9
    assert len(_keys(place)) > n_before
    for mode in ("r", "r-", "r+", "r"):
        with NWBZarrIO(path, mode=mode) as io:
            units = io.read().units
            assert units.spike_times_index.data.dtype == "u8"
            assert [len(units["spike_times"][i]) for i in range(3)] == [1, 2, 3]
            assert units["spike_times"][2].tolist() == pytest.approx([0, 1 / 7, 2 / 7])
        assert validate(path) == []
    assert len(_keys(place)) == n_before
