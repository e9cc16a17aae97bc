"""Libraries that are there, but can't be loaded for want of memory or descriptors."""

from __future__ import annotations

from typing import Any

import pytest

from chunkwise.core.base.extras import load, needs
from chunkwise.core.base.registry import Entry, Registry
from chunkwise.core.libraries.library import Library

TEXTS = {
    "x.so: failed to map segment from shared object": MemoryError,
    "x.so: cannot allocate memory for thread-local data: ABORT": MemoryError,
    "x.so: cannot open shared object file: Cannot allocate memory": MemoryError,
    "x.so: cannot open shared object file: Too many open files": OSError,
    "No module named 'x'": ImportError,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_shortage_is_no_missing_package(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ImportError(text)

    def caught() -> object:
        try:
            fail()
        except ImportError as e:
            raise ImportError(needs("a feature", "numcodecs")) from e

    monkeypatch.setattr("chunkwise.core.base.extras.import_module", fail)
    monkeypatch.setattr("chunkwise.core.base.registry.import_module", fail)
    registry = Registry("codec", {"x": Entry("x:X")}, "chunkwise.none")
    for act in (
        lambda: load("x", "a feature"),
        Library("blosc", "numcodecs", {"one": fail, "other": fail}),
        caught,
        lambda: registry.find("x"),
    ):
        with pytest.raises(TEXTS[text]) as e:
            act()
        assert e.type is not ImportError or TEXTS[text] is ImportError


def test_another_implementation_does_without() -> None:
    def fail() -> str:
        raise ImportError("x.so: failed to map segment from shared object")

    assert Library("blosc", "numcodecs", {"one": fail, "other": lambda: "found"})() == "found"
