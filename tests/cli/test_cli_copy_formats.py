"""``cp`` between all formats: every bit, and everything beside the elements that the target can hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import zarr
from cli_arrays import DRIVERS, Run, bits, make, read

import chunkwise as cw

FORMATS = list(DRIVERS)
PAIRS = [(a, b) for a in FORMATS for b in FORMATS]
N5_TYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"]


def sample(dtype: str, shape: tuple[int, ...] = (7, 9)) -> np.ndarray:
    """Random bits: of floats NaNs with payloads, infinities, denormals and -0.0 among them."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(len(dtype) + kind.itemsize)
    n = int(np.prod(shape))
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    values = rng.integers(0, 256, n * kind.itemsize, dtype="u1").view(kind)
    if kind.kind == "f":
        payload = {2: 0x7E12, 4: 0x7FC0BEEF, 8: 0xFFF8_0000_DEAD_BEEF}[kind.itemsize]
        values[:3] = np.array([payload, 1, 1 << (8 * kind.itemsize - 1)], f"u{kind.itemsize}").view(kind)
    return values.reshape(shape)


@pytest.mark.each_once
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_pair_of_formats_keeps_every_bit(run: Run, tmp_path: Path, source: str, target: str) -> None:
    for dtype in N5_TYPES:
        values = sample(dtype)
        a, b = tmp_path / f"a{dtype}", tmp_path / f"b{dtype}"
        make(a, source, values, (4, 4))
        result = run("cp", a, b, "--format", target, "--chunk", "3,5", "--verify", "--quiet", "--no-sync")
        assert result.status == 0, result.err
        assert "equal" in result.out
        assert bits(read(b)) == bits(values)
        assert read(b).dtype == values.dtype


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["b1", "f2", "c8", "c16"])
@pytest.mark.parametrize(("source", "target"), [(a, b) for a, b in PAIRS if "n5" not in (a, b)])
def test_types_that_n5_lacks(run: Run, tmp_path: Path, source: str, target: str, dtype: str) -> None:
    values = sample(dtype)
    make(tmp_path / "a", source, values, (4, 4))
    result = run("cp", tmp_path / "a", tmp_path / "b", "--format", target, "--verify", "--quiet")
    assert result.status == 0, result.err
    assert bits(read(tmp_path / "b")) == bits(values)


def test_n5_refuses_them_by_name_and_offers_a_conversion(run: Run, tmp_path: Path) -> None:
    values = sample("b1")
    make(tmp_path / "a", "zarr3", values, (4, 4))
    result = run("cp", tmp_path / "a", tmp_path / "b.n5")
    assert result.status == 1
    assert '"bool"' in result.err and "--dtype" in result.err
    assert not (tmp_path / "b.n5").exists()
    assert run("cp", tmp_path / "a", tmp_path / "b.n5", "--dtype", "uint8", "--verify").status == 0
    assert np.array_equal(read(tmp_path / "b.n5"), values)


def test_a_conversion_that_loses_values_is_refused(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", sample("u2"), (4, 4))
    result = run("cp", tmp_path / "a", tmp_path / "b", "--dtype", "uint8")
    assert result.status == 1
    assert "don't fit uint8" in result.err
    assert not list((tmp_path / "b").rglob("*"))


@pytest.mark.parametrize("target", ["zarr2", "zarr3"])
@pytest.mark.parametrize("source", ["zarr2", "zarr3"])
def test_text(run: Run, tmp_path: Path, source: str, target: str) -> None:
    values = np.array([["a", "", "größer"], ["日本", "\0", "x" * 300]], object)
    make(tmp_path / "a", source, values, (1, 2), dtype=cw.ustring)
    result = run("cp", tmp_path / "a", tmp_path / "b", "--format", target, "--verify", "--quiet")
    assert result.status == 0, result.err
    assert read(tmp_path / "b").tolist() == values.tolist()


@pytest.mark.each_once
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 1, 2)])
def test_extreme_shapes(run: Run, tmp_path: Path, target: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape) + 5
    make(tmp_path / "a", "zarr3", values, tuple(max(1, n) for n in shape))
    result = run("cp", tmp_path / "a", tmp_path / "b", "--format", target, "--verify", "--quiet")
    assert result.status == 0, result.err
    found = read(tmp_path / "b")
    assert found.shape == shape and np.array_equal(found, values)


