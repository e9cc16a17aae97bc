"""A plugin of pytest: ``NWBZarrIO`` in the place of ``pynwb.NWBHDF5IO``, in the format ``NWB_FORMAT``.

Stores are directories where pynwb's tests expect files, so removing one removes a directory.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pynwb

import chunkwise
from chunkwise.hdmf import NWBZarrIO

FORMAT = os.environ["NWB_FORMAT"]


class NWBHDF5IO(NWBZarrIO):
    """Takes what ``NWBHDF5IO`` takes; files are Zarr or N5 stores."""

    def __init__(self, path: Any = None, mode: str = "r", *args: Any, **kwargs: Any) -> None:
        super().__init__(path, mode, *args, format=FORMAT, **kwargs)

    @classmethod
    def export_io(cls, path: Any, src_io: Any, **kwargs: Any) -> None:
        """Write the contents of an open file as another."""
        with cls(path, "w") as io:
            io.export(src_io, **kwargs)


_remove = os.remove


def _remove_store(path: Any, **options: Any) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        _remove(path, **options)


chunkwise.install_as_hdmf_zarr()
os.remove = _remove_store
pynwb.NWBHDF5IO = NWBHDF5IO
