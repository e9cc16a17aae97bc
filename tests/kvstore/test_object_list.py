"""A listing goes on after its first page was asked for in another way, and never past a failure."""

import pytest

from chunkwise.kvstore.object_list import Pages


class Library:
    """Lists two pages; fails where it is told to, and looks as if it had ended there, as obstore does."""

    def list(self, store, *, prefix, chunk_size):
        for page in range(2):
            if (store, page) in FAILURES:
                raise PermissionError(f"{store}, page {page}")
            yield [f"{prefix}/{page}"]


FAILURES = {("refused", 0), ("expires", 1)}


def test_the_first_page_is_asked_for_anew():
    pages, library = Pages("a/"), Library()
    with pytest.raises(PermissionError):
        pages(library, "refused")
    assert [pages(library, "open") for _ in range(3)] == [["a/0"], ["a/1"], None]


def test_who_is_refused_again_is_told_so():
    pages, library = Pages("a/"), Library()
    for _ in range(3):
        with pytest.raises(PermissionError, match="refused, page 0"):
            pages(library, "refused")


def test_a_listing_that_breaks_off_has_not_ended():
    pages, library = Pages("a/"), Library()
    assert pages(library, "expires") == ["a/0"]
    for store in ("expires", "open"):
        with pytest.raises(PermissionError, match="expires, page 1"):
            pages(library, store)
