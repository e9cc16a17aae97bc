"""No data type makes NumPy warn in any format, and times keep or are refused for the unit they have."""

import datetime
import warnings
from contextlib import suppress

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.errors import ChunkwiseError

DTYPES = [
    *ts.dtypes,
    *("S3", "U3", "V3", "datetime64", "timedelta64", "datetime64[ns]", "timedelta64[10ms]"),
    '[["t","timedelta64"],["u","datetime64"],["n","int4",[2]]]',
]


@pytest.mark.parametrize("driver", ["zarr1", "zarr", "zarr3", "n5"])
def test_no_warning(driver):
    """What is done with arrays of every type: fill values, writes, casts, pyramids, copies, text."""
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in DTYPES:
            dtype = ts.dtype(name)
            base = {"driver": driver, "kvstore": "memory://", "create": True, "open": True}
            context = ts.Context()
            try:
                made = ts.open(base, dtype=dtype, shape=[4, 3], context=context).result()
            except ChunkwiseError:
                continue  # the format lacks the type
            done.append(name)
            blank = made.read().result()
            made[1:3] = np.broadcast_to(dtype.zero(), (2, 3))
            made[0, 0] = dtype.zero()[()]
            made[1] = made[2]
            made = made.resize(exclusive_max=[6, 3]).result()
            again = ts.open(made.spec(), context=context).result()
            assert again.dtype == dtype and again.read().result().dtype == dtype.memory_dtype
            assert repr(again) and again.schema.to_json() and again.spec().to_json()
            if made.fill_value is not None:
                again = ts.open(
                    base | {"path": "filled/"},
                    dtype=dtype,
                    shape=[4, 3],
                    fill_value=made.fill_value,
                ).result()
                assert again.read().result().shape == blank.shape
            for method in ("stride", "median", "mode", "mean", "min", "max"):
                try:
                    ts.downsample(made, [2, 1], method).read().result()
                except ChunkwiseError:
                    assert method != "stride"
            for other in ("int64", "json", "string", "ustring", name):
                with suppress(ChunkwiseError):  # types that don't convert, or in one direction only
                    ts.cast(made, other).read().result()
            again.resize(exclusive_max=[6, 3]).result().write(made).result()
    assert len(done) > 8


NOT_A_TIME = np.iinfo("i8").min
COUNTS = [(5, 5), (True, 1), ("NaT", NOT_A_TIME), (None, NOT_A_TIME), ([1, 2], [1, 2]), ([], [])]
COUNTS += [([None, 7], [NOT_A_TIME, 7]), (b"NaT", NOT_A_TIME)]


@pytest.mark.parametrize("name", ["timedelta64", "datetime64"])
def test_times_without_a_unit_are_counts(name):
    dtype = ts.dtype(name)
    same = [
        np.arange(3).view(dtype.memory_dtype),
        np.arange(3).astype(">i8").view(dtype.memory_dtype.newbyteorder(">")),
    ]
    for value, expected in [*COUNTS, *((value, [0, 1, 2]) for value in same)]:
        out = as_array(value, dtype)
        assert out.dtype == dtype.memory_dtype and out.view("i8").tolist() == expected
        assert np.asarray(dtype(value)).view("i8").tolist() == expected
    for value in (np.arange(3), np.arange(3, dtype="u4")):
        assert as_array(value, ts.dtype("timedelta64")).view("i8").tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["timedelta64", "datetime64"])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(3).view("m8[D]"),
        np.arange(3).view("M8[D]"),
        np.datetime64("2020", "Y"),
        [np.timedelta64(9, "s")],
        [None, np.datetime64("2020", "Y")],
        "2020-01-01",
        ["NaT", "2020"],
        datetime.date(2020, 1, 1),
        datetime.timedelta(1),
        1.5,
        2**63,
        np.array([2**63], "u8"),
    ],
    ids=repr,
)
def test_a_unit_is_not_lost(name, value):
    """NumPy would drop or guess it: days and seconds were stored side by side in one array."""
    dtype = ts.dtype(name)
    array = ts.open({"driver": "zarr", "kvstore": "memory://"}, create=True, dtype=dtype, shape=[1]).result()
    with pytest.raises((ChunkwiseError, OverflowError), match=r"no unit|too large|Cannot cast"):
        array[...] = value
    with pytest.raises((ChunkwiseError, OverflowError)):
        dtype(value)
    assert np.isnat(array.read().result()).all()
