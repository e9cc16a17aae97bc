"""The programs of the gallery run as they stand, and make their pictures."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PROGRAMS = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program))
    picture = np.asarray(Image.open("picture.png"))
    assert picture.shape[1] >= 384
    assert picture.std() > 10


def test_there_are_ten_each_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "make" / "gallery.py").read_text()
    assert len(PROGRAMS) == 10
    assert all(program.stem in page for program in PROGRAMS)
