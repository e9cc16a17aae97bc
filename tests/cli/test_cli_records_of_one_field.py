"""Records with one field stay records, by whatever way they are made, opened and copied."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorstore
import zarr
from cli_arrays import Run

import chunkwise as cw

ONE = np.array([[(1.5,), (2.5,), (-0.0,)], [(3.5,), (4.5,), (7.0,)]], dtype=[("x", "<f4")])
TWO = np.array([[(1.5, 2), (2.5, 3)]], dtype=[("x", "<f4"), ("y", "<i2")])
FORMATS = {"zarr2": "zarr", "zarr3": "zarr3"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("values", [ONE, TWO], ids=["one field", "two fields"])
def test_what_is_made_is_what_is_opened(tmp_path: Path, format: str, values: np.ndarray) -> None:
    """The number of fields doesn't decide what type of array there is."""
    made = cw.create_array(tmp_path / "a", values, chunks=(1, 2), format=format)
    group = cw.open_group(tmp_path / "g", mode="w", format=format)
    group.create_array("a", data=values)
    spec = {"driver": FORMATS[format], "kvstore": f"file://{tmp_path}/a/"}
    for array in (
        made,
        cw.open(tmp_path / "a").result(),
        cw.open(made.spec()).result(),
        cw.open(made.spec(minimal_spec=True)).result(),
        cw.open(spec, dtype=values.dtype).result(),
        cw.overlay([made]),
        group["a"],
    ):
        read = np.asarray(array)
        assert read.dtype == values.dtype
        np.testing.assert_array_equal(read, values)
        np.testing.assert_array_equal(read["x"], values["x"])
    np.testing.assert_array_equal(cw.read(tmp_path / "a"), values)
    if format == "zarr2":
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "a")[...], values)


@pytest.mark.parametrize("format", FORMATS)
def test_copies_keep_the_records(run: Run, tmp_path: Path, format: str) -> None:
    """Arrays and trees, to either format, in steps that each read what the one before has written."""
    cw.open_group(tmp_path / "g0", mode="w", format=format).create_array("a", data=ONE)
    cw.create_array(tmp_path / "a0", ONE, chunks=(1, 2), format=format)
    for i, target in enumerate([*FORMATS, *FORMATS]):
        assert (
            run("cp", tmp_path / f"a{i}", tmp_path / f"a{i + 1}", "--format", target, "--verify").status == 0
        )
        copied = run("cp", "-r", tmp_path / f"g{i}", tmp_path / f"g{i + 1}", "--format", target)
        assert copied.status == 0, copied.err
        for path in (tmp_path / f"a{i + 1}", tmp_path / f"g{i + 1}" / "a"):
            assert cw.read(path).dtype == ONE.dtype
            np.testing.assert_array_equal(cw.read(path), ONE)


def test_a_spec_of_tensorstore_names_the_field(tmp_path: Path) -> None:
    """TensorStore takes the one field unasked, but its specs say which, so they mean the same here."""
    cw.create_array(tmp_path / "a", ONE, chunks=(1, 2), format="zarr2")
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/a/"}
    theirs = tensorstore.open(spec).result()
    described = theirs.spec().to_json()
    assert described["field"] == "x"
    ours = cw.open(json.loads(json.dumps(described))).result()
    assert ours.dtype.name == theirs.dtype.name == "float32"
    np.testing.assert_array_equal(ours.read().result(), theirs.read().result())
    np.testing.assert_array_equal(cw.open({**spec, "field": "x"}).result().read().result(), ONE["x"])
