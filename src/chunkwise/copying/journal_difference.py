"""How the task in a journal differs from the one that is to go on with it, and by which option."""

from __future__ import annotations

from collections.abc import Iterator

from chunkwise.core.base.binding import JSON, MISSING, dump

__all__ = ["other_members"]

_OPTIONS = {
    **dict.fromkeys(("codecs", "compressor", "filters", "compression"), "--codec"),
    **dict.fromkeys(("chunk_grid", "chunks", "blockSize"), "--chunk or --shard"),
    **dict.fromkeys(("data_type", "dtype", "dataType"), "--dtype"),
    "fill_value": "--fill-value",
    "driver": "--format",
}
_LONGEST = 80  # characters of a value


def other_members(begun: JSON, now: JSON) -> Iterator[str]:
    """Yield in words each member that differs, with the option of `cp` that it comes from.

    >>> list(other_members({"metadata": {"chunks": [2]}}, {"metadata": {"chunks": [3]}}))
    ['chunks was [2], now [3]: --chunk or --shard']
    """
    if not (isinstance(begun, dict) and isinstance(now, dict)):
        return
    for name in sorted({*begun, *now}):
        then, here = begun.get(name, MISSING), now.get(name, MISSING)
        if then == here or name == "kvstore":
            continue
        if isinstance(then, dict) and isinstance(here, dict) and name not in _OPTIONS:
            yield from other_members(then, here)
        else:
            option = f": {_OPTIONS[name]}" if name in _OPTIONS else ""
            yield f"{name} was {_text(then)}, now {_text(here)}{option}"


def _text(value: JSON) -> str:
    if value is MISSING:
        return "not given"
    text = dump(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
