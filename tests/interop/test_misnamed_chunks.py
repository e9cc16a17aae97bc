"""Chunks under names that the metadata don't say: `verify` names the separator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chunkwise as ts

FORMS = {
    "zarr2": [{"dimension_separator": "."}, {"dimension_separator": "/"}],
    "zarr3": [
        {"chunk_key_encoding": {"name": name, "configuration": {"separator": separator}}}
        for name in ("default", "v2")
        for separator in (".", "/")
    ],
}
PAIRS = [
    (format, a, b)
    for format, forms in FORMS.items()
    for a in range(len(forms))
    for b in range(len(forms))
    if a != b
]


@pytest.mark.parametrize(("format", "stored", "said"), PAIRS)
def test_the_form_that_is_stored_is_named(tmp_path: Path, format: str, stored: int, said: int) -> None:
    """Once for all chunks; with metadata of the right form all is good."""
    path = tmp_path / "a"
    array = ts.create_array(path, np.arange(16).reshape(4, 4), chunks=[2, 2], format=format)
    key = "zarr.json" if format == "zarr3" else ".zarray"
    document = json.loads((path / key).read_text())
    own = FORMS[format][stored]
    values = array.read().result()
    for file in [p for p in path.rglob("*") if p.is_file()]:
        file.unlink()
    (path / key).write_text(json.dumps({**document, **own}))
    ts.open(str(path), write=True).result().write(values).result()
    (report,) = ts.verify(path)
    assert not report.bad and not report.notes and report.n_chunks == 4
    (path / key).write_text(json.dumps({**document, **FORMS[format][said]}))
    (report,) = ts.verify(path)
    (bad,) = report.bad
    separator = own.get("dimension_separator") or own["chunk_key_encoding"]["configuration"]["separator"]
    assert f'"{separator}"' in bad.reason and ("dimension_separator" in bad.reason) == (format == "zarr2")
    assert bad.key.endswith(key) and report.n_chunks == 0


def test_the_command_says_so(tmp_path: Path) -> None:
    """Exit status 1; other files beside the chunks are still only noted."""
    path = tmp_path / "a"
    ts.create_array(path, np.ones((4, 4)), chunks=[2, 2], format="zarr2")
    (path / "readme.txt").write_text("x")
    command = [sys.executable, "-m", "chunkwise", "verify", str(path)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    told = subprocess.run([*command[:-2], "info", str(path)], capture_output=True, text=True).stdout
    assert "4 of 4 chunks" in told and "verify" not in told
    document = json.loads((path / ".zarray").read_text())
    document["dimension_separator"] = "/" if document.get("dimension_separator", ".") == "." else "."
    (path / ".zarray").write_text(json.dumps(document))
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 1 and "dimension_separator" in found.stdout and "all good" not in found.stdout
    assert "readme.txt" in found.stdout
    told = subprocess.run([*command[:-2], "info", str(path)], capture_output=True, text=True).stdout
    assert "0 of 4 chunks; `chunkwise verify` says what 5 other keys may be" in told
