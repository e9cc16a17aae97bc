"""The rest of the acceptance checklist: appending, specifications, validation, iterators, imports."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pynwb
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.data_utils import DataChunkIterator, GenericDataChunkIterator
from hdmf.spec import NamespaceCatalog
from nwb_content import file_of, new_file
from pynwb import TimeSeries
from pynwb.spec import NWBAttributeSpec, NWBDatasetSpec, NWBGroupSpec, NWBNamespaceBuilder

import chunkwise as cw
import chunkwise.hdmf
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, open_store, read_nwb, validate
from chunkwise.hdmf.backend.schema import cached_versions, put_specification

FORMATS = ("zarr2", "zarr3", "n5")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.each_once("format")]  # pynwb's own


def write(nwb: Any, path: Path, format: str, **options: Any) -> None:
    with NWBZarrIO(path, mode="w", format=format) as io:
        io.write(nwb, **options)


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_append_series_rows_and_references(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    nwb = file_of("ecephys")
    nwb.add_trial_column("cond", "d")
    series = TimeSeries(name="ts", data=np.arange(20.0), unit="V", rate=1.0)
    nwb.add_acquisition(series)
    nwb.add_trial(start_time=0.0, stop_time=1.0, cond="c0", timeseries=[series])
    write(nwb, path, format)
    with NWBZarrIO(path, mode="r+") as io:
        nwb = io.read()
        nwb.add_acquisition(TimeSeries(name="more", data=np.arange(5), unit="V", rate=1.0))
        nwb.add_electrode(group=nwb.electrode_groups["shank1"], location="CA3", x=9.0, label="new")
        nwb.add_trial(start_time=2.0, stop_time=3.0, cond="c1", timeseries=[nwb.acquisition["ts"]])
        nwb.acquisition["ts"].data.append(99.0)
        nwb.acquisition["ts"].data.extend([100.0, 101.0])
        io.write(nwb)
    for mode in ("r", "r-"):  # consolidated metadata was refreshed
        with NWBZarrIO(path, mode=mode, strict_links=True) as io:
            nwb = io.read()
            assert list(nwb.acquisition["more"].data[:]) == [0, 1, 2, 3, 4]
            assert len(nwb.electrodes) == 7
            assert nwb.electrodes["label"][6] == "new"
            assert nwb.electrodes["group"][6] is nwb.electrode_groups["shank1"]
            assert nwb.trials["cond"].data[:].tolist() == ["c0", "c1"]
            assert nwb.trials["timeseries"][1][0].timeseries is nwb.acquisition["ts"]
            assert nwb.acquisition["ts"].data[-3:].tolist() == [99.0, 100.0, 101.0]
    if format != "n5":
        assert open_store(str(path)).tree.consolidated
        assert open_store(str(path), consolidated="check").tree.consolidated


def extension(directory: Path) -> Any:
    builder = NWBNamespaceBuilder("an extension", "ndx-lab", version="0.1.0", author="a", contact="c")
    builder.include_type("TimeSeries", namespace="core")
    series = NWBGroupSpec(
        "a series with more",
        neurodata_type_def="LabSeries",
        neurodata_type_inc="TimeSeries",
        attributes=[
            NWBAttributeSpec("gain", "a number", "uint32"),
            NWBAttributeSpec("label", "text", "text"),
        ],
        datasets=[
            NWBDatasetSpec(
                "ascii text", name="codes", dtype="ascii", shape=(None,), dims=("n",), quantity="?"
            ),
            NWBDatasetSpec(
                "dates", name="times", dtype="isodatetime", shape=(None,), dims=("n",), quantity="?"
            ),
        ],
    )
    builder.add_spec("ndx-lab.extensions.yaml", series)
    builder.export("ndx-lab.namespace.yaml", outdir=str(directory))
    return str(directory / "ndx-lab.namespace.yaml")


WITHOUT = """
import sys, warnings
warnings.simplefilter("ignore")
from chunkwise.hdmf import NWBZarrIO
for format in ("zarr2", "zarr3", "n5"):
    with NWBZarrIO(f"{sys.argv[1]}/{format}.nwb.zarr") as io:
        series = io.read().acquisition["lab"]
        print(type(series).__name__, int(series.gain), series.label, list(series.codes), len(series.times))
