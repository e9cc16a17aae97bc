"""Which bytes of a value a request means."""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["check_range", "resolve_range"]


def check_range(start: int, stop: int | None) -> None:
    """Raise unless ``start, stop`` is a range at all, whatever the size of the value.

    Raises
    ------
    InvalidArgumentError
        If `stop` comes before `start`, or is given for a `start` that counts from the end.
    """
    if stop is not None and (start < 0 or stop < start):
        raise InvalidArgumentError(
            f"Unsupported byte range {start}:{stop}: expected 0 <= start <= stop, or a negative start alone"
        )


def resolve_range(start: int, stop: int | None, size: int) -> tuple[int, int]:
    """Return where in a value of `size` bytes the range begins and ends.

    Parameters
    ----------
    start : int
        First byte; counted from the end of the value if negative, which `stop` may not go with.
    stop : int, optional
        One past the last byte; None for the end of the value.
    size : int
        Size of the value in bytes.

    Raises
    ------
    InvalidArgumentError
        If the two are no range.
    OutOfRangeError
        If the range does not lie inside the value.
    """
    check_range(start, stop)
    begin = start if start >= 0 else size + start
    end = size if stop is None else stop
    if not 0 <= begin <= end <= size:
        until = "?" if stop is None else stop
        raise OutOfRangeError(
            f"Requested byte range [{start}, {until}) is not valid for value of size {size}"
        )
    return begin, end
