"""References of kerchunk to the chunks of an HDF5 file."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

__all__ = ["kerchunk_references"]


def kerchunk_references(path: Path) -> dict[str, Any]:
    """Return the references to a file, as kerchunk makes them."""
    from kerchunk.hdf import SingleHdf5ToZarr

    # It waits for zarr-python's thread with h5py's lock held. An object of h5py that is collected in that
    # thread waits for the lock, and so both for ever.
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: dict[str, Any] = SingleHdf5ToZarr(str(path)).translate()
    finally:
        gc.enable()
    return found
