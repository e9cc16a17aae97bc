"""An interrupted copy never looks whole, and is finished by ``--resume``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_arrays import DRIVERS, Run, make, read

import chunkwise as cw
from chunkwise.copying.copy_arrays import CopyStep
from chunkwise.core.trees.node import JOURNAL

VALUES = np.random.default_rng(1).integers(0, 60000, (40, 40), "u2")
SMALL = ["--memory", "1000", "--quiet", "--no-sync"]  # so small that each chunk is a block


@pytest.fixture
def source(tmp_path: Path) -> Path:
    make(tmp_path / "source", "n5", VALUES, (10, 10))
    return tmp_path / "source"


class Interrupted:
    """Replaces the copy of one block: some succeed, then `error` is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_blocks: int, error: BaseException) -> None:
        self.left, self.error, self.copied = n_blocks, error, 0
        original = CopyStep.do

        def do(step: CopyStep, number: int, target: Any) -> Any:
            if step.kind != "copy":
                return original(step, number, target)
            if self.left == 0:
                raise self.error
            self.left -= 1
            done = original(step, number, target)
            self.copied += 1
            return done

        monkeypatch.setattr(CopyStep, "do", do)


@pytest.mark.parametrize("format", list(DRIVERS))
def test_interrupted_and_resumed(
    run: Run, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    target = tmp_path / "target"
    arguments = ["cp", source, target, "--format", format, "--chunk", "10,8", *SMALL]
    with monkeypatch.context() as patch:
        Interrupted(patch, 7, KeyboardInterrupt())
        result = run(*arguments)
    assert result.status == 130
    assert result.err.strip() == "chunkwise: interrupted; --resume goes on where it stopped"
    journal = json.loads((target / JOURNAL).read_text())
    assert journal["tasks"][-1] == 20 and sum(stop - start for start, stop in journal["done"][-1]) == 7
    assert journal["owner"] is None

    with pytest.raises(ValueError, match=r"NOT_FOUND|does not exist|FAILED_PRECONDITION"):
        cw.open(str(target)).result()
    assert run("info", target).status == 1
    assert "unfinished copy" in run("tree", tmp_path).out
    verified = run("verify", target)
    assert verified.status == 1 and "unfinished copy" in verified.out

    again = run(*arguments)
    assert again.status == 1 and "--resume" in again.err

    with monkeypatch.context() as patch:
        counter = Interrupted(patch, 1000, AssertionError())
        result = run(*arguments, "--resume", "--verify")
        assert counter.copied == 13
    assert result.status == 0, result.err
    assert np.array_equal(read(target), VALUES)
    assert not (target / JOURNAL).exists()
    assert run("verify", target).status == 0


def test_resume_with_other_options_or_another_source_is_refused(
    run: Run, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    with monkeypatch.context() as patch:
        Interrupted(patch, 3, KeyboardInterrupt())
        run("cp", source, target, "--format", "zarr3", *SMALL)
    other = run("cp", source, target, "--format", "zarr3", "--resume", "--codec", "gzip:1", *SMALL)
    assert other.status == 1 and "its target is another one" in other.err
    other = run("cp", source, target, "--format", "zarr3", "--resume", "--memory", "100MB", "--quiet")
    assert other.status == 1 and "its memory is 1,000 bytes" in other.err
    run("attrs", source, "set", "changed", "1")
    other = run("cp", source, target, "--format", "zarr3", "--resume", *SMALL)
    assert other.status == 1 and "another one" in other.err
    assert run("cp", source, target, "--format", "zarr3", "--overwrite", *SMALL).status == 0
    assert np.array_equal(read(target), VALUES)


def test_a_failure_leaves_no_array_and_can_be_resumed(
    run: Run, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    with monkeypatch.context() as patch:
        Interrupted(patch, 5, cw_error("disk full"))
        result = run("cp", source, target, "--format", "zarr3", *SMALL)
    assert result.status == 1 and "disk full" in result.err
    assert not (target / "zarr.json").exists()
    assert run("cp", source, target, "--format", "zarr3", "--resume", *SMALL).status == 0


def cw_error(text: str) -> Exception:
    from chunkwise.errors import StorageError

    return StorageError(text)


def test_stopped_between_metadata_and_the_end(run: Run, tmp_path: Path, source: Path) -> None:
    target, task = tmp_path / "target", tmp_path / "task"
    assert run("cp", source, target, "--format", "zarr3", *SMALL).status == 0
    assert run("cp", source, target, "--format", "zarr3", "--resume", *SMALL).err.startswith(
        "chunkwise: nothing to do"
    )
    # As if the process had been killed before it could delete the journal.
    with pytest.MonkeyPatch.context() as patch:
        Interrupted(patch, 0, KeyboardInterrupt())
        run("cp", source, task, "--format", "zarr3", *SMALL)
    journal = json.loads((task / JOURNAL).read_text())
    journal["done"] = [[[0, n]] * bool(n) for n in journal["tasks"]]
    (target / JOURNAL).write_text(json.dumps(journal))
    assert run("cp", source, target, "--format", "zarr3", "--resume", *SMALL).status == 0
    assert not (target / JOURNAL).exists()
    assert np.array_equal(read(target), VALUES)


def test_verification_finds_one_flipped_bit(
    run: Run, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    original = CopyStep.do

    def flip(step: CopyStep, number: int, target: Any) -> Any:
        done = original(step, number, target)
        if step.kind == "copy" and number == 0:
            step.target[3, 4] = int(VALUES[3, 4]) ^ 1
        return done

    arguments = ["cp", source, target, "--format", "zarr3", "--verify", *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr(CopyStep, "do", flip)
        result = run(*arguments)
    assert result.status == 1
    assert "differs from the source at [3, 4]" in result.err and "1 of 100 elements" in result.err
    assert not (target / "zarr.json").exists()
    assert run(*arguments, "--resume").status == 0
    assert np.array_equal(read(target), VALUES)


def test_what_is_in_the_way_is_not_overwritten_without_being_asked(
    run: Run, tmp_path: Path, source: Path
) -> None:
    target = tmp_path / "target"
    make(target, "zarr2", VALUES + 1, (40, 40))
    result = run("cp", source, target, "--format", "zarr2", *SMALL)
    assert result.status == 1 and "is an array already" in result.err
    assert np.array_equal(read(target), VALUES + 1)
    assert run("cp", source, target, "--format", "zarr2", "--resume", *SMALL).status == 1
    assert np.array_equal(read(target), VALUES + 1)
    assert run("cp", source, target, "--format", "zarr3", "--overwrite", *SMALL).status == 0
    assert sorted(p.name for p in target.iterdir()) == ["c", "zarr.json"]

    group = tmp_path / "group"
    group.mkdir()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    shutil.copytree(source, group / "below")
    for option in ([], ["--overwrite"]):
        result = run("cp", source, group, "--format", "zarr2", *option, *SMALL)
        assert result.status == 1 and "group" in result.err
    assert np.array_equal(read(group / "below"), VALUES)

    full = tmp_path / "full"
    (full / "sub").mkdir(parents=True)
    result = run("cp", source, full, "--format", "zarr3", *SMALL)
    assert result.status == 1 and "isn't empty" in result.err


def test_bad_sources(run: Run, tmp_path: Path, source: Path) -> None:
    missing = run("cp", tmp_path / "missing", tmp_path / "x", "--format", "zarr3")
    assert missing.status == 1 and "no array or group" in missing.err
    (source / "1" / "1").write_bytes(b"\0\0\0\2\0\0")
    result = run("cp", source, tmp_path / "x", "--format", "zarr3", *SMALL)
    assert result.status == 1
    assert "Error reading local file" in result.err and str(source / "1" / "1") in result.err
    assert not (tmp_path / "x" / "zarr.json").exists()
    assert run("cp", source, source, "--format", "zarr3").status == 1
    link = tmp_path / "link"
    link.symlink_to(source)
    assert "same array" in run("cp", source, link, "--format", "n5").err
    file = tmp_path / "file"
    file.write_text("x")
    assert run("cp", tmp_path / "source", file, "--format", "zarr3").status == 1


@pytest.mark.parametrize(
    "bad", [["--chunk", "0,4"], ["--chunk", "4,4,4"], ["--memory", "lots"], ["--format", "hdf5"]]
)
def test_wrong_options(run: Run, tmp_path: Path, source: Path, bad: list[str]) -> None:
    result = run("cp", source, tmp_path / "x", "--format", "zarr3", *bad)
    assert result.status == 2
    assert result.err and not (tmp_path / "x").exists()
