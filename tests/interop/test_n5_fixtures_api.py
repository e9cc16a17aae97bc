"""Everything that other N5 software wrote, through ``chunkwise.open``."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import chunkwise as ts

FIXTURES = Path(__file__).parents[1] / "n5" / "fixtures"
MANIFEST = json.loads((FIXTURES / "manifest.json").read_text("utf-8"))
QUIRKS = json.loads((FIXTURES / "quirks.json").read_text("utf-8"))
DATASETS = [
    (entry["file"].removesuffix(".zip"), dataset)
    for entry in MANIFEST["containers"]
    for dataset in entry.get("datasets", ())
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("fixtures")
    for name in FIXTURES.glob("*.zip"):
        ZipFile(name).extractall(path)
    return path


def _open(root, container, path, **options):
    return ts.open({"driver": "n5", "kvstore": f"file://{root}/{container}/{path}/"}, **options)


def _needs_snappy(path):
    return path.startswith("blosc/snappy") and path.endswith("uint16") and find_spec("imagecodecs") is None


@pytest.mark.parametrize("container", sorted({name for name, _ in DATASETS}))
def test_datasets(container, root):
    """Values, shape and type of each are those of the manifest; so is what its spec opens."""
    n = 0
    for name, dataset in DATASETS:
        if name != container:
            continue
        n += 1
        store = _open(root, container, dataset["path"]).result()
        assert list(store.shape) == dataset["dimensions"], dataset["path"]
        assert store.dtype.name == dataset["dataType"]
        if _needs_snappy(dataset["path"]):
            with pytest.raises(NotImplementedError, match="snappy"):
                store.read().result()
            continue
        values = store.read().result()
        little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
        assert hashlib.sha256(little.tobytes()).hexdigest() == dataset["sha256_n5"], dataset["path"]
        again = ts.open(ts.Spec(store.spec().to_json())).result()
        assert again.shape == store.shape
    assert n == sum(name == container for name, _ in DATASETS) > 0


def _quirks():
    return [pytest.param(case, id=case["path"].replace("/", "-")) for case in QUIRKS]


@pytest.mark.parametrize("case", _quirks())
def test_quirks(case, root):
    future = _open(root, "quirks.n5", case["path"])
    expected = case["expect"]
    if expected == "group":
        with pytest.raises(ValueError, match=r"FAILED_PRECONDITION|NOT_FOUND"):
            future.result()
        return
    if expected == "error":
        with pytest.raises((ValueError, NotImplementedError)) as e:
            future.result().read().result()
        assert case["path"] in str(e.value)
        return
    assert expected in ("array", "array_or_error")
    try:
        values = future.result().T.read().result()
    except (ValueError, NotImplementedError) as e:
        assert expected == "array_or_error" and case["path"] in str(e)
        return
    if "values_numpy" in case:
        np.testing.assert_array_equal(values, np.array(case["values_numpy"], values.dtype))
