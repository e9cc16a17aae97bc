"""Arrays of every type, units and structure, given to each command; and ways to begin a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cli_arrays import Run, make

import chunkwise as cw

STRUCT = np.dtype([("a", "<i4"), ("b", "S3"), ("c", [("x", "<f4"), ("t", "<M8[s]")])])
TYPES = ["?", "i1", "u8", "f2", "f8", "c8", "S5", "U3", "V3", "<M8[ns]", "<m8[s]", STRUCT]
SMALL = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint2]


@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
def test_elements_of_every_type_are_shown(run: Run, tmp_path: Path, dtype: np.dtype) -> None:
    values = np.ones((2, 3), "u1").astype(dtype) if dtype != STRUCT else np.ones((2, 3), dtype)
    make(tmp_path / "a", "zarr3", values, (2, 2))
    assert run("slice", tmp_path / "a").status == 0
    shown = run("slice", tmp_path / "a", "--json")
    assert shown.status == 0 and np.array(shown.json["values"], object).shape[:2] == (2, 3)
    assert run("slice", tmp_path / "a", "--region", "0,0", "--json").status == 0
    picture = run("slice", tmp_path / "a", "--png", tmp_path / "a.png")
    assert (picture.status == 0) == (tmp_path / "a.png").exists()
    make(tmp_path / "b", "zarr3", np.zeros((2, 3), dtype), (2, 2))
    assert run("diff", tmp_path / "a", tmp_path / "b", "--json").status == 1
    assert run("diff", tmp_path / "a", tmp_path / "a").status == 0


def test_members_of_structured_elements_have_their_names(run: Run, tmp_path: Path) -> None:
    values = np.array([(1, b"ab", (2.5, "2000-01-01")), (3, b"", (np.nan, "NaT"))], STRUCT)
    make(tmp_path / "a", "zarr3", values, (2,))
    assert run("slice", tmp_path / "a", "--json").json["values"] == [
        {"a": 1, "b": "ab", "c": {"x": 2.5, "t": "2000-01-01T00:00:00"}},
        {"a": 3, "b": "", "c": {"x": "NaN", "t": "NaT"}},
    ]


@pytest.mark.parametrize("other", [None, ["nm", None], ["nm", "s"]])
def test_units_are_compared_with_none(run: Run, tmp_path: Path, other: list[str | None] | None) -> None:
    for name, units in (("a", ["nm", "nm"]), ("b", other)):
        options = {} if units is None else {"dimension_units": units}
        make(tmp_path / name, "zarr3", np.zeros((4, 4), "u1"), (2, 2), **options)
    for left, right in (("a", "b"), ("b", "a")):
        result = run("diff", tmp_path / left, tmp_path / right, "--json")
        assert result.status == 1
        assert [found["what"] for found in result.json] == ["dimension_units"]


def test_migration_of_a_hierarchy_has_no_notes_on_its_own_groups(run: Run, tmp_path: Path) -> None:
    with_groups = cw.open_group(str(tmp_path / "top.zarr"), "w", format="zarr2")
    for name in ("a/x", "a/y", "z"):
        with_groups.create_array(name, shape=[4], dtype="uint8")
    whole = run("migrate", tmp_path / "top.zarr", "--json").json["nodes"]
    assert len(whole) == 5 and not any("group" in note for node in whole for note in node["notes"])
    for part in ("a", "z"):  # what is above stays as it is
        assert "top.zarr" in run("migrate", tmp_path / "top.zarr" / part).out


@pytest.mark.parametrize("module", ["chunkwise", "chunkwise.cli"])
def test_the_command_is_a_module_too(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("chunkwise ")
