"""The encoders of xz and lzma: the memory that they take, and the presets that they know."""

from __future__ import annotations

import lzma
import tracemalloc
from typing import Any

import pytest

import chunkwise as ts

ARRAYS: dict[str, tuple[str, Any]] = {
    "xz": ("n5", lambda preset: {"compression": {"type": "xz", "preset": preset}}),
    "lzma": ("zarr", lambda preset: {"compressor": {"id": "lzma", "preset": preset}}),
}


def _array(name: str, preset: int | None) -> ts.TensorStore:
    driver, metadata = ARRAYS[name]
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata(preset)}
    return ts.open(spec, create=True, dtype="uint8", shape=[100]).result()


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        *(("xz", preset) for preset in (0, 6, 9)),
        *(("lzma", preset) for preset in (0, 6, 9, 9 | lzma.PRESET_EXTREME, None)),
    ],
)
def test_little_data_take_little_memory(name: str, preset: int | None) -> None:
    array = _array(name, preset)
    tracemalloc.start()
    try:
        array.write(range(100)).result()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert array.read().result().tolist() == list(range(100))


def test_a_preset_that_there_is_not() -> None:
    with pytest.raises(ValueError, match='"lzma" codec can\'t be used as configured'):
        _array("lzma", 10).write(1).result()
