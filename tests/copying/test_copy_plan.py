"""Plans: blocks cover the array, fit in the memory, and are read as often as the plan says."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.copying.copy_plan import CopyPlan, Grid, plan_blocks
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import InvalidArgumentError


def plan(shape: Any, source: Any, target: Any, memory: int, **options: Any) -> CopyPlan:
    zero = (0,) * len(shape)
    options = {"itemsize": 2, **options}
    itemsize = options.pop("itemsize")
    return plan_blocks(
        IndexDomain(shape=shape), itemsize, Grid(source, zero), Grid(target, zero), memory=memory, **options
    )


@given(
    dims=st.lists(
        st.tuples(st.integers(-5, 9), st.integers(0, 30), st.integers(-4, 9), st.integers(1, 8)), max_size=3
    )
)
def test_a_block_follows_from_its_number(dims: Any) -> None:
    domain = IndexDomain(inclusive_min=[d[0] for d in dims], shape=[d[1] for d in dims])
    blocks = Blocks(domain, tuple(d[2] for d in dims), tuple(d[3] for d in dims))
    seen = np.zeros(domain.shape, int)
    for number, block in enumerate(blocks.domains()):
        assert block == blocks.block(number)
        at = [lo - first for lo, first in zip(block.inclusive_min, domain.inclusive_min, strict=True)]
        seen[tuple(slice(a, a + n) for a, n in zip(at, block.shape, strict=True))] += 1
        for lo, first, origin, size in zip(
            block.inclusive_min, domain.inclusive_min, blocks.origin, blocks.shape, strict=True
        ):
            assert lo == first or (lo - origin) % size == 0
    assert (seen == 1).all()


def test_a_rechunk_that_one_pass_would_read_64_times_takes_two() -> None:
    found = plan((4096, 4096, 4096), (1, 4096, 4096), (4096, 64, 64), 2 << 30)
    assert [blocks.n_blocks for blocks in found.passes] == [256, 256]
    assert found.reads == (1.0, 1.0)
    assert found.intermediate is not None and found.intermediate.shards == (16, 4096, 4096)
    assert "pass 2 of 2: intermediate -> destination, 256 tasks of 4096 x 256 x 256" in str(found)


def test_chunks_that_fit_take_one_pass() -> None:
    found = plan((1000, 1000), (100, 100), (100, 50), 1 << 20, wanted_nbytes=20_000)
    assert len(found.passes) == 1 and found.reads == (1.0,)
    assert found.task_nbytes <= (1 << 20) // 4


@pytest.mark.parametrize(("memory", "reads"), [(64_000_000, (3.0,)), (48_000_000, (1.0, 1.0))])
def test_two_passes_take_the_place_of_more_than_three_reads(memory: int, reads: tuple[float, ...]) -> None:
    """Two passes read twice and write an intermediate array, so they cost as much as three reads."""
    found = plan((256, 256, 256), (1, 256, 256), (256, 32, 32), memory)
    assert found.reads == reads


def test_a_block_that_cannot_fit_is_named() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"a block of \[64, 64\] elements.*32,768 bytes.*1,000 may"
    ):
        plan((640, 640), (8, 8), (64, 64), 1000)
    assert plan((640, 640), (8, 8), (64, 64), 32_768, n_at_once=8).n_at_once == 1
    chunk = r"a chunk of \[640, 640\] elements of the source.*1,638,400 bytes of memory.*1,000,000 may"
    with pytest.raises(InvalidArgumentError, match=chunk):
        plan((640, 640), (640, 640), (64, 64), 1_000_000)
    assert plan((640, 640), (640, 640), (64, 64), 1_700_000, n_at_once=8).n_at_once == 1


@settings(deadline=None)
@given(
    dims=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=3
    ),
    room=st.integers(1, 40),
)
def test_plans_keep_their_promises(dims: Any, room: int) -> None:
    shape, source, target = (tuple(d[i] for d in dims) for i in range(3))
    unit, chunk = (2 * prod(map(min, shape, grid)) for grid in (target, source))
    memory = max(4 * room * unit, unit + 2 * chunk)
    found = plan(shape, source, target, memory)
    for blocks in found.passes[:1]:  # those of the second read small chunks of the intermediate array
        nbytes = 2 * prod(map(min, shape, blocks.shape))
        assert found.n_at_once * max(4 * nbytes, nbytes + 2 * chunk if chunk > nbytes else 0) <= memory
    assert CopyPlan.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert len(json.dumps(found.to_json())) < 4096
    cells = [source, target] if found.intermediate is None else [source, found.intermediate.chunks]
    for blocks, chunk, reads in zip(found.passes, cells, found.reads, strict=False):
        n_read = 0
        for block in blocks.domains():
            sides = zip(block.inclusive_min, block.exclusive_max, chunk, shape, strict=True)
            n_read += prod(min(-(-hi // c) * c, n) - lo // c * c for lo, hi, c, n in sides)
        assert n_read / prod(shape) == pytest.approx(reads)
    last = found.passes[-1]
    assert all(b % min(t, n) == 0 or b >= n for b, t, n in zip(last.shape, target, shape, strict=True))
    if found.intermediate is not None:
        shards, chunks = found.intermediate
        assert all(s % c == 0 for s, c in zip(shards, chunks, strict=True))
        assert found.passes[0].shape == shards
        assert sum(found.reads) + 1 < plan(shape, source, target, memory, two_passes=False).reads[0]


def test_a_plan_of_a_billion_chunks_is_small_and_quick() -> None:
    found = plan((1 << 20, 1 << 20, 1 << 10), (1 << 10, 1 << 10, 1), (1, 1 << 10, 1 << 10), 1 << 30)
    assert len(json.dumps(found.to_json())) < 4096
    assert found.passes[0].block(found.passes[0].n_blocks - 1).exclusive_max == (1 << 20, 1 << 20, 1 << 10)


@pytest.mark.parametrize("change", [{"passes": []}, {"itemsize": None}, {"intermediate": {}}])
def test_what_is_no_plan_is_refused(change: Any) -> None:
    known = plan((10, 10), (5, 5), (5, 5), 1000).to_json()
    if change == {"itemsize": None}:
        del known["itemsize"]
        change = {}
    with pytest.raises(InvalidArgumentError, match="copy plan"):
        CopyPlan.from_json({**known, **change})


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_chunk_of_the_source_counts_as_often_as_reading_holds_it(copies: int) -> None:
    """Once where it is read as it is stored, and no more often than its codecs make it."""
    domain, chunk = IndexDomain(shape=(640, 640)), 2 * 640 * 640
    source, target = Grid((640, 640), (0, 0), copies), Grid((64, 64), (0, 0))
    needed = 2 * 64 * 64 + copies * chunk
    assert plan_blocks(domain, 2, source, target, memory=needed).memory == needed
    with pytest.raises(InvalidArgumentError, match=f"{copies} times its {chunk:,} bytes"):
        plan_blocks(domain, 2, source, target, memory=needed - 1)
    found = plan_blocks(domain, 2, source, target, memory=2 * needed, n_at_once=8, two_passes=False)
    assert found.n_at_once == 2


def test_copies_reckon_with_the_codecs_of_the_source(tmp_path: Path) -> None:
    values = np.arange(128 * 128, dtype="u2").reshape(128, 128)
    group = cw.create_group(tmp_path / "a.zarr", format="zarr3")
    for codec, copies in {"none": 1, "zstd:1": 2, "zstd:1+crc32c": 2}.items():
        group.create_array("x", values, chunks=(128, 128), codec=codec, overwrite=True)
        needed = 2 * 16 * 16 + copies * values.nbytes
        options = {"chunks": (16, 16), "codec": "none"}
        cw.plan_copy(tmp_path / "a.zarr/x", tmp_path / "b.zarr", memory=needed, **options)
        with pytest.raises(InvalidArgumentError, match=f"{copies} times its {values.nbytes:,} bytes"):
            cw.plan_copy(tmp_path / "a.zarr/x", tmp_path / "b.zarr", memory=needed - 1, **options)
