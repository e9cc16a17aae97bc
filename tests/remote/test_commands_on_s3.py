"""The commands for hierarchies where there are no directories, only keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(35 * 20, dtype="u2").reshape(35, 20)


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a new bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    return f"s3://{new_s3_bucket(moto)}"


def make_tree(place: str, format: str) -> None:
    group = cw.open_group(place, "w", format=format, attributes={"title": "tree"})
    group.create_array("raw/s0", VALUES, chunks=(20, 10))
    group["raw/s0"].attrs["unit"] = "nm"
    group.create_array("float", np.array([1.5, np.nan, -np.inf]), chunks=(2,))
    group.create_group("empty", attributes={"k": "v"})
    group.create_link("latest", "/raw/s0")


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_a_tree(bucket: str, capsys: pytest.CaptureFixture[str], format: str) -> None:
    make_tree(f"{bucket}/a/", format)
    assert main(["cp", "-r", f"{bucket}/a/", f"{bucket}/b/", "--format", format]) == 0
    assert main(["diff", f"{bucket}/a/", f"{bucket}/b/"]) == 0
    assert main(["mv", f"{bucket}/b/raw/s0/", f"{bucket}/b/deep/s0/"]) == 0
    assert main(["mv", f"{bucket}/b/deep/", f"{bucket}/deep/"]) == 0
    tree = cw.open_group(f"{bucket}/deep/", format=format)
    np.testing.assert_array_equal(tree["s0"], VALUES)
    assert list(cw.open_group(f"{bucket}/b/")) == ["empty", "float", "latest", "raw"]
    assert main(["diff", f"{bucket}/a/raw/s0/", f"{bucket}/deep/s0/"]) == 0
    assert main(["mv", f"{bucket}/deep/s0/", f"{bucket}/b/s0/"]) == 0
    capsys.readouterr()
    assert main(["attrs", f"{bucket}/b/s0/", "get", "unit"]) == 0
    assert capsys.readouterr().out == '"nm"\n'
    assert main(["rm", "-r", f"{bucket}/a/"]) == 0
    keys = cw.KvStore.open(f"{bucket}/").result().list().result()
    assert keys and not [key for key in keys if key.startswith(b"a/")]
    if format != "n5":
        assert main(["consolidate", f"{bucket}/b/"]) == 0
        assert main(["rm", f"{bucket}/b/s0/"]) == 0
        assert main(["consolidate", f"{bucket}/b/", "--check"]) == 0
    capsys.readouterr()
    assert main(["tree", f"{bucket}/b/"]) == 0
    assert "float" in capsys.readouterr().out


def test_stores_are_told_apart(bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(f"{bucket}/a/", "zarr3")
    assert main(["mv", f"{bucket}/a/", str(tmp_path / "a")]) == 2
    assert "different stores" in capsys.readouterr().err
    assert main(["cp", "-r", f"{bucket}/a/", str(tmp_path / "a")]) == 0
    assert main(["diff", f"{bucket}/a/", str(tmp_path / "a")]) == 0


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_no_right_to_what_lies_above(
    moto: str, between: Any, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """Who may read, write and list below one prefix only can do everything there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)
    mine = f"s3://{new_s3_bucket(moto)}/mine"
    between.set(only="mine/")
    make_tree(f"{mine}/a", format)
    assert main(["info", f"{mine}/a/raw/s0"]) == 0
    assert main(["cp", "-r", f"{mine}/a", f"{mine}/b"]) == 0
    assert main(["verify", f"{mine}/b"]) == 0
    assert main(["mv", f"{mine}/b/raw", f"{mine}/b/moved"]) == 0
    assert main(["attrs", f"{mine}/b/moved/s0", "set", "k", "1"]) == 0
    np.testing.assert_array_equal(cw.open_group(f"{mine}/b")["moved/s0"], VALUES)
    assert main(["rm", f"{mine}/b/float"]) == 0
    assert main(["rm", "-r", f"{mine}/b"]) == 0
    assert main(["rm", "-r", f"{mine}/a"]) == 0
    assert not cw.KvStore.open(f"{mine}/").result().list().result()
