"""Addresses of buffers, for functions of C libraries that are called directly."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from chunkwise.codec.protocol import Buffer

__all__ = ["address", "address_number", "writable_address"]

_cell = ctypes.c_char.from_buffer
_byref, _frombuffer = ctypes.byref, np.frombuffer


def address(buffer: Buffer) -> Any:
    """Return what ctypes passes as the address of `buffer`, which must not be empty."""
    # ctypes takes the address of bytes itself, and of what may be written; for the rest NumPy finds it.
    if type(buffer) is bytes:
        return buffer
    if type(buffer) is memoryview and buffer.readonly:
        return _frombuffer(buffer, np.uint8).ctypes.data
    return _byref(_cell(buffer))


def address_number(buffer: Buffer) -> int:
    """Return the address of `buffer`, which must not be empty, to reckon with."""
    return _frombuffer(buffer, np.uint8).ctypes.data


def writable_address(view: memoryview) -> Any:
    """Return the same for memory that may be written."""
    return _byref(_cell(view))
