"""Every numeric dataset that other N5 software wrote, decoded block by block, against its hash."""

import hashlib
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from chunkwise.errors import UnsupportedError

MANIFEST = json.loads((Path(__file__).parent / "fixtures" / "manifest.json").read_text("utf-8"))


def _datasets():
    for entry in MANIFEST["containers"]:
        name = entry["file"].removesuffix(".n5.zip")
        for dataset in entry.get("datasets", ()):
            yield pytest.param(name, dataset, id=f"{name}:{dataset['path']}")


@pytest.mark.parametrize(("name", "dataset"), list(_datasets()))
def test_dataset_has_the_values_of_the_manifest(name, dataset, container, read_dense):
    if find_spec("imagecodecs") is None and re.fullmatch("blosc/snappy.*_uint16", dataset["path"]):
        # The uint8 ones are incompressible, so that snappy is named in them but not needed.
        with pytest.raises(UnsupportedError, match="snappy"):
            read_dense(container(name), dataset["path"])
        return
    array = read_dense(container(name), dataset["path"])
    assert array.dtype == dataset["dataType"]
    assert list(array.shape) == dataset["dimensions"]
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    assert hashlib.sha256(little.tobytes()).hexdigest() == dataset["sha256_n5"]


def test_the_manifest_has_not_shrunk():
    assert len(list(_datasets())) == 397