@pytest.mark.parametrize("target", ["zarr3", "zarr2", "zarr1"])
def test_a_fill_value_is_kept(run: Run, tmp_path: Path, target: str) -> None:
    values = np.full((8, 8), -7.5, "f4")
    values[0, 0] = 1
    make(tmp_path / "a", "zarr3", values, (4, 4), fill_value=np.float32(-7.5))
    assert len(list((tmp_path / "a").rglob("c/*/*"))) == 1
    assert run("cp", tmp_path / "a", tmp_path / "b", "--format", target, "--verify").status == 0
    assert float(cw.open(str(tmp_path / "b")).result().fill_value) == -7.5
    assert run("info", tmp_path / "b", "--json").json["stored"]["chunks"] == 1


@pytest.mark.parametrize("target", list(DRIVERS))
def test_missing_blocks_of_n5_stay_missing(run: Run, tmp_path: Path, target: str) -> None:
    values = np.zeros((8, 8), "u1")
    values[5, 5] = 1
    make(tmp_path / "a", "n5", values, (4, 4))
    assert run("cp", tmp_path / "a", tmp_path / "b", "--format", target, "--verify").status == 0
    assert run("info", tmp_path / "b", "--json").json["stored"]["chunks"] == 1


def test_n5_gets_the_fill_value_as_elements(run: Run, tmp_path: Path) -> None:
    values = np.full((8, 8), 3, "u1")
    make(tmp_path / "a", "zarr2", values, (4, 4), fill_value=np.uint8(3))
    result = run("cp", tmp_path / "a", tmp_path / "b.n5", "--verify")
    assert result.status == 0
    assert "N5 has no fill value" in result.err
    assert np.array_equal(read(tmp_path / "b.n5"), values)


def test_names_units_and_attributes_go_round_through_all_formats(run: Run, tmp_path: Path) -> None:
    attributes = {"objective": {"na": 1.05}, "list": [1, None, "x"], "text": "µ"}
    path = tmp_path / "0"
    options = ["--shape", "4,5", "--dtype", "uint8", "--labels", "y,x", "--units", "0.5 um,2 nm"]
    assert (
        run("create", path, "--format", "zarr3", *options, "--attributes", json.dumps(attributes)).status == 0
    )
    for number, format in enumerate(["zarr2", "n5", "zarr1", "zarr3"], 1):
        before, path = path, tmp_path / str(number)
        assert run("cp", before, path, "--format", format).status == 0
        if format == "n5":
            document = json.loads((path / "attributes.json").read_text())
            assert document["axes"] == ["y", "x"]
            assert document["units"] == ["um", "nm"] and document["resolution"] == [0.5, 2]
            assert document["objective"] == {"na": 1.05}
    last = cw.open(str(path)).result()
    assert last.domain.labels == ("y", "x")
    assert [str(unit) for unit in last.dimension_units] == ["0.5 um", "2 nm"]
    assert run("attrs", path, "--json").json == {**attributes, "dimension_units": ["0.5 um", "2 nm"]}


def test_what_a_format_cannot_hold_is_told(run: Run, tmp_path: Path) -> None:
    attributes = {"dimensions": [3], "nothing": None, "fine": 1}
    run(
        "create", tmp_path / "a", "--format", "zarr3", "--shape", "4,5", "--dtype", "uint8",
        "--attributes", json.dumps(attributes),
    )  # fmt: skip
    result = run("cp", tmp_path / "a", tmp_path / "b.n5")
    assert result.status == 3
    assert '"dimensions" is left out' in result.err and '"nothing" is left out' in result.err
    assert run("attrs", tmp_path / "b.n5", "--json").json == {"fine": 1, "n5": "2.0.0"}


def test_an_array_that_a_format_cannot_hold(run: Run, tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "a.zarr", format="zarr3")
    group.create_array("fine", [1, 2])
    group.create_array("complex", np.zeros(2, "c8"))
    assert run("cp", "-r", tmp_path / "a.zarr", tmp_path / "b.n5").status == 3
    assert list(cw.open_group(tmp_path / "b.n5")) == ["fine"]
    refused = run("cp", "-r", tmp_path / "a.zarr", tmp_path / "c.n5", "--strict")
    assert refused.status == 1 and "complex" in refused.err
    assert not (tmp_path / "c.n5").exists()


