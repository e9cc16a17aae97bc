"""The type map that reads files answers as hdmf's own, and reading leaves the collector as it was."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pynwb
import pytest
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder
from nwb_content import CONTENT, file_of

from chunkwise.hdmf import NWBZarrIO
from chunkwise.hdmf.backend.nwb import StoreBuildManager, StoreTypeMap
from chunkwise.hdmf.model.place import place_of
from chunkwise.hdmf.model.tree import read_tree

pytestmark = pytest.mark.filterwarnings("ignore")


def builders(group: GroupBuilder) -> Any:
    yield group
    yield from group.datasets.values()
    yield from group.links.values()
    for below in group.groups.values():
        yield from builders(below)


def answers(manager: BuildManager, builder: Any) -> list[Any]:
    out = []
    for ask in (manager.get_builder_dt, manager.get_builder_ns, manager.get_cls):
        try:
            out.append(ask(builder))
        except (TypeError, ValueError) as e:
            out.append(type(e))
    return out


@pytest.mark.parametrize("name", CONTENT)
def test_each_builder_has_the_type_and_class_that_hdmf_says(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, mode="w") as io:
        io.write(file_of(name))
    own, theirs = StoreBuildManager(StoreTypeMap(pynwb.get_type_map())), pynwb.get_manager()
    with NWBZarrIO(path) as io:
        found = list(builders(io.read_builder()))
        assert len(found) > 10
        for builder in found:
            assert answers(own, builder) == answers(theirs, builder), builder.path
        assert type(io.manager) is StoreBuildManager


def test_what_is_no_plain_builder_is_answered_as_hdmf_does() -> None:
    own, theirs = StoreBuildManager(StoreTypeMap(pynwb.get_type_map())), pynwb.get_manager()
    series = {"neurodata_type": b"TimeSeries", "namespace": "core"}
    untyped, typed = GroupBuilder("a"), GroupBuilder("b", attributes=series)
    for builder in (untyped, typed, DatasetBuilder("d", 1), LinkBuilder(typed, "l"), "text", None):
        assert answers(own, builder) == answers(theirs, builder)
    assert own.get_cls(typed) is pynwb.TimeSeries


def test_a_class_that_is_registered_later_counts() -> None:
    manager = StoreBuildManager(StoreTypeMap(pynwb.get_type_map()))
    builder = GroupBuilder("b", attributes={"neurodata_type": "TimeSeries", "namespace": "core"})
    assert manager.get_cls(builder) is pynwb.TimeSeries

    class Later(pynwb.TimeSeries):
        pass

    manager.type_map.register_container_type("core", "TimeSeries", Later)
    assert manager.get_cls(builder) is Later
    assert pynwb.get_manager().get_cls(builder) is pynwb.TimeSeries


def test_reading_leaves_the_collector_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NWBZarrIO(tmp_path / "a", "w") as io:
        io.write(file_of("intervals"))
    switched: list[str] = []
    monkeypatch.setattr(gc, "disable", lambda: switched.append("off"))
    monkeypatch.setattr(gc, "enable", lambda: switched.append("on"))
    with NWBZarrIO(tmp_path / "a") as io:
        assert len(io.read().trials["timeseries"][:]) == 3
    assert switched == []


def test_a_file_is_opened_again_with_what_it_holds_then(tmp_path: Path) -> None:
    path = tmp_path / "a.nwb.zarr"
    first, second = list(CONTENT)[:2]
    with NWBZarrIO(path, mode="w") as io:
        io.write(file_of(first))
    io = NWBZarrIO(path)
    before = io.read_builder()
    io.close()
    with NWBZarrIO(path, mode="w") as other:
        other.write(file_of(second))
    io.open()
    after = io.read_builder()
    io.close()
    assert before.attributes["object_id"] != after.attributes["object_id"]


def test_consolidated_names_with_and_without_a_slash_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, mode="w", format="zarr2") as io:
        io.write(file_of(next(iter(CONTENT))))
    expected = read_tree(place_of(path), "zarr2").nodes
    document = json.loads((path / ".zmetadata").read_text())
    metadata = document["metadata"]
    document["metadata"] = {
        f"/{key}" if key.endswith(".zattrs") else key: value for key, value in metadata.items()
    }
    (path / ".zmetadata").write_text(json.dumps(document))
    found = read_tree(place_of(path), "zarr2")
    assert found.consolidated
    assert {path: (node.is_array, node.attributes) for path, node in found.nodes.items()} == {
        path: (node.is_array, node.attributes) for path, node in expected.items()
    }
