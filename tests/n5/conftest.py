"""Access to the containers under ``fixtures``, and a dense read that needs no engine."""

import json
from functools import cache
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.n5.metadata import block_codec, parse_metadata
from chunkwise.core.driver.n5.tree import load_document

FIXTURES = Path(__file__).parent / "fixtures"


@cache
def _container(name):
    with ZipFile(FIXTURES / f"{name}.n5.zip") as archive:
        prefix = f"{name}.n5/"
        return {key.removeprefix(prefix): archive.read(key) for key in archive.namelist() if key[-1] != "/"}


@cache
def _load(name):
    return json.loads((FIXTURES / name).read_text("utf-8"))


def _read_dense(store, path):
    """Decode all blocks of a dataset into one array, indexed in N5 order."""
    metadata = parse_metadata(load_document(store[f"{path}/attributes.json"]))
    dtype = np.dtype(metadata.data_type)
    item = ChunkSpec(metadata.block_size, dtype, np.zeros((), dtype))
    decode = block_codec(metadata).bind(item).open_decoder(item)
    out = np.zeros(metadata.dimensions, dtype)
    counts = [-(-n // size) for n, size in zip(metadata.dimensions, metadata.block_size, strict=True)]
    for cell in product(*map(range, counts)):
        raw = store.get(f"{path}/" + ("/".join(map(str, cell)) or "0"))
        if raw is None:
            continue
        block = np.full(metadata.block_size, 77, dtype)
        decode(raw, block)
        region = tuple(
            slice(i * size, min((i + 1) * size, n))
            for i, size, n in zip(cell, metadata.block_size, metadata.dimensions, strict=True)
        )
        out[region] = block[tuple(slice(0, part.stop - part.start) for part in region)]
    return out


@pytest.fixture(scope="session")
def container():
    """``container("java")["matrix/raw/uint8/0/0"]`` is the bytes of one file."""
    return _container


@pytest.fixture(scope="session")
def fixture_json():
    """``fixture_json("manifest.json")`` is that document, parsed."""
    return _load


@pytest.fixture(scope="session")
def read_dense():
    """``read_dense(container("java"), path)`` is the whole array, in N5 order."""
    return _read_dense
