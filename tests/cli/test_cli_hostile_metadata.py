"""No metadata document, however odd, makes a command end in anything but a message."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_arrays import DRIVERS, make
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.cli.main import main

KEYS = {"zarr3": "zarr.json", "zarr2": ".zarray", "zarr1": "meta", "n5": "attributes.json"}
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1e400, 2**70, 1.5, -1.0, float("nan")])
    | st.sampled_from(["", "x", "bytes", "zstd", "uint8", "<f4", "NaN", "0x7f", "C", "/", "raw", "\ud800"])
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "configuration", "id", "type", "level", "x"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def paths(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the paths of the values in a document."""
    below = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [at, *(path for key, value in below for path in paths(value, (*at, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    out = copy.copy(document)
    out[path[0]] = replaced(out[path[0]], path[1:], value)
    return out


@pytest.mark.parametrize("format", list(DRIVERS))
def test_documents_with_one_odd_member(
    tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"metadata": {"axes": ["a", "b"], "units": ["m", "m"]}} if format == "n5" else {}
    make(tmp_path / "a", format, np.ones((5, 4), "u1"), (2, 2), **labels)
    key = tmp_path / "a" / KEYS[format]
    document = json.loads(key.read_text())

    @settings(
        max_examples=examples(30),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(path=st.sampled_from(paths(document)), value=JSON)
    def check(path: tuple[Any, ...], value: Any) -> None:
        key.write_text(json.dumps(replaced(document, path, value)))
        for command in ("info", "tree", "verify", "attrs"):
            for options in ([], ["--json"]):
                assert main([command, str(tmp_path / "a"), *options]) in (0, 1)
        assert "Traceback" not in capsys.readouterr().err

    check()


@pytest.mark.parametrize("command", ["info", "tree", "attrs", "verify", "diff"])
def test_half_a_character_in_a_document_is_shown(tmp_path: Path, command: str) -> None:
    """JSON can say it, and no encoding has it."""
    chunkwise.create_array(tmp_path / "a.zarr", np.arange(4))
    document = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    document["attributes"] = {"a": "\ud800x"}
    document["dimension_names"] = ["\ud800"]
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(document))
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr/zarr.json").write_text(json.dumps({**document, "attributes": {}}))
    words = [command, tmp_path / "a.zarr", *([tmp_path / "b.zarr"] if command == "diff" else [])]
    done = subprocess.run(
        [sys.executable, "-m", "chunkwise", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == (command == "diff"), done.stderr
    assert "can't encode" not in done.stderr
    if command in ("info", "attrs"):
        assert "\\ud800" in done.stdout