"""


WITH = """
import sys, warnings
warnings.simplefilter("ignore")
from datetime import UTC, datetime
import numpy as np, pynwb
from chunkwise.hdmf import NWBZarrIO
pynwb.load_namespaces(sys.argv[1])
cls = pynwb.get_class("LabSeries", "ndx-lab")
for format in ("zarr2", "zarr3", "n5"):
    start = datetime(2024, 3, 1, tzinfo=UTC)
    nwb = pynwb.NWBFile("d", "id", start)
    data = dict(name="lab", data=[1.0, 2.0], unit="V", rate=1.0, gain=np.uint32(7), label="ünï")
    nwb.add_acquisition(cls(**data, codes=[b"ab", b"c"], times=[start]))
    with NWBZarrIO(f"{sys.argv[2]}/{format}.nwb.zarr", mode="w", format=format) as io:
        io.write(nwb)
"""


@pytest.fixture(scope="module")
def of_extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of an extension and of files that another process has written with it."""
    place = tmp_path_factory.mktemp("extension")
    subprocess.run([sys.executable, "-c", WITH, extension(place), str(place)], timeout=280, check=True)
    return place


def test_checklist_cached_namespace_of_an_extension_that_is_not_installed(of_extension: Path) -> None:
    """Processes of their own, since an extension stays loaded."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(of_extension)], capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "LabSeries 7 ünï [b'ab', b'c'] 1\n" * 3, done.stderr


EXTENDED = """
import sys
from pathlib import Path
from hdmf.build import TypeMap
from chunkwise.hdmf import NWBZarrIO
path = sys.argv[2] + "/zarr3.nwb.zarr"
with NWBZarrIO(path, extensions=sys.argv[1]) as io:
    print(type(io.read().acquisition["lab"]).__name__)
    extended = io.manager.type_map
with NWBZarrIO(path, extensions=[extended, Path(sys.argv[1])]) as io:
    print(type(io.read().acquisition["lab"]).__name__)
