"""What `--part` does not go with is said, and names only options that were given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--part", "1/2", "--overwrite"], "chunkwise rm"),
        (["--part", "1/2", "--format", "neuroglancer_precomputed"], "--part"),
        (["--keep-fingerprint", "--format", "neuroglancer_precomputed"], "--keep-fingerprint"),
    ],
)
def test_an_error_names_what_was_given(
    options: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cw.create_array(tmp_path / "a.zarr", np.ones((4, 4, 4), "u1"), dimension_names=["z", "y", "x"])
    assert main(["cp", str(tmp_path / "a.zarr"), str(tmp_path / "b"), *options])
    told = capsys.readouterr().err
    assert word in told
    assert ("fingerprint" in told) == ("--keep-fingerprint" in options)
    assert not (tmp_path / "b").exists()
