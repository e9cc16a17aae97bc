"""Pyramids that are read again (`verify`), or only planned (``--dry-run``)."""

import json

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import DataCorruptionError


def _image(dtype, *shape):
    rng = np.random.default_rng(3)
    values = rng.standard_normal(shape) * 1e3 if dtype.startswith("float") else rng.integers(0, 200, shape)
    return values.astype(dtype)


def _stored(path, values, **how):
    cw.create_array(path, values, **how)
    return str(path)


def _files(place):
    return {file.relative_to(place): file.read_bytes() for file in place.rglob("*") if file.is_file()}


@pytest.mark.each_once
@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem"])
@pytest.mark.parametrize("method", ["mean", "median", "mode", "max", "stride"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_verified(tmp_path, convention, method, dtype):
    source = _stored(tmp_path / "a.zarr", _image(dtype, 37, 50, 41), chunks=(16, 16, 16))
    seen = []
    made = cw.downsample_pyramid(
        source,
        tmp_path / "p",
        convention=convention,
        method=method,
        levels=2,
        verify=True,
        progress=seen.append,
    ).result()
    assert len(made.levels) == 3
    assert (
        seen[-1].nbytes_done
        == seen[-1].nbytes
        == 2 * sum(a.size * a.dtype.numpy_dtype.itemsize for a in made.levels)
    )


@pytest.mark.parametrize(("beside", "level"), [(False, 1), (False, 2), (True, 2)])
def test_another_value(tmp_path, beside, level):
    """A level that was changed before it is compared makes no pyramid; `resume` writes all levels again."""
    values = _image("uint16", 40, 40)
    group = tmp_path / "p.zarr"
    if beside:
        cw.create_group(group)
    source = _stored(group / "0" if beside else tmp_path / "a.zarr", values, chunks=(8, 8))
    destination = None if beside else group

    def change(now):
        chunk, other = (group / f"{level}/c/{at}/{at}" for at in (0, 1))
        if chunk.exists() and other.exists() and not changed:
            changed.append(1)
            chunk.write_bytes(other.read_bytes())

    changed = []
    with pytest.raises(DataCorruptionError, match=rf"level {level}: the copy differs .* at \[0, 0\]"):
        cw.downsample_pyramid(source, destination, levels=2, verify=True, progress=change).result()
    assert changed
    if not beside:
        assert not cw.open_group(group).attrs.asdict()
    made = cw.downsample_pyramid(source, destination, levels=2, verify=True, resume=True).result()
    again = cw.downsample(cw.downsample(cw.array(values), [2, 2], "mean"), [2, 2], "mean").read().result()
    assert np.array_equal(made.levels[2].read().result(), again)


@pytest.mark.each_once
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("kind", ["zarr", "n5"])
def test_dry_run(tmp_path, capsys, beside, kind):
    """What is planned is what is written then, and the plan writes nothing."""
    group = tmp_path / f"p.{kind}"
    if beside:
        cw.create_group(group, format="n5" if kind == "n5" else "zarr3")
    first = group / ("s0" if kind == "n5" else "0") if beside else tmp_path / "a.zarr"
    source = _stored(first, _image("uint16", 70, 60, 64), chunks=(16, 16, 16))
    arguments = ["pyramid", source, *([] if beside else [str(group)]), "--levels", "2", "--json"]
    before = _files(tmp_path)
    assert main([*arguments, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert _files(tmp_path) == before
    assert main([*arguments, "--verify"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["verified"]
    pick = ("path", "shape", "factors")
    assert [{k: one[k] for k in pick} for one in planned["levels"]] == made["levels"]
    assert [one["exists"] for one in planned["levels"]] == [beside, False, False]
    for one in planned["levels"]:
        array = cw.open(str(group / one["path"]), open=True).result()
        assert list(array.chunk_layout.read_chunk.shape) == one["chunks"]
        assert array.dtype.name == one["dtype"]
    written = [name for one in planned["passes"] for name in one["levels"]]
    assert written == [one["path"] for one in planned["levels"] if not one["exists"]]
    puts = sum(one["puts"] for one in planned["passes"])
    chunks = [
        -(-n // c)
        for one in planned["levels"]
        if not one["exists"]
        for n, c in zip(one["shape"], one["chunks"], strict=True)
    ]
    assert puts == sum(np.prod(chunks[at : at + 3]) for at in range(0, len(chunks), 3))
    assert main([*arguments, "--dry-run"]) != 0  # what the pyramid would refuse
    assert "already" in capsys.readouterr().err


def test_dry_run_for_people(tmp_path, capsys):
    source = _stored(tmp_path / "a.zarr", _image("uint8", 64, 64), chunks=(16, 16))
    assert (
        main(
            [
                "pyramid",
                source,
                str(tmp_path / "p.zarr"),
                "--levels",
                "1",
                "--shard",
                "y=32,x=32",
                "--dry-run",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "chunks 16 × 16, shards 32 × 32, factors 2, 2" in out
    assert "ome-ngff-0.5" in out
    assert "to read" in out
    assert not (tmp_path / "p.zarr").exists()
