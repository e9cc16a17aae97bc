"""The optional dependency."""

from __future__ import annotations

from typing import Any

__all__ = ["xarray_module"]


def xarray_module(what: str) -> Any:
    """Return the module ``xarray``.

    Parameters
    ----------
    what : str
        What needs it.

    Raises
    ------
    ImportError
        If xarray is not installed; the text says how to install it.
    """
    try:
        import xarray
        import xarray.conventions
    except ImportError as e:
        raise ImportError(f'{what} needs xarray: pip install "chunkwise[xarray]" ({e})') from e
    return xarray
