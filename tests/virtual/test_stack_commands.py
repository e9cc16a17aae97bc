"""A stack in a file is copied and planned as any array is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.cli.main import main

SCENE = np.arange(12 * 20, dtype="u2").reshape(12, 20)


@pytest.fixture
def mosaic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Two tiles of two formats that overlap in columns 8 and 9, as ``mosaic.json``, with origin (5, 0)."""
    monkeypatch.chdir(tmp_path)
    layers = []
    for driver, name, left in (("zarr3", "left.zarr", 0), ("n5", "right.n5/a", 8)):
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": name}}
        chunks = ts.ChunkLayout(chunk_shape=[4, 4])
        tile = ts.open(spec, create=True, dtype=ts.uint16, shape=[12, 12], chunk_layout=chunks).result()
        part = SCENE[:, left : left + 12]
        tile[:, : part.shape[1]] = part
        output = [{"input_dimension": 0, "offset": -5}, {"input_dimension": 1, "offset": -left}]
        bounds = {"input_inclusive_min": [5, left], "input_exclusive_max": [17, left + part.shape[1]]}
        layers.append({**spec, "transform": {**bounds, "output": output}})
    stack = {"driver": "stack", "dtype": "uint16", "layers": layers}
    Path("mosaic.json").write_text(json.dumps(stack))
    return stack


