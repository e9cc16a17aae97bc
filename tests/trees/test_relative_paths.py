"""What was opened by a relative path is found again from another directory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
import chunkwise.z5py
import chunkwise.zarr
from chunkwise.hdmf import ZarrIO


def _group(name: str) -> cw.Group:
    group = cw.create_group(name)
    group.create_array("d", np.arange(3))
    return group


def _z5py(name: str) -> Any:
    file = chunkwise.z5py.File(name, "a")
    file.create_dataset("d", data=np.arange(3))
    return file


OBJECTS: dict[str, Callable[[], tuple[Any, Callable[[Any], Any]]]] = {
    "array": lambda: (_group("a.zarr")["d"], lambda found: found.read().result()),
    "lazy": lambda: (cw.to_dask(_group("a.zarr")["d"]), lambda found: found.compute(scheduler="sync")),
    "spec": lambda: (_group("a.zarr")["d"].spec(), lambda found: cw.open(found).result().read().result()),
    "kvstore": lambda: (_group("a.zarr")["d"].kvstore, lambda found: cw.open_array(found).read().result()),
    "file of z5py": lambda: (_z5py("a.n5"), lambda found: found["d"][:]),
    "dataset of z5py": lambda: (_z5py("a.n5")["d"], lambda found: found[:]),
    "store for zarr": lambda: (
        chunkwise.zarr.Store(_group("a.zarr").path or "a.zarr"),
        lambda found: __import__("zarr").open_group(found)["d"][:],
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_pickles(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, read = OBJECTS[kind]()
    pickled = pickle.dumps(made)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(read(pickle.loads(pickled)), np.arange(3))


def test_the_path_of_hdmf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is absolute; URLs stay as they are."""
    monkeypatch.chdir(tmp_path)
    with ZarrIO("a.zarr", mode="w") as io:
        assert io.path == str(tmp_path / "a.zarr")
    with ZarrIO(f"file://{tmp_path}/b.zarr", mode="w") as io:
        assert io.path == f"file://{tmp_path}/b.zarr"