def test_a_compressor_is_translated(run: Run, tmp_path: Path) -> None:
    zstd = {"codecs": [{"name": "zstd", "configuration": {"level": 7}}]}
    make(tmp_path / "a", "zarr3", sample("u2"), (4, 4), metadata=zstd)
    run("cp", tmp_path / "a", tmp_path / "b", "--format", "n5")
    assert json.loads((tmp_path / "b/attributes.json").read_text())["compression"] == {
        "type": "zstd",
        "level": 7,
    }
    run("cp", tmp_path / "b", tmp_path / "c", "--format", "zarr2")
    assert json.loads((tmp_path / "c/.zarray").read_text())["compressor"] == {"id": "zstd", "level": 7}


def test_within_a_format_everything_is_kept(run: Run, tmp_path: Path) -> None:
    metadata = {
        "order": "F", "dtype": ">i2", "dimension_separator": "/", "compressor": None,
        "filters": [{"id": "delta", "dtype": ">i2", "astype": ">i2"}],
    }  # fmt: skip
    values = np.arange(63, dtype="i2").reshape(7, 9)
    make(tmp_path / "a", "zarr2", values, (4, 4), metadata=metadata)
    assert run("cp", tmp_path / "a", tmp_path / "b", "--verify").status == 0
    before, after = (json.loads((tmp_path / name / ".zarray").read_text()) for name in "ab")
    assert before == after
    assert run("cp", tmp_path / "a", tmp_path / "c", "--chunk", "2,2", "--codec", "gzip:1").status == 0
    after = json.loads((tmp_path / "c/.zarray").read_text())
    assert after == {**before, "chunks": [2, 2], "compressor": {"id": "gzip", "level": 1}}


def test_shards_are_made_changed_and_undone(run: Run, tmp_path: Path) -> None:
    values = sample("u2", (20, 30))
    make(tmp_path / "a", "n5", values, (8, 8))
    result = run(
        "cp", tmp_path / "a", tmp_path / "b", "--format", "zarr3", "--shard", "8,16", "--chunk", "4,8"
    )
    assert result.status == 0, result.err
    assert read(tmp_path / "b").tolist() == values.tolist()
    assert run("info", tmp_path / "b", "--json").json["shards"] == [8, 16]
    assert run("cp", tmp_path / "b", tmp_path / "c", "--codec", "none").status == 0
    info = run("info", tmp_path / "c", "--json").json
    assert (info["shards"], info["chunks"], info["codecs"]) == ([8, 16], [4, 8], [])
    assert run("cp", tmp_path / "c", tmp_path / "d", "--shard", "none", "--verify").status == 0
    info = run("info", tmp_path / "d", "--json").json
    assert (info["shards"], info["chunks"]) == (None, [4, 8])
    assert run("cp", tmp_path / "b", tmp_path / "e.n5", "--verify").status == 0


def test_peers_read_the_copies(run: Run, tmp_path: Path) -> None:
    values = sample("f4", (10, 11))
    make(tmp_path / "a.n5", "n5", values, (4, 4))
    for format in ("zarr2", "zarr3"):
        assert run("cp", tmp_path / "a.n5", tmp_path / format, "--format", format).status == 0
        peer = zarr.open_array(tmp_path / format, mode="r")
        assert bits(peer[...]) == bits(values)
        spec = {"driver": DRIVERS[format], "kvstore": f"file://{tmp_path / format}"}
        assert bits(ts.open(spec).result().read().result()) == bits(values)
    assert run("cp", tmp_path / "zarr3", tmp_path / "b.n5").status == 0
    found = ts.open({"driver": "n5", "kvstore": f"file://{tmp_path / 'b.n5'}"}).result()
    assert bits(found.read().result()) == bits(values)


def test_chunks_of_unequal_size_are_kept(run: Run, tmp_path: Path) -> None:
    shapes = {"kind": "inline", "chunk_shapes": [[3, 1, 6], 4]}
    values = sample("u2", (10, 9))
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{tmp_path}/a/",
        "metadata": {"chunk_grid": {"name": "rectilinear", "configuration": shapes}},
    }
    cw.open(spec, create=True, dtype=cw.uint16, shape=[10, 9]).result().write(values).result()
    for options in ([], ["--codec", "gzip:1"]):
        assert run("cp", tmp_path / "a", tmp_path / f"b{len(options)}", *options, "--verify").status == 0
        document = json.loads((tmp_path / f"b{len(options)}/zarr.json").read_text())
        assert document["chunk_grid"]["configuration"] == shapes
    assert run("verify", tmp_path, "--json").json[1]["bad"] == []
    assert run("info", tmp_path / "a", "--json").json["stored"]["possible_chunks"] == 9
    for target in ("zarr2", "n5"):
        assert run("cp", tmp_path / "a", tmp_path / target, "--format", target, "--verify").status == 0


