"""The examples in the headers of the codec modules are true."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import chunkwise.core.codec
from chunkwise.core.base import catalogue

MODULES = [m.name for m in pkgutil.iter_modules([str(Path(chunkwise.core.codec.__file__).parent)])]
CODECS = {entry.target.partition(":")[0] for entry in catalogue.CODECS.values()}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    """Every example prints what it says; a codec's header names its specification and its names."""
    module = import_module(f"chunkwise.core.codec.{name}")
    assert doctest.testmod(module).failed == 0
    assert module.__doc__
    if module.__name__ in CODECS:
        assert "Names\n-----\n" in module.__doc__
