"""Offsets and strides at the edges of 64 bits, and what makes two dimensions equal."""

from itertools import product

import pytest

from chunkwise import Dim
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.core.index_space.fast_indexing import fast_index
from chunkwise.core.index_space.indexing import index_mapping
from chunkwise.errors import ChunkwiseError

LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize("stride", [1, -1, 3, 2**62, -(2**62)])
@pytest.mark.parametrize("offset", [LOW, LOW + 1, LOW + 3, HIGH - 3, HIGH - 1, HIGH, 0])
def test_the_short_way_takes_what_the_general_way_takes(offset, stride):
    """An offset of 64 bits is a result, one beyond is the general way's error."""
    domain = IndexDomain(inclusive_min=[-2, 0], exclusive_max=[3, 2])
    maps = [OutputIndexMap(offset=offset, stride=stride, input_dimension=0), OutputIndexMap(5)]
    transform = IndexTransform(domain, maps)
    steps = [slice(start, 3, step) for start, step in product((-2, -1, 0), (1, 2, 3))]
    for key in (-2, -1, 0, 1, 2, *steps):
        try:
            wanted = index_mapping(transform, key)
        except ChunkwiseError:
            wanted = None
        fast = fast_index(transform._domain, transform._output, key)
        assert fast is None or IndexTransform._make(*fast) == wanted, key
        if isinstance(key, int):
            assert (wanted is not None) == (LOW <= offset + stride * key <= HIGH), key
            assert (fast is not None) == (wanted is not None), key


DIMS = [
    Dim(4), Dim(5), Dim(4, label="x"), Dim(4, label="y"), Dim(1, 5), Dim(4, implicit_lower=True),
    Dim(4, implicit_upper=True), Dim(),
]  # fmt: skip


def test_dimensions_are_equal_if_all_of_them_is():
    for (i, one), (j, other) in product(enumerate(DIMS), repeat=2):
        assert (one == other) == (i == j), (one, other)
