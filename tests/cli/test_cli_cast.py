"""``cp --dtype --cast``: values that the new type can't hold are never changed unasked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from cli_arrays import Run, make, read
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import chunkwise as cw
from chunkwise.copying.narrowing import MisfitError, Narrowing

VALUES = np.array([[0, 255, 256], [300, 7, 65535]], "u2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make(tmp_path / "a.zarr", "zarr3", VALUES, (2, 2))
    return tmp_path / "a.zarr"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("clamp", VALUES.clip(0, 255)), ("wrap", VALUES.astype("u1")), ("scale", np.rint(VALUES / 257))],
)
def test_narrowing(run: Run, path: Path, tmp_path: Path, rule: str, expected: np.ndarray) -> None:
    result = run(
        "cp", path, tmp_path / "b.zarr", "--dtype", "uint8", "--cast", rule, "--format", "zarr3", "--verify"
    )
    assert result.status == 0, result.err
    assert np.array_equal(read(tmp_path / "b.zarr"), expected.astype("u1"))
    assert ("3 values that don't fit uint8" in result.err) == (rule != "scale")
    assert ("values from 0 to 65535 became 0 to 255" in result.err) == (rule == "scale")


def test_an_error_by_default_after_which_nothing_is_left(run: Run, path: Path, tmp_path: Path) -> None:
    """But for what was there before."""
    to = tmp_path / "b.zarr"
    to.mkdir()
    (to / "notes").write_text("mine")
    assert "notes" in run("cp", path, to, "--format", "zarr3").err
    for options in ([], ["--cast", "error"]):
        result = run("cp", path, to, "--dtype", "uint8", "--format", "zarr3", "--overwrite", *options)
        assert result.status == 1 and "don't fit uint8" in result.err and "--cast" in result.err
    assert [found.name for found in to.rglob("*") if found.is_file()] == ["notes"]
    clamped = ["--dtype", "uint8", "--cast", "clamp", "--format", "zarr3"]
    assert run("cp", path, to, *clamped, "--overwrite").status == 0
    assert (to / "notes").read_text() == "mine"


def test_what_fits_is_copied_without_a_rule(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr2", np.arange(256, dtype="i4"), (100,))
    assert run("cp", tmp_path / "a", tmp_path / "b", "--dtype", "uint8", "--format", "n5").status == 0
    assert np.array_equal(read(tmp_path / "b"), np.arange(256))


def test_fill_values_are_cast_too(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", np.full(4, 7, "u2"), (2,), fill_value=1000)
    copy = ["cp", tmp_path / "a", tmp_path / "b", "--dtype", "uint8", "--format", "zarr3"]
    result = run(*copy)
    assert result.status == 1 and "fill value" in result.err
    assert run(*copy, "--cast", "clamp").status == 0
    assert cw.open(str(tmp_path / "b")).result().fill_value == 255


def test_a_hierarchy(run: Run, path: Path, tmp_path: Path) -> None:
    group = cw.open_group(str(tmp_path / "g.zarr"), "w")
    group.create_array("x", shape=VALUES.shape, dtype="uint16")[...] = VALUES
    copy = ["cp", "-r", tmp_path / "g.zarr", tmp_path / "h.zarr", "--dtype", "uint8", "--no-sync"]
    result = run(*copy, "--cast", "clamp")
    assert result.status == 0 and "x: 3 values" in result.err
    assert np.array_equal(read(tmp_path / "h.zarr/x"), VALUES.clip(0, 255))


def test_wrong_command_lines(run: Run, path: Path, tmp_path: Path) -> None:
    assert run("cp", path, tmp_path / "b.zarr", "--cast", "clamp").status == 2
    result = run("cp", path, tmp_path / "b.zarr", "--dtype", "float16", "--cast", "wrap", "--format", "zarr3")
    assert result.status == 1 and "integer" in result.err
    result = run("cp", path, tmp_path / "b.zarr", "--dtype", "string", "--cast", "clamp", "--format", "zarr3")
    assert result.status == 1 and "real numbers" in result.err


SOURCES = st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?"])
TARGETS = st.sampled_from(
    ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float32", "int4"]
)


@given(SOURCES.flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(max_dims=2, max_side=6))), TARGETS)
def test_against_python_numbers(values: np.ndarray, name: str) -> None:
    """What fits stays what it is; of the rest each is counted, and becomes the nearest value."""
    target = cw.dtype(name)
    memory = target.numpy_dtype
    whole = "int" in name
    wide = [v if isinstance(v, float) else int(v) for v in values.reshape(-1).tolist()]
    if name == "int4":
        low, high = -8, 7
    else:
        low, high = (np.iinfo(memory).min, np.iinfo(memory).max) if whole else (None, None)
    clamp = Narrowing(target, "clamp")
    if whole and not all(map(math.isfinite, wide)):
        with pytest.raises(MisfitError, match=r"nan|inf"):
            clamp(values)
        return
    out = clamp(values)
    assert out.dtype == memory and out.shape == values.shape
    if whole:
        rounded = [round(v) for v in wide]
        nearest = [int(min(max(v, low), high)) for v in rounded]
        assert [int(v) for v in out.reshape(-1)] == nearest
        assert clamp.n_changed == sum(not low <= v <= high for v in rounded)
        exact = all(low <= v <= high and v == w for v, w in zip(rounded, wide, strict=True))
        if exact:
            assert np.array_equal(Narrowing(target, "error")(values), out)
        else:
            with pytest.raises(MisfitError):
                Narrowing(target, "error")(values)
    else:
        with np.errstate(over="ignore"):
            plain = values.astype(memory)
        lost = np.isinf(plain) & np.isfinite(values.astype("f8"))
        assert clamp.n_changed == lost.sum()
        assert np.array_equal(out[~lost], plain[~lost], equal_nan=True)
