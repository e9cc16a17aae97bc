"""The programs of the gallery run as they stand, and make their pictures."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PROGRAMS = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    picture = np.asarray(Image.open(BytesIO((tmp_path / "picture.png").read_bytes())))
    assert picture.shape[1] >= 384
    assert picture.std() > 10


def test_there_are_ten_each_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "make" / "gallery.py").read_text()
    assert len(PROGRAMS) == 10
    assert all(program.stem in page for program in PROGRAMS)
