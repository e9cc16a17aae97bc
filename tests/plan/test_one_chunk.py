"""Requests in one chunk, and indices that are slices: as all others, at each edge."""

from itertools import islice, permutations, product

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.plan.plan import place_in_chunk

SIZE, CHUNK = 12, 4


@pytest.mark.parametrize("step", [1, 2])
def test_a_request_in_one_chunk_is_found(step):
    """It has a place if it has elements, no step, and crosses no edge of a chunk."""
    whole = IndexTransform(input_shape=[SIZE, SIZE])
    for start, stop, row in product(range(SIZE), range(SIZE + 1), (0, 3, 4, 11)):
        if stop < start:
            continue
        wanted = np.arange(SIZE)[start:stop:step]
        transform = whole[row, start:stop:step]
        found = place_in_chunk(transform, transform.shape, (CHUNK, CHUNK))
        is_one = step == 1 and wanted.size > 0 and wanted[0] // CHUNK == wanted[-1] // CHUNK
        assert (found is not None) == is_one, (start, stop)
        if found is not None:
            cell, inside = found
            assert cell == (row // CHUNK, start // CHUNK)
            selected = np.arange(SIZE * SIZE).reshape(SIZE, SIZE)[
                tuple(slice(n * CHUNK, (n + 1) * CHUNK) for n in cell)
            ][inside]
            assert selected.tolist() == (row * SIZE + wanted).tolist()


@pytest.mark.parametrize("shards", [None, 6])
def test_indices_in_any_order_are_what_numpy_selects(shards):
    """Also those that begin and end as neighbours in order do."""
    values = np.arange(10, 22)
    store = cw.create_array("memory://a/", values, chunks=3, shards=shards, context=cw.Context())
    keys = [*permutations(range(4)), *product(range(3), repeat=3), *permutations((2, 3, 4, 5))]
    keys += [(0, 5, 6, 11), (11, 0, 3), (0, 3, 1, 11, 8)]
    for key in keys:
        assert store[list(key)].read().result().tolist() == values[list(key)].tolist(), key


@pytest.mark.parametrize("shards", [None, 6])
def test_indices_in_any_order_are_written_as_by_numpy(shards):
    values = np.arange(10, 22)
    store = cw.create_array("memory://a/", values, chunks=3, shards=shards, context=cw.Context())
    keys = [*islice(permutations(range(4)), 0, None, 3), (0, 5, 6, 11), (11, 0, 3), (0, 3, 1, 11, 8)]
    for n, key in enumerate(keys):
        values[list(key)] = np.arange(len(key)) + 100 * n
        store[list(key)].write(values[list(key)]).result()
        assert store.read().result().tolist() == values.tolist(), key
