"""A resize on a server is one conditional write of the known document; it is read if that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw

FORMATS = ["zarr3", "zarr", "zarr1", "n5"]
DOCUMENTS = {"zarr3": "zarr.json", "zarr": ".zarray", "zarr1": "meta", "n5": "attributes.json"}
DATA = np.arange(1, 25, dtype=np.uint16).reshape(6, 4)


@pytest.fixture(scope="module")
def bucket(moto: str) -> str:
    """URL of a bucket of this module."""
    return f"s3://{new_s3_bucket(moto)}"


@pytest.fixture
def make(bucket: str, between: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], dict[str, Any]]:
    """Store an array; return its spec."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)

    def made(driver: str, name: str) -> dict[str, Any]:
        spec = {"driver": driver, "kvstore": f"{bucket}/{driver}/{name}/"}
        _create(spec)
        return spec

    return made


def _create(spec: dict[str, Any], dtype: str = "uint16") -> None:
    schema = {"domain": {"shape": [6, 4]}, "chunk_layout": {"chunk": {"shape": [2, 4]}}, "dtype": dtype}
    cw.open({**spec, "schema": schema, "create": True, "delete_existing": True}).result()[...] = DATA


def _opened(spec: dict[str, Any]) -> Any:
    """Open an array as another process would, which shares no metadata."""
    return cw.open(spec, context=cw.Context()).result()


@pytest.mark.parametrize("driver", FORMATS)
def test_the_document_is_written_and_not_read(
    make: Callable[[str, str], dict[str, Any]], between: Any, driver: str
) -> None:
    spec = make(driver, "once")
    array = _opened(spec)
    between.set()
    for n in (8, 9, 3):  # the second is on condition of what the first has written
        array = array.resize(exclusive_max=[n, 4]).result()
    document = f"/{DOCUMENTS[driver]}"
    asked = [line.split()[0] for line in between.log() if line.endswith(f"once{document}")]
    assert asked == ["PUT"] * 3
    np.testing.assert_array_equal(_opened(spec).read().result(), DATA[:3])


@pytest.mark.parametrize("driver", FORMATS)
def test_what_others_have_stored_meanwhile_stays(
    make: Callable[[str, str], dict[str, Any]], driver: str
) -> None:
    """Both changes are there, whether the other one was to the shape or to attributes."""
    spec = make(driver, "both")
    stale, other = _opened(spec), _opened(spec)
    other.attrs["unit"] = "nm"
    assert stale.resize(exclusive_max=[7, None]).result().shape == (7, 4)
    assert _opened(spec).attrs["unit"] == "nm"
    other.resize(exclusive_max=[None, 7]).result()
    assert stale.resize(exclusive_max=[9, None]).result().shape == (9, 7)
    found = _opened(spec)
    assert found.shape == (9, 7)
    assert found.attrs["unit"] == "nm"
    np.testing.assert_array_equal(found[:6, :4].read().result(), DATA)


@pytest.mark.parametrize("driver", FORMATS)
def test_bounds_are_those_of_what_is_stored(make: Callable[[str, str], dict[str, Any]], driver: str) -> None:
    """An error, and a shape that needs no change, are told by what is stored, not by what is known."""
    spec = make(driver, "bounds")
    stale, again, third = _opened(spec), _opened(spec), _opened(spec)
    _opened(spec).resize(exclusive_max=[10, 4]).result()
    with pytest.raises(ValueError, match="would shrink"):
        stale.resize(exclusive_max=[8, 4], expand_only=True).result()
    assert _opened(spec).shape == (10, 4)
    assert again.resize(exclusive_max=[6, 4]).result().shape == (6, 4)  # as it knows the array
    assert _opened(spec).shape == (6, 4)
    assert third.resize(exclusive_max=[6, 4], shrink_only=True).result().shape == (6, 4)


@pytest.mark.parametrize("driver", FORMATS)
def test_an_array_that_is_gone_or_another(make: Callable[[str, str], dict[str, Any]], driver: str) -> None:
    spec = make(driver, "gone")
    stale, later = _opened(spec), _opened(spec)
    _create(spec, "float32")
    with pytest.raises(ValueError, match="incompatible with existing metadata"):
        stale.resize(exclusive_max=[9, 4]).result()
    assert _opened(spec).shape == (6, 4)
    store = cw.KvStore.open(spec["kvstore"]).result()
    store.delete_range(cw.KvStore.KeyRange()).result()
    with pytest.raises(ValueError, match="does not exist"):
        later.resize(exclusive_max=[9, 4]).result()
    assert not store.list().result()


@pytest.mark.parametrize("driver", FORMATS)
def test_a_transaction_reads_what_is_stored(make: Callable[[str, str], dict[str, Any]], driver: str) -> None:
    """It compares generations at the commit, when there is no more reading."""
    spec = make(driver, "commit")
    stale = _opened(spec)
    _opened(spec).resize(exclusive_max=[None, 7]).result()
    with cw.Transaction() as transaction:
        stale.with_transaction(transaction).resize(exclusive_max=[9, None]).result()
    assert _opened(spec).shape == (9, 7)
