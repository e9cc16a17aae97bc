"""Hostile pickles raise an error that names the object and run nothing; bad links lead nowhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nwb_fixtures import MANIFEST

from chunkwise.hdmf import BrokenLinkWarning, UnsafePickleError, ZarrIO, open_store
from chunkwise.hdmf.pickles.codec import decode_pickled_array, encode_pickled_array

HOSTILE = next(entry for entry in MANIFEST["files"] if entry["store"] == "hostile.zarr")
LINKS = next(entry for entry in MANIFEST["files"] if entry["store"] == "bad_links.zarr")


@pytest.mark.parametrize(("path", "outcome"), HOSTILE["outcomes"].items())
def test_hostile_array_has_its_outcome_and_executes_nothing(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, outcome: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(str(stores / "v2-hostile" / "hostile.zarr"))
    try:
        value: Any = store.dataset(path).read()
    except ValueError as e:
        assert outcome in ("error", "value_or_error")
        assert isinstance(e, UnsafePickleError)
        assert path in str(e)
    else:
        assert outcome in ("value", "read_as_missing")
        if outcome == "value":
            assert [reference.path for reference in value] == ["/target", "/"]
        else:
            assert value.tolist() == [(0, None), (0, None)]  # nothing is stored
    assert os.listdir(tmp_path) == []


def test_hostile_set_takes_little_time_and_memory(stores: Path, tmp_path: Path) -> None:
    """All of it in a process of 200 MB more than it has when it begins."""
    code = """
import os, resource, sys, time
from chunkwise.hdmf import open_store
import numcodecs.vlen, chunkwise
def rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store = open_store(sys.argv[1])
before = rss()
slowest = 0.0
for path in store.walk():
    if not store.is_dataset(path):
        continue
    began = time.process_time()
    try:
        store.dataset(path).read()
    except ValueError:
        pass
    slowest = max(slowest, time.process_time() - began)
print((rss() - before) // 1024, slowest)
"""
    path = str(stores / "v2-hostile" / "hostile.zarr")
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    n_mib, slowest = map(float, done.stdout.split())
    assert n_mib < 200
    assert slowest < 1.0  # of processor time; the whole set takes a fraction of it
    assert os.listdir(tmp_path) == []


def test_opening_a_hostile_file_as_builders_runs_nothing(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(stores / "v2-hostile" / "hostile.zarr")
    with ZarrIO(path) as io, pytest.raises(UnsafePickleError, match="pickle"):
        root = io.read_builder()
        for builder in root.datasets.values():
            _ = builder.data[0]
    assert os.listdir(tmp_path) == []


class _Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("chunkwise_pickle_executed",)


def _hostile_values() -> list[Any]:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    wide: Any = "x"
    for _ in range(40):
        wide = [wide, wide]  # short to store, 2**40 to walk
    return [
        _Evil(),
        cyclic,
        deep,
        wide,
        {1: 2},
        {"a": _Evil()},
        np.dtype("i4"),
        np.ndarray,
        object(),
        1j,
        {1, 2},
    ]


@pytest.mark.parametrize("index", range(11))
def test_values_that_are_not_plain_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    monkeypatch.chdir(tmp_path)
    array = np.empty(1, object)
    array[0] = _hostile_values()[index]
    for protocol in range(2, 6):
        with pytest.raises(UnsafePickleError):
            decode_pickled_array(pickle.dumps(array, protocol), (1,), None)
    assert os.listdir(tmp_path) == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6), st.sampled_from([3, 4, 5]))
def test_plain_values_are_those_of_pickle_itself(values: list[Any], protocol: int) -> None:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    assert decode_pickled_array(pickle.dumps(array, protocol), (len(values),), None) == values


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_or_plain(data: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        decode_pickled_array(data, (1,), None)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_damaged_pickles_are_an_error_or_plain(data: st.DataObject) -> None:
    raw = bytearray(encode_pickled_array([{"source": ".", "path": "/a", "object_id": None}] * 3, (3,)))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        values = decode_pickled_array(bytes(raw), (3,), None)
    except UnsafePickleError as e:
        assert str(e)
        return
    assert len(values) == 3


def test_what_is_written_for_old_readers_is_a_pickle_of_an_object_array(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real unpickler, with a stand-in for hdmf-zarr's class, agrees."""
    import types

    module = types.ModuleType("hdmf_zarr.utils")
    module.ZarrReference = type("ZarrReference", (dict,), {"__module__": "hdmf_zarr.utils"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hdmf_zarr", types.ModuleType("hdmf_zarr"))
    monkeypatch.setitem(sys.modules, "hdmf_zarr.utils", module)
    elements = [{"source": ".", "path": f"/g{i}", "object_id": None} for i in range(4)]
    array = pickle.loads(encode_pickled_array(elements, (2, 2)))
    assert array.shape == (2, 2)
    assert [dict(item) for item in array.flat] == elements
    record = np.dtype(
        [("n", "<i8"), ("x", "<f4"), ("b", "?"), ("t", "O"), ("to", "O"), ("in", [("u", "<u8")])]
    )
    rows = [(-1 << 40, 0.5, True, "ä", elements[0], (1 << 63,)), (7, -2.0, False, b"b", None, (0,))]
    encoded = encode_pickled_array(rows, (2,), record)
    array = pickle.loads(encoded)
    assert array.dtype == record
    assert array.tolist() == rows
    plain = decode_pickled_array(encoded, (2,), record.names)
    assert plain == [[*row[:-1], list(row[-1])] for row in rows]


@pytest.mark.parametrize(("path", "outcome"), LINKS["outcomes"].items())
def test_bad_link_has_its_outcome(stores: Path, path: str, outcome: str) -> None:
    group, name = path.rsplit("/", 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ZarrIO(str(stores / "v2-hostile" / "bad_links.zarr")) as io:
            links = io.read_builder()[group.strip("/")].links
            opened = [store.source for store in io.stores.stores]
    reported = [
        str(w.message)
        for w in caught
        if w.category is BrokenLinkWarning and f"group {group} " in str(w.message)
    ]
    assert opened == [str(stores / "v2-hostile" / "bad_links.zarr")]
    if outcome in ("ok", "must_terminate"):
        assert name in links and not reported
    else:
        assert name not in links
        assert reported
    if outcome == "refused_by_default":
        assert "refused" in reported[0]


def test_a_strict_reader_names_the_link(stores: Path) -> None:
    with (
        ZarrIO(str(stores / "v2-hostile" / "bad_links.zarr"), strict_links=True) as io,
        pytest.raises(ValueError, match="Found bad link to object"),
    ):
        io.read_builder()
