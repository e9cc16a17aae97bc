"""Arrays with random codec chains: what creates them opens them, keeps values, and is read by others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts

COMPRESSORS = [
    {"name": "gzip", "configuration": {"level": 1}},
    {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    {"name": "crc32c"},
]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


@st.composite
def _reshape(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return a ``reshape`` that merges or splits dimensions, and the shape that it gives."""
    entries: list[Any] = []
    out: list[int] = []
    dim = 0
    while dim < len(shape):
        kind = draw(st.sampled_from(["keep", "merge", "split"]))
        if kind == "split":
            size = draw(st.sampled_from(_divisors(shape[dim])))
            entries += [size, shape[dim] // size]
            out += entries[-2:]
            dim += 1
            continue
        n = 1 if kind == "keep" else draw(st.integers(1, len(shape) - dim))
        entries.append(list(range(dim, dim + n)))
        out.append(prod(shape[dim : dim + n]))
        dim += n
    sizes = [i for i, entry in enumerate(entries) if isinstance(entry, int)]
    if sizes and draw(st.booleans()):
        entries[draw(st.sampled_from(sizes))] = -1
    return {"name": "reshape", "configuration": {"shape": entries}}, tuple(out)


@st.composite
def _chain(draw: st.DrawFn, shape: tuple[int, ...], levels: int) -> list[Any]:
    chain: list[Any] = []
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            chain.append({"name": "transpose", "configuration": {"order": order}})
            shape = tuple(shape[i] for i in order)
        else:
            entry, shape = draw(_reshape(shape))
            chain.append(entry)
    if levels and draw(st.booleans()):
        inner = tuple(draw(st.sampled_from(_divisors(n))) for n in shape)
        index = [draw(st.sampled_from([LITTLE, BIG])), *draw(st.sampled_from([[], [{"name": "crc32c"}]]))]
        options = {
            "chunk_shape": list(inner),
            "codecs": draw(_chain(inner, levels - 1)),
            "index_codecs": index,
            "index_location": draw(st.sampled_from(["start", "end"])),
        }
        chain.append({"name": "sharding_indexed", "configuration": options})
    else:
        chain.append(draw(st.sampled_from([LITTLE, BIG])))
    return chain + draw(st.lists(st.sampled_from(COMPRESSORS), max_size=2))


@st.composite
def _metadata(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(0, 3))
    chunks = tuple(draw(st.sampled_from([1, 2, 3, 4, 6])) for _ in range(rank))
    return {
        "shape": [draw(st.integers(1, 2 * n + 1)) for n in chunks],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "codecs": draw(_chain(chunks, 2)),
    }


def _levels(chain: list[Any], shape: list[int]) -> Iterator[tuple[list[str], bool]]:
    """Yield the codecs of each level, and whether zarr-python takes its shards.

    It divides the shape from before a transpose by that of inner chunks behind it.
    """
    for entry in chain:
        if entry["name"] == "sharding_indexed":
            inner = entry["configuration"]["chunk_shape"]
            divides = all(n % size == 0 for n, size in zip(shape, inner, strict=False))
            yield [e["name"] for e in chain], divides
            yield from _levels(entry["configuration"]["codecs"], inner)
            return
    yield [e["name"] for e in chain], True


def _others(metadata: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether zarr-python and TensorStore have such a chain."""
    chunks = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    levels = list(_levels(metadata["codecs"], chunks))
    known = not any("reshape" in names for names, _ in levels)
    by_tensorstore = known and all("sharding_indexed" not in names[:-1] for names, _ in levels)
    return known and all(divides for _, divides in levels), by_tensorstore


def _box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[slice, ...]:
    ends = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in shape]
    return tuple(slice(a, b) for a, b in ends)


@settings(deadline=None, max_examples=examples(100))
@given(_metadata(), st.integers(0, 2**32))
def test_what_creates_an_array_opens_it(metadata: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as directory:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{directory}/a"}}
        store = ts.open({**spec, "metadata": metadata}, create=True).result()
        document = json.loads(Path(directory, "a", "zarr.json").read_text())
        wanted = json.dumps(metadata["codecs"]).replace(', "checksum": false', "")  # which says nothing
        assert document["codecs"] == json.loads(wanted)
        opened = ts.open(spec).result()
        assert opened.schema == store.schema
        for again in (
            {**spec, "metadata": metadata},
            opened.spec(),
            {**spec, "schema": opened.schema.to_json()},
        ):
            ts.open(again).result()
        copy = ts.open(
            {"driver": "zarr3", "kvstore": f"file://{directory}/copy/"}, schema=opened.schema, create=True
        ).result()
        assert json.loads(Path(directory, "copy", "zarr.json").read_text()) == document

        expected = np.zeros(metadata["shape"], "uint16")
        for target in (store, opened, store):
            box = _box(expected.shape, rng)
            expected[box] = rng.integers(0, 2**16, expected[box].shape)
            target[box] = expected[box]
            box = _box(expected.shape, rng)
            np.testing.assert_array_equal(opened[box].read().result(), expected[box])
        copy[...] = expected
        np.testing.assert_array_equal(copy.read().result(), expected)
        by_zarr, by_tensorstore = _others(metadata)
        if by_zarr:
            np.testing.assert_array_equal(zarr.open_array(f"{directory}/a", mode="r")[...], expected)
        if by_tensorstore:
            other = tensorstore.open(spec).result()
            np.testing.assert_array_equal(other.read().result(), expected)
            assert other.chunk_layout.to_json() == opened.chunk_layout.to_json()


def test_nothing_is_left_of_an_array_that_is_not_what_was_asked_for(tmp_path: Path) -> None:
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{tmp_path}/",
        "metadata": {"shape": [4, 4], "data_type": "int8", "codecs": [LITTLE]},
    }
    schema: dict[str, Any] = {"codec": {"driver": "zarr3", "codecs": [LITTLE, {"name": "gzip"}]}}
    with pytest.raises(ValueError, match="bytes -> bytes codecs"):
        ts.open({**spec, "schema": schema}, create=True, open=True).result()
    assert list(tmp_path.iterdir()) == []


def test_the_transposition_of_an_order_is_no_codec_too_many() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "metadata": {"shape": [4, 4], "data_type": "int8"}}
    schema = {"codec": {"driver": "zarr3", "codecs": [LITTLE]}, "chunk_layout": {"inner_order": [1, 0]}}
    for library in (tensorstore, ts):
        array = library.open({**spec, "schema": schema}, create=True, open=True).result()
        assert [codec["name"] for codec in array.codec.to_json()["codecs"]] == ["transpose", "bytes"]


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        ([{"name": "transpose", "configuration": {"order": [1, 0, 2]}}], "rank 2 array"),
        ([{"name": "sharding_indexed", "configuration": {"chunk_shape": [2]}}], "array of rank 2"),
    ],
)
def test_a_chain_for_another_rank_is_refused(codecs: list[Any], message: str) -> None:
    metadata = {"shape": [4, 4], "data_type": "int8", "codecs": codecs}
    with pytest.raises(ValueError, match=message):
        ts.open({"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}, create=True).result()


def test_an_order_that_no_codec_gives_is_refused() -> None:
    reshape = {"name": "reshape", "configuration": {"shape": [[0, 1]]}}
    metadata = {"shape": [4, 4], "data_type": "int8", "codecs": [reshape]}
    layout = ts.ChunkLayout(inner_order=[1, 0])
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
    with pytest.raises(ValueError, match="inner_order"):
        ts.open(spec, create=True, chunk_layout=layout).result()
