"""Checks of workers, and of those who have work for them, before anything is written."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr

import chunkwise as cw

VALUES = np.arange(600, dtype="u2").reshape(20, 30)


def _of_another_version() -> None:
    import chunkwise.version

    chunkwise.version.__version__ = "0.0.7"


def _hidden(path: str, fn: Callable[..., Any], *args: Any) -> Any:
    """Call a task where a directory isn't to be seen."""
    os.rename(path, path + ".elsewhere")
    try:
        return fn(*args)
    finally:
        os.rename(path + ".elsewhere", path)


class Blind(Executor):
    """Workers that don't see a directory."""

    def __init__(self, executor: Executor, path: Path) -> None:
        self._executor, self._path = executor, str(path)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._executor.submit(_hidden, self._path, fn, *args)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    group = cw.create_group(tmp_path / "a.zarr", format="zarr3")
    group.create_array("large", VALUES, chunks=(5, 30))
    group.create_array("small", np.arange(4))
    return tmp_path / "a.zarr"


@pytest.fixture(scope="module")
def worker() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_sources_of_others_are_recognized(tmp_path: Path, worker: Executor, format: str) -> None:
    """Their documents lack members that ours have, or say the same in another way."""
    source, target = tmp_path / "a", str(tmp_path / "b.zarr")
    if format == "n5":
        spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(source)}}
        chunk = {"blockSize": [5, 30], "compression": {"type": "gzip"}}
        options = {"dtype": tensorstore.uint16, "shape": VALUES.shape, "create": True}
        tensorstore.open({**spec, "metadata": chunk}, **options).result()[...] = VALUES
    else:
        made = zarr.create_array(
            source, shape=VALUES.shape, dtype="u2", chunks=(5, 30), zarr_format=int(format[-1])
        )
        made[:] = VALUES
    if format == "zarr2":
        document = json.loads((source / ".zarray").read_text())
        document.pop("dimension_separator", None)
        (source / ".zarray").write_text(json.dumps(document))
    cw.copy(str(source), target, executor=worker, format="zarr3")
    assert np.array_equal(cw.read(target), VALUES)
    assert not any(cw.diff(str(source), target, executor=worker))


def test_documents_that_are_consolidated_in_another_form(tmp_path: Path, worker: Executor) -> None:
    group = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    records = np.array([(1, 2.5, b"ab")] * 7, [("a", "<i2"), ("b", ">f8"), ("c", "S3")])
    for name, values in (("numbers", VALUES), ("records", records)):
        group.create_array(name, data=values)
        document = json.loads((tmp_path / "a" / name / ".zarray").read_text())
        document.pop("dimension_separator", None)
        (tmp_path / "a" / name / ".zarray").write_text(json.dumps(document))
    zarr.consolidate_metadata(tmp_path / "a")
    assert "dimension_separator" in (tmp_path / "a" / ".zmetadata").read_text()
    cw.copy_tree(tmp_path / "a", tmp_path / "b", format="zarr3", executor=worker)
    copy = cw.open_group(tmp_path / "b")
    assert np.array_equal(copy["numbers"], VALUES) and np.array_equal(copy["records"], records)


@pytest.mark.parametrize("what", ["copy", "copy_tree", "verify", "diff"])
def test_a_worker_of_another_version(tree: Path, tmp_path: Path, what: str) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_of_another_version) as executor:
        both = rf"a worker has version 0\.0\.7 of chunkwise, and {cw.__version__} has sent it work"
        with pytest.raises(ValueError, match=both):
            if what == "copy":
                cw.copy(tree / "large", tmp_path / "b.zarr", executor=executor)
            elif what == "copy_tree":
                cw.copy_tree(tree, tmp_path / "b.zarr", executor=executor)
            elif what == "verify":
                list(cw.verify(tree, executor=executor))
            else:
                list(cw.diff(tree, tree, executor=executor))


@pytest.mark.each_once
@pytest.mark.parametrize("kind", ["array", "small arrays", "larger arrays"])
@pytest.mark.parametrize("side", ["source", "destination"])
def test_paths_that_a_worker_does_not_see(
    tree: Path, tmp_path: Path, worker: Executor, kind: str, side: str
) -> None:
    target = tmp_path / "b.zarr"
    blind = Blind(worker, tree if side == "source" else target)
    with pytest.raises(ValueError, match=f"a worker doesn't see the {side}"):
        if kind == "array":
            cw.copy(tree / "large", target, executor=blind)
        else:
            cw.copy_tree(tree, target, executor=blind, memory=2000 if kind == "larger arrays" else None)
    assert not (target / "zarr.json").exists() and not list(target.rglob("c"))
    if kind == "array":
        cw.copy(tree / "large", target, executor=worker, resume=True)
    else:
        cw.copy_tree(tree, target, executor=worker, resume=True)
        with pytest.raises(ValueError, match=r"Error copying .*large: a block .* takes 1,200 bytes"):
            cw.copy_tree(tree, tmp_path / "c.zarr", memory=1000)
    assert not list(cw.diff(tree / "large" if kind == "array" else tree, target))


def test_what_is_to_be_read_is_not_seen(tree: Path, tmp_path: Path, worker: Executor) -> None:
    blind = Blind(worker, tree)
    with pytest.raises(ValueError, match="a worker doesn't see the array"):
        list(cw.verify(tree, executor=blind))
    with pytest.raises(ValueError, match="a worker doesn't see the array"):
        list(cw.diff(tree, tree, executor=blind))
    options: dict[str, Any] = {"levels": 1, "axes": ["y", "x"], "executor": blind}
    with pytest.raises(ValueError, match="a worker doesn't see the source"):
        cw.downsample_pyramid(tree / "large", tmp_path / "p.zarr", **options).result()
    part = cw.open(str(tree / "large")).result()[2:15]
    stacked = cw.concat([part, part], axis=0)
    with pytest.raises(ValueError, match="a worker doesn't see the source: there is no array at"):
        cw.downsample_pyramid(stacked, tmp_path / "q.zarr", **options).result()


@pytest.mark.parametrize("change", ["shape", "gone"])
def test_an_array_that_changes_while_it_is_copied(tree: Path, tmp_path: Path, change: str) -> None:
    array = cw.open_group(tree, "r+")["large"]

    def happen(nbytes: int) -> None:
        if change == "shape":
            array.resize(exclusive_max=[21, 30]).result()
        else:
            (tree / "large/zarr.json").unlink(missing_ok=True)

    with pytest.raises(ValueError, match=r"the source has changed while it was copied: .*zarr\.json"):
        cw.copy(tree / "large", tmp_path / "b.zarr", progress=happen)
    assert not (tmp_path / "b.zarr/zarr.json").exists()
    if change == "shape":
        with pytest.raises(ValueError, match="its source metadata is another one"):
            cw.copy(tree / "large", tmp_path / "b.zarr", resume=True)


def test_a_destination_that_another_plan_has_begun(tree: Path, tmp_path: Path) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.copy(tree / "large", tmp_path / "b.zarr", chunks=(2, 30), progress=stop)
    for options, why in [({}, "begun and not finished"), ({"resume": True}, "its target is another one")]:
        with pytest.raises(ValueError, match=why):
            cw.copy(tree / "large", tmp_path / "b.zarr", chunks=(3, 30), **options)
    with pytest.raises(ValueError, match="begun and not finished"):
        cw.copy_tree(tree, tmp_path / "b.zarr")
    with pytest.raises(ValueError, match="is another one"):
        cw.copy_tree(tree, tmp_path / "b.zarr", resume=True)