@pytest.mark.parametrize(
    "dtype",
    ["M8[ns]", "m8[s]", "S5", "U3", [("a", "<i2"), ("b", "<f8")]],
    ids=["M8", "m8", "S", "U", "struct"],
)
def test_types_that_only_zarr_has(run: Run, tmp_path: Path, dtype: object) -> None:
    kind = np.dtype(dtype)  # type: ignore[call-overload]
    raw = np.random.default_rng(0).integers(0, 100, 6 * kind.itemsize, "u1")
    raw = raw if kind.kind != "U" else np.arange(6 * kind.itemsize // 4, dtype="u4").view("u1")
    make(tmp_path / "a", "zarr2", raw.view(kind).reshape(2, 3), (2, 2))
    assert run("cp", tmp_path / "a", tmp_path / "b", "--format", "zarr3", "--verify").status == 0
    assert run("cp", tmp_path / "b", tmp_path / "c", "--format", "zarr2", "--verify").status == 0
    assert bits(read(tmp_path / "c")) == bits(raw)
    assert read(tmp_path / "c").dtype == kind


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("n5", "out.zarr", "zarr3"),
        ("n5", "out.zarr3", "zarr3"),
        ("n5", "out", "n5"),
        ("n5", "out.n5/em/s0", "n5"),
        ("n5", "out.n5/inner.zarr/a", "zarr3"),
        ("zarr1", "out.zarr", "zarr1"),
        ("zarr2", "out.zarr", "zarr2"),
        ("zarr2", "out.zarr3", "zarr3"),
        ("zarr2", "out.n5", "n5"),
        ("zarr2", "out.zarr/inner.n5/a", "n5"),
        ("zarr3", "out.zarr", "zarr3"),
        ("zarr3", "out", "zarr3"),
        ("n5", "groups/zarr2/a", "zarr2"),
        ("n5", "groups/zarr3.n5/b/c", "zarr3"),
        ("zarr3", "groups/zarr2/a.zarr", "zarr2"),
        ("zarr3", "groups/zarr2/a", "zarr2"),
        ("zarr2", "groups/n5/a", "n5"),
    ],
)
def test_the_format_is_what_the_place_says(
    run: Run, tmp_path: Path, source: str, target: str, expected: str
) -> None:
    """The nearest name or group decides; in ``*.zarr`` the group, or else Zarr stays as it is."""
    make(tmp_path / "lab.n5/em/s0", source, sample("uint8"), (3, 3))
    for format, name in (("zarr2", "zarr2"), ("zarr3", "zarr3.n5"), ("n5", "n5")):
        cw.create_group(tmp_path / "groups" / name, format=format)
    result = run("cp", tmp_path / "lab.n5/em/s0", tmp_path / target, "--json")
    assert (result.status, result.json["format"]) == (0, expected)
    document = {"zarr3": "zarr.json", "zarr2": ".zarray", "zarr1": "meta", "n5": "attributes.json"}[expected]
    assert (tmp_path / target / document).exists()
    assert run("info", tmp_path / target, "--json").json["format"] == expected
    other = run("cp", tmp_path / "lab.n5/em/s0", tmp_path / "asked.zarr", "--format", "n5", "--json")
    assert other.json["format"] == "n5"


def test_the_format_of_a_tree_is_what_the_place_says(run: Run, tmp_path: Path) -> None:
    cw.create_group(tmp_path / "lab.n5").create_array("em/s0", sample("uint8"))
    assert run("cp", "-r", tmp_path / "lab.n5", tmp_path / "lab.zarr", "--json").json["format"] == "zarr3"
    assert cw.open_group(tmp_path / "lab.zarr").format == "zarr3"
    assert run("create", tmp_path / "lab.zarr/new", "--shape", 4, "--dtype", "uint8").status == 0
    assert (tmp_path / "lab.zarr/new/zarr.json").exists()
