"""Small arrays to run commands on, and what a command gave."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw

DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "zarr1": "zarr1", "n5": "n5"}


@dataclass
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


def make(path: Path, format: str, values: np.ndarray, chunks: tuple[int, ...], **options: Any) -> Any:
    """Write `values` as an array of `format`; return the open array."""
    spec: dict[str, Any] = {"driver": DRIVERS[format], "kvstore": {"driver": "file", "path": str(path)}}
    spec["metadata"] = options.pop("metadata", {})
    spec["context"] = {"file_io_sync": False}
    layout = cw.ChunkLayout(write_chunk_shape=chunks, read_chunk_shape=options.pop("inner", chunks))
    dtype = options.pop("dtype", values.dtype)
    array = cw.open(
        spec, create=True, dtype=dtype, shape=values.shape, chunk_layout=layout, **options
    ).result()
    array.write(values).result()
    return array


def read(path: Path) -> np.ndarray:
    return cw.open(str(path)).result().read().result()


def bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()
