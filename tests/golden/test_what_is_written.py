"""Bytes of all creators: a change of what is stored is a change of `what_is_written.txt`, never by accident.

`python -m tests.golden.test_what_is_written` writes the file anew.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.golden.creators import CREATORS, FORMATS, lines

KNOWN = Path(__file__).with_name("what_is_written.txt")


def _known(creator: str, format: str) -> list[str]:
    start = f"{creator} | {format} | "
    return [line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line.startswith(start)]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("creator", CREATORS)
def test_every_creator_writes_the_same_bytes(creator, format, tmp_path):
    assert list(lines(creator, tmp_path / "a", format)) == _known(creator, format)


def _write_anew() -> None:
    out: list[str] = []
    for creator in CREATORS:
        for format in FORMATS:
            with tempfile.TemporaryDirectory() as folder:
                out += lines(creator, Path(folder) / "a", format)
    KNOWN.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write_anew()
