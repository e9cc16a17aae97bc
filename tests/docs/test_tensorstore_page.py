"""The page for those who come from TensorStore prints what it says, and so does TensorStore."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tensorstore.md").read_text()


@pytest.mark.parametrize("library", ["chunkwise", "tensorstore"])
def test_page(library: str) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    exec(compile(code.replace("import chunkwise", f"import {library}"), "page", "exec"), names)
    assert printed == re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(printed) == 2


def test_the_table_names_what_the_parity_tests_except() -> None:
    for name in ("codec_chunk_shape=", "remove_done_callback", "dtype == None", "OutputIndexMap"):
        assert name in PAGE
