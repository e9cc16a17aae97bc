"""Requests and prices in a dry run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.cp import PRICES as LIST_PRICES
from chunkwise.cli.cp import parse_prices, price_json, price_lines
from chunkwise.cli.main import main
from chunkwise.copying.copy_plan import Grid, plan_blocks
from chunkwise.core.index_space import IndexDomain
from chunkwise.errors import InvalidArgumentError

PRICES = '{"get": 0.4, "put": 5}'


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["cp", *map(str, arguments), "--dry-run", "--prices", PRICES]) == 0
    return capsys.readouterr().out


@pytest.fixture
def billion(tmp_path: Path) -> Path:
    shape = [64_000, 64_000, 64_000]  # 10^9 chunks
    cw.create_array(tmp_path / "a.zarr", shape=shape, dtype="u1", chunks=(64, 64, 64))
    return tmp_path / "a.zarr"


def test_a_billion_chunks_are_dear(billion: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = dry_run(capsys, billion, tmp_path / "b.zarr")
    assert "about 1,000,000,000 to read and 1,000,000,000 to write" in text
    assert "$400 to read and $5,000 to write" in text
    assert "cost $5,000 to write; in shards of 1,000 (--shard, zarr3) they cost $5.00" in text
    text = dry_run(capsys, billion, tmp_path / "b.zarr", "--shard", "640,640,640")
    assert "1,000,000 to write" in text and "$400 to read and $5.00 to write" in text
    assert "of their own" not in text
    assert not (tmp_path / "b.zarr").exists()


def test_one_task_is_not_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cw.create_array(tmp_path / "a.zarr", np.zeros((4, 4), "u1"))
    assert ", 1 task of 4 x 4" in dry_run(capsys, tmp_path / "a.zarr", tmp_path / "b.zarr")


def test_requests_are_counted_as_they_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.ones((48, 40, 36), "u2")
    source = cw.create_array(tmp_path / "a.zarr", values, chunks=(1, 40, 36))
    assert source.rank == 3
    options: list[Any] = [tmp_path / "a.zarr", tmp_path / "b.zarr", "--chunk", "48,4,4", "--json"]
    found = json.loads(dry_run(capsys, *options))["requests"]
    assert (found["get"], found["put"]) == (48, 90)
    assert found["put_dollars"] == pytest.approx(90 * 5e-6)


@pytest.mark.parametrize(("size", "blocks", "pairs"), [(10, 10, 10), (10, 5, 20), (10, 15, 13)])
def test_chunks_in_several_blocks_are_read_several_times(size: int, blocks: int, pairs: int) -> None:
    domain = IndexDomain(shape=[100])
    plan = plan_blocks(
        domain,
        1,
        Grid((size,), (0,)),
        Grid((blocks,), (0,)),
        memory=max(4 * blocks, 2 * size + blocks),
        two_passes=False,
    )
    assert plan.passes[0].shape == (blocks,)
    assert plan.n_gets == (pairs,)


@pytest.mark.parametrize("text", ["{}", "5", '{"get": -1, "put": 0}', '{"get": "1", "put": 0}', "x"])
def test_bad_prices(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="prices: expected"):
        parse_prices(text)


def test_prices_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(PRICES)
    assert parse_prices(str(tmp_path / "prices.json")) == parse_prices(PRICES)
    (tmp_path / "prices.json").write_text('{"get": "dear", "put": 5}')
    for name in ("prices.json", "absent.json"):
        with pytest.raises(InvalidArgumentError, match=r"prices: expected"):
            parse_prices(str(tmp_path / name))


def test_list_prices_say_whose_they_are_and_whether_they_were_confirmed() -> None:
    plan = plan_blocks(IndexDomain(shape=[100]), 1, Grid((10,), (0,)), Grid((10,), (0,)), memory=1000)
    text = "\n".join(price_lines(plan, LIST_PRICES["s3"], LIST_PRICES["gcs"], None))
    assert "S3 Standard in us-east-1, not confirmed: see https://aws.amazon.com/s3/pricing/" in text
    assert "https://cloud.google.com/storage/pricing-examples, read 2026-11-24" in text
    assert len(price_json(plan, LIST_PRICES["azure"], LIST_PRICES["azure"])["list_prices"]) == 1
    text = "\n".join(price_lines(plan, parse_prices(PRICES), None, None))
    assert "$0.00 to read" in text and "list prices" not in text
