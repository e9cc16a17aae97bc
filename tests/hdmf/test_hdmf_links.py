"""External links: siblings, nested directories, chains; moved together, moved apart, renamed, refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import hdmf.common
import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, DynamicTableRegion, SimpleMultiContainer, VectorData, VectorIndex
from nwb_content import file_of, new_file
from pynwb import TimeSeries, get_manager

from chunkwise.hdmf import BrokenLinkError, BrokenLinkWarning, NWBZarrIO, ZarrIO, convert, open_store
from chunkwise.hdmf.model.place import join_source, relative_source
from chunkwise.hdmf.summary import broken_links

FORMATS = ("zarr2", "zarr3", "n5")
# pynwb warns of its own future; links are what counts here.
pytestmark = [
    pytest.mark.filterwarnings("ignore", "error::chunkwise.hdmf.storage.resolve.BrokenLinkWarning"),
    pytest.mark.each_once("format"),
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["users", "root", "ragged"])
def test_a_root_of_any_name_refers_to_its_own_members(tmp_path: Path, name: str, format: str) -> None:
    """The container that is written is the root of the store, so its name is in no path."""
    ragged = VectorData(name="ragged", description="r", data=[1.0, 2.0, 3.0])
    index = VectorIndex(name="ragged_index", target=ragged, data=[1, 3])
    table = DynamicTable(name=name, description="t", columns=[index, ragged], colnames=["ragged"])
    path, other = tmp_path / "t.zarr", tmp_path / "u.zarr"
    with ZarrIO(path, manager=hdmf.common.get_manager(), mode="w", format=format) as io:
        io.write(table)
    with ZarrIO(path, manager=hdmf.common.get_manager(), mode="a") as io:
        read = io.read()
        read.add_row(ragged=[4.0])
        io.write(read)
    with ZarrIO(path, manager=hdmf.common.get_manager()) as io:
        assert [list(row) for row in io.read()["ragged"][:]] == [[1.0], [2.0, 3.0], [4.0]]
        with ZarrIO(other, manager=hdmf.common.get_manager(), mode="w", format=format) as out:
            out.export(src_io=io)
    rows = DynamicTable(name="rows", description="r", columns=[VectorData("a", "a", data=[5, 6])])
    region = DynamicTableRegion(name="region", description="r", data=[1, 0], table=rows)
    refers = DynamicTable(name="refers", description="r", columns=[region])
    with ZarrIO(tmp_path / "m.zarr", manager=hdmf.common.get_manager(), mode="w", format=format) as io:
        io.write(SimpleMultiContainer(name=name, containers=[rows, refers]))
    with ZarrIO(tmp_path / "m.zarr", manager=hdmf.common.get_manager()) as io:
        assert io.read()["refers"]["region"][0]["a"].tolist() == [6]
    for store in (path, other, tmp_path / "m.zarr"):
        assert broken_links(store) == []


def write_raw(path: Path, format: str) -> None:
    nwb = new_file("raw")
    nwb.add_acquisition(TimeSeries("src", np.arange(12.0).reshape(6, 2), "V", timestamps=np.arange(6.0)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(nwb)


def write_linked(path: Path, to: Path, format: str, name: str = "src", own: str = "shares") -> None:
    """A file whose acquisition is a link to that of another, and whose own data is shared."""
    path.parent.mkdir(parents=True, exist_ok=True)
    manager = get_manager()  # hdmf wants one for both files
    with NWBZarrIO(to, manager=manager) as source:
        series = source.read().acquisition[name]
        nwb = new_file(path.name)
        nwb.add_acquisition(series)
        nwb.add_acquisition(TimeSeries(own, series.data, "V", timestamps=series))
        with NWBZarrIO(path, mode="w", format=format, manager=manager) as io:
            io.write(nwb)


def check(path: Path, own: str = "shares", **options: Any) -> None:
    with NWBZarrIO(path, strict_links=True, **options) as io:
        nwb = io.read()
        np.testing.assert_array_equal(nwb.acquisition["src"].data[()], np.arange(12.0).reshape(6, 2))
        np.testing.assert_array_equal(nwb.acquisition[own].data[()], np.arange(12.0).reshape(6, 2))
        np.testing.assert_array_equal(nwb.acquisition[own].timestamps[()], np.arange(6.0))
        assert io.broken_links == []


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_links_to_siblings_and_nested_directories(tmp_path: Path, format: str) -> None:
    write_raw(tmp_path / "raw.nwb.zarr", format)
    write_linked(tmp_path / "b.nwb.zarr", tmp_path / "raw.nwb.zarr", format)
    write_linked(tmp_path / "sub" / "c.nwb.zarr", tmp_path / "raw.nwb.zarr", format)
    stored = open_store(str(tmp_path / "sub" / "c.nwb.zarr")).links("/acquisition")["src"]
    assert (stored.source, stored.path) == ("../../raw.nwb.zarr", "/acquisition/src")
    check(tmp_path / "b.nwb.zarr")
    check(tmp_path / "sub" / "c.nwb.zarr")


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_links_in_a_chain_of_three_across_directories(tmp_path: Path, format: str) -> None:
    raw, b, c = tmp_path / "raw.nwb.zarr", tmp_path / "x" / "b.nwb.zarr", tmp_path / "x" / "y" / "c.nwb.zarr"
    write_raw(raw, format)
    write_linked(b, raw, format)
    write_linked(c, b, format, own="again")
    check(c, own="again")
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.move(tmp_path, moved)
    try:
        check(moved / "x" / "y" / "c.nwb.zarr", own="again")  # all moved together
    finally:
        shutil.move(moved, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_links_of_stores_that_were_moved_apart_or_renamed(tmp_path: Path, format: str) -> None:
    write_raw(tmp_path / "raw.nwb.zarr", format)
    write_linked(tmp_path / "b.nwb.zarr", tmp_path / "raw.nwb.zarr", format)
    (tmp_path / "b.nwb.zarr").rename(tmp_path / "renamed.nwb.zarr")
    check(tmp_path / "renamed.nwb.zarr")
    (tmp_path / "raw.nwb.zarr").rename(tmp_path / "gone.nwb.zarr")
    with (
        pytest.warns(BrokenLinkWarning, match="raw.nwb.zarr"),
        NWBZarrIO(tmp_path / "renamed.nwb.zarr") as io,
    ):
        root = io.read_builder()
        assert "src" not in root.groups["acquisition"].links
        assert len(io.broken_links) == 3
    with pytest.raises(ValueError, match="Found bad link to object /acquisition/src"):
        NWBZarrIO(tmp_path / "renamed.nwb.zarr", strict_links=True).read_builder()


def test_links_out_of_the_neighbourhood_are_refused_unless_allowed(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d" / "far.nwb.zarr"
    write_raw(tmp_path / "raw.nwb.zarr", "zarr3")
    write_linked(deep, tmp_path / "raw.nwb.zarr", "zarr3")
    with pytest.warns(BrokenLinkWarning, match="too far away"), ZarrIO(deep) as io:
        io.read_builder()
        assert [store.source for store in io.stores.stores] == [str(deep)]
    check(deep, link_roots=[str(tmp_path)])
    check(deep, allow_external_links="any")
    with pytest.warns(BrokenLinkWarning, match="not allowed"):
        ZarrIO(deep, allow_external_links="none").read_builder()


def write_with_link(path: Path, to: Path, at: str, format: str, **own: Any) -> None:
    """A file with data of its own at ``/acquisition/src``, and a link to what another has at a path."""
    series = DatasetBuilder("data", np.arange(6.0) + 100)
    groups = [GroupBuilder("src", datasets=[series], attributes={"object_id": "own series"})]
    with ZarrIO(to) as source, ZarrIO(path, mode="w", format=format) as io:
        target = source.get_builder(at)
        link = LinkBuilder(target, "link")
        reference = {"target": ReferenceBuilder(target)} if own.get("reference") else {}
        acquisition = GroupBuilder("acquisition", groups=groups, links=[link], attributes=reference)
        root = GroupBuilder("root", groups=[acquisition])
        root.set_attribute("object_id", own.get("object_id", "own root"))
        root.set_attribute("data_type", "File")
        io.write_builder(root)


@pytest.mark.parametrize("at", ["/acquisition/src", "/acquisition/src/data"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_link_into_a_file_that_is_gone_is_broken(tmp_path: Path, format: str, at: str) -> None:
    """What the file itself has at that path is other data."""
    raw, linked = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    write_raw(raw, format)
    write_with_link(linked, raw, at, format, reference=True)
    assert broken_links(linked) == []
    shutil.rmtree(raw)
    with pytest.warns(BrokenLinkWarning, match="there is no store at"), ZarrIO(linked) as io:
        acquisition = io.read_builder().groups["acquisition"]
        assert not acquisition.links
        assert "target" not in acquisition.attributes
        assert len(io.broken_links) == 2
    assert len(broken_links(linked)) == 2
    with pytest.raises(ValueError, match=f"Found bad link to object {at}"):
        ZarrIO(linked, strict_links=True).read_builder()


@pytest.mark.parametrize("at", ["/acquisition/src", "/acquisition/src/data"])
@pytest.mark.parametrize("format", FORMATS)
def test_another_file_in_the_place_of_the_linked_one_is_not_taken_for_it(
    tmp_path: Path, format: str, at: str
) -> None:
    raw, linked = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    write_raw(raw, format)
    write_with_link(linked, raw, at, format, reference=True)
    shutil.rmtree(raw)
    write_raw(raw, format)
    assert [link.reason for link in broken_links(linked) if "is another object" in link.reason]
    with pytest.warns(BrokenLinkWarning, match="is another object"), ZarrIO(linked) as io:
        acquisition = io.read_builder().groups["acquisition"]
        assert not acquisition.links
        assert "target" not in acquisition.attributes


def test_a_link_to_the_file_that_was_exported_leads_there(tmp_path: Path) -> None:
    """The export has the identity of its source, and other values at the same path."""
    raw, linked = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    write_raw(raw, "zarr3")
    identity = open_store(raw).object_id
    write_with_link(linked, raw, "/acquisition/src/data", "zarr3", object_id=identity)
    with ZarrIO(linked, strict_links=True) as io:
        data = io.read_builder().groups["acquisition"].links["link"].builder.data
        np.testing.assert_array_equal(data[()], np.arange(12.0).reshape(6, 2))


def test_a_store_that_can_not_be_asked_is_not_said_to_be_gone(tmp_path: Path) -> None:
    raw, linked = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    write_raw(raw, "zarr3")
    write_with_link(linked, raw, "/acquisition/src", "zarr3")
    (raw / "acquisition" / "zarr.json").write_bytes(b"{")
    (raw / "zarr.json").write_bytes(b"{")
    with pytest.warns(BrokenLinkWarning, match="can't be opened: .*JSON"), ZarrIO(linked) as io:
        io.read_builder()


def test_a_link_to_old_data_without_identities_is_found_by_the_name_references_have_for_the_store(
    stores: Path, tmp_path: Path
) -> None:
    """Release 0.10.0 called a store by the name of its directory, in links without identities."""
    shutil.copytree(stores / "v2-h010-legacy" / "a.nwb.zarr", tmp_path / "renamed")
    group = open_store(tmp_path / "renamed").links("/general/extracellular_ephys/g")
    assert (group["device"].source, group["device"].source_object_id) == ("a.nwb.zarr", None)
    assert broken_links(tmp_path / "renamed") == []
    shutil.copytree(stores / "v2-h010-legacy" / "b.nwb.zarr", tmp_path / "b")  # links to a.nwb.zarr
    assert len(broken_links(tmp_path / "b")) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_is_free_of_its_source(tmp_path: Path, format: str) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w", format=format) as io:
        io.write(file_of("intervals"))
    with (
        NWBZarrIO(tmp_path / "a.nwb.zarr") as source,
        NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w", format=format) as io,
    ):
        io.export(source)
    shutil.rmtree(tmp_path / "a.nwb.zarr")
    with NWBZarrIO(tmp_path / "b.nwb.zarr", strict_links=True) as io:
        nwb = io.read()
        assert nwb.trials["timeseries"][1][0].timeseries is nwb.acquisition["ts"]
        assert nwb.acquisition["shared"].timestamps is not None


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["a", "z"])  # before and after the series that has the data
@pytest.mark.parametrize("link_data", [None, False])
def test_an_export_writes_data_that_is_shared_once(
    tmp_path: Path, format: str, name: str, link_data: bool | None
) -> None:
    """As hdmf and hdmf-zarr do; all is copied where ``link_data=False`` says so."""
    write_raw(tmp_path / "a.nwb.zarr", format)
    out = tmp_path / "b.nwb.zarr"
    arguments: dict[str, Any] = {} if link_data is None else {"write_args": {"link_data": link_data}}
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as source, NWBZarrIO(out, mode="w", format=format) as io:
        nwb = source.read()
        nwb.add_acquisition(TimeSeries(name, nwb.acquisition["src"].data, "V", rate=1.0))
        io.export(source, container=nwb, **arguments)
    links = open_store(str(out)).links(f"/acquisition/{name}")
    assert list(links) == ([] if link_data is False else ["data"])
    with NWBZarrIO(out, strict_links=True) as io:
        acquisition = io.read().acquisition
        assert (acquisition[name].data == acquisition["src"].data) is bool(links)
        np.testing.assert_array_equal(acquisition[name].data[()], np.arange(12.0).reshape(6, 2))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("link_data", [None, False])
def test_an_export_links_to_data_of_a_third_store(
    tmp_path: Path, format: str, link_data: bool | None
) -> None:
    write_raw(tmp_path / "raw.nwb.zarr", format)
    write_raw(tmp_path / "a.nwb.zarr", format)
    out = tmp_path / "sub" / "b.nwb.zarr"
    arguments: dict[str, Any] = {} if link_data is None else {"write_args": {"link_data": link_data}}
    manager = get_manager()
    with (
        NWBZarrIO(tmp_path / "raw.nwb.zarr", manager=manager) as third,
        NWBZarrIO(tmp_path / "a.nwb.zarr", manager=manager) as source,
        NWBZarrIO(out, mode="w", format=format) as io,
    ):
        nwb = source.read()
        data = third.read().acquisition["src"].data
        nwb.add_acquisition(TimeSeries("shares", data, "V", timestamps=np.arange(6.0)))
        io.export(source, container=nwb, **arguments)
    links = open_store(str(out)).links("/acquisition/shares")
    assert {n: to.source for n, to in links.items()} == (
        {} if link_data is False else {"data": "../../raw.nwb.zarr"}
    )
    check(out)


def test_an_export_may_link_to_its_source(tmp_path: Path) -> None:
    write_raw(tmp_path / "a.nwb.zarr", "zarr3")
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as source, NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w") as io:
        io.export(source, write_args={"link_data": True})
    assert (
        open_store(str(tmp_path / "b.nwb.zarr")).links("/acquisition/src")["data"].source == "../a.nwb.zarr"
    )
    with NWBZarrIO(tmp_path / "b.nwb.zarr", strict_links=True) as io:
        np.testing.assert_array_equal(io.read().acquisition["src"].data[2], [4.0, 5.0])


def test_conversion_keeps_links_to_other_stores(tmp_path: Path) -> None:
    write_raw(tmp_path / "raw.nwb.zarr", "zarr3")
    write_linked(tmp_path / "b.nwb.zarr", tmp_path / "raw.nwb.zarr", "zarr2")
    convert(tmp_path / "b.nwb.zarr", tmp_path / "sub" / "c.nwb.zarr", format="zarr3")
    check(tmp_path / "sub" / "c.nwb.zarr")


def test_a_store_reached_through_a_symbolic_link_is_the_same_store(tmp_path: Path) -> None:
    """An unresolved link made an export of hdmf-zarr consist of nothing but links."""
    write_raw(tmp_path / "a.nwb.zarr", "zarr3")
    (tmp_path / "alias.nwb.zarr").symlink_to(tmp_path / "a.nwb.zarr")
    with NWBZarrIO(tmp_path / "alias.nwb.zarr") as source, NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w") as io:
        io.export(source)
    assert open_store(str(tmp_path / "b.nwb.zarr")).links("/acquisition/src") == {}


def test_cycles_end_and_a_link_may_lead_to_a_link(tmp_path: Path) -> None:
    inner = GroupBuilder("inner")
    outer = GroupBuilder("outer", groups=[inner])
    inner.set_link(LinkBuilder(outer, "up"))
    outer.set_link(LinkBuilder(inner, "down"))
    root = GroupBuilder("root", groups=[outer], datasets=[DatasetBuilder("d", np.arange(3))])
    with ZarrIO(tmp_path / "a.zarr", mode="w") as io:
        io.write_builder(root)
        from chunkwise.hdmf import Reference

        assert io._writer is not None
        io._writer.group("/", {}, {"first": Reference("/second"), "second": Reference("/outer/down/up")})
        io._writer.finish(consolidate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BrokenLinkWarning)
        with ZarrIO(tmp_path / "a.zarr") as io:
            read = io.read_builder()
            assert read.groups["outer"].groups["inner"].links["up"].builder is read.groups["outer"]


@pytest.mark.parametrize(
    ("base", "source", "parent", "joined"),
    [
        ("/d/a.zarr", "../b.zarr", False, "/d/b.zarr"),
        ("/d/a.zarr", "..\\b.zarr", False, "/d/b.zarr"),
        ("/d/a.zarr", "a.zarr", True, "/d/a.zarr"),
        ("s3://bucket/x/a.zarr", "../../b.zarr", False, "s3://bucket/b.zarr"),
        ("s3://bucket/x/a.zarr", "..\\b.zarr", False, "s3://bucket/x/b.zarr"),
        ("https://h/x/a.zarr?sig=1", "../b.zarr", False, "https://h/x/b.zarr?sig=1"),
        ("s3://bucket/a.zarr", "../../b.zarr", False, None),
        ("s3://bucket/x/a.zarr", "./y/./b.zarr", True, "s3://bucket/x/y/b.zarr"),
        ("s3://bucket/x/a.zarr", "https://h/b.zarr", False, "https://h/b.zarr"),
        ("s3://bucket/x/a.zarr", "/b.zarr", False, "/b.zarr"),
        (
            "zip+s3://bucket/x/a.zip|zip:in/a.zarr",
            "../b.zarr",
            False,
            "zip+s3://bucket/x/a.zip|zip:/in/b.zarr",
        ),
    ],
)
def test_sources_are_joined_by_the_rules_of_paths_and_urls(
    base: str, source: str, parent: bool, joined: Any
) -> None:
    assert join_source(base, source, from_parent=parent) == joined


@pytest.mark.parametrize("base", ["/d/a.zarr", "s3://bucket/x/a.zarr"])
@pytest.mark.parametrize("parent", [False, True])
def test_a_path_on_a_drive_is_told_as_it_is_written(base: str, parent: bool) -> None:
    """Elsewhere than on Windows nothing is there, and messages name it."""
    joined = join_source(base, "C:\\data\\b.zarr", from_parent=parent)
    assert joined is not None and joined.endswith("C:\\data\\b.zarr")


def test_sources_are_written_relative() -> None:
    assert relative_source("/d/raw.zarr", "/d/sub/p.zarr") == "../../raw.zarr"
    assert relative_source("s3://b/x/raw.zarr", "s3://b/p.zarr") == "../x/raw.zarr"
    assert relative_source("s3://b/raw.zarr", "s3://c/p.zarr") is None
    assert relative_source("/d/a.zarr", "/d/a.zarr") == "."
    assert relative_source("/d/a.zarr", "s3://b/p.zarr") is None


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_with_links_to_data_is_read(tmp_path: Path, format: str) -> None:
    source, target = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    with NWBZarrIO(source, mode="w", format=format) as io:
        io.write(file_of("ecephys"))
    with NWBZarrIO(source) as raw, NWBZarrIO(target, mode="w", format=format) as io:
        io.export(raw, write_args={"link_data": True})
    links = open_store(target).links("/acquisition/raw")
    assert links["data"].source == "../raw.nwb.zarr"
    # A column that is a link would be an object of the other file.
    assert open_store(target).links("/units") == {}
    for moved in (tmp_path, tmp_path / "elsewhere"):
        if moved != tmp_path:
            moved.mkdir()
            shutil.move(source, moved)
            shutil.move(target, moved)
        with NWBZarrIO(moved / target.name, strict_links=True) as io:
            nwb = io.read()
            series = nwb.acquisition["raw"]
            np.testing.assert_array_equal(series.data[3], [9, 10, 11])
            assert series.data.dataset.store.source == str(moved / source.name)
            assert len(nwb.units["spike_times"][1]) == 2
            assert series.parent is nwb


def test_a_group_that_is_built_after_a_dataset_of_it_has_the_dataset(tmp_path: Path) -> None:
    values = DatasetBuilder("values", np.arange(3))
    group = GroupBuilder("group", datasets={"values": values})
    with ZarrIO(tmp_path / "a.zarr", mode="w") as io:
        io.write_builder(GroupBuilder("root", groups={"group": group}))
    with ZarrIO(tmp_path / "a.zarr") as a, ZarrIO(tmp_path / "b.zarr", mode="w") as io:
        found = a.read_builder().groups["group"]
        links = {
            "first": LinkBuilder(found.datasets["values"], "first"),
            "second": LinkBuilder(found, "second"),
        }
        io.write_builder(GroupBuilder("root", links=links))
    with ZarrIO(tmp_path / "b.zarr") as io:
        root = io.read_builder()
        assert root.links["second"].builder.datasets["values"] is root.links["first"].builder
        assert root.links["first"].builder.parent is root.links["second"].builder


@pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}])
def test_a_link_without_a_name_is_called_as_its_target(tmp_path: Path, name: dict[str, Any]) -> None:
    path = tmp_path / "a.zarr"
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", np.arange(3))], groups=[GroupBuilder("g")])
    root.set_attribute("data_type", "File")
    with ZarrIO(path, mode="w", format="zarr2") as io:
        io.write_builder(root, consolidate_metadata=False)
    links = [{**name, "source": ".", "path": "/d"}, {**name, "source": "../gone.zarr", "path": "/x/data"}]
    (path / "g" / ".zattrs").write_text(json.dumps({"zarr_link": links}))
    with pytest.warns(BrokenLinkWarning, match='link "data" of group /g .*gone.zarr'), ZarrIO(path) as io:
        assert set(io.read_builder().groups["g"].links) == {"d"}
        assert len(io.broken_links) == 1
    assert len(broken_links(path)) == 1
    with pytest.raises(ValueError, match="Found bad link to object /x/data"):
        ZarrIO(path, strict_links=True).read_builder()


@pytest.mark.parametrize(
    "links",
    [
        [{"name": 5, "source": ".", "path": "/d"}],
        [{"name": "a", "source": ".", "path": "/d"}, {"name": "a", "source": ".", "path": "/g"}],
        ["d"],
        "d",
    ],
)
def test_links_that_can_not_be_told_are_reported_and_the_rest_is_read(tmp_path: Path, links: Any) -> None:
    path = tmp_path / "a.zarr"
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", np.arange(3))], groups=[GroupBuilder("g")])
    root.set_attribute("data_type", "File")
    with ZarrIO(path, mode="w", format="zarr2") as io:
        io.write_builder(root, consolidate_metadata=False)
    (path / "g" / ".zattrs").write_text(json.dumps({"zarr_link": links}))
    with pytest.warns(BrokenLinkWarning, match='group "/g"'), ZarrIO(path) as io:
        assert io.read_builder().groups["g"].links == {}
    assert len(broken_links(path)) == 1
    with pytest.raises(ValueError, match=r'Found bad link .*group "/g"'):
        ZarrIO(path, strict_links=True).read_builder()


@pytest.mark.parametrize("target", ["copy.nwb.zarr", "copy.nwb"])
def test_what_a_copy_would_lack_is_named_and_nothing_is_written(tmp_path: Path, target: str) -> None:
    raw, linked, copy = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr", tmp_path / target
    write_raw(raw, "zarr2")
    write_with_link(linked, raw, "/acquisition/src", "zarr2", reference=True)
    shutil.rmtree(raw)
    with pytest.raises(BrokenLinkError, match=r' 2 broken(.|\n)*link "link" of group /acquisition'):
        convert(linked, copy)
    assert not copy.exists()
    with pytest.warns(BrokenLinkWarning):
        convert(linked, tmp_path / "rest.nwb.zarr", drop_broken_links=True)
    assert broken_links(tmp_path / "rest.nwb.zarr") == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_container_linked_from_another_file_belongs_to_the_file_that_links(
    tmp_path: Path, format: str
) -> None:
    # As hdmf's HDF5 backend and hdmf-zarr have it: it is an object of the file, and its parent is there.
    source, target = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    with NWBZarrIO(source, mode="w", format=format) as io:
        io.write(file_of("ecephys"))
    with NWBZarrIO(source) as raw:
        linking = new_file("linking")
        linking.add_acquisition(raw.read().acquisition["raw"])
        with NWBZarrIO(target, mode="w", format=format, manager=raw.manager) as io:
            io.write(linking)
    root_id = open_store(source).object_id
    assert open_store(target).links("/acquisition")["raw"].source_object_id == root_id
    with NWBZarrIO(target, strict_links=True) as io:
        nwb = io.read()
        series = nwb.acquisition["raw"]
        assert series.parent is nwb and nwb.objects[series.object_id] is series
        third = tmp_path / "third.nwb.zarr"
        again = new_file("again")
        again.add_acquisition(series)
        with NWBZarrIO(third, mode="w", format=format, manager=io.manager) as other:
            other.write(again)
    link = open_store(third).links("/acquisition")["raw"]
    assert (link.source, link.source_object_id) == ("../raw.nwb.zarr", root_id)
