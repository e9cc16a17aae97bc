"""The commands for hierarchies where there are no directories, only keys."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from cli_arrays import Run
from cli_trees import FORMATS, RAW, make_tree

import chunkwise as cw
from chunkwise.hierarchy.location import Location, locate
from chunkwise.kvstore.memory import MemoryStore

COMMANDS = ("cp", "diff", "rm", "mv", "consolidate", "tree", "attrs")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Location]:
    """Return what gives a location in one store in memory; commands take it by ``mem:path``."""
    store = locate(cw.KvStore.open("memory://").result())
    assert isinstance(store.store, MemoryStore)

    def find(text: str) -> Location:
        assert text.startswith("mem:")
        path = text.removeprefix("mem:").strip("/")
        return store.at(f"{path}/" if path else "")._replace(text=text)

    def at(text: Any) -> Location:
        return find(text) if isinstance(text, str) and text.startswith("mem:") else locate(text)

    for module in ("tools.difference", *(f"cli.{command}" for command in COMMANDS if command != "diff")):
        monkeypatch.setattr(import_module(f"chunkwise.{module}"), "locate", at)
    return find


@pytest.mark.parametrize("format", FORMATS)
def test_a_tree_in_memory(run: Run, place: Callable[[str], Location], format: str) -> None:
    make_tree(place("mem:a"), format)
    assert run("cp", "-r", "mem:a", "mem:b", "--format", format).status == 0
    assert run("diff", "mem:a", "mem:b").status == 0
    assert run("mv", "mem:b/raw/s0", "mem:b/deep/s0").status == 0
    assert run("mv", "mem:b/deep", "mem:deep").status == 0
    tree = cw.open_group(place("mem:deep"), format=format)
    np.testing.assert_array_equal(tree["s0"], RAW)
    assert list(cw.open_group(place("mem:b"))) == ["empty", "float", "latest", "raw"]
    assert run("diff", "mem:a/raw/s0", "mem:deep/s0").status == 0
    assert run("mv", "mem:deep/s0", "mem:b/s0").status == 0
    assert run("attrs", "mem:b/s0", "get", "unit").out == '"nm"\n'
    assert run("rm", "-r", "mem:a").status == 0
    keys = list(place("mem:").store.list())
    assert keys and not [key for key in keys if key.startswith("a/")]
    if format != "n5":
        assert run("consolidate", "mem:b").status == 0
        assert run("rm", "mem:b/s0").status == 0
        assert run("consolidate", "mem:b", "--check").status == 0
    assert "float" in run("tree", "mem:b").out


def test_stores_are_told_apart(run: Run, place: Callable[[str], Location], tmp_path: Any) -> None:
    make_tree(place("mem:a"), "zarr3")
    refused = run("mv", "mem:a", tmp_path / "a")
    assert refused.status == 2 and "different stores" in refused.err
    assert run("cp", "-r", "mem:a", tmp_path / "a").status == 0
    assert run("diff", "mem:a", tmp_path / "a").status == 0
