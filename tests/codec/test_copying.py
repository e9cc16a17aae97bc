"""Copying rows: the same values as a plain copy, whatever the memory looks like."""

from __future__ import annotations

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from chunkwise.core.codec import copying
from chunkwise.core.codec.copying import copy_rows

DTYPES = ["u1", "<u2", ">u2", "<f8", ">i4", "?", "c16", "M8[s]", "S3", "U2", "V5", ml_dtypes.bfloat16]


def _layout(draw, array):
    """Return `array` or one of the same shape whose memory is laid out otherwise."""
    how = draw(st.sampled_from(["as it is", "fortran", "wider", "backwards", "every other"]))
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "wider" and array.ndim:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
        return wide[..., 1:-2]
    if how == "backwards" and array.ndim:
        return array[..., ::-1]
    if how == "every other" and array.ndim:
        return np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
    return array


@given(st.data())
def test_like_a_plain_copy(data):
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=4)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    n = int(np.prod(shape))
    raw = np.random.default_rng(0).integers(0, 2, n * dtype.itemsize, np.uint8)
    source = raw.view(dtype).reshape(shape) if n else np.zeros(shape, dtype)
    other = dtype.newbyteorder() if draw(st.booleans()) and dtype.type is not ml_dtypes.bfloat16 else dtype
    out, want = _layout(draw, np.zeros(shape, other)), np.zeros(shape, other)
    stored = _layout(draw, np.zeros(shape, dtype))
    stored[...] = source
    copy_rows(out, stored)
    np.copyto(want, source)
    assert out.tobytes() == want.tobytes()


def test_objects_are_copied_one_by_one():
    source = np.array([["a", None], [3, "b"]], object)
    out = np.empty((2, 2), object)
    copy_rows(out, source)
    assert out.tolist() == source.tolist()


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="broadcast"):
        copy_rows(np.zeros((2, 3), "u2"), np.zeros((3, 3), "u2"))


def test_rows_that_no_element_is_as_large_as(monkeypatch):
    """NumPy has no elements of 2 GiB or more, as rows may be; nothing is really copied here."""
    copied = []
    monkeypatch.setattr(copying.np, "copyto", lambda out, source: copied.append((out.shape, source.shape)))
    out, source = (np.lib.stride_tricks.as_strided(np.empty(1, "u1"), (2, 2**31), (1, 1)) for _ in range(2))
    copy_rows(out, source)
    assert copied == [((2, 2**31), (2, 2**31))]
