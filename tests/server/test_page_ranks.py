"""The page opens whatever is stored, of any rank, size and data type, and never hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import keep, show

import chunkwise

MILLISECONDS = 20_000  # that a browser may take until an array is drawn
NUMBERS = (
    "bool", "int2", "int4", "uint2", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "bfloat16", "float16", "float32", "float64", "complex64", "complex128",
    "datetime64[ns]", "timedelta64[s]",
)  # fmt: skip
TEXTS = ("string", "<U5", "S5", "V4", [("a", "<i2"), ("b", "<f8"), ("c", "S2")])
RANKS = range(9)


def _values(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of a type that differ, as far as it has several."""
    n = int(np.prod(shape))
    if dtype == "string":
        return np.array([b"row %d" % i for i in range(n)], object).reshape(shape)
    if not isinstance(dtype, str):
        return np.array([(i, i / 2, b"ab") for i in range(n)], dtype).reshape(shape)
    if dtype in ("<U5", "S5"):
        return np.arange(n).astype(dtype).reshape(shape)
    if dtype == "V4":
        return np.arange(n, dtype="<u4").view("V4").reshape(shape)
    return (np.arange(n) % 2).astype(chunkwise.dtype(dtype).memory_dtype).reshape(shape)


def _write(group: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
    group.create_array(name, _values(dtype, shape), dtype=dtype, chunks=tuple(max(n, 1) for n in shape))
    return name


def _opens(page: Any, server: Any, path: str) -> None:
    """Open an array and wait until it is drawn; neither page nor server may fail or take long."""
    show(page, server, path)
    text = page.evaluate("document.body.innerText")
    assert not any(word in text for word in ("Infinity", "NaN px", "undefined", "[object")), (path, text)
    assert page.evaluate("document.getElementById('message').textContent") == "", path
    assert page.locator("#problems").is_hidden(), path


@pytest.fixture
def served(tmp_path: Path, page: Any) -> Iterator[tuple[Any, Any]]:
    """Serve a group that grows; the page is small, so that drawing costs little."""
    page.set_viewport_size({"width": 800, "height": 500})
    page.set_default_timeout(MILLISECONDS)
    group = chunkwise.open_group(tmp_path / "t", "w")
    group.create_array("first", np.zeros((2, 3), "u1"))
    with chunkwise.serve(tmp_path / "t") as server:
        yield group, server


def test_every_rank_and_every_kind_opens(served: tuple[Any, Any], page: Any) -> None:
    group, server = served
    names = [
        _write(group, f"rank{rank}", dtype, (2,) * rank)
        for rank, dtype in zip(
            RANKS,
            ("float64", "uint8", "<U5", "bool", "complex64", "int64", "float16", "u2", "i1"),
            strict=True,
        )
    ]
    names += [_write(group, f"text{len(shape)}", "string", shape) for shape in ((), (5,))]
    names += [_write(group, f"empty{len(shape)}", "u1", shape) for shape in ((0,), (0, 0, 3))]
    names.append(_write(group, "records", TEXTS[-1], (5,)))
    group.create_array("long", shape=(10**9,), dtype="u2", chunks=(10**6,))
    for name in (*names, "long"):
        _opens(page, server, f"t/{name}")
        keep(page, f"ranks-{name}")


@pytest.mark.slow
@pytest.mark.parametrize("rank", RANKS)
def test_all_data_types_open_at_each_rank(served: tuple[Any, Any], page: Any, rank: int) -> None:
    group, server = served
    for number, dtype in enumerate((*NUMBERS, *TEXTS)):
        _opens(page, server, f"t/{_write(group, f'a{number}', dtype, (2,) * rank)}")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [n for n in RANKS if n])
def test_empty_and_long_arrays_of_each_rank_open(served: tuple[Any, Any], page: Any, rank: int) -> None:
    group, server = served
    for dim in range(rank):
        shape = tuple(0 if i == dim else 3 for i in range(rank))
        for dtype in ("u1", "f4", "string"):
            _opens(page, server, f"t/{_write(group, f'empty{dim}{dtype}', dtype, shape)}")
        long = tuple(10**9 if i == dim else 2 for i in range(rank))
        group.create_array(f"long{dim}", shape=long, dtype="u1", chunks=tuple(min(n, 10**6) for n in long))
        _opens(page, server, f"t/long{dim}")
