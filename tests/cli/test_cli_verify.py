"""``verify``: every damaged chunk is named with the reason, sound ones never are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from cli_arrays import DRIVERS, Run, make

import chunkwise as cw

VALUES = np.random.default_rng(3).integers(0, 500, (30, 20), "u2")
CODECS = {
    "zarr3": {"codecs": [{"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}]},
    "zarr2": {"compressor": {"id": "zlib", "level": 1}},
    "zarr1": {"compression": "zlib", "compression_opts": 1},
    "n5": {"compression": {"type": "gzip"}},
}
CHUNK = {"zarr3": "c/1/1", "zarr2": "1.1", "zarr1": "1.1", "n5": "1/1"}


@pytest.mark.parametrize("format", list(DRIVERS))
def test_sound_arrays(run: Run, tmp_path: Path, format: str) -> None:
    make(tmp_path / "a", format, VALUES, (8, 8), metadata=CODECS[format])
    result = run("verify", tmp_path / "a", "--json")
    assert result.status == 0
    (report,) = result.json
    assert (report["chunks"], report["bad"], report["notes"]) == (12, [], [])
    assert "all good" in run("verify", tmp_path / "a").out


@pytest.mark.each_once
@pytest.mark.parametrize("format", list(DRIVERS))
@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "longer"])
def test_damaged_chunks(run: Run, tmp_path: Path, format: str, damage: str) -> None:
    make(tmp_path / "a", format, VALUES, (8, 8), metadata=CODECS[format])
    path = tmp_path / "a" / CHUNK[format]
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.write_bytes(
        {
            "truncated": raw[:-9],
            "empty": b"",
            "flipped": raw[:middle] + bytes([raw[middle] ^ 0x10]) + raw[middle + 1 :],
            "longer": raw + b"garbage!" if format == "zarr3" else raw[:-8],
        }[damage]
    )
    result = run("verify", tmp_path, "--json")
    assert result.status == 1
    bad = [bad for report in result.json for bad in report["bad"]]
    assert [b["key"] for b in bad] == [f"a/{CHUNK[format]}"]
    assert bad[0]["reason"]
    text = run("verify", tmp_path)
    assert text.status == 1 and f"BAD   a/{CHUNK[format]}: " in text.out


def test_raw_chunks_of_the_wrong_size(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr2", VALUES, (8, 8), metadata={"compressor": None})
    (tmp_path / "a/0.0").write_bytes(b"x" * 127)
    result = run("verify", tmp_path / "a")
    assert result.status == 1 and "127" in result.out and "128" in result.out


def test_shards(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", VALUES, (16, 16), inner=(8, 8))
    assert run("verify", tmp_path / "a", "--json").json[0]["chunks"] == 12
    shard = tmp_path / "a/c/0/0"
    raw = shard.read_bytes()
    shard.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    (tmp_path / "a/c/1/0").write_bytes(b"short")
    result = run("verify", tmp_path / "a", "--json")
    bad = {b["key"]: b["reason"] for b in result.json[0]["bad"]}
    assert result.status == 1 and sorted(bad) == ["c/0/0", "c/1/0"]
    assert "shard index: Digest mismatch" in bad["c/0/0"]
    assert "shard index: Existing shard has size of 5 bytes" in bad["c/1/0"]


def test_damage_inside_a_shard_names_the_inner_chunk(run: Run, tmp_path: Path) -> None:
    crc = {"codecs": [{"name": "bytes"}, {"name": "crc32c"}]}
    path = tmp_path / "a"
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "metadata": {
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16]}},
            "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [8, 8], **crc}}],
        },
    }
    cw.open(spec, create=True, dtype=cw.uint16, shape=[30, 20]).result().write(VALUES).result()
    raw = bytearray((path / "c/0/1").read_bytes())
    raw[5] ^= 1
    (path / "c/0/1").write_bytes(raw)
    result = run("verify", path, "--json")
    (bad,) = result.json[0]["bad"]
    assert bad["key"] == "c/0/1" and "shard entry {0, 0}/{2, 2}" in bad["reason"]


def test_strays_are_notes(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr2", VALUES, (8, 8))
    (tmp_path / "a/.DS_Store").write_bytes(b"x")
    (tmp_path / "a/0.0.0").write_bytes(b"x")
    (tmp_path / "a/9.0").write_bytes(b"x")
    result = run("verify", tmp_path / "a", "--json")
    assert result.status == 0
    notes = result.json[0]["notes"]
    assert any("9.0" in n and "outside" in n for n in notes)
    assert any(".DS_Store" in n and "0.0.0" in n for n in notes)


def test_hierarchies(run: Run, tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g", mode="w", zarr_format=3)
    for name in ("a", "b"):
        group.create_array(name, shape=(9,), chunks=(3,), dtype="i4")[:] = range(1, 10)
    make(tmp_path / "c.n5/x", "n5", VALUES, (8, 8))
    result = run("verify", tmp_path, "--json")
    assert result.status == 0
    assert {r["name"]: r["chunks"] for r in result.json if r["kind"] == "array"} == {
        "g/a": 3, "g/b": 3, "c.n5/x": 12,
    }  # fmt: skip
    (tmp_path / "g/b/c/1").write_bytes(b"")
    (tmp_path / "c.n5/x/attributes.json").write_text("{")
    result = run("verify", tmp_path)
    assert result.status == 1
    assert (
        "BAD   g/b/c/1: " in result.out
        and "BAD   c.n5/x/attributes.json: metadata can't be read" in result.out
    )
    assert "2 BAD" in result.out.splitlines()[-1]


def test_unknown_codecs_are_bad(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr2", VALUES, (8, 8))
    document = json.loads((tmp_path / "a/.zarray").read_text())
    (tmp_path / "a/.zarray").write_text(json.dumps({**document, "compressor": {"id": "unheard-of"}}))
    result = run("verify", tmp_path / "a")
    assert result.status == 1 and "unheard-of" in result.out and "BAD   .zarray" in result.out


def test_nothing_there(run: Run, tmp_path: Path) -> None:
    assert run("verify", tmp_path / "missing").status == 1


def test_quiet(run: Run, tmp_path: Path) -> None:
    """Nothing is printed but what is bad."""
    make(tmp_path / "a", "zarr3", VALUES, (8, 8), metadata=CODECS["zarr3"])
    result = run("verify", tmp_path, "--quiet")
    assert (result.status, result.out, result.err) == (0, "", "")
    (tmp_path / "a/c/1/1").write_bytes(b"")
    result = run("verify", tmp_path, "--quiet")
    assert result.status == 1 and "BAD   a/c/1/1" in result.out
    assert run("verify", tmp_path, "--quiet", "--json").json


def test_a_checksum_is_suggested(run: Run, tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a", VALUES)
    assert "cp --checksum" in run("verify", tmp_path / "a").out
    assert run("cp", tmp_path / "a", tmp_path / "b", "--checksum").status == 0
    assert "checksum" not in run("verify", tmp_path / "b").out
