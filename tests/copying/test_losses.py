"""What a copy lacks is a warning in Python, a line and status 3 on the command line; progress; sessions."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import z5py

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import InvalidArgumentError, LossWarning

VALUES = np.random.default_rng(0).integers(1, 1000, (16, 16, 16), "u2")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    group = cw.open_group(tmp_path / "a.zarr", "w-", format="zarr2", non_finite="literal")
    group.attrs["bad"] = {"x": [math.nan, math.inf, 1]}
    group.create_array("x", VALUES, chunks=(4, 16, 16))
    group.create_array("g/complex", VALUES[0].astype("c8"))
    cw.open_group(tmp_path / "a.zarr", "r+", non_finite="literal")["x"].attrs["low"] = -math.inf
    return tmp_path / "a.zarr"


def _copied(call: Any, *arguments: Any, **options: Any) -> LossWarning:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(*arguments, **options)
    (warning,) = seen
    assert warning.filename == __file__ and isinstance(warning.message, LossWarning)
    return warning.message


def test_what_is_left_out_is_one_warning(tree: Path, tmp_path: Path) -> None:
    found = _copied(cw.copy_tree, tree, tmp_path / "b.n5", format="n5")
    assert {path: note.partition(":")[0] for path, note in found.losses} == {
        "g/complex": "array is left out",
        "": 'attribute "bad" has NaN or infinities, which are text here',
        "x": 'attribute "low" has NaN or infinities, which are text here',
    }
    assert "g/complex: array is left out" in str(found)
    with pytest.raises(InvalidArgumentError, match="g/complex: chunks: expected one size for each of 2"):
        cw.copy_tree(tree, tmp_path / "c.zarr", chunks=(4, 4, 4))
    assert not (tmp_path / "c.zarr").exists()
    found = _copied(cw.create_group(tmp_path / "d.n5").copy, cw.open_group(tree), "in")
    assert len(found.losses) == 3
    found = _copied(cw.copy, tree / "x", tmp_path / "e.n5", format="n5")
    assert found.losses == (("", 'attribute "low" has NaN or infinities, which are text here'),)


def test_the_command_line_says_it(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source, options in [("", ["-r"]), ("/x", [])]:
        target = str(tmp_path / f"b{len(options)}.n5")
        assert main(["cp", f"{tree}{source}", target, *options, "--quiet"]) == 3
        assert "has NaN or infinities, which are text here" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_documents_are_json_for_strict_readers(tree: Path, tmp_path: Path, format: str) -> None:
    target = tmp_path / ("b.n5" if format == "n5" else "b.zarr")
    with pytest.warns(LossWarning):
        cw.copy_tree(tree, target, format=format)
    for path in [*target.rglob("zarr.json"), *target.rglob("attributes.json")]:
        json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    kvstore = {"driver": "file", "path": str(target / "x")}
    opened = tensorstore.open({"driver": "n5" if format == "n5" else "zarr3", "kvstore": kvstore}).result()
    assert np.array_equal(opened.read().result(), VALUES)
    if format == "n5":
        file = z5py.File(str(target), "r")
        assert file["x"].attrs["low"] == "-Infinity" and file.attrs["bad"]["x"][:2] == ["NaN", "Infinity"]


def test_a_migrated_array_opens_in_tensorstore(tree: Path) -> None:
    assert any("which are text here" in note for note in cw.migrate(tree / "x", apply=True).notes)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tree / "x")}}
    assert np.array_equal(tensorstore.open(spec).result().read().result(), VALUES)


@pytest.mark.parametrize("call", ["copy", "copy_tree", "downsample_pyramid", "Group.copy"])
def test_progress(call: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cw.create_group(tmp_path / "a.zarr").create_array("x", VALUES)
    cw.create_group(tmp_path / "b.zarr").create_array("x", VALUES + 1)
    work: Any = {
        "copy": lambda **how: cw.copy(tmp_path / "a.zarr/x", tmp_path / "b.zarr/x", overwrite=True, **how),
        "copy_tree": lambda **how: cw.copy_tree(
            tmp_path / "a.zarr", tmp_path / "b.zarr", overwrite=True, **how
        ),
        "downsample_pyramid": lambda **how: cw.downsample_pyramid(
            tmp_path / "a.zarr/x", tmp_path / "c.zarr", axes="zyx", **how
        ).result(),
        "Group.copy": lambda **how: cw.open_group(tmp_path / "a.zarr", "r+").copy("x", "y", **how),
    }[call]
    for wrong in (1, "bar", []):
        with pytest.raises(TypeError, match="progress: expected a function, True or False, not "):
            work(progress=wrong)
    assert np.array_equal(cw.read(tmp_path / "b.zarr/x"), VALUES + 1)
    work(progress=True)
    assert "100%" in capsys.readouterr().err


def test_copies_into_a_session_of_icechunk(tmp_path: Path) -> None:
    import icechunk

    group = cw.create_group(tmp_path / "a.zarr", attributes={"a": 1})
    group.create_array("g/x", VALUES, chunks=(1, 16, 16))
    group.create_array("y", VALUES[0])
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    for overwrite in (False, True):
        cw.copy_tree(tmp_path / "a.zarr", session.store, memory=9000, verify=True, overwrite=overwrite)
        assert not list(cw.diff(tmp_path / "a.zarr", session.store))
    session.commit("a tree")
    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    options: Any = {"chunks": (16, 4, 4), "memory": 9000, "verify": True, "keep_fingerprint": True}
    report = cw.copy(tmp_path / "a.zarr/g/x", session.store, **options)
    assert len(report.plan.passes) == 1 and np.array_equal(report.array.read().result(), VALUES)
    (found,) = cw.verify(session.store)
    assert found.fingerprint is True

    def stop(nbytes: int) -> None:
        raise KeyboardInterrupt

    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    with pytest.raises(KeyboardInterrupt):
        cw.copy(tmp_path / "a.zarr/g/x", session.store, progress=stop, **options)
    with pytest.raises(ValueError, match="NOT_FOUND"):
        cw.open({"driver": "zarr3", "kvstore": session.store}).result()