"""


def test_extensions_are_files_of_namespaces_or_type_maps(of_extension: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXTENDED, str(of_extension / "ndx-lab.namespace.yaml"), str(of_extension)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.stdout == "LabSeries\n" * 2, done.stderr


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_two_cached_versions_the_newer_is_used(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    write(new_file(), path, format)
    current = pynwb.get_type_map().namespace_catalog.get_namespace("core").version
    older = {"2.0.9", "2.0.10", "unversioned"}
    with NWBZarrIO(path, mode="r+") as io:
        assert io._writer is not None
        for version in older:
            io._writer.group(f"/specifications/core/{version}", {}, {})
            put_specification(
                io._writer, f"/specifications/core/{version}/namespace", json.dumps({"namespaces": []})
            )
    store = open_store(str(path))
    assert set(store.names("/specifications/core")) == {*older, current}
    assert cached_versions(store)["core"] == current
    assert read_nwb(path).identifier == "content"
    del cw.open_group(path, "r+")[f"specifications/core/{current}"]
    assert cached_versions(open_store(str(path)))["core"] == "2.0.10"


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_missing_group_of_specifications(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    write(new_file(), path, format)
    del cw.open_group(path, "r+")["specifications"]
    assert open_store(str(path)).specloc == "/specifications"
    assert read_nwb(path).identifier == "content"
    with pytest.warns(UserWarning, match="No cached namespaces found"):
        assert ZarrIO.load_namespaces(NamespaceCatalog(), str(path)) == {}


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_validate_knows_unsigned_attributes(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    write(file_of("icephys"), path, format)
    assert validate(path) == []
    with NWBZarrIO(path) as io:
        sweep = io.read_builder().groups["acquisition"].groups["resp1"].attributes["sweep_number"]
        assert isinstance(sweep, np.uint32 | np.uint64)
    with NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w", format=format, attribute_types=False) as io:
        io.write(file_of("icephys"))
    assert any("sweep_number" in str(e) for e in validate(tmp_path / "b.nwb.zarr"))


class Frames(GenericDataChunkIterator):
    def __init__(self, array: Any, **options: Any) -> None:
        self.array = array
        super().__init__(**options)

    def _get_data(self, selection: Any) -> Any:
        return self.array[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return self.array.shape

    def _get_dtype(self) -> Any:
        return self.array.dtype


@pytest.mark.parametrize("exhaust", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_iterators_of_known_and_unknown_length_are_streamed(
    tmp_path: Path, format: str, exhaust: bool
) -> None:
    array = np.arange(12 * 5, dtype="i4").reshape(12, 5)
    flags = [bool(i % 3) for i in range(7)]
    seen: list[tuple[str, int, Any]] = []
    builder = GroupBuilder(
        "root",
        attributes={"a": 1},
        datasets=[
            DatasetBuilder("generic", Frames(array, buffer_shape=(4, 5), chunk_shape=(2, 5)), dtype="int32"),
            DatasetBuilder("columns", Frames(array, buffer_shape=(12, 2), chunk_shape=(3, 2)), dtype="int32"),
            DatasetBuilder("unknown", DataChunkIterator(data=(row for row in array), buffer_size=3)),
            DatasetBuilder("flags", DataChunkIterator(data=(f for f in flags), buffer_size=2)),
            DatasetBuilder("holes", DataChunkIterator(data=[array[0], None, array[2]], buffer_size=1)),
            DatasetBuilder("text", DataChunkIterator(data=["a", "bb", "ünï"], buffer_size=2), dtype="utf8"),
        ],
    )
    with ZarrIO(
        tmp_path / "a.zarr", mode="w", format=format, buffer_nbytes=100, progress=lambda *a: seen.append(a)
    ) as io:
        io.write_builder(builder, exhaust_dci=exhaust)
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = {name: b.data for name, b in io.read_builder().datasets.items()}
        for name in ("generic", "columns", "unknown"):
            np.testing.assert_array_equal(data[name][()], array, err_msg=name)
        assert data["generic"].chunks == (2, 5)
        assert data["flags"].dtype == bool and data["flags"][()].tolist() == flags
        np.testing.assert_array_equal(data["holes"][()], np.stack([array[0], array[0] * 0, array[2]]))
        assert list(data["text"]) == ["a", "bb", "ünï"]
    assert {path for path, _, _ in seen} >= {"/generic", "/unknown"}
    assert max(done for path, done, _ in seen if path == "/generic") == 12


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    (
        "zarr2",
        {
            "chunks": (3, 2),
            "compressor": {"id": "zlib", "level": 3},
            "filters": [{"id": "delta", "dtype": "<i4"}],
        },
    ),
    ("zarr2", {"compressor": False, "fillvalue": 7}),
    ("zarr3", {"chunks": (3, 2), "compressors": [{"name": "gzip", "configuration": {"level": 2}}]}),
    ("zarr3", {"chunks": (3, 2), "shards": (6, 4), "compressor": {"id": "blosc", "cname": "zstd"}}),
    ("zarr3", {"chunks": (2, 2), "shards": "auto"}),
    ("n5", {"chunks": (3, 2), "compressor": "zstd"}),
]


@pytest.mark.parametrize(("format", "options"), SETTINGS, ids=str)
def test_data_io_says_how_data_is_stored(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    array = np.arange(48, dtype="i4").reshape(12, 4)
    wrapped = ZarrDataIO(array, **options)
    again = ZarrDataIO(data=array, **wrapped.get_io_params())
    assert again.settings == wrapped.settings
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", wrapped)]))
    store = open_store(str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(store.dataset("/d").read(), array)
    if "chunks" in options:
        assert store.dataset("/d").physical.inner_chunk_shape == options["chunks"]
    if options.get("shards") == (6, 4):
        assert store.dataset("/d").physical.chunk_shape == (6, 4)
    document = store.tree.nodes["/d"].document
    if "fillvalue" in options:
        assert document["fill_value"] == 7 and document["compressor"] is None


def test_h5_settings_are_kept_with_compression_as_compressor(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as f:
        dataset = f.create_dataset(
            "d", data=np.arange(100, dtype="i4"), chunks=(30,), compression="gzip", shuffle=True
        )
        with ZarrIO(tmp_path / "a.zarr", mode="w", format=2) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", dataset)]))
    document = open_store(str(tmp_path / "a.zarr")).tree.nodes["/d"].document
    assert document["chunks"] == [30]
    assert document["compressor"] == {"id": "gzip", "level": 4}
    assert document["filters"] == [{"id": "shuffle", "elementsize": 4}]


def test_modes_and_overwriting(tmp_path: Path) -> None:
    path = tmp_path / "a.nwb.zarr"
    with pytest.raises(FileNotFoundError):
        NWBZarrIO(path, mode="r")
    write(new_file("one"), path, "zarr3")
    for mode in ("w-", "x"):
        with pytest.raises(FileExistsError):
            NWBZarrIO(path, mode=mode)
    write(new_file("two"), path, "zarr2")
    assert read_nwb(path).identifier == "two"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    with pytest.raises(FileExistsError, match="force_overwrite"):
        NWBZarrIO(tmp_path / "data", mode="w")
    assert (tmp_path / "data" / "precious").exists()
    with NWBZarrIO(path) as io, pytest.raises(Exception, match="Cannot write"):
        io.write_builder(GroupBuilder("root"))
    with pytest.raises(ValueError, match="mode"):
        NWBZarrIO(path, mode="rw")


def test_a_write_that_fails_leaves_no_store_behind(tmp_path: Path) -> None:
    """The root comes last: what was interrupted is not taken for a file, and can be written again."""
    path = tmp_path / "a.nwb.zarr"
    bad = GroupBuilder(
        "root",
        attributes={"a": 1},
        datasets=[DatasetBuilder("good", np.arange(3)), DatasetBuilder("bad", [[1], [1, 2]])],
    )
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match="bad"), ZarrIO(path, mode="w") as io:
            io.write_builder(bad)
        assert not ZarrIO.can_read(path)
        with pytest.raises(FileNotFoundError):
            ZarrIO(path)
    write(new_file(), path, "zarr3")
    assert NWBZarrIO.can_read(path)


def test_reserved_names_and_values_without_a_form_are_refused(tmp_path: Path) -> None:
    for attributes, error in (({"zarr_dtype": "x"}, ValueError), ({"a": object()}, TypeError)):
        with pytest.raises(error, match=r"zarr_dtype|\"a\""), ZarrIO(tmp_path / "a.zarr", mode="w") as io:
            io.write_builder(GroupBuilder("root", attributes=attributes))


def test_any_kvstore_is_a_place(tmp_path: Path) -> None:
    import chunkwise as ts

    for url in ("memory://box/", f"file://{tmp_path}/in-a-store/"):
        store = ts.KvStore.open(url).result()
        nwb = file_of("intervals")
        with NWBZarrIO(store, mode="w") as io:
            io.write(nwb)
        with NWBZarrIO(store) as io:
            read = io.read()
            assert read.trials["timeseries"][1][0].timeseries is read.acquisition["ts"]
            assert read.trials["cond"][2] == "c2"


def test_pickled_references_are_for_readers_that_take_nothing_else(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w", format=2, object_codec="pickle") as io:
        io.write(file_of("ecephys"))
    store = open_store(str(tmp_path / "a.nwb.zarr"))
    document = store.tree.nodes["/general/extracellular_ephys/electrodes/group"].document
    assert document["filters"][0]["id"] == "pickle"
    nwb = read_nwb(tmp_path / "a.nwb.zarr")
    assert nwb.electrodes["group"][1] is nwb.electrode_groups["shank1"]


def test_hdf5_data_io_is_understood(tmp_path: Path) -> None:
    from hdmf.backends.hdf5 import H5DataIO

    nwb = new_file()
    data = H5DataIO(np.arange(1000, dtype="i4"), compression="gzip", shuffle=True, chunks=(100,))
    nwb.add_acquisition(TimeSeries(name="ts", data=data, unit="V", rate=1.0))
    write(nwb, tmp_path / "a.nwb.zarr", "zarr2")
    document = open_store(str(tmp_path / "a.nwb.zarr")).tree.nodes["/acquisition/ts/data"].document
    assert (document["chunks"], document["compressor"]["id"]) == ([100], "gzip")


def test_checklist_the_package_imports_neither_zarr_nor_hdmf_zarr_nor_pickle() -> None:
    for path in Path(chunkwise.hdmf.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            roots = {name.partition(".")[0] for name in names}
            assert not roots & {"zarr", "hdmf_zarr", "pickle", "cPickle", "dill"}, path


HOOK = """
import builtins, sys, warnings
warnings.simplefilter("ignore")
real, seen = builtins.__import__, []
def hook(name, globals=None, *args, **kwargs):
    who = (globals or {}).get("__name__") or ""
    foreign = name.partition(".")[0] in ("zarr", "hdmf_zarr", "pickle", "_pickle")
    if foreign and who.startswith("chunkwise.hdmf"):
        seen.append((who, name))
    return real(name, globals, *args, **kwargs)
builtins.__import__ = hook
from chunkwise.hdmf import *
import numcodecs.pickles, pynwb  # pynwb has a cache of its own, which is none of ours
def refuse(*args, **kwargs):
    raise AssertionError("a pickle was decoded")
import pickle
pickle.loads = pickle.load = pickle.Unpickler = numcodecs.pickles.Pickle.decode = refuse
nwb = read_nwb(sys.argv[1])
assert nwb.electrodes["group"][0] is nwb.electrode_groups["g"]
print(seen, "zarr" in sys.modules, "hdmf_zarr" in sys.modules)
"""


def test_checklist_nothing_is_imported_or_unpickled_while_a_pickled_file_is_read(stores: Path) -> None:
    path = str(stores / "v2-h010-legacy" / "a.nwb.zarr")  # of a schema that all releases of pynwb have
    done = subprocess.run([sys.executable, "-c", HOOK, path], capture_output=True, text=True, timeout=280)
    # hdmf itself imports zarr where it is installed, and is not ours to change.
    assert done.stdout.startswith("[]"), done.stdout + done.stderr
