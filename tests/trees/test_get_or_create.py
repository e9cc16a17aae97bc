"""Several processes that open or make the same thing at the same time: all get it, and it is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from child_process import Children

import chunkwise as cw
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError

PROGRAM = """
import sys
import numpy as np
import chunkwise as cw, chunkwise.z5py
place, format, names = sys.argv[1:4]
me, n = map(int, sys.argv[4:])
if "dataset " in names:
    import xarray as xr
    from chunkwise.xarray import write_dataset

def dataset(*values):
    return xr.Dataset({"a": ("t", [*values]), "b": ("t", [*values])}, {"t": [*values]})

DRIVERS = {"zarr2": "zarr"}
CASES = {
    "require_array": lambda i: cw.open_group(place, "r+").require_array(f"x/a{i}", shape=(4, 4), dtype="i4"),
    "require_dataset": lambda i: cw.open_group(place, "r+").require_dataset(f"x/d{i}", (4, 4), "i4"),
    "require_group": lambda i: cw.open_group(place, "r+").require_group(f"x/g{i}/h", attributes={"a": 1}),
    "open_group": lambda i: cw.open_group(f"{place}/n{i}", "a", format=format),
    "open_group of a new root": lambda i: cw.open_group(f"{place}-{i}", "a", format=format),
    "open": lambda i: cw.open(
        {"driver": DRIVERS.get(format, format), "kvstore": f"file://{place}/o{i}/"},
        open=True, create=True, dtype="int32", shape=[4, 4],
    ).result(),
    "z5py dataset": lambda i: chunkwise.z5py.File(place, "a").require_dataset(
        f"z/a{i}", shape=(4, 4), dtype="int32", chunks=(2, 2)
    ),
    "z5py group": lambda i: chunkwise.z5py.File(place, "a").require_group(f"z/g{i}/h"),
    "overwrite": lambda i: cw.create_array(
        f"{place}/w{i}", np.full((8 + me, 4), me + 1, "i4"), chunks=(1, 4), format=format, overwrite=True,
        attributes={"me": me},
    ),
    "overwritten group": lambda i: cw.create_group(f"{place}/v{i}", format=format, overwrite=True),
    "dataset added": lambda i: write_dataset(dataset(1, 2), f"{place}/d{i}", mode="a", format=format),
    "dataset appended": lambda i: write_dataset(dataset(me), f"{place}/e{i}", append_dim="t", format=format),
}
print("ready", flush=True)
sys.stdin.readline()
for i in range(n):
    for name in names.split(","):
        CASES[name](i)
"""

QUICK = (
    "require_array",
    "require_dataset",
    "require_group",
    "open_group",
    "open_group of a new root",
    "open",
    "z5py dataset",
    "z5py group",
    "overwrite",
    "overwritten group",
)
DATASETS = ("dataset added", "dataset appended")


def race(place: Path, format: str, names: tuple[str, ...], n_processes: int, n: int) -> None:
    """Let processes do all that is named at the same time, `n` times."""
    with Children() as children:
        running = [
            children.python(PROGRAM, place, format, ",".join(names), me, n, stdin=-1, text=True)
            for me in range(n_processes)
        ]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in running:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("format", "names", "n_processes", "n"),
    [
        ("n5", QUICK, 3, 2),
        *(
            pytest.param(format, names, 8, 12, marks=pytest.mark.slow, id=f"{format}-{names[0]}")
            for format in ("zarr2", "zarr3", "n5")
            for names in (QUICK, DATASETS)
        ),
    ],
)
def test_processes_at_the_same_time(
    tmp_path: Path, format: str, names: tuple[str, ...], n_processes: int, n: int
) -> None:
    place = tmp_path / ("a.n5" if format == "n5" else "a.zarr")
    cw.create_group(place, format=format)
    race(place, format, names, n_processes, n)
    for i in range(n if names is QUICK else 0):
        for path, shape in ((f"x/a{i}", (4, 4)), (f"x/d{i}", (4, 4)), (f"o{i}", (4, 4))):
            assert cw.open_group(place).array(path).shape == shape
        array = cw.open_array(place / f"w{i}")
        me = array.attrs["me"]
        np.testing.assert_array_equal(array, np.full((8 + me, 4), me + 1))  # of one, and whole
        assert cw.open_group(place)[f"x/g{i}"].group("h").attrs["a"] == 1
    for i in range(n if names is DATASETS else 0):
        found = xr.open_dataset(place / f"e{i}", engine="chunkwise").load()
        assert sorted(found.t.values.tolist()) == list(range(n_processes))
        assert (found.a.values == found.t.values).all() and (found.b.values == found.t.values).all()
        assert xr.open_dataset(place / f"d{i}", engine="chunkwise").a.values.tolist() == [1, 2]
    assert not list(place.rglob("*chunkwise*"))


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_what_is_in_the_way_is_still_an_error(tmp_path: Path, format: str) -> None:
    group = cw.create_group(tmp_path / "a", format=format)
    group.create_group("g/h")
    group.create_array("a", [1, 2])
    for require in (group.require_array, group.require_dataset):
        with pytest.raises(InvalidArgumentError, match="group"):
            require("g", shape=(2,), dtype="i8")
        with pytest.raises(InvalidArgumentError, match="shape"):
            require("a", shape=(3,), dtype="i8")
    with pytest.raises(AlreadyExistsError, match="array"):
        group.require_group("a")
    with pytest.raises(InvalidArgumentError, match="array"):
        cw.open_group(tmp_path / "a/a", "a")
    (tmp_path / "a/files").mkdir()
    (tmp_path / "a/files/notes.txt").write_text("mine")
    with pytest.raises((AlreadyExistsError, InvalidArgumentError)):
        group.require_array("files", shape=(2,), dtype="i8")
    assert (tmp_path / "a/files/notes.txt").read_text() == "mine"
