"""Random values of every NumPy type, and comparison bit by bit."""

import numpy as np
import pytest

TEXT = "abcé日\U0001f600"


def _values(rng, dtype, shape):
    """Random elements: of numbers every bit pattern, NaNs with a payload included."""
    dtype, n = np.dtype(dtype), int(np.prod(shape))
    if dtype.names:
        out = np.zeros(n, dtype)
        for name in dtype.names:
            base, inner = dtype[name].subdtype or (dtype[name], ())
            out[name] = _values(rng, base, (n, *inner))
        return out.reshape(shape)
    if dtype.kind in "SU":
        length = dtype.itemsize // (4 if dtype.kind == "U" else 1)
        letters = list(TEXT if dtype.kind == "U" else TEXT[:3])
        words = ["".join(rng.choice(letters, rng.integers(0, length + 1))) for _ in range(n)]
        return np.array(words, dtype=dtype).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "mM":
        ticks = rng.integers(-(10**6), 10**6, n)
        return ticks.view(dtype.newbyteorder("=")).astype(dtype).reshape(shape)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(shape).copy()


def _same_bits(got, want):
    """Assert equal shape, type and bytes, in whatever byte order each is."""
    got, want = np.asarray(got), np.asarray(want)
    native = want.dtype.newbyteorder("=")
    assert got.shape == want.shape and got.dtype.newbyteorder("=") == native
    if native.kind in "mM":  # astype() leaves the byte order of times without a unit as it is
        got, want, native = got.astype("i8"), want.astype("i8"), np.dtype("i8")
    if native.hasobject:
        assert got.tolist() == want.tolist()
    else:
        assert got.astype(native).tobytes() == want.astype(native).tobytes()


@pytest.fixture(scope="session")
def values_of():
    return _values


@pytest.fixture(scope="session")
def same_bits():
    return _same_bits


@pytest.fixture
def fresh(tmp_path):
    """Paths of directories that don't exist yet."""
    counter = iter(range(10**6))
    return lambda: tmp_path / str(next(counter))
