"""The code on the page about N5 prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "n5.md").read_text()


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    printed: list[str] = []
    exec(compile(code, "n5.md", "exec"), {"print": lambda *a: printed.append(" ".join(map(str, a)))})
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", code, flags=re.MULTILINE)
    assert printed == promised
