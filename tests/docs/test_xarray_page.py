"""The page on xarray and dask runs as it is, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "xarray.md").read_text()
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    exec(compile(CODE, "xarray.md", "exec"), {"print": lambda *a: printed.append(" ".join(map(str, a)))})
    promised = [line.strip() for line in re.findall(r"print\(.*\)\s+# (.*)", CODE)]
    assert printed == promised and len(promised) == 9
