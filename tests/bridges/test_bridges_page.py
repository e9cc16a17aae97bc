"""The examples of docs/bridges.md run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import zarr

PAGE = (Path(__file__).parents[2] / "docs" / "bridges.md").read_text()


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 5
    before = zarr.config.get("codec_pipeline.path")
    try:
        exec(compile("\n".join(examples), "bridges.md", "exec"), {})
        assert zarr.config.get("codec_pipeline.path") == "chunkwise.zarr.CodecPipeline"
    finally:
        zarr.config.set({"codec_pipeline.path": before})
