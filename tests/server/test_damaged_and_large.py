"""What is drawn of arrays with damaged chunks, and of planes that are too large to be read whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import PIXELS, keep, show
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.errors import ChunkwiseError
from chunkwise.images.multiscale import sampling
from chunkwise.images.server import tiles
from chunkwise.images.server.image import image_of


def _with_damage(place: Path, values: np.ndarray, chunks: tuple[int, ...], *keys: str) -> Any:
    """Write an array, damage chunks of it, and open it."""
    chunkwise.create_array(place, values, chunks=chunks, codec="bz2")
    for key in keys:
        (place / f"c/{key}").write_bytes(b"damaged")
    return chunkwise.open_array(place)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_box_is_read_but_for_its_damaged_chunks(tmp_path_factory: Any, data: Any) -> None:
    shape = data.draw(st.tuples(*[st.integers(2, 8)] * 3))
    chunks = data.draw(st.tuples(*[st.integers(3, 5)] * 3))
    bad = tuple(data.draw(st.integers(0, (n - 1) // c)) for n, c in zip(shape, chunks, strict=True))
    steps = data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))
    bounds = []
    for n in shape:
        lo = data.draw(st.integers(0, n - 1))
        bounds.append((lo, data.draw(st.integers(lo + 1, n))))
    values = np.random.default_rng(0).integers(1, 255, shape, dtype="u1")
    values[0, 0, 0] = 255  # so that no chunk there is left out as a fill value
    place = tmp_path_factory.mktemp("a") / "a.zarr"
    view = _with_damage(place, values, chunks, "/".join(map(str, bad)))
    found, damaged = sampling.read_box(view, tuple(bounds), steps)
    wanted = values.copy()
    wanted[tuple(slice(i * c, (i + 1) * c) for i, c in zip(bad, chunks, strict=True))] = 0
    part = tuple(slice(lo, hi, step) for (lo, hi), step in zip(bounds, steps, strict=True))
    np.testing.assert_array_equal(found, wanted[part])
    assert len(damaged) == int((wanted[part] == 0).any())


@pytest.mark.parametrize("decoded", [1, 64, 1 << 20])
def test_large_boxes_are_drawn_from_a_bounded_number_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: int
) -> None:
    monkeypatch.setattr(sampling, "_MOST_WHOLE", 16)
    monkeypatch.setattr(sampling, "_MOST_DECODED", decoded)
    values = np.arange(40 * 50, dtype="u4").reshape(40, 50) + 1
    view = chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(4, 4))
    bounds, steps = ((1, 40), (3, 49)), [2, 3]
    found, damaged = sampling.read_box(view, bounds, steps, is_labels=False)
    exact = values[1:40:2, 3:49:3]
    assert found.shape == exact.shape and damaged == []
    assert set(found.flat) <= set(exact.flat)  # elements of the array, none of them far away
    rows, columns = (found - 1) // 50, (found - 1) % 50
    assert (np.diff(rows[:, 0]) >= 0).all() and (np.diff(columns[0]) >= 0).all()
    cells = {(r // 4, c // 4) for r, c in zip(rows.flat, columns.flat, strict=True)}
    assert len(cells) * 16 <= max(decoded, 16)
    if decoded > 4000:
        np.testing.assert_array_equal(found, exact)


def test_chunks_that_are_not_stored_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MOST_WHOLE", 16)
    monkeypatch.setattr(sampling, "_MOST_DECODED", 3 * 16)
    view = chunkwise.create_array(tmp_path / "a.zarr", shape=(400, 400), dtype="u2", chunks=(4, 4))
    view[200:204, 120:124] = np.full((4, 4), 7, "u2")
    view[8:12, 396:] = np.full((4, 4), 9, "u2")
    found, _ = sampling.read_box(view, ((0, 400), (0, 400)), [4, 4], is_labels=False)
    assert found[50, 30] == 7 and found[2, 99] == 9 and np.count_nonzero(found) == 2
    monkeypatch.setattr(sampling, "_SAMPLE", 1000)
    assert sampling.contrast_of(view, {})["range"] == [7, 9]
    assert sampling.contrast_of(view, {1: 397})["range"] == [0, 9]


def test_contrast_projection_and_lines_come_from_what_can_be_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(100, 1000, (4, 24, 24)).astype("u2")
    view = _with_damage(tmp_path / "a.zarr", values, (2, 6, 6), "1/2/1")
    left = values.copy()
    left[2:, 12:18, 6:12] = 0
    known = sampling.contrast_of(view, {})
    assert known["range"] == [left[left > 0].min(), left.max()] and known["window"][1] > 900
    found = tiles.find_volume(image_of(view), [0, 0, 0]).read()
    np.testing.assert_array_equal(found, left)
    line = tiles.find_line(view, (1, 2), [3, 0, 0], [14, 0, 14, 23]).read()
    assert line == [n or None for n in left[3, 14].tolist()]
    bad = [f"{z}/{y}/{x}" for z in range(2) for y in range(4) for x in range(4)]
    with pytest.raises(ChunkwiseError):
        sampling.contrast_of(_with_damage(tmp_path / "b.zarr", values, (2, 6, 6), *bad), {})


def test_headless_draws_and_names_what_it_can_not_read(tmp_path: Path, capsys: Any) -> None:
    from PIL import Image

    from chunkwise.cli.main import main

    _with_damage(tmp_path / "a.zarr", np.full((48, 48), 200, "u1"), (8, 8), "1/2")
    assert main(["view", str(tmp_path / "a.zarr"), "--headless", str(tmp_path / "o.png")]) == 0
    assert "c/1/2" in capsys.readouterr().err
    picture = np.asarray(Image.open(tmp_path / "o.png"))[22:442, 10:430]
    assert (picture[300, 100] == 255).all()
    red, green, _ = picture[70:140, 140:210].reshape(-1, 3).mean(0)
    assert red > green + 60


def test_the_page_draws_a_damaged_volume_and_a_huge_plane(tmp_path: Path, page: Any) -> None:
    group = chunkwise.open_group(tmp_path / "t", "w")
    _with_damage(tmp_path / "t/bad", np.full((4, 24, 24), 800, "u2"), (2, 6, 6), "1/2/2")
    huge = group.create_array("huge", shape=(100_000, 100_000), dtype="u2", chunks=(1024, 1024))
    huge[50_176:51_200, 30_720:31_744] = np.full((1024, 1024), 3000, "u2")
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/bad")
        keep(page, "damaged-volume")
        assert page.evaluate("window.chunkwise.view.channels[0].window") == [0, 800]
        assert page.locator("#message").inner_text() == ""
        assert "c/1/2/2" in page.locator("#problems").inner_text()
        assert page.locator(".fourth .note").inner_text() == ""
        assert page.evaluate(PIXELS, [0, [[2, 2]]]) == [[255] * 3]
        show(page, server, "t/huge", "&channels=1_ffffff_0_3000")
        keep(page, "huge")
        assert page.locator("#problems").is_hidden()
        assert "chunkwise pyramid" in page.locator("#hint").inner_text()
        assert page.evaluate(PIXELS, [0, [[50_700, 31_200], [20_000, 20_000]]]) == [[255] * 3, [0] * 3]
