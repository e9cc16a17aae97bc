"""Conversion from HDF5 and to it: every member is kept, typed or not, or it is named; h5py is the measure."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import hdmf.build
import numpy as np
import pytest
from h5_members import fill, members
from hdmf.build import DatasetBuilder, GroupBuilder
from nwb_content import new_file
from pynwb import NWBHDF5IO, TimeSeries, validate

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, LossWarning, UnsupportedError
from chunkwise.hdmf import BrokenLinkError, NWBZarrIO, RegionReference, ZarrIO, convert, open_store

FORMATS = ("zarr2", "zarr3", "n5")
KNOWS_REGIONS = not hasattr(hdmf.build, "RegionBuilder")
"""Releases of hdmf that have such refuse to read files with regions in attributes."""

pytestmark = pytest.mark.filterwarnings("ignore")
ONE = ("n5", *(pytest.param(format, marks=pytest.mark.slow) for format in ("zarr2", "zarr3")))
"""Formats of tests that take long, of which one is in each run."""


def hdf5(path: Path) -> Path:
    nwb = new_file()
    nwb.add_acquisition(TimeSeries("t", np.arange(6.0), "V", rate=1.0))
    with NWBHDF5IO(path, "w") as io:
        io.write(nwb)
    return path


@pytest.mark.parametrize("format", ONE)
def test_every_member_of_an_hdf5_file_comes_back(tmp_path: Path, format: Any) -> None:
    source = hdf5(tmp_path / "a.nwb")
    with h5py.File(source, "r+") as file:
        fill(file, "stuff")
        fill(file, "acquisition/t/stuff")
        file["acquisition/t"].attrs["mine"] = file["acquisition/t/data"].regionref[2:4]
        file["acquisition/t/data"].attrs["more"] = [1, 2]
    before = members(source)
    convert(source, tmp_path / "b", format=format)
    convert(tmp_path / "b", tmp_path / "c.nwb")
    after = members(tmp_path / "c.nwb")
    assert len(before) > 120
    different = {name for name in before if after.get(name) != before[name]}
    assert not different, {n: (before[n], after.get(n)) for n in different}
    assert set(after) == set(before)
    convert(tmp_path / "c.nwb", tmp_path / "d.nwb")
    assert members(tmp_path / "d.nwb") == after


@pytest.mark.parametrize("format", ONE)
def test_a_changed_file_is_exported_with_what_no_container_knows(tmp_path: Path, format: Any) -> None:
    source = hdf5(tmp_path / "a.nwb")
    with h5py.File(source, "r+") as file:
        file.create_group("stuff")["x"] = np.arange(3)
        file["general"].attrs["x"] = "y"
        file["acquisition/t"]["odd"] = [1, 2]
        if KNOWS_REGIONS:
            file["acquisition/t"].attrs["roi"] = file["acquisition/t/data"].regionref[2:4]
        file["acquisition/t/data"].dims[0].label = "time"
    convert(source, tmp_path / "b", format=format)
    for i, opened in enumerate((NWBHDF5IO(source, "r"), NWBZarrIO(tmp_path / "b"))):
        with opened as io:
            nwb = io.read()
            nwb.lab = "a lab"
            nwb.acquisition["t"].set_modified()
            with NWBZarrIO(tmp_path / f"out{i}", "w", format=format) as target:
                target.export(io, nwb)
        store = open_store(tmp_path / f"out{i}")
        assert store.dataset("/general/lab").value() == "a lab"
        assert store.dataset("/stuff/x").read().tolist() == [0, 1, 2]
        assert store.dataset("/acquisition/t/odd").read().tolist() == [1, 2]
        assert store.attributes("/general")["x"] == "y"
        assert store.attributes("/acquisition/t/data")["_ARRAY_DIMENSIONS"] == ["time"]
        if not KNOWS_REGIONS:
            continue
        with ZarrIO(tmp_path / f"out{i}") as io:
            roi = io.read_builder().groups["acquisition"].groups["t"].attributes["roi"]
            assert isinstance(roi, RegionReference) and roi.data().tolist() == [2.0, 3.0]


@pytest.mark.parametrize("format", ONE)
def test_text_of_fixed_length_is_text_where_the_schema_says_so(tmp_path: Path, format: Any) -> None:
    """MATLAB, Igor and C++ write such; it opens as from HDF5, through both ways of converting."""
    source = hdf5(tmp_path / "a.nwb")
    with h5py.File(source, "r+") as file:
        for name in ("identifier", "session_description", "session_start_time"):
            value = file[name][()]
            del file[name]
            file[name] = np.bytes_(value)
        del file["general/keywords"]
        file["general/keywords"] = np.array([b"k", b"kk"], "S2")
        file.create_dataset("general/lab", data=b"lab", dtype=h5py.string_dtype("ascii"))
        file["acquisition/t"].attrs["description"] = np.bytes_(b"fixed")
    convert(source, tmp_path / "b", format=format)
    with NWBHDF5IO(source, "r") as io, NWBZarrIO(tmp_path / "c", "w", format=format) as target:
        target.export(io)
    convert(tmp_path / "b", tmp_path / "d.nwb")
    for opened in (NWBZarrIO(tmp_path / "b"), NWBZarrIO(tmp_path / "c"), NWBHDF5IO(tmp_path / "d.nwb", "r")):
        with opened as io:
            nwb = io.read()
            assert (nwb.identifier, nwb.lab) == ("content", "lab")
            assert nwb.session_start_time.isoformat() == "2024-03-01T12:30:15.123456+00:00"
            assert list(nwb.keywords[:]) == ["k", "kk"]
            assert nwb.acquisition["t"].description == "fixed"
            assert [str(e) for e in validate(io=io, use_cached_namespaces=False)] == []


@pytest.mark.parametrize("format", ONE)
def test_links_of_hdf5_lead_where_they_led(tmp_path: Path, format: Any) -> None:
    """Relative ones, hard links, links to other files; hdmf loses one of two to objects of the same name."""
    other = hdf5(tmp_path / "other.nwb")
    source = hdf5(tmp_path / "a.nwb")
    with h5py.File(source, "r+") as file:
        file["x/t"], file["y/t"] = [1], [2]
        file["links/a"], file["links/b"] = h5py.SoftLink("/x/t"), h5py.SoftLink("/y/t")
        file["x/relative"] = h5py.SoftLink("t")
        file["hard"] = file["y"]
        file["x/up"] = file["x"]
        file["acquisition/theirs"] = h5py.ExternalLink("other.nwb", "/acquisition/t")
        file["again"] = h5py.ExternalLink("other.nwb", "/acquisition/t/data")
    with h5py.File(other, "r+") as file:
        file["acquisition/t"].attrs["ref"] = file["acquisition/t/data"].ref
    (tmp_path / "sub").mkdir()
    convert(source, tmp_path / "sub" / "same.nwb")
    convert(source, tmp_path / "b", format=format)
    with h5py.File(tmp_path / "sub" / "same.nwb") as file:
        assert file["acquisition/theirs/data"].shape == (6,)
    other.unlink()
    store = open_store(tmp_path / "b")
    place = "/hard" if "hard" in store.names("/") else "/y"  # the other name is a link
    assert {name: to.path for name, to in store.links("/links").items()} == {"a": "/x/t", "b": f"{place}/t"}
    assert {name: to.path for name, to in store.links("/x").items()} == {"relative": "/x/t", "up": "/x"}
    assert len({*store.links("/"), *store.names("/")} & {"hard", "y"}) == 2
    assert store.dataset("/acquisition/theirs/data").read().tolist() == list(range(6))
    assert store.attributes("/acquisition/theirs")["ref"].path == "/acquisition/theirs/data"
    with ZarrIO(tmp_path / "b") as io:
        theirs = io.read_builder().groups["acquisition"].groups["theirs"]
        assert theirs.attributes["ref"] is theirs.datasets["data"]
        assert io.broken_links == []


@pytest.mark.parametrize("target", ["b.nwb.zarr", "b.n5"])
def test_what_a_store_can_not_hold_is_named_and_nothing_is_written(tmp_path: Path, target: str) -> None:
    source = hdf5(tmp_path / "a.nwb")
    with h5py.File(source, "r+") as file:
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
    with pytest.raises(UnsupportedError, match="ragged of "):
        convert(source, tmp_path / target)
    assert not (tmp_path / target).exists()
    with h5py.File(source, "r+") as file:
        del file["ragged"]
        file["gone"] = h5py.SoftLink("/nothing")
        file["general"].create_dataset("dead", (1,), h5py.ref_dtype)
        file["passing"] = [1]
        file["general"].attrs["dead"] = file["passing"].ref
        del file["passing"]
    with pytest.raises(BrokenLinkError, match=r' 2 broken(.|\n)*link "gone"(.|\n)*attribute "dead"'):
        convert(source, tmp_path / target)
    assert not (tmp_path / target).exists()
    convert(source, tmp_path / target, drop_broken_links=True)
    assert open_store(tmp_path / target).dataset("/general/dead").read().tolist() == [None]


def test_opaque_data_of_hdf5(tmp_path: Path) -> None:
    """A conversion keeps it; hdmf can't read it, and the error says which dataset that is."""
    source = hdf5(tmp_path / "a.nwb")
    times = np.array(["2020-01-01", "2021-01-01"], "M8[s]")
    with h5py.File(source, "r+") as file:
        file["odd"] = np.array([np.void(b"abc"), np.void(b"def")])
        file["times"] = times.astype(h5py.opaque_dtype(times.dtype))
    for format in ("zarr2", "zarr3"):
        convert(source, tmp_path / format, format=format)  # type: ignore[arg-type]
        convert(tmp_path / format, tmp_path / f"{format}.nwb")
        with h5py.File(tmp_path / f"{format}.nwb") as file:
            assert [bytes(v) for v in file["odd"][()]] == [b"abc", b"def"]
            assert file["times"][()].tolist() == times.tolist()
    with pytest.raises(UnsupportedError, match=r"odd.*N5 has no type for"):
        convert(source, tmp_path / "a.n5")
    with (
        NWBHDF5IO(source, "r") as io,
        ZarrIO(tmp_path / "x", "w") as target,
        pytest.raises(UnsupportedError, match=r"dataset /odd of .*a.nwb"),
    ):
        target.export(io)


