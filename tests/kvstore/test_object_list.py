"""A listing goes on after its first page was asked for in another way, and never past a failure."""

import pytest

from chunkwise.core.kvstore.objects.read import Pages


class Library:
    """Lists two pages; fails where it is told to, and looks as if it had ended there, as obstore does."""

    def list(self, store, *, prefix, offset, chunk_size):
        for page in range(2):
            path = f"{prefix}/{page}"
            if offset is not None and path <= offset:
                continue
            if (store, page) in FAILURES:
                raise FAILURES[store, page](f"{store}, page {page}")
            yield [{"path": path}]


class Busy(Exception):
    """The error of obstore for an answer that asks to come back."""

    def __str__(self):
        return "Server returned non-2xx status code: 503 Service Unavailable: "


FAILURES = {("refused", 0): PermissionError, ("expires", 1): PermissionError, ("breaks", 1): Busy}


def paths(page):
    return None if page is None else [item["path"] for item in page]


def test_the_first_page_is_asked_for_anew():
    pages, library = Pages("a/"), Library()
    with pytest.raises(PermissionError):
        pages(library, "refused")
    assert [paths(pages(library, "open")) for _ in range(3)] == [["a/0"], ["a/1"], None]


def test_who_is_refused_again_is_told_so():
    pages, library = Pages("a/"), Library()
    for _ in range(3):
        with pytest.raises(PermissionError, match="refused, page 0"):
            pages(library, "refused")


def test_a_listing_that_breaks_off_has_not_ended():
    pages, library = Pages("a/"), Library()
    assert paths(pages(library, "expires")) == ["a/0"]
    for store in ("expires", "open"):
        with pytest.raises(PermissionError, match="expires, page 1"):
            pages(library, store)


def test_a_listing_goes_on_behind_its_last_key():
    pages, library = Pages("a/"), Library()
    assert paths(pages(library, "breaks")) == ["a/0"]
    with pytest.raises(Busy):
        pages(library, "breaks")
    assert [paths(pages(library, "open")) for _ in range(2)] == [["a/1"], None]
