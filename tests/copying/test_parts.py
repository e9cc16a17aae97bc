"""Copies in parts, which know of each other only by what lies in the destination."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw
from chunkwise.copying.copy_passes import PartJournals, n_parts
from chunkwise.copying.journal import MOST_PARTS, Journal, Part, parse_part
from chunkwise.core.trees.location import locate
from chunkwise.errors import InvalidArgumentError

VALUES = np.random.default_rng(3).integers(0, 1 << 16, (48, 40, 36), "u2")
TWO_PASSES = ["--chunk", "48,4,4", "--memory", "40000"]

Cp = Callable[..., Any]


class Result:
    def __init__(self, status: int, err: str, out: str) -> None:
        self.status, self.err, self.out = status, err, out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Cp:
    from chunkwise.cli.main import main

    def run(*arguments: object) -> Result:
        status = main([str(argument) for argument in arguments])
        text = capsys.readouterr()
        return Result(status, text.err, text.out)

    return run


@pytest.fixture
def planes(tmp_path: Path) -> Path:
    cw.create_array(tmp_path / "planes.zarr", VALUES, chunks=(1, 40, 36))
    return tmp_path / "planes.zarr"


def read_by_tensorstore(path: Path, driver: str = "zarr3") -> Any:
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec).result().read().result()


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "n5"])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_the_last_part_makes_the_array(
    run: Cp, planes: Path, tmp_path: Path, format: str, order: tuple[int, ...]
) -> None:
    target = tmp_path / "b"
    options = ["cp", planes, target, "--format", format, *TWO_PASSES, "--quiet", "--no-sync"]
    for at in (0, 1):  # the second pass begins when all have done the first: the last goes on with it at once
        for number in order if at == 0 else order[:-1]:
            result = run(*options, "--part", f"{number}/3")
            assert result.status == 0, result.err
            if (at, number) != (1, order[-2]):
                assert "of all parts are left" in result.err
                assert run("info", target).status == 1
    assert np.array_equal(read_by_tensorstore(target, format), VALUES)
    assert not list(target.glob(".chunkwise*"))
    assert "nothing to do" in run(*options, "--part", "2/3").err
    assert run("diff", planes, target, "--no-attributes").status == 0


@pytest.mark.parametrize("recursive", [[], ["-r"]])
def test_a_part_that_finds_the_copy_compares_it(
    run: Cp, planes: Path, tmp_path: Path, recursive: list[str]
) -> None:
    """It says that every element was compared."""
    source, target = planes, tmp_path / "b"
    if recursive:
        source = tmp_path / "tree.zarr"
        cw.create_group(source, format="zarr3").copy(cw.open_array(planes), "planes")
    options = ["cp", *recursive, source, target, "--part", "1/1", "--verify", "--quiet", "--json"]
    assert run(*options).status == 0
    again = run(*options)
    assert again.status == 0 and "nothing to do" in again.err and json.loads(again.out)["verified"]
    cw.open_array(target / "planes" if recursive else target, mode="r+")[3, 4, 5] = 7
    again = run(*options)
    assert again.status == 1 and "the copy differs from the source at [3, 4, 5]" in again.err


def test_a_damaged_intermediate_is_made_again_by_all_parts(run: Cp, planes: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    options = ["cp", planes, target, *TWO_PASSES, "--quiet", "--no-sync"]
    for number in (1, 2, 3):
        assert run(*options, "--part", f"{number}/3").status == 0
    for shard in target.glob(".chunkwise-intermediate-*/c/*/*/*"):
        shard.write_bytes(b"")
    for number in (2, 1, 3, 2, 1):  # as after a loss of power
        result = run(*options, "--part", f"{number}/3")
        assert result.status == 0, result.err
    assert np.array_equal(read_by_tensorstore(target), VALUES)
    assert not list(target.glob(".chunkwise*"))


def test_resume_does_what_parts_have_left(run: Cp, planes: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    options = ["cp", planes, target, *TWO_PASSES, "--quiet", "--no-sync"]
    assert run(*options, "--part", "1/3").status == 0
    assert run(*options, "--part", "3/3").status == 0
    state = json.loads(run("status", target, "--json").out)
    assert [each["part"] for each in state["parts"]] == ["1/3", "3/3"]
    n = state["passes"][0]["tasks"]
    assert state["passes"][0]["done"] == n - len(range(*Part(2, 3).share(n)))
    assert "part 3 of 3: " in run("status", target).out
    other = run(*options, "--part", "2/4")
    assert other.status == 1 and "number of parts is another one" in other.err
    result = run(*options, "--resume", "--verify")
    assert result.status == 0 and "going on after" in result.err
    assert np.array_equal(read_by_tensorstore(target), VALUES)
    assert not list(target.glob(".chunkwise*"))


def test_who_joins_the_parts_may_be_killed(tmp_path: Path) -> None:
    location, task, n_tasks = locate(tmp_path), {"number of parts": 2}, [10]
    whole, parts = Journal(location, task, n_tasks), PartJournals(location, task, n_tasks, 2)
    whole.begin()
    for number, total in ((1, 7), (2, 100)):
        own = parts.of(Part(number, 2))
        own.begin()
        own.mark(*Part(number, 2).share(10), 0, total)
        own.save()
    there = {path: path.read_text() for path in tmp_path.glob(".chunkwise-copy.*-of-*")}
    parts.join(whole)
    assert not list(tmp_path.glob(".chunkwise-copy.*-of-*"))
    for path, text in there.items():  # as if it had been killed before it could delete them
        path.write_text(text)
    parts.join(whole)
    assert whole.missing() == [] and whole.fingerprint() == 107
    assert not list(tmp_path.glob(".chunkwise-copy.*-of-*"))


def test_the_parts_are_all_tasks() -> None:
    for n_tasks in (0, 1, 5, 1000):
        for n in (1, 3, 7):
            shares = [range(*Part(number, n).share(n_tasks)) for number in range(1, n + 1)]
            assert [task for share in shares for task in share] == list(range(n_tasks))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "-1/3"])
def test_bad_parts(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="expected I/N"):
        parse_part(text)


def test_a_part_overwrites_nothing(run: Cp, planes: Path, tmp_path: Path) -> None:
    result = run("cp", planes, tmp_path / "b", "--part", "1/2", "--overwrite")
    assert result.status == 2 and "--overwrite would let each part delete" in result.err
    cw.create_array(tmp_path / "c.zarr", np.zeros(3))
    result = run("cp", planes, tmp_path / "c.zarr", "--part", "1/2")
    assert result.status == 1 and "is an array already" in result.err


@pytest.mark.parametrize(
    ("found", "n"),
    [(0, None), (1, 1), (2, 2), (MOST_PARTS, MOST_PARTS), (MOST_PARTS + 1, None), (True, None), (-1, None),
     ("2", None), (2.0, None), (None, None)],
)  # fmt: skip
def test_the_number_of_parts_in_a_journal(found: Any, n: int | None) -> None:
    """What no copy would write is no number of parts."""
    assert n_parts({"task": {"number of parts": found}}) == n  # type: ignore[arg-type, typeddict-item]
