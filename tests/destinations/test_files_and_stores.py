"""Writers of files, and NWB: what they write in each state of a place; an error changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from destinations.request_model import (
    STATES,
    CommandError,
    Request,
    _command,
    arrange,
    prepare,
    snapshot,
)

import chunkwise as cw
from chunkwise.errors import ChunkwiseError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("prepared")
    prepare(top)
    with h5py.File(top / "s.nwb", "w") as file:
        file.create_group("acquisition")["t"] = np.arange(6)
    return top


def _zip(place: Path, prepared: Path, *flags: str) -> None:
    _command("zip", prepared / "source/zarr3", place, "--quiet", *flags)


def _stack(place: Path, prepared: Path, *flags: str) -> None:
    source = prepared / "source/zarr3/a"
    _command("stack", place, source, source, "--concat", "0", *flags)


def _convert(place: Path, prepared: Path, *flags: str) -> None:
    _command("nwb", "convert", prepared / "s.nwb", place, "--quiet", *flags)


def _write_nwb(place: Path, prepared: Path, *flags: str) -> None:
    """What ``force_overwrite`` of an IO allows."""
    from hdmf.common import DynamicTable, VectorData, get_manager

    from chunkwise.hdmf import ZarrIO

    column = VectorData(name="x", description="values", data=[1, 2, 3])
    table = DynamicTable(name="t", description="a table", columns=[column])
    mode = "w" if flags else "w-"
    with ZarrIO(str(place), mode, get_manager(), force_overwrite=bool(flags)) as io:
        io.write(table)


NOTHING = {"nothing", "empty"}
WRITERS: dict[str, tuple[str, Callable[..., None], set[str], set[str]]] = {
    "zip": ("o.zip", _zip, {"nothing"}, {"nothing", "file"}),
    "stack": ("o.json", _stack, {"nothing"}, {"nothing", "file"}),
    "nwb convert": ("o", _convert, NOTHING, NOTHING | {"array", "linked array", "group"}),
    "ZarrIO": ("o", _write_nwb, NOTHING, set(STATES) - {"volume", "database", "inside"}),
}
"""Name, function, and the states in which each writes: without and with overwriting."""

CASES = [
    pytest.param(writer, state, marks=() if writer in ("zip", "stack") else pytest.mark.slow)
    for writer in WRITERS
    for state in STATES
    if (writer, state) != ("stack", "inside")
]
CASES += [("nwb convert", "group"), ("ZarrIO", "volume"), ("ZarrIO", "database"), ("ZarrIO", "files")]


@pytest.mark.parametrize(("writer", "state"), CASES)
def test_each_state(tmp_path: Path, prepared: Path, writer: str, state: str) -> None:
    name, write, new, overwriting = WRITERS[writer]
    for flags, states in (((), new), (("--overwrite",), overwriting)):
        request = Request("", False, "zarr3", "zarr3", False, name, state, "zarr3", "no", "zarr3")
        top = tmp_path / f"{len(flags)}"
        place = arrange(request, prepared, top)
        before = snapshot(top)
        if state in states:
            write(place, prepared, *flags)
            after = snapshot(top)
            others = {
                key: value
                for key, value in before.items()
                if not (top / key).is_relative_to(place) and not key.startswith("elsewhere")
            }
            assert others.items() <= after.items() or state == "empty"
            kept = {key for key, value in before.items() if value == b"mine" and state != "file"}
            assert all(after.get(key) == b"mine" for key in kept)
            assert "o" in cw.open_group(top / "g") or name != "o"
        else:
            with pytest.raises((CommandError, ChunkwiseError, OSError)):
                write(place, prepared, *flags)
            assert snapshot(top) == before
        shutil.rmtree(top)
