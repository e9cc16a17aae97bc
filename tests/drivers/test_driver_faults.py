"""Stores that fail, cut short, delay, corrupt and lose races on schedule, under every chunked format.

Whatever happens, an operation completes or raises an error that names the key; a write that was
acknowledged is there afterwards, and one that failed is, in each chunk, done or not done.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.fault_store import Fault, FaultStore

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
FORMS = {
    "n5": ("n5", {"compression": {"type": "gzip", "level": 1}}, {"chunk": {"shape": [4, 3]}}),
    "zarr": ("zarr", {"compressor": {"id": "zlib", "level": 1}}, {"chunk": {"shape": [4, 3]}}),
    "zarr3": ("zarr3", {"codecs": [LITTLE, {"name": "crc32c"}]}, {"chunk": {"shape": [4, 3]}}),
    "shards": (
        "zarr3",
        {"codecs": [LITTLE, {"name": "crc32c"}]},
        {"read_chunk": {"shape": [2, 3]}, "write_chunk": {"shape": [4, 6]}},
    ),
}
SHAPE = (9, 8)
SKIPS = (0, 1, 2, 3, 5, 8)
# Gzip and zlib have checksums; a missing chunk can't be told from one that was never written.
FAULTS = {
    "fail": {},
    "fail reading": {"action": "fail", "operation": "read"},
    "fail writing": {"action": "fail", "operation": "write", "times": 3},
    "fail after": {"action": "fail_after", "operation": "write"},
    "truncate": {"action": "truncate", "operation": "read", "amount": 3, "times": 4},
    "cut to nothing": {"action": "truncate", "operation": "read", "amount": 10**6, "times": 4},
    "corrupt": {"action": "corrupt", "operation": "read", "amount": -5, "times": 4},
    "conflict": {"action": "conflict", "operation": "write", "times": 2},
    "delay": {"action": "delay", "amount": 0.001, "times": 5},
}


def _boxes(rng):
    while True:
        a, b = sorted(rng.sample(range(SHAPE[0] + 1), 2))
        c, d = sorted(rng.sample(range(SHAPE[1] + 1), 2))
        yield slice(a, b), slice(c, d)


def _with_faults(store, *faults):
    """Put faults between an open array and its store."""
    array = store._array
    array._store = FaultStore(array._store, *faults)
    array._adopt(array._opened)
    return store


@pytest.mark.each_once
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults(form, fault):
    driver, metadata, layout = FORMS[form]
    n_failed = 0
    for skip in SKIPS:
        context = ts.Context()
        spec = {"driver": driver, "kvstore": "memory://a/"}
        made = {**spec, "metadata": metadata, "schema": {"chunk_layout": layout}}
        healthy = ts.open(made, create=True, dtype="uint16", shape=SHAPE, context=context).result()
        opened = ts.open(spec, context=context).result()
        faulty = _with_faults(opened, Fault(**{**FAULTS[fault], "skip": skip}))
        possible = np.empty(SHAPE, object)
        for at in np.ndindex(SHAPE):
            possible[at] = {0}
        boxes = _boxes(random.Random(f"{form}{skip}"))
        for number in range(1, 13):
            box = next(boxes)
            try:
                if number % 3 == 0:
                    got = faulty[box].read().result()
                    assert all(v in p for v, p in zip(got.ravel(), possible[box].ravel(), strict=True))
                else:
                    source = np.full(possible[box].shape, number, np.uint16)
                    faulty[box].write(source).result()
                    for at in np.ndindex(source.shape):
                        possible[box][at] = {number}
            except ChunkwiseError as e:
                assert '"a/' in str(e), e  # the key
                n_failed += 1
                if number % 3:
                    for p in possible[box].ravel():
                        p.add(number)
            got = healthy.read().result()
            assert all(v in p for v, p in zip(got.ravel(), possible.ravel(), strict=True)), (skip, number)
    if fault in ("conflict", "delay"):
        assert n_failed == 0  # it is done again, or waited for
    else:
        assert n_failed > 0


@pytest.mark.parametrize("form", list(FORMS))
def test_a_chunk_that_seems_to_be_missing(form):
    """Overwriting a part of it loses nothing: the write is on condition that it is missing."""
    driver, metadata, layout = FORMS[form]
    context = ts.Context()
    spec = {"driver": driver, "kvstore": "memory://a/"}
    made = {**spec, "metadata": metadata, "schema": {"chunk_layout": layout}}
    healthy = ts.open(made, create=True, dtype="uint16", shape=SHAPE, context=context).result()
    healthy[...] = want = np.arange(1, 73, dtype=np.uint16).reshape(SHAPE)
    opened = ts.open(spec, context=context).result()
    faulty = _with_faults(opened, Fault("miss", "read", times=2))
    faulty[1, 1] = want[1, 1] = 500
    np.testing.assert_array_equal(healthy.read().result(), want)
