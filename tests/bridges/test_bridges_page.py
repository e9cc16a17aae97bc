"""The examples of docs/bridges.md run as they stand, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import zarr

from chunkwise.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "bridges.md").read_text()


def test_examples_and_then_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 5
    before = zarr.config.get("codec_pipeline.path")
    try:
        exec(compile("\n".join(examples), "bridges.md", "exec"), {})
        assert zarr.config.get("codec_pipeline.path") == "chunkwise.zarr.CodecPipeline"
        commands = re.findall(r"^\$ chunkwise (.*)$", PAGE, flags=re.MULTILINE)
        assert len(commands) == 6
        for command in commands:
            assert main(shlex.split(command)) == 0, command
    finally:
        zarr.config.set({"codec_pipeline.path": before})
