"""Comparing and validating NWB files with what every supported release of hdmf and pynwb offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynwb
from hdmf.testing import TestCase
from hdmf.utils import get_docval
from pynwb import NWBFile

__all__ = ["Comparison", "assert_equal", "errors_in_hdf5"]


class Comparison(TestCase):
    """hdmf's comparison of containers, which before release 4 fails on any dict.

    It asks for ``dict.values()[0]`` there, so a file with icephys tables is not even equal to itself.
    """

    def _assert_field_equal(self, f1: Any, f2: Any, **options: Any) -> None:
        if isinstance(f1, dict) and isinstance(f2, dict):
            self.assertEqual(set(f1), set(f2))
            for key in f1:
                super()._assert_field_equal(f1[key], f2[key], **options)
        else:
            super()._assert_field_equal(f1, f2, **options)


def assert_equal(read: NWBFile, written: NWBFile, *, same_file: bool = False) -> None:
    """Compare containers as hdmf does, and the identities of all objects."""
    Comparison().assertContainerEqual(read, written, ignore_hdmf_attrs=not same_file)
    assert {o.object_id for o in read.objects.values()} == {o.object_id for o in written.objects.values()}


def errors_in_hdf5(path: Path) -> list[Any]:
    """Return what pynwb finds wrong with an HDF5 file, by the schema that is cached in it."""
    if "path" in {argument["name"] for argument in get_docval(pynwb.validate)}:
        return list(pynwb.validate(path=str(path)))
    found, status = pynwb.validate(paths=[str(path)])  # before pynwb 3
    assert status == bool(found)
    return list(found)
