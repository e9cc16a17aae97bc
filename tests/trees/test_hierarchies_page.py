"""The page on hierarchies and the examples in docstrings do what they say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from doc_examples import run_examples

PAGE = Path(__file__).parents[2] / "docs" / "hierarchies.md"
MODULES = (
    "chunkwise.core.trees.node_attributes",
    "chunkwise.groups.group",
    "chunkwise.groups.n5_uri",
)


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "zarr3 array  uint16  (2, 3, 4)" in capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = run_examples(importlib.import_module(name))
    assert result.failed == 0
    assert name.endswith("group") or result.attempted
