"""The page when answers come late, in another order, or not at all; each is held back until it is let go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from driven_page import PLATE_IDLE, show, wait

import chunkwise


def test_a_hash_that_is_set_while_the_page_saves_its_own(tmp_path: Path, page: Any) -> None:
    for name in "ab":
        chunkwise.create_array(tmp_path / "t" / name, np.arange(60, dtype="u1").reshape(3, 4, 5))
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/a")
        # The hash is set just before the page's timer ends, and told of after it.
        both = """(hash) => {
            setTimeout(() => { location.hash = hash; }, 100);
            document.getElementById('grid').click();
        }"""
        for path in ("t/b", "t/a", "t/b", "t/a"):
            page.evaluate(both, f"#path={path}")
            page.wait_for_function("(path) => window.chunkwise?.view?.path === path", arg=path)


class Held:
    """Requests of the page that are held back."""

    def __init__(self, page: Any, pattern: str) -> None:
        self.page, self.pattern = page, re.compile(pattern)
        self.routes: list[Any] = []
        page.route(self.pattern, lambda route: self.routes.append(route))

    def wait(self, n: int = 1) -> None:
        """Wait until the page has asked `n` times."""
        for _ in range(1500):
            if len(self.routes) >= n:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"the page did not ask for {self.pattern.pattern}")

    def let_go(self, number: int = 0, status: int | None = None) -> None:
        """Answer a request, with an error if a status is given, and wait until the page has the answer."""
        route = self.routes[number]
        with self.page.expect_response(lambda response: response.request == route.request):
            if status is None:
                route.continue_()
            else:
                route.fulfill(status=status, content_type="application/json", body='{"error": "late error"}')

    def stop(self) -> None:
        """Hold back no more."""
        self.page.unroute(self.pattern)


def _texts(page: Any, *names: str) -> list[str]:
    return [page.locator(f"#{name}").text_content() for name in names]


def test_a_late_answer_or_error_of_another_image_shows_nothing(tmp_path: Path, page: Any) -> None:
    for name in "ab":
        chunkwise.create_array(tmp_path / "t" / name, np.arange(60, dtype="u1").reshape(3, 4, 5))
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/a")
        images = Held(page, "api/image.*path=t%2Fb")
        for number, status in enumerate((None, 500)):
            page.evaluate("location.hash = '#path=t/b'")
            images.wait(number + 1)
            assert page.evaluate("document.body.dataset.idle") == "false"
            page.evaluate("(zoom) => { location.hash = `#path=t/a&zoom=${zoom}`; }", number + 3)
            page.wait_for_function(f"window.chunkwise.view?.zoom === {number + 3}")
            images.let_go(number, status)
            wait(page)
            assert page.evaluate("window.chunkwise.view.path") == "t/a"
        images.stop()
        contrasts = Held(page, "api/contrast.*path=t%2Fb")
        page.evaluate("location.hash = '#path=t/b'")
        contrasts.wait()
        page.evaluate("location.hash = '#path=t/a'")
        page.wait_for_function("window.chunkwise.view?.path === 't/a'")
        contrasts.let_go(status=500)
        wait(page)
        values = Held(page, "api/value")
        page.locator("#panel-0").press("ArrowRight")
        values.wait(1)
        page.locator("#panel-0").press("ArrowLeft")
        values.wait(2)
        values.let_go(1)
        page.wait_for_function("document.getElementById('pointer').textContent.endsWith('= 32')")
        values.let_go(0)  # of where the crosshair was before
        wait(page)
        assert _texts(page, "pointer")[0].endswith("= 32")
        page.locator("#panel-0").press("ArrowRight")
        values.wait(3)
        contrasts.stop()
        page.evaluate("location.hash = '#path=t/b'")
        page.wait_for_function("window.chunkwise.view?.path === 't/b'")
        values.let_go(2, 500)
        wait(page)
        assert _texts(page, "pointer", "message") == ["", ""]


def test_what_is_chosen_while_the_page_starts_stays(tmp_path: Path, page: Any) -> None:
    for name in "ab":
        chunkwise.create_array(tmp_path / "t" / name, np.arange(60, dtype="u1").reshape(3, 4, 5))
    with chunkwise.serve(tmp_path / "t") as server:
        images = Held(page, "api/first")  # what is shown first
        page.goto(server.url)
        images.wait()
        page.locator("#tree button", has_text="b").click()
        page.wait_for_function("window.chunkwise.view?.path === 't/b'")
        images.let_go()
        wait(page)
        assert page.evaluate("window.chunkwise.view.path") == "t/b"
        page.wait_for_function("location.hash.startsWith('#path=t%2Fb')")


def test_a_window_that_is_set_while_percentiles_are_looked_for_stays(tmp_path: Path, page: Any) -> None:
    values = np.arange(4096, dtype="u2").reshape(1, 64, 64)
    chunkwise.create_array(tmp_path / "a.zarr", values)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        contrasts = Held(page, r"api/contrast(?!.*over=\d)")  # not the histogram of a window
        page.goto(f"{server.url}#path=a.zarr")
        contrasts.wait()
        # Nothing is drawn in a window that isn't that of the values.
        page.wait_for_function("[...window.chunkwise.view.tiles.tiles.values()].length")
        middle = "[...document.querySelector('#panel-0').getContext('2d').getImageData(300, 300, 1, 1).data]"
        red, green, blue, _ = page.evaluate(middle)
        assert 0x3C <= red < green < blue <= 0x5E, "the lines of what is unread, not the grey of values"
        page.get_by_label("black in values").fill("10")
        page.get_by_label("white in values").fill("500")
        page.get_by_label("white in values").press("Enter")
        contrasts.let_go()
        wait(page)
        channel = "((c) => [c.window, c.range])(window.chunkwise.view.channels[0])"
        assert page.evaluate(channel) == [[10, 500], [0, 4095]]
        assert len(set(page.evaluate(middle)[:3])) == 1
        page.get_by_role("button", name="Auto").click()
        contrasts.wait(2)
        page.get_by_role("button", name="Auto").click()
        contrasts.wait(3)
        contrasts.let_go(2)
        page.wait_for_function("window.chunkwise.view.channels[0].window[0] !== 10")
        found = page.evaluate(channel)
        contrasts.let_go(1, 500)
        wait(page)
        assert page.evaluate(channel) == found
        assert _texts(page, "message") == [""]


def _write_labels(place: Path, names: tuple[str, ...]) -> None:
    image = chunkwise.array(np.full((4, 64, 64), 100, "u1"))
    chunkwise.downsample_pyramid(image, place, axes=list("zyx"), levels=0).result()
    group = chunkwise.open_group(place / "labels", "w")
    group.attrs["ome"] = {"version": "0.5", "labels": list(names)}
    for name in names:
        labels = chunkwise.array(np.full((4, 64, 64), 3, "u4"))
        chunkwise.downsample_pyramid(labels, place / "labels" / name, axes=list("zyx"), levels=0).result()


def test_labels_that_come_late_are_shown_as_their_boxes_say(tmp_path: Path, page: Any) -> None:
    _write_labels(tmp_path / "i.zarr", ("first", "second"))
    with chunkwise.serve(tmp_path / "i.zarr") as server:
        show(page, server, "i.zarr")
        labels = Held(page, "api/image.*labels")
        shown = "window.chunkwise.view.overlays.map((o) => o.label)"
        first = page.get_by_label("labels first above the image")
        second = page.get_by_label("labels second above the image")
        first.check()
        labels.wait(1)
        first.uncheck()
        labels.let_go(0)
        wait(page)
        assert page.evaluate(shown) == [] and not first.is_checked()
        first.check()
        labels.wait(2)
        second.check()
        labels.wait(3)
        labels.let_go(2)
        page.wait_for_function(f"{shown}.length === 1")
        labels.let_go(1)
        wait(page)
        assert page.evaluate(shown) == ["first", "second"]
        first.uncheck()
        first.check()
        labels.wait(4)
        page.evaluate("location.hash = '#path=i.zarr&zoom=3'")  # the image is opened again, without labels
        page.wait_for_function("window.chunkwise.view?.zoom === 3")
        labels.let_go(3, 500)
        wait(page)
        assert page.evaluate(shown) == [] and _texts(page, "message") == [""]
        first.check()
        labels.wait(5)
        labels.let_go(4, 500)
        wait(page)
        assert not first.is_checked() and _texts(page, "message") == ["late error"]


def test_tiles_that_are_no_longer_wanted_show_no_error(tmp_path: Path, page: Any) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", np.zeros((3, 600, 600), "u1"), chunks=(1, 64, 64))
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&zoom=8")
        tiles = Held(page, "api/tile")
        page.locator("#panel-0").press("PageUp")
        tiles.wait()
        n = len(tiles.routes)
        assert page.evaluate("document.body.dataset.idle") == "false"
        page.locator("#panel-0").press("PageDown")  # whose tiles are there
        wait(page)
        for route in tiles.routes[:n]:
            route.abort()
        wait(page)
        assert page.locator("#problems").is_hidden() and _texts(page, "message") == [""]
        tiles.stop()
        page.locator("#panel-0").press("PageUp")
        wait(page)
        assert page.locator("#problems").is_hidden()


def test_a_search_before_the_tree_is_there(tmp_path: Path, page: Any) -> None:
    for name in ("left", "right"):
        chunkwise.create_array(tmp_path / "t" / name, np.ones((4, 5), "u1"))
    with chunkwise.serve(tmp_path / "t") as server:
        trees = Held(page, r"api/tree\?path=t")
        page.goto(f"{server.url}#path=t/left")
        trees.wait()
        page.locator("#search").fill("right")
        trees.let_go()
        wait(page)
        assert page.locator("#tree li:visible > button").all_inner_texts() == ["▾ t", "right 4×5 uint8"]


def test_a_plate_without_wells_that_can_be_read_says_so(tmp_path: Path, page: Any) -> None:
    plate = {
        "rows": [{"name": "A"}],
        "columns": [{"name": "1"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
    }
    chunkwise.open_group(tmp_path / "p.zarr", "w").attrs["ome"] = {"version": "0.5", "plate": plate}
    with chunkwise.serve(tmp_path / "p.zarr") as server:
        page.goto(f"{server.url}#path=p.zarr")
        page.wait_for_function(PLATE_IDLE)
        assert "A/1" in page.locator("#problems").inner_text()
