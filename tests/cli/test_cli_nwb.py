"""``chunkwise nwb``: info, validate, convert and repack."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hdmf"))

from nwb_comparison import assert_equal
from nwb_content import file_of
from nwb_fixtures import unpack_all
from pynwb import NWBHDF5IO

import chunkwise
from chunkwise.cli.main import main
from chunkwise.hdmf import NWBZarrIO, convert, open_store, read_nwb


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pynwb warns of its own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "a.nwb.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with NWBZarrIO(path, mode="w", format="zarr3") as io:
            io.write(file_of("ecephys"))
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "a.nwb.zarr")


def test_info(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nwb", "info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "type: NWBFile" in text and "ElectricalSeries" in text and "namespace: core" in text
    assert main(["nwb", "info", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["types"]["ElectrodeGroup"]) == ("zarr3", 2)
    assert found["counts"]["references"] == 2


def test_validate_is_content_with_a_good_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nwb", "validate", str(path)]) == 0
    assert "all good" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0


def test_validate_names_broken_links_and_references(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del chunkwise.open_group(path, mode="r+")["general/extracellular_ephys/shank1"]
    assert main(["nwb", "validate", "--links-only", "--json", str(path)]) == 1
    broken = json.loads(capsys.readouterr().out)["broken"]
    assert any(text.startswith("reference 1 in dataset") and "shank1" in text for text in broken)
    assert main(["verify", str(path)]) == 1
    assert (
        "BAD   reference 1 in dataset /general/extracellular_ephys/electrodes/group"
        in capsys.readouterr().out
    )
    assert main(["verify", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert any(item["kind"] == "link" and "shank1" in item["bad"][0]["reason"] for item in found)


def test_validate_names_every_bad_link_of_the_hostile_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = unpack_all(tmp_path / "nwb") / "v2-hostile" / "bad_links.zarr"
    assert main(["nwb", "validate", "--links-only", str(store)]) == 1
    text = capsys.readouterr().out
    for group in ("missing_store", "missing_path", "absolute_source", "parent_escape", "path_dotdot"):
        assert f'link "x" of group /{group}' in text
    for group in ("good_link", "to_root", "self_cycle"):
        assert f"/{group}:" not in text


@pytest.mark.each_once("format")
@pytest.mark.parametrize("format", ["zarr2", "n5", "hdf5"])
def test_convert_there_and_back(path: Path, tmp_path: Path, format: str) -> None:
    there = tmp_path / ("b.nwb" if format == "hdf5" else "b.store")
    assert main(["nwb", "convert", str(path), str(there), "--format", format]) == 0
    assert main(["nwb", "convert", str(path), str(there), "--format", format]) == 1  # it exists
    back = tmp_path / "c.nwb.zarr"
    assert main(["nwb", "convert", str(there), str(back)]) == 0
    nwb = read_nwb(back)
    np.testing.assert_array_equal(nwb.acquisition["raw"].data[()], np.arange(60).reshape(20, 3))
    assert nwb.electrodes["group"][1] is nwb.electrode_groups["shank1"]


def test_repack_replaces_pickles(tmp_path: Path) -> None:
    path = unpack_all(tmp_path / "nwb") / "v2-h013-ecephys" / "ecephys.nwb.zarr"
    assert main(["nwb", "repack", str(path)]) == 0
    documents = [n.document for n in open_store(str(path)).tree.nodes.values() if n.is_array]
    assert not any(f["id"] == "pickle" for d in documents for f in d["filters"] or ())
    assert read_nwb(path).identifier == "fx-ecephys"
    assert sorted(p.name for p in path.parent.iterdir()) == ["ecephys.nwb.zarr"]
    assert main(["nwb", "repack", "--format", "zarr3", str(path)]) == 0
    assert open_store(str(path)).format == "zarr3"


def test_wrong_command_lines(path: Path, tmp_path: Path) -> None:
    assert main(["nwb"]) == 2
    assert main(["nwb", "repack", str(tmp_path / "none")]) == 2
    group = chunkwise.create_group(tmp_path / "other.zarr")
    array = group.create_array("a", [1, 2], dimension_names=["x"])  # HDMF has no place for the name
    assert main(["nwb", "repack", str(tmp_path / "other.zarr")]) == 2
    assert array.domain.labels == ("x",) and group.attrs == {} and list(group) == ["a"]
    assert main(["nwb", "info", str(tmp_path / "none")]) == 1
    assert main(["nwb", "convert", str(path), str(tmp_path / "x"), "--pickled-references"]) == 2


def test_info_of_hdf5_counts_what_info_of_a_store_does(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "b.nwb"
    assert main(["nwb", "convert", str(path), str(there)]) == 0
    found = []
    for place in (path, there):
        capsys.readouterr()
        assert main(["nwb", "info", "--json", str(place)]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[1]["format"] == "hdf5"
    for member in ("type", "nwb_version", "object_id", "namespaces", "counts", "types"):
        assert found[0][member] == found[1][member]
    assert main(["nwb", "info", str(there)]) == 0
    assert "format: hdf5" in capsys.readouterr().out


def test_what_is_no_nwb_file_is_told(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = ["create", str(tmp_path / "a"), "--format", "zarr3", "--shape", "3", "--dtype", "int8"]
    assert main(new) == 0
    assert main(["nwb", "validate", str(tmp_path / "a")]) == 1
    assert main(["nwb", "convert", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert capsys.readouterr().err.count("is an array, not a group") == 2
    assert not (tmp_path / "b").exists()
    assert main(["nwb", "validate", str(path / "processing")]) == 2
    assert "is no NWB file" in capsys.readouterr().err


def test_nothing_is_converted_onto_itself(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nwb", "convert", str(path), str(path), "--overwrite"]) == 1
    assert "which is the same" in capsys.readouterr().err
    assert main(["nwb", "validate", str(path)]) == 0


def test_help_says_what_each_argument_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nwb", "convert", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Copy to another format" in text and "store or HDF5 file to write" in text
    assert "else zarr3" in text


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    """A file of HDF5 with compressed data, with and without shuffling."""
    from hdmf.backends.hdf5 import H5DataIO
    from pynwb import NWBHDF5IO, TimeSeries

    file = file_of("ecephys")
    values = np.arange(40_000, dtype="i4").reshape(10_000, 4)
    for name, shuffle in (("plain", False), ("shuffled", True)):
        data = H5DataIO(values, compression="gzip", compression_opts=7, shuffle=shuffle, chunks=(1000, 4))
        file.add_acquisition(TimeSeries(name, data=data, unit="V", rate=1.0))
    with NWBHDF5IO(str(tmp_path / "a.nwb"), "w") as io:
        io.write(file)
    return tmp_path / "a.nwb"


@pytest.mark.parametrize("name", ["plain", "shuffled"])
def test_compressed_data_of_hdf5_is_for_everyone(compressed: Path, tmp_path: Path, name: str) -> None:
    """TensorStore, which knows no codec of numcodecs, reads what becomes of gzip, shuffled or not."""
    import tensorstore

    assert main(["nwb", "convert", str(compressed), str(tmp_path / "b.zarr"), "--quiet"]) == 0
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/b.zarr/acquisition/{name}/data/"}
    array = tensorstore.open(spec).result()
    assert np.array_equal(array.read().result(), np.arange(40_000).reshape(10_000, 4))
    codec = json.loads((tmp_path / f"b.zarr/acquisition/{name}/data/zarr.json").read_text())["codecs"][-1]
    if name == "plain":
        assert codec == {"name": "gzip", "configuration": {"level": 7}}
    else:
        assert codec["configuration"].items() >= {"cname": "zlib", "clevel": 7, "typesize": 4}.items()


@pytest.mark.parametrize(
    ("format", "codec", "member"),
    [("zarr3", "zstd", "codecs"), ("zarr2", "none", "compressor"), ("n5", "gzip", "compression")],
)
def test_the_codec_of_a_conversion(
    compressed: Path, tmp_path: Path, format: str, codec: str, member: str
) -> None:
    target = tmp_path / "b"
    command = ["nwb", "convert", str(compressed), str(target), "--format", format, "--codec", codec]
    assert main([*command, "--quiet"]) == 0
    document = open_store(str(target)).tree.nodes["/acquisition/plain/data"].document[member]
    found = document[-1]["name"] if format == "zarr3" else document and document["type"]
    assert found == (None if codec == "none" else codec)
    assert main(["nwb", "convert", str(compressed), str(tmp_path / "c.nwb"), "--codec", codec]) == 1


@pytest.mark.each_once("format")
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_options_of_a_conversion_are_stored_or_refused(
    compressed: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each form of a codec is what the arrays have afterwards, or an error before the target is made."""
    target = tmp_path / "b"
    command = ["nwb", "convert", str(compressed), str(target), "--format", format, "--quiet", "--codec"]
    for codec in (
        "none",
        "gzip:3",
        "blosc:zstd:4:shuffle",
        '{"name": "gzip", "configuration": {"level": 3}}',
    ):
        assert main([*command, codec]) == 0
        capsys.readouterr()
        assert main(["info", str(target / "acquisition/plain/data"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["codecs"]
        assert found == ([] if codec == "none" else ["gzip:3"] if codec[0] == "{" else [codec]), codec
        shutil.rmtree(target)
    for wrong in ("zsdt", '{"name": 5}', "{}", "gzip:99"):
        assert main([*command, wrong]) == 1 and "codec" in capsys.readouterr().err
        assert not target.exists()


def test_progress_of_a_conversion(compressed: Path, tmp_path: Path) -> None:
    told: list[int] = []
    convert(compressed, tmp_path / "b.zarr", progress=told.append)
    assert sum(told) >= 2 * 160_000  # and the small tables


@pytest.mark.parametrize("on", [[], ["--on", "threads:2", "--verify"]])
def test_events_of_a_conversion(
    compressed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], on: list[str]
) -> None:
    target = str(tmp_path / "b.zarr")
    assert main(["nwb", "convert", str(compressed), target, "--json", *on]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"written": target}
    assert ("everything was read again and compared" in err) == bool(on)
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [events[0]["event"], events[-1]["event"]] == ["begin", "end"]
    assert {event["what"] for event in events} == {"converting"}
    assert events[-1]["workers"] == (2 if on else None)
    assert events[-1]["bytes"] > 0
    assert main(["nwb", "repack", target, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["format"] == "zarr3"
    assert '"what": "repacking"' in err and '"event": "end"' in err


@pytest.mark.each_once
@pytest.mark.parametrize("source", ["zarr2", "zarr3", "n5", "hdf5"])
@pytest.mark.parametrize("target", ["zarr2", "zarr3", "n5"])
def test_cp_makes_an_nwb_file_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, target: str
) -> None:
    """A plain copy in another format leaves out text and references, or what they mean."""
    nwb = file_of("intervals")
    opened = NWBHDF5IO(tmp_path / "a", "w") if source == "hdf5" else None
    with opened or NWBZarrIO(tmp_path / "a", "w", format=source) as io:
        io.write(nwb)
    assert main(["cp", "-r", str(tmp_path / "a"), str(tmp_path / "b"), "--format", target, "--quiet"]) == 0
    assert ("it is converted" in capsys.readouterr().err) is (source != target)
    assert open_store(tmp_path / "b").format == target
    with NWBZarrIO(tmp_path / "b", strict_links=True) as io:
        assert_equal(io.read(), nwb)


def test_cp_of_an_nwb_file_refuses_what_a_conversion_does_not_have(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "cp",
        "-r",
        str(path),
        str(tmp_path / "b.n5"),
        "--format",
        "n5",
        "--dtype",
        "uint8",
        "--dry-run",
    ]
    assert main(command) == 2
    assert "without --dtype, --dry-run" in capsys.readouterr().err
    assert not (tmp_path / "b.n5").exists()


def test_a_conversion_that_lacks_something_says_so(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NWBZarrIO(path, mode="r+") as io:
        io.write_attributes("/general", {"mixed": [1, "a"]})
    assert main(["nwb", "convert", str(path), str(tmp_path / "b.nwb"), "--quiet", "--json"]) == 3
    out, err = capsys.readouterr()
    (left,) = json.loads(out)["left_out"]
    assert 'attribute "mixed" of object /general' in left
    assert left in err
