"""A process that forks while its threads use a server: the child goes on with every handle."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child_process
import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as ts

PROGRAM = Path(__file__).parents[1] / "forking_program.py"
CHUNKS = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}}}
POOL = {"cache_pool": {"total_bytes_limit": 3000}}


@pytest.mark.each_once
@pytest.mark.parametrize("context", [{}, POOL], ids=["plain", "cache"])
@pytest.mark.parametrize("kind", ["s3", "http"])
def test_a_child_goes_on(
    tmp_path: Path,
    moto: str,
    run_server: Callable[..., str],
    kind: str,
    context: dict[str, Any],
) -> None:
    spec: dict[str, Any] = {"driver": "zarr3", "context": context}
    if kind == "s3":
        spec["metadata"] = CHUNKS
        spec["kvstore"] = {"driver": "s3", "bucket": new_s3_bucket(moto), "endpoint": moto, "path": "a/"}
        array = ts.open(spec, create=True, dtype="uint8", shape=[32, 32]).result()
    else:
        stored = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/", "metadata": CHUNKS}
        array = ts.open(stored, create=True, dtype="uint8", shape=[32, 32]).result()
        spec["kvstore"] = run_server("http_server.py", str(tmp_path)) + "/a/"
    array.write(np.uint8(1)).result()
    if context:
        spec["recheck_cached_data"] = True
    command = [sys.executable, str(PROGRAM), json.dumps(spec), "write" if kind == "s3" else "read", "8"]
    log = tmp_path / "log"
    assert child_process.run(command, log=log) == 0, log.read_text()
