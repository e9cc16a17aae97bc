"""What each kind of array is shown as: slices, colours, a plot, or a table of values."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import PIXELS, keep, show, wait
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.errors import NotFoundError
from chunkwise.images.multiscale import sampling
from chunkwise.images.server.forms import draw_first_view, first_shown, forms_of
from chunkwise.images.server.image import image_of
from chunkwise.images.server.sources import sources_of
from chunkwise.images.server.tiles import Plane, read_cells

RECORD = [("time", "<f8"), ("tag", "S2")]


@pytest.mark.parametrize(
    ("shape", "dtype", "forms"),
    [
        ((), "f8", ["table"]),
        ((7,), "f4", ["plot", "table"]),
        ((1, 7, 1), "bool", ["plot", "table"]),
        ((7,), "<U5", ["table"]),
        ((7, 8), RECORD, ["table"]),
        ((7, 8), "c8", ["planes", "table"]),
        ((500, 8), "f8", ["table", "plot", "planes"]),
        ((500, 400), "f8", ["planes", "table"]),
        ((30, 40, 3), "u1", ["rgb", "planes", "table"]),
        ((30, 40, 4), "u1", ["rgb", "planes", "table"]),
        ((30, 40, 3), "u2", ["planes", "table"]),
        ((3, 30, 40), "u1", ["planes", "table"]),
        ((0, 5), "u1", ["table"]),
        ((5, 6, 7, 8), "M8[s]", ["planes", "table"]),
    ],
)
def test_forms_of_arrays(shape: tuple[int, ...], dtype: Any, forms: list[str]) -> None:
    found = forms_of(image_of(chunkwise.array(np.zeros(shape, dtype))))
    assert [one.form for one in found] == forms
    for one in found:
        shown = [dim for dim in (*one.dims, one.channel, *one.others) if dim is not None]
        assert len(set(shown)) == len(shown) and set(shown) <= set(range(len(shape)))


def test_what_names_its_axes_is_no_guess() -> None:
    values = chunkwise.array(np.zeros((30, 40, 3), "u1"))
    assert forms_of(image_of(values[chunkwise.d[:].label["z", "y", "x"]]))[0].form == "planes"
    series = chunkwise.array(np.zeros((500, 4)))
    assert forms_of(image_of(series[chunkwise.d[:].label["t", "c"]]))[0] == (
        "plot", (0, None, None), 1, (),
    )  # fmt: skip


@settings(max_examples=25)
@given(st.data())
def test_extremes_are_those_of_each_part(data: Any) -> None:
    length, m = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 3))
    values = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, -3.0, 9.0, np.nan]), min_size=length * m, max_size=length * m)
    )
    values = np.array(values).reshape(length, m)
    values[: length // 2] = 0  # chunks that aren't stored
    n = data.draw(st.integers(1, length))
    chunk = data.draw(st.integers(1, 9))
    spec = {"driver": "zarr3", "kvstore": f"memory://{data.draw(st.uuids())}/"}
    view = chunkwise.open(
        spec, create=True, dtype="float64", shape=values.shape,
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=(chunk, m)),
    ).result()  # fmt: skip
    view.write(values).result()
    before, sampling._SPAN = sampling._SPAN, data.draw(st.integers(1, 80))
    try:
        found, is_exact, damaged = sampling.read_extremes(view, n)
    finally:
        sampling._SPAN = before
    assert is_exact and not damaged
    edges = np.linspace(0, length, n + 1).astype(int)
    for i, (lo, hi) in enumerate(pairwise(edges)):
        for line in range(m):
            part = values[lo:hi, line]
            part = part[~np.isnan(part)]
            wanted = (part.min(), part.max()) if part.size else (np.nan, np.nan)
            np.testing.assert_array_equal(found[:, i, line], wanted)


@pytest.mark.parametrize(("length", "n"), [(60, 7), (15, 8), (19, 10), (9, 9)])
def test_one_element_stands_for_each_part_of_a_large_series(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, length: int, n: int
) -> None:
    monkeypatch.setattr(sampling, "_MOST_DECODED", 1)
    values = np.stack([np.arange(1.0, length + 1), -np.arange(1.0, length + 1)], 1)
    view = chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(2, 2))
    found, is_exact, damaged = sampling.read_extremes(view, n)
    assert not is_exact and not damaged and found.shape == (2, n, 2)
    edges = np.linspace(0, length, n + 1).astype(int)
    for i, (lo, hi) in enumerate(pairwise(edges)):
        assert np.isin(found[:, i, 0], values[lo:hi, 0]).all()
        np.testing.assert_array_equal(found[:, i, 1], -found[:, i, 0])


def test_cells_are_texts_of_what_can_be_read(tmp_path: Path) -> None:
    records = np.array([(i / 2, b"ab") for i in range(8)], RECORD)
    view = chunkwise.create_array(tmp_path / "r.zarr", records, chunks=(4,), codec="bz2")
    plane = Plane(0, None, (0,), (2, 6), (0, 1))
    assert read_cells(view, plane, "")[0] == [[str(i / 2), "ab"] for i in range(2, 6)]
    assert read_cells(view, plane, "time")[0] == [[str(i / 2)] for i in range(2, 6)]
    (tmp_path / "r.zarr/c/1").write_bytes(b"damaged")
    cells, damages = read_cells(chunkwise.open_array(tmp_path / "r.zarr"), plane, "")
    assert cells == [["1.0", "ab"], ["1.5", "ab"], [None, None], [None, None]]
    assert "c/1" in damages[0].message


def test_what_is_shown_first_is_an_image(tmp_path: Path) -> None:
    group = chunkwise.open_group(tmp_path / "n", "w")
    group.create_array("acquisition/v/data", np.arange(50, dtype="i2"))
    group.create_array("file_create_date", np.array([b"2026"], object), dtype="string")
    group.create_array("identifier", np.array("a", "<U5"))
    assert first_shown(sources_of(tmp_path / "n"))[0] == "n/acquisition/v/data"
    path, image = first_shown(sources_of(tmp_path / "n/identifier"))
    assert path == "identifier" and image is not None
    with pytest.raises(NotFoundError, match="no image in identifier"):
        draw_first_view(image)


def test_plots_tables_and_colours_on_the_page(tmp_path: Path, page: Any) -> None:
    group = chunkwise.open_group(tmp_path / "n", "w")
    spike = np.zeros(300_000, "i2")
    spike[123_457] = 900
    group.create_array("data", spike, chunks=(100_000,))
    lines = np.stack([np.full(400, 1.0), np.full(400, 3.0)], 1)
    series = group.create_array("lines", lines, chunks=(100, 2))
    series.attrs.update({"conversion": 1.0, "resolution": -1.0, "unit": "V"})
    group.create_array("records", np.array([(i / 2, b"ab") for i in range(300)], RECORD), chunks=(300,))
    rgb = np.zeros((20, 30, 3), "u1")
    rgb[:, 15:] = 255, 128, 0
    group.create_array("rgb", rgb)
    group.create_array("complex", np.ones((8, 9), "c8"))
    with chunkwise.serve(tmp_path / "n") as server:
        page.goto(server.url)
        page.wait_for_function("window.chunkwise?.view?.path === 'n/complex'")
        wait(page)
        assert "magnitude" in page.locator("figcaption").first.inner_text()
        show(page, server, "n/data")
        keep(page, "plot")
        low, high = page.evaluate(
            "((p) => [Math.min(...p.values), Math.max(...p.values)])(window.chunkwise.view.panels[0].plot)"
        )
        assert (low, high) == (0, 900)
        show(page, server, "n/data", "&as=plot&zoom=1e+0&channels=1_ffffff_-1e+1_1e+3")  # nobody escaped them
        assert page.evaluate("window.chunkwise.view.channels[0].window") == [-10, 1000]
        show(page, server, "n/lines")
        assert page.evaluate("window.chunkwise.view.panels[0].plot.shape")[2] == 2
        show(page, server, "n/records", "&at=250")
        keep(page, "records")
        texts = page.locator(".cells tr").all_inner_texts()
        assert texts[0].split() == ["x", "time", "tag"] and texts[1].split() == ["200", "100.0", "ab"]
        assert page.locator("td[aria-current]").first.inner_text() == "125.0"
        page.get_by_label("field").select_option("tag")
        page.wait_for_function("document.querySelectorAll('.cells tr:first-child th').length === 2")
        page.wait_for_function("location.hash.includes('field=tag')")
        show(page, server, "n/rgb")
        assert page.evaluate(PIXELS, [0, [[5, 20], [5, 5]]]) == [[255, 128, 0], [0, 0, 0]]
        page.get_by_label("show", exact=True).select_option("planes")
        page.wait_for_function("window.chunkwise.view.panels.length === 3")
        assert page.locator("#problems").is_hidden()