@pytest.mark.parametrize("format", FORMATS)
def test_attributes_that_hdf5_has_no_form_for_become_text_and_are_named(tmp_path: Path, format: Any) -> None:
    root = GroupBuilder("root", attributes={"data_type": "File", "object_id": "r"})
    root.set_attribute("mixed", [1, "a"])
    root.set_attribute("nested", {"a": [1, None]})
    root.set_attribute("huge", 2**70)
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(root)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        convert(tmp_path / "a", tmp_path / "b.h5")
    text = "\n".join(str(w.message) for w in seen)
    with h5py.File(tmp_path / "b.h5") as file:
        found = {name: file.attrs[name] for name in ("mixed", "nested", "huge")}
    assert found == {"mixed": '[1, "a"]', "nested": '{"a": [1, null]}', "huge": str(2**70)}
    assert all(f'attribute "{name}"' in text for name in found)


@pytest.mark.parametrize("format", ONE)
def test_records_in_attributes_keep_their_targets(tmp_path: Path, format: Any) -> None:
    kind = np.dtype([("n", "i4"), ("to", h5py.ref_dtype), ("text", h5py.string_dtype())])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["nwb_version"] = "2.0"
        target = file.create_dataset("d", data=[1, 2])
        record = np.array((1, target.ref, "x"), kind)
        target.attrs.create("one", record, dtype=kind)
        target.attrs.create("two", np.stack([record, record]), dtype=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossWarning)
        convert(tmp_path / "a.h5", tmp_path / "b", format=format, verify=True)
        convert(tmp_path / "b", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as file:
        records = [file["d"].attrs["one"], *file["d"].attrs["two"]]
        assert [(r["n"], file[r["to"]].name, r["text"]) for r in records] == [(1, "/d", b"x")] * 3


@pytest.mark.parametrize("format", ONE)
def test_references_in_objects_of_attributes_have_the_form_of_the_format(tmp_path: Path, format: Any) -> None:
    data = DatasetBuilder("d", [1, 2])
    root = GroupBuilder("root", datasets={"d": data}, attributes={"nwb_version": "2.0"})
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        root.set_attribute("nested", {"to": [data]})
        io.write_builder(root)
    with ZarrIO(tmp_path / "a", "r") as io:
        read = io.read_builder()
        assert read.attributes["nested"]["to"][0] is read.datasets["d"]
    for other in FORMATS:
        convert(tmp_path / "a", tmp_path / other, format=other)
        assert open_store(tmp_path / other).attributes("/")["nested"]["to"][0].path == "/d"
        stored = open_store(tmp_path / other).tree.nodes["/"].attributes["nested"]["to"][0]
        assert ("zarr_dtype" in stored) == (other == "zarr2")
    convert(tmp_path / "a", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file.attrs["nested"] == '{"to": [{"source": ".", "path": "/d"}]}'


@pytest.mark.parametrize("format", FORMATS)
def test_what_hdf5_can_not_hold_is_named_and_the_old_file_stays(tmp_path: Path, format: Any) -> None:
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", ["a\0b"])], attributes={"data_type": "File"})
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(root)
    (tmp_path / "b.h5").write_bytes(b"mine")
    with pytest.raises(ChunkwiseError, match="object /d of "):
        convert(tmp_path / "a", tmp_path / "b.h5", overwrite=True)
    assert (tmp_path / "b.h5").read_bytes() == b"mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b.h5"]


@pytest.mark.parametrize("region", [..., (slice(1, 5, 2), slice(0, 3)), [(5, 0), (0, 3)], [0, 2, 5]])
@pytest.mark.parametrize("format", FORMATS)
def test_regions_select_the_same_in_hdf5(tmp_path: Path, format: Any, region: Any) -> None:
    data = DatasetBuilder("data", np.arange(24).reshape(6, 4))
    reference = RegionReference(region, data)
    root = GroupBuilder(
        "root",
        datasets=[data, DatasetBuilder("regions", [reference], dtype="region")],
        attributes={"data_type": "File", "roi": reference},
    )
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(root)
    convert(tmp_path / "a", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        for found in (file.attrs["roi"], file["regions"][0]):
            assert file[found] == file["data"]
            assert (
                np.sort(file["data"][found], axis=None).tolist()
                == np.sort(reference.data(), axis=None).tolist()
            )


# An attribute of a store, and what the HDF5 file has: JSON, with a warning, where HDF5 would change it.
LISTS: list[tuple[Any, Any]] = [
    ([1, 2.5], [1.0, 2.5]),
    ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ([float("nan"), 1], [np.nan, 1.0]),
    ([2**64 - 1, 1], [2**64 - 1, 1]),
    ([True, False], [True, False]),
    ([], []),
    ([["a", "b"], ["c", "d"]], [["a", "b"], ["c", "d"]]),
    ([2**64 - 1, -1], "[18446744073709551615, -1]"),
    ([2**53 + 1, 0.5], "[9007199254740993, 0.5]"),
    ([2**70], "[1180591620717411303424]"),
    (2**70, "1180591620717411303424"),
    ([True, 2], "[true, 2]"),
    (["a", 1], '["a", 1]'),
    ([[1], [2, 3]], "[[1], [2, 3]]"),
    ([b"a\0"], '["a\\u0000"]'),
    ({"a": 1}, '{"a": 1}'),
]


@pytest.mark.parametrize(("value", "expected"), LISTS, ids=repr)
def test_lists_in_attributes_are_kept_by_hdf5(tmp_path: Path, value: Any, expected: Any) -> None:
    with ZarrIO(tmp_path / "a", "w", format="zarr2") as io:
        io.write_builder(GroupBuilder("root", attributes={"a": value}))
    is_json = isinstance(expected, str)
    with pytest.warns(LossWarning, match=r'"a" .* becomes JSON text') if is_json else nullcontext():
        convert(tmp_path / "a", tmp_path / "b.h5", format="hdf5")
    with h5py.File(tmp_path / "b.h5") as file:
        found = file.attrs["a"]
    np.testing.assert_array_equal(np.asarray(found, object if is_json else None), np.asarray(expected))


@pytest.mark.parametrize("value", [[["a"], ["b", "c"]], [["a", "b"], ["c", "d", "e"], ["f"]]], ids=repr)
def test_text_in_lists_of_different_lengths_is_refused_by_hdf5(tmp_path: Path, value: Any) -> None:
    with ZarrIO(tmp_path / "a", "w", format="zarr2") as io:
        io.write_builder(GroupBuilder("root", attributes={"a": value}))
    with pytest.raises(InvalidArgumentError, match=r'"a" .* lists of different lengths'):
        convert(tmp_path / "a", tmp_path / "b.h5", format="hdf5")
    assert not (tmp_path / "b.h5").exists()
