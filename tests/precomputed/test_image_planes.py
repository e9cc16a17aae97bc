"""Pictures of planes are as good, or as small, as was asked for."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import imagecodecs
import numpy as np
import pytest
from PIL import Image

from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.pictures import ImagePlanes, Jpeg
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError, UnsupportedError


@pytest.mark.parametrize(
    ("encoding", "member"),
    [("jpeg", {"quality": 75}), ("jpeg", {"quality": 5}), ("png", {"compress_level": 9})],
)
@pytest.mark.parametrize("given", [True, False])
def test_a_picture_is_that_of_pillow_with_the_same_level(
    encoding: str, member: dict[str, int], given: bool
) -> None:
    values = np.random.default_rng(0).integers(0, 40, (1, 2, 16, 24), np.uint8)
    (level,) = member.values()
    codec = ImagePlanes(encoding, level if given else None)
    chain = prepare_chain((codec,), ChunkSpec(values.shape, values.dtype, np.zeros((), np.uint8)))
    into = BytesIO()
    options = member if given else {"quality": 75} if encoding == "jpeg" else {}
    Image.fromarray(values.reshape(32, 24)).save(into, format=encoding, **options)
    assert bytes(chain.open_encoder()(values)) == into.getvalue()


def _chain(shape: tuple[int, ...], dtype: Any, level: int | None = None) -> Any:
    return prepare_chain((ImagePlanes("png", level),), ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype)))


@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize("n_channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_pictures_of_several_channels_come_back(n_channels: int, dtype: str, level: int | None) -> None:
    most = 1 << 8 * np.dtype(dtype).itemsize
    values = np.random.default_rng(1).integers(0, most, (n_channels, 3, 5, 7), dtype)
    chain, out = _chain(values.shape, dtype, level), np.zeros_like(values)
    encoded = bytes(chain.open_encoder()(values))
    chain.open_decoder()(encoded, out)
    np.testing.assert_array_equal(out, values)
    expected = np.moveaxis(values, 0, -1).reshape(15, 7, n_channels)
    np.testing.assert_array_equal(imagecodecs.png_decode(encoded).reshape(expected.shape), expected)
    for damaged in (encoded[: len(encoded) // 2], encoded[:60], b"", encoded[:-30] + bytes(30)):
        with pytest.raises(DataCorruptionError, match="Failed to decode PNG: "):
            chain.open_decoder()(damaged, out)


@pytest.mark.parametrize(("n_channels", "dtype"), [(1, "u2"), (3, "u1"), (4, "u2")])
def test_pictures_with_other_channels_or_wider_elements_are_refused(n_channels: int, dtype: str) -> None:
    values = np.zeros((n_channels, 3, 5, 7), dtype)
    encoded = bytes(_chain(values.shape, dtype).open_encoder()(values))
    for n in {1, 3, 4} - {n_channels}:
        chain = _chain((n, 3, 5, 7), dtype)
        with pytest.raises(DataCorruptionError, match=rf"but the chunk has {n} of uint"):
            chain.open_decoder()(encoded, np.zeros((n, 3, 5, 7), dtype))
    if dtype == "u2":
        with pytest.raises(DataCorruptionError, match="png: picture has 16 bits, but the chunk has uint8"):
            _chain(values.shape, "u1").open_decoder()(encoded, np.zeros(values.shape, "u1"))


@pytest.mark.parametrize(
    ("encoding", "n_channels", "dtype", "message"),
    [
        ("jpeg", 2, "u1", r"has \(1, 3\) channels, not 2"),
        ("png", 5, "u1", r"has \(1, 2, 3, 4\) channels, not 5"),
        ("jpeg", 1, "u2", "can't hold uint16"),
        ("png", 1, "i2", "can't hold int16"),
        ("png", 1, "u4", "can't hold uint32"),
    ],
)
def test_what_pictures_can_not_hold(encoding: str, n_channels: int, dtype: str, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        ImagePlanes(encoding).bind(ChunkSpec((n_channels, 1, 2, 2), np.dtype(dtype), np.zeros((), dtype)))


@pytest.mark.parametrize(
    ("module", "codec", "message"),
    [
        ("PIL", "png", 'encoding "png".* Pillow'),
        ("PIL", "jpeg", '"jpeg" compression.* Pillow'),
        ("imagecodecs", "wide", "PNG of several channels of uint16.* imagecodecs"),
    ],
)
def test_the_package_that_is_missing_is_named(
    module: str, codec: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.zeros((3 if codec == "wide" else 1, 1, 2, 2), "u2")
    encoded = bytes(_chain(values.shape, "u2").open_encoder()(values))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=message):
        if codec == "jpeg":
            Jpeg().open_decoder(4)
        else:
            _chain(values.shape, "u2").open_encoder()(values)
    if codec != "jpeg":
        with pytest.raises(UnsupportedError, match=message.replace('encoding "png"', '"png"')):
            _chain(values.shape, "u2").open_decoder()(encoded, values)
