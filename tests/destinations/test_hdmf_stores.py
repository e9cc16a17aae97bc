"""HDMF stores at every kind of place: what the table says, or an error that changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from destinations.request_model import (
    FORMATS,
    STATES,
    VALUES,
    CommandError,
    Request,
    _command,
    arrange,
    documents,
    prepare,
    read,
    snapshot,
    table,
)
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise as cw
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, StorageError
from chunkwise.hdmf import ZarrIO, convert, open_store

LARGE = np.arange(1 << 18, dtype="uint32").reshape(512, 512)


def _root(values: Any = VALUES) -> GroupBuilder:
    arrays = [DatasetBuilder("a", values), DatasetBuilder("large", LARGE)]
    attributes = {"namespace": "x", "data_type": "y", "object_id": "z"}
    return GroupBuilder("root", datasets=arrays, attributes=attributes)


def _write(mode: str, **options: Any) -> Callable[[Path, Any, str], None]:
    def write(_: Path, place: Any, format: str) -> None:
        with ZarrIO(place, mode, format=format, **options) as io:
            io.write_builder(_root())

    return write


def _export(mode: str) -> Callable[[Path, Any, str], None]:
    def export(source: Path, place: Any, format: str) -> None:
        with ZarrIO(source) as read_from, ZarrIO(place, mode, format=format) as io:
            io.export(read_from)

    return export


def _convert(**options: Any) -> Callable[[Path, Any, str], None]:
    return lambda source, place, format: convert(source, place, format=format, **options)


def _nwb_convert(*flags: str) -> Callable[[Path, Any, str], None]:
    return lambda source, place, format: _command(
        "nwb", "convert", source, place, "--format", format, "--quiet", *flags
    )


NEW, REPLACING = "new HDMF store", "new HDMF store, replacing"
WRITERS = {
    "ZarrIO w-": (_write("w-"), NEW),
    "ZarrIO x": (_write("x"), NEW),
    "ZarrIO a": (_write("a"), NEW),
    "ZarrIO w": (_write("w"), REPLACING),
    "ZarrIO w, forced": (_write("w", force_overwrite=True), "new HDMF store, forced"),
    "export w-": (_export("w-"), NEW),
    "export w": (_export("w"), REPLACING),
    "convert": (_convert(), NEW),
    "convert, in blocks": (_convert(verify=True), NEW),
    "convert, resuming": (_convert(resume=True), NEW),
    "convert, overwriting": (_convert(overwrite=True), REPLACING),
    "convert, overwriting in blocks": (_convert(overwrite=True, memory="64MB"), REPLACING),
    "convert, forced": (_convert(overwrite=True, force_overwrite=True), "new HDMF store, forced"),
    "nwb convert": (_nwb_convert(), NEW),
    "nwb convert --overwrite": (_nwb_convert("--overwrite"), REPLACING),
    "nwb convert --overwrite --resume": (_nwb_convert("--overwrite", "--resume"), REPLACING),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("prepared")
    prepare(top)
    _write("w-")(top, top / "session", "zarr3")
    return top


def _check(prepared: Path, top: Path, writer: str, request: Request, format: str) -> str:
    """Let a writer write, and return what is wrong."""
    run, column = WRITERS[writer]
    place = arrange(request, prepared, top)
    before, says = snapshot(top), table()[STATES[request.state]][column]
    if writer == "ZarrIO a" and request.state in ("group", "array", "linked array"):
        return ""  # it is opened, if it is a group
    try:
        run(prepared / "session", place, format)
    except (ChunkwiseError, CommandError) as e:
        changed = dict(set(snapshot(top).items()) ^ set(before.items()))
        return f"an error, but changed: {changed}" if changed else f"refused: {e}" if says != "error" else ""
    return "; ".join(_wrong(place, top, request, before, format)) if says != "error" else "written"


def _wrong(place: Path, top: Path, request: Request, before: dict[str, bytes], format: str) -> Iterator[str]:
    if documents(place) != {(format, "group")}:
        yield f"found {documents(place)}"
        return
    values = open_store(place).dataset("/a").read()
    stored = read(place / "a", format)
    if not np.array_equal(values, VALUES) or not any(np.array_equal(stored, v) for v in (VALUES, VALUES.T)):
        yield "other values"
    if not np.array_equal(open_store(place).dataset("/large").read(), LARGE):
        yield "other values of the large dataset"
    after = snapshot(top)
    own = (str(place.relative_to(top)), "elsewhere")
    for name, value in before.items():
        is_kept = value == b"mine" and request.state != "file"
        is_document = place.is_relative_to((top / name).parent) and not name.startswith(own)
        if after.get(name) != value and (is_kept or not (name.startswith(own) or is_document)):
            yield f"{name} has changed"
    yield from (f"{name} is left" for name in after if ".chunkwise-" in name and "copies" not in name)


def _requests(state: str, turn: int) -> Iterator[tuple[Request, str]]:
    """Yield places of a state: some in a group, with each format there and of the new store."""
    for n, there in enumerate(FORMATS):
        format = FORMATS[(n + turn) % 3]
        around = "none" if (n + turn // 3) % 2 else format
        yield Request("", False, "zarr3", around, False, "o", state, there, "no", ""), format


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("writer", WRITERS)
def test_states(prepared: Path, tmp_path: Path, writer: str, each: bool) -> None:
    """All formats at the place and of the new store, or with slow writers one of each."""
    wrong = {}
    for turn, state in enumerate(STATES, list(WRITERS).index(writer)):
        for n, (request, format) in enumerate(_requests(state, turn)):
            if not (each or "ZarrIO" in writer or n == turn % 3):
                continue
            if found := _check(prepared, tmp_path / state / str(n), writer, request, format):
                wrong[state, request.there, format, request.around] = found
    assert wrong == {}


@pytest.mark.parametrize("mode", ["w-", "w"])
@pytest.mark.parametrize("overwritten", ["array", "group", "nothing", "inside"])
def test_in_an_archive(tmp_path: Path, mode: str, overwritten: str) -> None:
    archive = f"{tmp_path}/a.zip|zip:"
    cw.create_group(archive).create_array("other", VALUES)
    place = f"{archive}o" + "/c" * (overwritten == "inside")
    if overwritten == "group":
        cw.create_group(f"{archive}o").create_array("a", VALUES + 1)
    elif overwritten != "nothing":
        cw.create_array(f"{archive}o", VALUES + 1)
    before = snapshot(tmp_path)
    column = REPLACING if mode == "w" else NEW
    if table()[STATES[overwritten]][column] == "error":
        with pytest.raises(AlreadyExistsError):
            _write(mode)(tmp_path, place, "zarr3")
        assert snapshot(tmp_path) == before
    else:
        _write(mode)(tmp_path, place, "zarr3")
        assert sorted(cw.open_group(archive)) == ["o", "other"]
        np.testing.assert_array_equal(cw.read(f"{archive}o/a"), VALUES)
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize("mode", ["w-", "x", "a", "w"])
def test_what_others_write_before_the_first_write_stays(tmp_path: Path, mode: str) -> None:
    io = ZarrIO(tmp_path / "o", mode)
    cw.create_array(tmp_path / "o/x" if mode == "w" else tmp_path / "o", VALUES)
    before = snapshot(tmp_path)
    with pytest.raises(AlreadyExistsError):
        io.write_builder(_root())
    io.close()
    assert snapshot(tmp_path) == before


def test_one_of_two_new_stores_is_written(tmp_path: Path) -> None:
    """Both have found nothing: the one whose mark is there first goes on."""
    outcomes: list[object] = []
    meeting = threading.Barrier(2)

    def write(value: int) -> None:
        io = ZarrIO(tmp_path / "o", "w-")
        meeting.wait()
        try:
            io.write_builder(_root(VALUES + value))
            outcomes.append(value)
        except AlreadyExistsError as e:
            outcomes.append(e)
        io.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (value,) = [found for found in outcomes if isinstance(found, int)]
    assert len(outcomes) == 2
    np.testing.assert_array_equal(cw.read(tmp_path / "o/a"), VALUES + value)


@pytest.mark.parametrize("with_others", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_a_conversion_that_fails_deletes_only_its_own(
    prepared: Path, tmp_path: Path, format: Any, with_others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cw.create_group(tmp_path / "g", format=format)
    before = snapshot(tmp_path)
    place = tmp_path / "g/sub/o"

    def fail(*_: Any, **__: Any) -> None:
        if with_others:
            (place / "notes.txt").write_text("mine")
        raise StorageError("no room is left")

    monkeypatch.setattr("chunkwise.hdmf.storage.node_writer.NodeWriter.finish", fail)
    with pytest.raises(StorageError):
        convert(prepared / "session", place, format=format)
    after = snapshot(tmp_path)
    assert before.items() <= after.items() and {name for name in after if name.startswith("g/sub/o/")} == (
        {"g/sub/o/notes.txt"} if with_others else set()
    )
    assert with_others or "g/sub/zarr.json" not in after


def test_after_an_error_behind_the_replacement_the_new_store_is_there(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cw.create_array(tmp_path / "o", VALUES + 1)

    def fail(*_: Any) -> None:
        raise StorageError("permission denied")

    monkeypatch.setattr("chunkwise.hdmf.backend.writing.renew_copies_above", fail)
    with pytest.raises(StorageError):
        convert(prepared / "session", tmp_path / "o", overwrite=True)
    np.testing.assert_array_equal(cw.read(tmp_path / "o/a"), VALUES)


def test_hdf5_files(prepared: Path, tmp_path: Path) -> None:
    """A directory is never replaced by a file, and files of others that are named like it stay."""
    (tmp_path / "o.nwb.part").write_text("mine")
    (tmp_path / ".o.nwb.part").write_text("mine")
    convert(prepared / "session", tmp_path / "o.nwb")
    with pytest.raises(AlreadyExistsError):
        convert(prepared / "session", tmp_path / "o.nwb")
    convert(prepared / "session", tmp_path / "o.nwb", overwrite=True)
    cw.create_array(tmp_path / "d.nwb", VALUES, format="zarr3")
    before = snapshot(tmp_path)
    with pytest.raises(cw.errors.FailedPreconditionError, match="is a directory"):
        convert(prepared / "session", tmp_path / "d.nwb", overwrite=True)
    assert snapshot(tmp_path) == before
    assert before["o.nwb.part"] == before[".o.nwb.part"] == b"mine"
    assert len(before) == 3 + len(snapshot(tmp_path / "d.nwb")) + 1
