"""The optional dependency."""

from __future__ import annotations

from typing import Any

__all__ = ["dask_array"]


def dask_array(what: str) -> Any:
    """Return the module ``dask.array``.

    Parameters
    ----------
    what : str
        What needs it.

    Raises
    ------
    ImportError
        If dask is not installed; the text says how to install it.
    """
    try:
        import dask.array
    except ImportError as e:
        raise ImportError(f'{what} needs dask: pip install "chunkwise[dask]" ({e})') from e
    return dask.array
