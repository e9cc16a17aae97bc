"""Arrays in memory through index transforms, against NumPy position by position."""

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_oracle import gather, scatter, transforms

from chunkwise.core.arrays import memory_array
from chunkwise.core.arrays.memory_array import read_ndarray, write_ndarray
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.plan.ndarray_view import strided_view
from chunkwise.errors import OutOfRangeError

SHAPE = (5, 4, 6)


@st.composite
def cases(draw):
    rank = draw(st.integers(0, 3))
    shape = SHAPE[:rank]
    return shape, draw(transforms((0,) * rank, shape))


@settings(max_examples=examples(400), deadline=None)
@given(cases(), st.sampled_from(["u2", "O"]), st.sampled_from([8, 2**20]), st.booleans())
def test_read(case, dtype, block, fortran):
    """Every kind of output map, in any combination, reads what NumPy reads, also in tiny blocks."""
    shape, transform = case
    source = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape, order="F" if fortran else "C")
    out = np.full(transform.input_shape, 9999, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_array, "_BLOCK_NBYTES", block)
        read_ndarray(source, transform, out)
    assert np.array_equal(out, gather(source, (0,) * len(shape), transform))


@settings(max_examples=examples(400), deadline=None)
@given(cases(), st.sampled_from(["u2", "O"]), st.sampled_from([8, 2**20]))
def test_write(case, dtype, block):
    """Writes reach exactly the selected elements; of several values for one element the last one stays."""
    shape, transform = case
    target = np.full(shape, 9999, dtype)
    expected = target.copy()
    source = np.arange(np.prod(transform.input_shape, dtype=int)).astype(dtype).reshape(transform.input_shape)
    scatter(expected, (0,) * len(shape), transform, source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_array, "_BLOCK_NBYTES", block)
        write_ndarray(target, transform, source)
    assert np.array_equal(target, expected)


def test_views_share_memory():
    """Without index arrays there is no copy: a diagonal that is repeated is a view."""
    array = np.arange(12).reshape(3, 4)
    whole = IndexTransform(IndexDomain(shape=array.shape))
    for transform in (whole[1:, ::-2], whole.T, whole[2], whole[..., None][:, :, 3:9]):
        view = strided_view(array, transform)
        assert view is not None
        assert np.shares_memory(view, array)


def test_leaving_the_array_is_no_memory_error():
    """A transform that leads out of the array is noticed before a view of foreign memory is made."""
    with pytest.raises(OutOfRangeError, match="leads out of the array"):
        strided_view(np.arange(3), IndexTransform(IndexDomain(shape=[5])))
    with pytest.raises(OutOfRangeError, match="leads out of the array"):
        strided_view(np.arange(3), IndexTransform(IndexDomain(shape=[5])).T[..., None])
