"""`verify` and `diff` return lists, which can be looked at twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    group = cw.create_group(tmp_path / "t.zarr")
    for name in ("a", "b"):
        group.create_array(name, np.arange(12, dtype="u2"), chunks=(4,))
    cw.copy_tree(tmp_path / "t.zarr", tmp_path / "u.zarr")
    cw.open(tmp_path / "u.zarr" / "b").result()[3] = 99
    return tmp_path


ACTS = {
    "verify": lambda tree, **how: cw.verify(tree / "t.zarr", **how),
    "diff": lambda tree, **how: cw.diff(tree / "t.zarr", tree / "u.zarr", **how),
}


@pytest.mark.parametrize("act", ACTS)
def test_lists(tree: Path, act: str) -> None:
    found: Any = ACTS[act](tree)
    assert isinstance(found, list) and len(found) == {"verify": 3, "diff": 1}[act]
    assert [repr(one) for one in found] == [repr(one) for one in found]
    assert found and not isinstance(found, str)


@pytest.mark.parametrize("act", ACTS)
def test_progress(tree: Path, act: str, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[int] = []
    ACTS[act](tree, progress=told.append)
    assert sum(told) > 0
    assert capsys.readouterr().err == ""
    ACTS[act](tree, progress=True)
    with pytest.raises(TypeError, match="progress"):
        ACTS[act](tree, progress="yes")


def test_the_memory_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes blocks smaller; nothing that differs is missed, in Python and on the command line."""
    from chunkwise.copying import comparison

    values = np.arange(4096.0).reshape(64, 64)
    cw.create_array(tmp_path / "a.zarr", values, chunks=[8, 8])
    values[63, 63] = -1
    cw.create_array(tmp_path / "b.zarr", values, chunks=[16, 16])
    sizes: list[int] = []
    divided = comparison.divide
    monkeypatch.setattr(comparison, "divide", lambda *given: sizes.append(given[2]) or divided(*given))
    for memory in (None, "10kB", 10**9):
        (found,) = cw.diff(tmp_path / "a.zarr", tmp_path / "b.zarr", memory=memory)
        assert found.what == "values"
    assert main(["diff", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--memory", "10kB"]) == 1
    assert sizes[0] == sizes[2] > 10_000 > sizes[1] >= sizes[3]
    with pytest.raises(ValueError, match="much"):
        cw.diff(tmp_path / "a.zarr", tmp_path / "b.zarr", memory="much")
