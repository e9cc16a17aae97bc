"""The suites of chunkwise, passed by what this project adds."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from chunkwise_squeeze.store import SqliteStore

import chunkwise
from chunkwise.testing.codec_contract import CodecContract
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestInZarr3(CodecContract):
    format, stored_name = "zarr3", "squeeze"
    configurations = ({"preset": 0}, {"preset": 6})
    dtypes: ClassVar = ("u1", "f4")


class TestInZarr2(TestInZarr3):
    format = "zarr2"


class TestInN5(TestInZarr3):
    format = "n5"


class TestSqlite(KvStoreContract):
    generations_of_content = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        return SqliteStore(str(tmp_path / "a.db"))


@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_arrays_in_a_database(tmp_path: Path, driver: str) -> None:
    kvstore = {"driver": "sqlite", "file": str(tmp_path / "a.db"), "path": "group/a/"}
    values = np.arange(60, dtype=np.int16).reshape(6, 10)
    store = chunkwise.open(
        {"driver": driver, "kvstore": kvstore}, create=True, dtype="int16", shape=[6, 10]
    ).result()
    store.write(values).result()
    store[2:4, 5] = -1
    values[2:4, 5] = -1
    again = chunkwise.open({"driver": driver, "kvstore": kvstore}).result()
    assert (np.asarray(again) == values).all()
    assert chunkwise.open(again.spec()).result()[2, 5].read().result() == -1


def test_fixed_point() -> None:
    metadata = {
        "data_type": {"name": "fixed_point", "configuration": {"digits": 2}},
        "fill_value": "9.99",
        "codecs": ["bytes", "squeeze"],
    }
    prices = chunkwise.open(
        {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}, create=True, shape=[4]
    ).result()
    prices[1:3] = [1250, 10]
    assert prices.read().result().tolist() == [999, 1250, 10, 999]
