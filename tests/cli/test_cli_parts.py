"""The parts of the command line that need no array: numbers, options, progress, compressors."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from types import ModuleType

import pytest
from cli_arrays import DRIVERS
from doc_examples import run_examples

from chunkwise.cli import command, options
from chunkwise.cli.command import UsageError
from chunkwise.cli.options import parse_nbytes, parse_sizes
from chunkwise.copying import codec_option, quantities
from chunkwise.copying.codec_option import (
    Compressor,
    compressor_from_json,
    compressor_to_json,
    parse_compressor,
)
from chunkwise.copying.progress import Lines
from chunkwise.copying.quantities import format_duration, format_nbytes
from chunkwise.core.base import html
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan import blocks


@pytest.mark.parametrize("module", [quantities, options, blocks, codec_option, html])
def test_examples(module: ModuleType) -> None:
    result = run_examples(module)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1000, "1.00 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (5.2e13, "52.0 TB"),
        (2e21, "2e+03 EB"),
    ],
)
def test_sizes(nbytes: float, text: str) -> None:
    assert format_nbytes(nbytes) == text


def test_durations() -> None:
    assert [format_duration(s) for s in (0, 59.4, 59.6, 3599.6, 200_000)] == [
        "0.0 s", "59 s", "1 min 0 s", "1 h 0 min", "2 d 7 h",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("12", 12), ("1.5kB", 1500), ("2 MiB", 2 << 20), ("3G", 3 * 10**9), ("1TiB", 1 << 40)],
)
def test_amounts(text: str, nbytes: int) -> None:
    assert parse_nbytes(text, "memory") == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-1", "1XB", "1e3"])
def test_malformed_amounts(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        parse_nbytes(text, "memory")


def test_shapes() -> None:
    for text in ("64,64,32", "64x64x32", "64 × 64 × 32", "[64, 64, 32]", "(64,64,32,)"):
        assert parse_sizes(text, "chunk") == (64, 64, 32)
    assert parse_sizes("scalar", "shape") == ()
    for text in ("0", "1,,2", "a", "-1", "1.5"):
        with pytest.raises(UsageError, match="--chunk"):
            parse_sizes(text, "chunk")


@pytest.mark.each_once
@pytest.mark.parametrize("format", list(DRIVERS))
@pytest.mark.parametrize(
    "text", ["none", "zstd:7", "gzip:3", "zlib:2", "bz2:4", "xz:5", "lz4", "blosc:zlib:2:bitshuffle", "blosc"]
)
def test_compressors_survive_every_format(format: str, text: str) -> None:
    wanted = parse_compressor(text)
    assert compressor_from_json(compressor_to_json(wanted, format), format) == wanted


@pytest.mark.parametrize(
    "text", ["zstd:x", "zstd:1:2", "none:1", "blosc:foo", "blosc:lz4:5:maybe", "", "zst"]
)
def test_malformed_compressors(text: str) -> None:
    with pytest.raises(ValueError, match="codec"):
        parse_compressor(text)


def test_other_compressors_have_no_counterpart() -> None:
    assert compressor_from_json({"id": "lzf"}, "zarr2") is None
    assert compressor_from_json({"type": "jpeg"}, "n5") is None
    two = [{"name": "zstd", "configuration": {"level": 1}}, {"name": "numcodecs.shuffle"}]
    assert compressor_from_json(two, "zarr3") is None
    assert compressor_from_json({"type": "gzip", "level": -1, "useZlib": False}, "n5") == Compressor(
        "gzip", 6
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_show_rate_and_time_left() -> None:
    clock, stream = Clock(), io.StringIO()
    with Lines("copying", 100_000_000, 20_000_000, stream, clock) as lines:
        clock.now = 10
        lines.advance(20_000_000)
    text = stream.getvalue().splitlines()[0]
    assert "40%" in text and "40.0 MB of 100 MB" in text and "2.00 MB/s" in text and "30 s left" in text


def test_lines_are_few() -> None:
    clock, stream = Clock(), io.StringIO()
    with Lines("copying", 1000, 0, stream, clock) as lines:
        for _ in range(1000):
            clock.now += 0.03
            lines.advance(1)
    assert len(stream.getvalue().splitlines()) == 3
    assert stream.getvalue().splitlines()[-1].startswith("copying 100%")


def test_nothing_to_do_is_all_done() -> None:
    stream = io.StringIO()
    with Lines("copying", 0, 0, stream, Clock()):
        pass
    assert "100%" in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("total", [20_000_000, None])
def test_a_bar_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], total: int | None
) -> None:
    """What is printed meanwhile goes to stdout, which may be a file, and the bar makes room for it."""
    monkeypatch.setattr("sys.stderr", Terminal())
    shown = Namespace(quiet=False, json=False)
    with command.progress_of(shown, "copying", total, 5_000_000) as bar:
        bar.advance(5_000_000)
        bar.clear()
        before = sys.stderr.getvalue()
        print("found something")
        bar.advance(10_000_000)
    assert capsys.readouterr().out == "found something\n"
    assert before.rstrip().endswith("\x1b[2K"), "the bar is not cleared"
    after = sys.stderr.getvalue().removeprefix(before)
    assert "20.0" in after and ("100%" in after) == (total is not None) and "found" not in after
    assert after.rindex("\n") > after.rindex("20.0"), "the bar stays at the end"


def test_lines_in_a_terminal_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    with command.progress_of(Namespace(quiet=False, json=False), "copying", 10) as lines:
        lines.advance(10)
    assert sys.stderr.getvalue().startswith("copying 100%  10 B of 10 B")


def test_nothing_is_shown_if_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in Terminal(), io.StringIO():
        monkeypatch.setattr("sys.stderr", stream)
        with command.progress_of(Namespace(quiet=True, json=False), "copying", 10) as silent:
            silent.advance(10)
            silent.clear()
        assert stream.getvalue() == ""


def test_blocks_cover_the_domain_once_and_begin_at_the_origin() -> None:
    domain = IndexDomain(inclusive_min=[3, -5], exclusive_max=[20, 4])
    division = blocks.Blocks(domain, (0, 0), (8, 3))
    cells = [(d.inclusive_min, d.exclusive_max) for d in division.domains()]
    assert len(cells) == division.n_blocks == 3 * 4
    assert cells[0] == ((3, -5), (8, -3)) and cells[-1] == ((16, 3), (20, 4))
    points = [(i, j) for (a, b), (c, d) in cells for i in range(a, c) for j in range(b, d)]
    assert sorted(points) == [(i, j) for i in range(3, 20) for j in range(-5, 4)]
    assert list(blocks.Blocks(IndexDomain(shape=[0, 4]), (0, 0), (1, 1)).domains()) == []
    assert len(list(blocks.Blocks(IndexDomain(shape=[]), (), ()).domains())) == 1


def test_an_amount_that_is_not_known() -> None:
    """How much is done, and how fast; of a short command nothing where there is no terminal."""
    clock, stream = Clock(), io.StringIO()
    with Lines("verifying", None, 0, stream, clock) as lines:
        clock.now += 10
        lines.advance(20_000_000)
        lines.clear()
    assert "verifying 20.0 MB  2.00 MB/s" in stream.getvalue() and "%" not in stream.getvalue()
    quiet = io.StringIO()
    with Lines("verifying", None, 0, quiet, clock) as lines:
        lines.advance(10)
        assert quiet.getvalue() == ""
        clock.now += 11
        lines.advance(10)
    assert quiet.getvalue().splitlines()[-1].startswith("verifying 20 B")
    assert len(quiet.getvalue().splitlines()) == 2
    silent = io.StringIO()
    with Lines("verifying", None, 0, silent, clock) as lines:
        lines.advance(10)
    assert silent.getvalue() == ""
