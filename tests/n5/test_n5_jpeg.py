"""N5 blocks that are JPEG pictures: read if they are gray and of the right size, never written."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

import chunkwise as ts


def _picture(pixels, mode="L"):
    out = io.BytesIO()
    Image.fromarray(pixels, mode).save(out, "JPEG", quality=95)
    return out.getvalue()


@pytest.fixture
def dataset(tmp_path):
    document = {
        "dimensions": [16, 24],
        "blockSize": [16, 16],
        "dataType": "uint8",
        "compression": {"type": "jpeg", "quality": 95, "dataType": "uint8"},
    }
    (tmp_path / "0").mkdir()
    (tmp_path / "attributes.json").write_text(json.dumps(document))
    return tmp_path


def _put(root, key, dims, picture):
    (root / key).write_bytes(struct.pack(">HHII", 0, 2, *dims) + picture)


def _open(root, **members):
    return ts.open({"driver": "n5", "kvstore": f"file://{root}/", **members}).result()


@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated")
def test_gray_pictures(dataset):
    """The width of the picture is the first dimension; pixels are the elements in stored order."""
    ramp = np.add.outer(np.arange(16) * 4, np.arange(16) * 8).astype(np.uint8)
    _put(dataset, "0/0", (16, 16), _picture(ramp))
    _put(dataset, "0/1", (16, 8), _picture(ramp[:8]))  # cropped
    got = _open(dataset).read().result()
    assert np.abs(got[:, :16].astype(int) - ramp.T).max() <= 4
    assert np.abs(got[:, 16:].astype(int) - ramp[:8].T).max() <= 4


@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated")
@pytest.mark.parametrize("picture", ["size", "colour", "cut", "nothing"])
def test_pictures_that_are_something_else(picture, dataset):
    gray = np.zeros((16, 16), np.uint8)
    content = {
        "size": _picture(gray[:8]),
        "colour": _picture(np.zeros((16, 16, 3), np.uint8), "RGB"),
        "cut": _picture(gray)[:-60],
        "nothing": b"",
    }[picture]
    _put(dataset, "0/0", (16, 16), content)
    with pytest.raises(ValueError, match=r"0/0.*jpeg"):
        _open(dataset).read().result()


def test_it_is_not_written(dataset):
    store = _open(dataset)
    assert store.codec.to_json()["compression"] == {"type": "jpeg", "quality": 95}
    with pytest.raises(NotImplementedError, match=r'"jpeg" compression can\'t be written'):
        store[...] = 1
    assert list((dataset / "0").iterdir()) == []
    with pytest.raises(NotImplementedError, match="only of uint8"):
        ts.open(
            {"driver": "n5", "kvstore": "memory://x/", "metadata": {"compression": {"type": "jpeg"}}},
            create=True,
            dtype="uint16",
            shape=[4],
        ).result()
