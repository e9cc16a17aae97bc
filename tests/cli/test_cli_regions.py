"""``--region`` of ``cp`` and ``pyramid``: parts of arrays, against NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import zarr
from cli_arrays import Run, make, read
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.cli.command import UsageError
from chunkwise.cli.options import parse_region, select
from chunkwise.copying.copy import ArrayCopy
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import stored_source
from chunkwise.core.trees.location import locate

SHAPE = (2, 3, 9, 10, 11)
IMAGE = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)
FORMATS = ("zarr3", "zarr2", "zarr1", "n5")


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, tuple[object, ...]]:
    """Return a region that is inside an array, as text and for NumPy."""
    texts: list[str] = []
    index: list[object] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        start, stop = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
        step = draw(st.integers(1, 3))
        if start == size or draw(st.booleans()):
            at = draw(st.integers(-size, size - 1))
            texts.append(str(at))
            index.append(at)
            continue
        # The same places, said from either end.
        ends = [draw(st.sampled_from([n, n - size] if n < size else [n])) for n in (start, stop)]
        if stop > start and ends[1] == 0:
            ends[1] = size
        texts.append(f"{ends[0]}:{ends[1]}:{step}")
        index.append(slice(ends[0], ends[1], step))
    return ",".join(texts) or "...", (*index, ...)


@settings(deadline=None)
@given(regions(SHAPE))
def test_a_region_is_what_numpy_selects(region: tuple[str, tuple[object, ...]]) -> None:
    text, index = region
    expected = IMAGE[index]  # type: ignore[index]
    np.testing.assert_array_equal(select(cw.array(IMAGE), text).read().result(), expected)


@pytest.mark.each_once
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(region=regions(SHAPE))
def test_a_part_is_copied(
    run: Run, tmp_path: Path, source: str, target: str, region: tuple[str, tuple[object, ...]]
) -> None:
    text, index = region
    if not (tmp_path / "a").exists():
        make(tmp_path / "a", source, IMAGE, (1, 2, 4, 8, 8))
    result = run(
        "cp", tmp_path / "a", tmp_path / "b", "--overwrite", "--format", target, "--region", text, "--verify"
    )
    assert result.status == 0, result.err
    np.testing.assert_array_equal(read(tmp_path / "b"), IMAGE[index])  # type: ignore[index]


def test_chunks_names_and_units_are_those_of_the_dimensions_that_are_left(run: Run, tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "g.zarr")
    group.create_array(
        "a",
        IMAGE,
        chunks=(1, 1, 2, 5, 3),
        shards=(1, 1, 4, 10, 6),
        codec="gzip:2",
        dimension_names=["t", "c", "z", "y", "x"],
        dimension_units=["1 s", None, "40 nm", "4 nm", "4 nm"],
        attributes={"k": 1},
    )
    for name in ("zarr3", "zarr2", "n5"):
        place = tmp_path / f"part.{name}"
        status = run("cp", group.location.text + "/a", place, "--format", name, "--region", "-1,0,...,::2")
        assert status.status == 0, status.err
        part = cw.open(str(place)).result()
        template = stored_source(locate(place)).template
        assert template.names == ("z", "y", "x")
        assert [str(unit) for unit in template.units] == ["40 nm", "4 nm", "8 nm"]
        assert part.chunk_layout.read_chunk.shape == (2, 5, 3)
        np.testing.assert_array_equal(part.read().result(), IMAGE[-1, 0, :, :, ::2])
    part = cw.open(str(tmp_path / "part.zarr3")).result()
    assert part.chunk_layout.write_chunk.shape == (4, 10, 6)
    assert zarr.open_array(str(tmp_path / "part.zarr3"), mode="r").attrs["k"] == 1


def test_what_depends_on_the_number_of_dimensions_is_left_out(run: Run, tmp_path: Path) -> None:
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{tmp_path}/a",
        "metadata": {
            "shape": [6, 8],
            "data_type": "uint16",
            "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", "crc32c"],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
        },
    }
    values = np.arange(48, dtype="u2").reshape(6, 8)
    ts.open(spec, create=True).result()[...] = values
    assert run("cp", tmp_path / "a", tmp_path / "b", "--region", "-2").status == 0
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "b"), mode="r")[:], values[-2])
    names = [codec["name"] for codec in json.loads((tmp_path / "b/zarr.json").read_text())["codecs"]]
    assert "transpose" not in names and "crc32c" in names
    assert run("cp", tmp_path / "a", tmp_path / "c", "--region", "1:5,::-1").status == 0
    np.testing.assert_array_equal(read(tmp_path / "c"), values[1:5, ::-1])


def test_refused(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "g/a", "zarr3", IMAGE, (1, 1, 9, 10, 11))
    cw.open_group(tmp_path / "g", "a")
    for region, status in (("7", 1), ("0:99", 1), ("x", 2), ("0,0,0,0,0,0", 2)):
        result = run("cp", tmp_path / "g/a", tmp_path / "b", "--region", region)
        assert result.status == status and result.err and not (tmp_path / "b").exists(), region
    result = run("cp", "-r", tmp_path / "g", tmp_path / "b", "--region", "0")
    assert result.status == 2 and "--region is for single arrays" in result.err
    result = run("pyramid", tmp_path / "g/a", "--region", "0,0")
    assert result.status == 2 and "needs a DST" in result.err


def test_an_unfinished_copy_of_another_part_is_not_gone_on_with(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", IMAGE, (1, 1, 9, 10, 11))
    source = stored_source(locate(tmp_path / "a"))
    ArrayCopy(
        source.part((0, *[slice(None)] * 4)), locate(tmp_path / "c"), "zarr3", {}, CopyOptions()
    ).begin()
    result = run("cp", tmp_path / "a", tmp_path / "c", "--region", "1", "--resume")
    assert result.status == 1 and "another" in result.err
    assert run("cp", tmp_path / "a", tmp_path / "c", "--region", "0", "--resume").status == 0
    np.testing.assert_array_equal(read(tmp_path / "c"), IMAGE[0])


def test_a_pyramid_of_one_channel(run: Run, tmp_path: Path) -> None:
    """An OME image is t, c, z, y, x; n5-viewer's have up to 3 axes of space."""
    group = cw.create_group(tmp_path / "ome.zarr")
    names = ["t", "c", "z", "y", "x"]
    group.create_array("0", IMAGE, chunks=(1, 1, 4, 4, 4), dimension_names=names, dimension_units=["um"] * 5)
    out = tmp_path / "one.n5/image"
    result = run("pyramid", tmp_path / "ome.zarr/0", out, "--region", "0,-1,2:8", "--levels", "1", "--quiet")
    assert result.status == 0, result.err
    np.testing.assert_array_equal(read(out / "s0"), IMAGE[0, -1, 2:8].T)
    source, out = tmp_path / "ome.zarr/0", tmp_path / "p.zarr"
    result = run("pyramid", source, out, "--region", "0,1,2:8", "--levels", "1")
    assert result.status == 0, result.err
    image = json.loads((tmp_path / "p.zarr/zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]
    assert [axis["name"] for axis in image["axes"]] == ["z", "y", "x"]
    transforms = image["datasets"][0]["coordinateTransformations"]
    assert transforms[1]["translation"] == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("text", ["99999999999999999999", "0:99999999999999999999", "::-" + "9" * 5000, "²"])
def test_numbers_that_no_index_has(text: str) -> None:
    with pytest.raises(UsageError, match=r"beyond any index|beyond the largest|neither an index"):
        parse_region(text)
