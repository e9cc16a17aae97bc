"""A precomputed volume at every kind of place: what the table says, or an error that changes nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from destinations.request_model import (
    STATES,
    VALUES,
    VOLUME,
    CommandError,
    Request,
    _command,
    arrange,
    prepare,
    snapshot,
    table,
)
from failing_store import FailingStore, place_in

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, NotFoundError, StorageError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("prepared")
    prepare(top)
    return top


def _read(place: Path | str) -> Any:
    spec = {"driver": VOLUME, "kvstore": f"file://{place}/"}
    return np.squeeze(tensorstore.open(spec).result().read().result()).T


def _copy(source: Path, place: Path, overwrite: bool) -> None:
    cw.copy(source / "a", place, format=VOLUME, overwrite=overwrite)


def _cp(source: Path, place: Path, overwrite: bool) -> None:
    _command("cp", source / "a", place, "--format", VOLUME, "--quiet", *["--overwrite"] * overwrite)


def _pyramid(source: Path, place: Path, overwrite: bool) -> None:
    options: dict[str, Any] = {"convention": VOLUME, "levels": 1, "units": ["4 nm", "4 nm"]}
    cw.downsample_pyramid(source / "a", place, overwrite=overwrite, **options).result()


@pytest.mark.parametrize("door", [_copy, _cp, _pyramid])
@pytest.mark.parametrize("overwrite", [False, True])
def test_states(prepared: Path, tmp_path: Path, door: Any, overwrite: bool) -> None:
    column = "new volume, overwriting" if overwrite else "new volume"
    for state, row in STATES.items():
        top = tmp_path / state
        request = Request("copy", overwrite, "zarr3", "none", False, "o", state, "zarr3", "no", "zarr3")
        place = arrange(request, prepared, top)
        before, says = snapshot(top), table()[row][column]
        if says.startswith(("error", "replaced if")):  # what is unfinished here is an array
            with pytest.raises((ChunkwiseError, CommandError)):
                door(prepared / "source/zarr3", place, overwrite)
            assert snapshot(top) == before, state
        else:
            door(prepared / "source/zarr3", place, overwrite)
            np.testing.assert_array_equal(_read(place), VALUES)
            assert not [name for name in snapshot(top) if ".chunkwise" in name]


def test_the_old_volume_stays_until_the_end(tmp_path: Path) -> None:
    """Its scales are gone then; an unfinished replacement is resumed, or begun again."""
    old, new = cw.array(np.ones((40, 40, 40), "u1")), cw.array(np.full((30, 80, 70), 2, "u2"))
    options: dict[str, Any] = {"convention": VOLUME, "levels": 2, "units": ["1 nm"] * 3}
    cw.downsample_pyramid(old, tmp_path / "v", **options).result()
    place = tmp_path / "v"

    def stop(told: object) -> None:
        assert (_read(place) == 1).all()
        raise KeyboardInterrupt

    for way in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(KeyboardInterrupt):
            cw.copy(new, place, format=VOLUME, overwrite=True, progress=stop)
        assert (_read(place) == 1).all()
        with pytest.raises(AlreadyExistsError, match="begun and not finished"):
            cw.copy(new, place, format=VOLUME)
        report = cw.copy(new, place, format=VOLUME, verify=True, **way)
        np.testing.assert_array_equal(_read(place), np.asarray(new))
        assert report.array.shape == (70, 80, 30, 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["v"]
        assert sorted(path.name for path in place.iterdir()) == ["1_1_1", "info"]
        cw.downsample_pyramid(old, place, overwrite=True, **options).result()


def test_itself(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, (30, 80, 70)).astype("u4")
    cw.copy(cw.array(values), tmp_path / "v", format=VOLUME)
    cw.copy(tmp_path / "v", tmp_path / "v", format=VOLUME, overwrite=True, chunks=32, dtype="uint8")
    np.testing.assert_array_equal(_read(tmp_path / "v"), values)
    assert len(list((tmp_path / "v/1_1_1").iterdir())) == 3 * 3 * 1


@pytest.mark.parametrize("name", ["mesh/1:0", "1_1_1/notes.txt", "info.old", "sub/zarr.json", "1_1_1/0-4"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_other_files_are_no_part_of_a_volume(tmp_path: Path, name: str, is_sharded: bool) -> None:
    options: dict[str, Any] = {"chunks": 16, "shards": 32} if is_sharded else {}
    scan = cw.array(np.ones((40, 40, 40), "u1"))
    cw.copy(scan, tmp_path / "v", format=VOLUME, **options)
    (tmp_path / "v" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "v" / name).write_text("{}")
    before = snapshot(tmp_path)
    with pytest.raises(AlreadyExistsError, match=f"{name}.*belongs to no scale"):
        cw.copy(scan, tmp_path / "v", format=VOLUME, overwrite=True)
    assert snapshot(tmp_path) == before
    (tmp_path / "v" / name).unlink()
    cw.copy(cw.array(np.full((40, 40, 40), 3, "u1")), tmp_path / "v", format=VOLUME, overwrite=True)
    assert (_read(tmp_path / "v") == 3).all()


def test_in_an_archive(tmp_path: Path) -> None:
    place = f"file://{tmp_path}/a.zip|zip:v/"
    for value in (1, 2):
        scan = cw.array(np.full((40 * value, 40, 40), value, "u1"))
        cw.copy(scan, place, format=VOLUME, overwrite=True)
        assert (cw.read(place) == value).all() and cw.read(place).shape[2] == 40 * value


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_error_at_any_call(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    """`plain`: the store changes keys one by one, so for a moment there is neither, and never a mixture."""
    monkeypatch.setattr("chunkwise.copying.journal._SILENCE", 0.05)
    old, new = (cw.array(np.full((20 * n, 20, 30), n, "u1")) for n in (1, 2))

    def fail() -> None:
        raise StorageError("no room is left")

    def run(at: int) -> FailingStore:
        memory = MemoryStore()
        store = FailingStore(memory, fail, at, plain=plain)
        place, failing = place_in(FailingStore(memory, fail, 0, plain=plain), "v/"), place_in(store, "v/")
        cw.copy(old, place, format=VOLUME, chunks=16)
        with suppress(ChunkwiseError):
            cw.copy(new, failing, format=VOLUME, chunks=16, overwrite=True)
        try:
            values = cw.read(place)
            assert (values == values.shape[2] // 20).all(), at
        except NotFoundError:
            assert plain, at
        cw.copy(new, place, format=VOLUME, chunks=16, overwrite=True)
        assert (cw.read(place) == 2).all() and cw.read(place).shape[2] == 40
        assert not [key for key in memory.list() if ".chunkwise" in key], at
        assert len(list(memory.list())) == 1 + 2 * 2 * 3
        return store

    n_calls = run(0).n_calls
    for at in range(1, n_calls + 1, 1 if plain else 5):
        run(at)


_KILLED = """
import os, sys
import numpy as np
import chunkwise as cw

n, at = 0, int(sys.argv[2])

def audit(event, arguments):
    global n
    if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir") and ready:
        n += 1
        if n == at:
            os._exit(9)

ready = False
scan = cw.array(np.full((30, 80, 70), 2, "u2"))
sys.addaudithook(audit)
ready = True
cw.copy(scan, sys.argv[1], format="neuroglancer_precomputed", overwrite=True, sync=False)
"""


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    """After a kill at any moment the old volume or the new one is there; a repetition makes the new one."""
    cw.copy(cw.array(np.ones((40, 40, 40), "u1")), tmp_path / "old", format=VOLUME)
    at, status = 1, 9
    while status == 9:
        place = tmp_path / str(at)
        shutil.copytree(tmp_path / "old", place)
        status = subprocess.run([sys.executable, "-c", _KILLED, str(place), str(at)], check=False).returncode
        assert status in (0, 9)
        values = cw.read(place)
        assert (values == 1).all() or ((values == 2).all() and values.shape == (70, 80, 30, 1))
        cw.copy(cw.array(np.full((30, 80, 70), 2, "u2")), place, format=VOLUME, overwrite=True)
        assert (_read(place) == 2).all()
        at += 29
    assert at > 90
