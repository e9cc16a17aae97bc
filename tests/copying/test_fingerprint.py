"""A fingerprint adds up from any parts, and tells what is stored from what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.copying.comparison import fingerprint

DTYPES = ["u1", "i2", "f2", "f4", "f8", "c8", "c16", "?", ">u4", "M8[s]", "m8[D]"]
DTYPES += [f"{kind}{length}" for kind in "SUV" for length in (1, 2, 3, 4, 5, 7, 8, 9, 17)]
MASK = (1 << 64) - 1


@given(
    shape=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_the_parts_of_an_array_add_up(shape: Any, dtype: str, seed: int, data: Any) -> None:
    values = np.random.default_rng(seed).bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    array = np.frombuffer(values, dtype).reshape(shape)
    whole = fingerprint(array, (3,) * array.ndim)
    total = 0
    for dim in range(array.ndim):
        cut = data.draw(st.integers(0, shape[dim]))
        parts = np.split(array, [cut], axis=dim)
        origins = [[3] * array.ndim, [3 + cut * (d == dim) for d in range(array.ndim)]]
        total = sum(fingerprint(part, at) for part, at in zip(parts, origins, strict=True)) & MASK
        assert total == whole
    assert fingerprint(np.asarray(array, order="F"), (3,) * array.ndim) == whole


def test_large_rows_and_few_long_ones_are_the_same_sum() -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (3, 70_000), "u2")
    expected = sum(fingerprint(values[:, i : i + 999], (0, i)) for i in range(0, 70_000, 999)) & MASK
    assert fingerprint(values, (0, 0)) == expected


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16", "V5"])
def test_one_value_repeated_is_summed_up_like_any_other(dtype: str) -> None:
    value = np.frombuffer(np.random.default_rng(0).bytes(16)[: np.dtype(dtype).itemsize], dtype)[0]
    repeated = np.broadcast_to(value, (5, 6))
    assert fingerprint(repeated, (2, 3)) == fingerprint(np.ascontiguousarray(repeated), (2, 3))


def test_every_change_is_seen() -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(0, 4, (16, 16, 16)).astype("f8")  # numbers whose last bits are all zero
    whole = fingerprint(array, (0, 0, 0))
    for _ in range(1000):
        changed = array.copy()
        at, other = (tuple(rng.integers(0, 16, 3)) for _ in range(2))
        how = rng.integers(0, 3)
        if how == 0:
            changed.view("u8")[at] ^= np.uint64(1) << np.uint64(rng.integers(0, 64))
        elif how == 1:
            changed[at], changed[other] = array[other], array[at]
        else:
            cut = tuple(slice(i // 4 * 4, i // 4 * 4 + 4) for i in at)
            changed[cut] = 0
        assert (fingerprint(changed, (0, 0, 0)) == whole) == (changed.tobytes() == array.tobytes())


def test_text_and_json_are_told_apart() -> None:
    def of(*elements: object) -> int:
        array = np.empty(len(elements), object)
        array[:] = elements
        return fingerprint(array, (0,))

    assert len({of("a", "b"), of("b", "a"), of("a", b"b"), of(1, "b"), of("a", None)}) == 5
    assert of("a", "b") == (of("a") + fingerprint(np.array(["b"], object), (1,))) & MASK


@pytest.mark.parametrize("value", ["ab", "", "abcde"])
@pytest.mark.parametrize("dtype", ["S5", "U5", "U4", "V5"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (0,)])
def test_padded_text_is_summed_up_in_any_number_of_dimensions(
    shape: tuple[int, ...], dtype: str, value: str
) -> None:
    raw = value[: np.dtype(dtype).itemsize].encode("utf-32-le" if "U" in dtype else "ascii")
    one = np.zeros((), dtype)
    one.reshape(1).view(np.uint8)[: len(raw)] = list(raw[: one.nbytes])
    repeated = np.broadcast_to(one, shape)
    expected = sum(fingerprint(np.array([one]), (at,)) for at in range(repeated.size)) & MASK
    if len(shape) < 2 and shape:
        assert fingerprint(repeated, (0,)) == fingerprint(repeated.copy(), (0,)) == expected
    else:
        assert fingerprint(repeated, (0,) * len(shape)) == fingerprint(repeated.copy(), (0,) * len(shape))
