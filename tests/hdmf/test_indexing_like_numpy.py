"""Indices of HDMF's datasets, dask arrays and z5py's datasets: the values of NumPy, or an error."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise as cw
import chunkwise.z5py
from chunkwise.hdmf import ZarrIO

VALUES = np.arange(4 * 3 * 2, dtype="i4").reshape(4, 3, 2)
TERMS: list[Any] = [1, -1, slice(0, 2), slice(None), [1, 0], np.array([-1, 1]), [1], slice(None, None, -1)]


def _masks(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key with masks in place of lists."""
    sizes = zip(key, VALUES.shape, strict=False)
    return tuple(np.arange(n) < 2 if isinstance(term, list) else term for term, n in sizes)


def _keys() -> list[Any]:
    plain = [key for n in (1, 2, 3) for key in itertools.product(TERMS, repeat=n)]
    few = plain[::3] + [_masks(key) for key in plain[::7]]
    pairs: list[Any] = [
        ([2, 0], [1, 2]),
        ([2, 0], slice(None), [1, 1]),
        (..., [0, 2], [1, 0]),
        ([3, 1], 1, [0, 1]),
    ]
    return [*few, *pairs, ([0, 1], [0, 1, 2])]


def _expected(key: Any) -> Any:
    """Return what NumPy selects; beside one array, integers don't move its dimension, as in h5py and zarr."""
    if sum(isinstance(term, list | np.ndarray) for term in key) != 1:
        return VALUES[key]
    whole = (*(term for term in key if term is not ...), *[slice(None)] * (VALUES.ndim - len(key)))
    found, numbers = VALUES, []
    for axis, term in enumerate(whole):
        if isinstance(term, int):
            numbers.append(axis)
            term = [term]
        found = found[(slice(None),) * axis + (term,)]
    return found.squeeze(tuple(numbers))


def _outcome(read: Any, key: Any) -> Any:
    try:
        return np.asarray(read(key))
    except (IndexError, ValueError, TypeError, NotImplementedError):
        return None


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_hdmf(format: str, tmp_path: Path) -> None:
    """All but a step below zero is the same as in NumPy; two arrays are paired."""
    path = tmp_path / ("a.n5" if format == "n5" else "a.zarr")
    with ZarrIO(path, mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", VALUES)]))
    with ZarrIO(path, mode="r+") as io:
        data = io.read_builder().datasets["d"].data
        n_read = 0
        for key in _keys():
            expected, found = _outcome(_expected, key), _outcome(data.__getitem__, key)
            if found is not None:
                n_read += 1
                assert expected is not None, key
                np.testing.assert_array_equal(found, expected, str(key))
        assert n_read > 200
        data[[2, 0], [1, 2]] = np.array([[-1, -2], [-3, -4]])
        expected = VALUES.copy()
        expected[[2, 0], [1, 2]] = [[-1, -2], [-3, -4]]
        np.testing.assert_array_equal(data[:], expected)
        with pytest.raises((IndexError, ValueError)):
            data[[0, 1], [0, 1, 2]]


@pytest.mark.parametrize("facade", ["dask", "z5py"])
def test_other_facades(facade: str, tmp_path: Path) -> None:
    """What they take means the same; what they don't take is an error."""
    if facade == "dask":
        array = cw.to_dask(cw.array(VALUES))
        read = lambda key: array[key].compute(scheduler="sync")  # noqa: E731
    else:
        dataset = chunkwise.z5py.File(tmp_path / "a.n5", "a").create_dataset("d", data=VALUES)
        read = dataset.__getitem__
    n_read = 0
    for key in _keys()[:: 1 if facade == "z5py" else 5]:
        found = _outcome(read, key)
        if found is not None:
            n_read += 1
            np.testing.assert_array_equal(found, _expected(key), str(key))
    assert n_read > 5
