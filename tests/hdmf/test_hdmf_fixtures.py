"""Stores that seven releases of hdmf-zarr wrote are read to the values in their manifest."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pynwb
import pytest
from hdmf.backends.hdf5 import HDF5IO
from nwb_fixtures import entries, name_of, plain, same, seen, without_ids

from chunkwise.errors import UnsupportedError
from chunkwise.hdmf import BrokenLinkWarning, NWBZarrIO, open_store
from chunkwise.hdmf.backend.conversion import open_source

NODES = entries("nodes")
CHECKS = entries("container_checks")
PYNWB = tuple(int(part) for part in pynwb.__version__.split(".")[:2])


@pytest.mark.parametrize("entry", NODES, ids=name_of)
def test_fixture_nodes_attributes_links_types_shapes_and_values(stores: Path, entry: dict[str, Any]) -> None:
    store = open_store(str(stores / name_of(entry)))
    assert store.format == f"zarr{entry['zarr_format']}"
    assert set(store.walk()) == set(entry["nodes"])
    for path, expected in entry["nodes"].items():
        assert plain(store.attributes(path)) == without_ids(expected["attrs"]), path
        if expected["kind"] == "group":
            links = {name: {"path": to.path, "source": to.source} for name, to in store.links(path).items()}
            assert links == expected.get("links", {}), path
            continue
        dataset = store.dataset(path)
        assert dataset.scalar == expected["scalar"], path
        assert list(dataset.shape) == expected["shape"], path
        values = dataset.read()
        if "value" in expected:
            assert plain(values.tolist()) == without_ids(expected["value"]), path
        elif "sha256_le_c" in expected:
            raw = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
            assert hashlib.sha256(raw).hexdigest() == expected["sha256_le_c"], path
        if isinstance(expected["dtype"], str) and expected["dtype"] != "scalar":
            attributes = store.tree.nodes[path].attributes
            word = attributes.get("_DTYPE", attributes.get("zarr_dtype")) or dataset.element.name
            assert word in (expected["dtype"], "object_reference"), path


@pytest.mark.parametrize("entry", entries("specifications"), ids=name_of)
def test_fixture_cached_specifications(stores: Path, entry: dict[str, Any]) -> None:
    store = open_store(str(stores / name_of(entry)))
    assert store.specifications() == "/" + entry["specloc"]
    for path, expected in entry["specifications"].items():
        text = store.dataset(path).value()
        assert len(text) == expected["chars"]
        assert hashlib.sha256(text.encode()).hexdigest() == expected["sha256_utf8"]
        json.loads(text)


@pytest.mark.parametrize("entry", CHECKS, ids=name_of)
def test_fixture_containers(stores: Path, tmp_path: Path, entry: dict[str, Any]) -> None:
    broken = entry["store"].endswith("links/exported.nwb.zarr") and entry["zarr_format"] == 2
    with warnings.catch_warnings():
        # What the releases warn of themselves: cached namespaces of other versions, dates of another time.
        warnings.simplefilter("ignore")
        if missing := types_that_pynwb_lacks(stores / name_of(entry)):
            is_read_from_no_format(stores / name_of(entry), missing, tmp_path)
            return
        with NWBZarrIO(str(stores / name_of(entry))) as io:
            nwb = io.read()
            for check in entry["container_checks"]:
                value = seen(eval(check["expr"], {"nwb": nwb, "np": np}))
                assert same(value, check["expect"]), check["expr"]
            assert bool(io.broken_links) == broken


def types_that_pynwb_lacks(path: Path) -> set[str]:
    """Return the types in a store that are not in the schema of an older release of pynwb."""
    store = open_store(str(path))
    attributes = [store.attributes(at) for at in store.walk()]
    used = {a["neurodata_type"] for a in attributes if a.get("namespace") == "core"}
    known = pynwb.get_type_map().namespace_catalog.get_namespace("core").get_registered_types()
    assert PYNWB[0] < 4 or used <= set(known)
    return used - set(known)


def is_read_from_no_format(path: Path, missing: set[str], tmp_path: Path) -> None:
    """The same objects in HDF5 are not read by pynwb either; here the error names both schemas."""
    with open_source(path) as source, HDF5IO(tmp_path / "same.nwb", "w", manager=source.manager) as io:
        io.write_builder(source.read_builder())
    names = "|".join(missing)
    with pytest.raises(ValueError, match=f"No specification for '({names})'"):
        pynwb.NWBHDF5IO(tmp_path / "same.nwb", "r").read()
    with (
        pytest.raises(UnsupportedError, match=rf'"({names})", which "core" .* the file is of 2\.\d+'),
        NWBZarrIO(path) as io,
    ):
        io.read()


def test_an_array_exported_as_a_link_to_itself_is_reported_and_the_rest_is_read(stores: Path) -> None:
    path = str(stores / "v2-h013-links" / "links" / "exported.nwb.zarr")
    with pytest.warns(BrokenLinkWarning, match="file_create_date"), NWBZarrIO(path) as io:
        nwb = io.read()
        assert nwb.identifier == "fx-processed"
        assert "file_create_date" in io.broken_links[0]
    with pytest.raises(ValueError, match="Found bad link to object /file_create_date"):
        NWBZarrIO(path, strict_links=True).read()


@pytest.mark.parametrize("release", ["v2-h010-legacy", "v2-h009-legacy"])
def test_moved_and_renamed_stores_of_old_releases(stores: Path, tmp_path: Path, release: str) -> None:
    """Release 0.10 names the store's own directory, exports of 0.9 the store they came from."""
    for name in ("a", "c"):
        moved = tmp_path / f"renamed-{name}.nwb.zarr"
        (stores / release / f"{name}.nwb.zarr").rename(moved)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with NWBZarrIO(moved) as io:
                    nwb = io.read()
                    assert nwb.electrodes["group"][0] is nwb.electrode_groups["g"]
                    assert nwb.trials["timeseries"][0][0][2] is nwb.acquisition["ts"]
                    assert io.broken_links == []
        finally:
            moved.rename(stores / release / f"{name}.nwb.zarr")