def run(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    status = main(list(command))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_copy_of_a_stack(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the stack's elements, begins at 0, and is like any copy in all else."""
    status, out, err = run(
        capsys, "cp", "mosaic.json", "whole.zarr", "--chunk", "6,5", "--verify", "--json", "--quiet"
    )
    assert status == 0, err
    told = json.loads(out)
    assert (told["shape"], told["dtype"], told["format"]) == ([12, 20], "uint16", "zarr3")
    assert told["verified"] and told["copied_bytes"] == SCENE.nbytes
    copy = ts.open("whole.zarr").result()
    assert copy.chunk_layout.read_chunk.shape == (6, 5)
    np.testing.assert_array_equal(copy.read().result(), SCENE)
    status, _, err = run(capsys, "cp", "mosaic.json", "whole.zarr", "--resume", "--quiet")
    assert status == 0 and "nothing to do" in err
    status, _, err = run(capsys, "cp", "mosaic.json", "whole.zarr", "--quiet")
    assert status == 1 and "is an array already" in err


def test_a_copy_keeps_what_holds_its_source(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("mosaic.json", "right.n5/a"):
        status, _, err = run(capsys, "cp", source, "right.n5", "--format", "n5", "--overwrite")
        assert status == 1 and "right.n5 is a directory that isn't empty" in err
    np.testing.assert_array_equal(ts.open(mosaic).result().read().result(), SCENE)


@pytest.mark.parametrize(("destination", "format"), [("left.zarr", "zarr3"), ("right.n5/a", "n5")])
def test_a_copy_takes_the_place_of_what_it_reads(
    mosaic: Any, capsys: pytest.CaptureFixture[str], destination: str, format: str
) -> None:
    """An array that the stack is made of is there until the copy is whole."""
    status, _, err = run(capsys, "cp", "mosaic.json", destination, "--format", format, "--overwrite")
    assert status == 0, err
    np.testing.assert_array_equal(ts.read(destination), SCENE)


def test_a_copy_leaves_the_archive_that_it_reads(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no part of the array which is replaced stays, and can be read by the copy."""
    archive = "left.zarr/tile.zip|zip:|zarr3:"
    ts.open(archive, create=True, dtype=ts.uint16, shape=[3]).result().write(7).result()
    status, _, err = run(capsys, "cp", archive, "left.zarr", "--overwrite")
    assert status == 0, err
    assert ts.read("left.zarr").tolist() == [7, 7, 7]
    assert ts.open(archive).result().read().result().tolist() == [7, 7, 7]


def test_a_stack_with_gaps_is_no_copy(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The gap is named, and nothing is left that looks whole."""
    domain = {"inclusive_min": [5, 0], "exclusive_max": [17, 30]}
    Path("gap.json").write_text(json.dumps({**mosaic, "schema": {"domain": domain}}))
    status, _, err = run(capsys, "cp", "gap.json", "gap.zarr", "--quiet")
    assert status == 1 and "missing layer mapping" in err
    with pytest.raises(ValueError, match="does not exist"):
        ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": "gap.zarr"}}).result()


def test_wrong_use(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for chunk in ("3,3,3", "0,3", "3,0"):
        assert run(capsys, "cp", "mosaic.json", "out.zarr", "--chunk", chunk)[0] == 2
        assert not Path("out.zarr").exists()
    before = Path("mosaic.json").read_bytes()
    status, _, err = run(capsys, "stack", "mosaic.json", "left.zarr@0,0")
    assert status == 1 and "mosaic.json exists already; --overwrite replaces it" in err
    assert Path("mosaic.json").read_bytes() == before
    assert run(capsys, "stack", "mosaic.json", "left.zarr@0,0", "--overwrite")[0] == 0
    assert len(json.loads(Path("mosaic.json").read_text())["layers"]) == 1


def test_a_spec_is_of_one_array(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It is copied with -r as without, and one chunk size is that of all dimensions."""
    status, _, err = run(capsys, "cp", "-r", "mosaic.json", "out.zarr", "--chunk", "3")
    assert status == 0, err
    copy = ts.open("out.zarr").result()
    assert copy.chunk_layout.read_chunk.shape == (3, 3)
    np.testing.assert_array_equal(copy.read().result(), SCENE)


def test_a_copy_of_a_spec_has_the_format_of_new_arrays(
    mosaic: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "cp", "mosaic.json", "out")[0] == 0
    assert ts.open("out").result().spec().to_json()["driver"] == "zarr3"


def test_requests_of_a_stack_are_those_of_its_layers(mosaic: Any) -> None:
    """They are added up over the layers that are seen; those that are covered count for nothing."""
    left, right = (ts.open(layer).result() for layer in mosaic["layers"])
    stacks = ts.open(mosaic).result(), ts.overlay([left, right])
    for stack in stacks:
        told = stack.explain()
        seen = left[5:17, 0:8].explain().requests, right.explain().requests
        assert told.requests.n_requests == sum(part.n_requests for part in seen) == 6 + 9
        assert told.requests.n_chunks == told.requests.n_objects == 15
        assert told.requests.n_decoded_bytes == 15 * 32
        assert told.requests.n_stored_bytes is None
        assert told.n_result_bytes == SCENE.nbytes
        assert "left.zarr" in told.storage and "1 more" in told.storage
        assert stack[5:9, 12:16].explain() == right[5:9, 12:16].explain()
        assert ts.downsample(stack, [2, 2], "mean").explain().requests == told.requests
        assert ts.cast(stack, ts.float64)[5:9].explain().requests.n_requests == 5


def test_requests_of_layers_in_memory(mosaic: Any) -> None:
    """They take none; and what can't be estimated is refused with the name of the driver."""
    left = ts.open(mosaic["layers"][0]).result()
    over = ts.overlay([left, ts.array(np.zeros((2, 12), "u2")).translate_to[5, 0]])
    assert over.explain().requests.n_requests == 9
    memory = over[5:7].explain()
    assert (memory.requests.n_requests, memory.requests.concurrency, memory.storage) == (0, None, "memory")
    assert ts.overlay([left, over.translate_by[12, 0]]).explain().requests.n_requests == 18
    with pytest.raises(NotImplementedError, match='not for "virtual_chunked"'):
        made = ts.virtual_chunked(print, dtype=ts.uint16, shape=[3, 3])
        ts.overlay([left, made.translate_to[5, 0]]).explain()
    with pytest.raises(NotImplementedError, match='not for "array"'):
        ts.array(np.zeros(3)).explain()


def test_the_plan_of_a_stack(mosaic: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """``chunkwise plan`` takes the file."""
    status, out, _ = run(capsys, "plan", "mosaic.json", "--region", "5:9, 4:12", "--json")
    told = json.loads(out)
    assert status == 0
    assert (told["n_requests"], told["n_chunks"], told["n_result_bytes"]) == (2, 2, 64)
    assert "requests         15" in run(capsys, "plan", "mosaic.json")[1]
