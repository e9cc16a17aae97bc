"""The page for those who come from TensorStore prints what it says, and so does TensorStore."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tensorstore.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("library", ["chunkwise", "tensorstore"])
def test_page(library: str) -> None:
    code, _ = CODE
    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    exec(compile(code.replace("import chunkwise", f"import {library}"), "page", "exec"), names)
    assert printed == re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(printed) == 2


def test_programs_that_import_tensorstore() -> None:
    """In a process of its own: TensorStore must not have been imported."""
    _, code = CODE
    subprocess.run([sys.executable, "-c", f"import chunkwise as ts\n{code}"], check=True)


def test_the_table_names_what_the_parity_tests_except() -> None:
    for name in ("codec_chunk_shape=", "remove_done_callback", "dtype == None", "OutputIndexMap"):
        assert name in PAGE
