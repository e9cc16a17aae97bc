"""How the task in a journal differs from the one that would resume it, and by which option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chunkwise.core.base.binding import JSON, MISSING, dump

__all__ = ["INFORMATIVE", "difference", "other_members", "told_options"]

_OPTIONS = {
    **dict.fromkeys(("codecs", "compressor", "filters", "compression"), "--codec"),
    **dict.fromkeys(("chunk_grid", "chunks", "blockSize"), "--chunk or --shard"),
    **dict.fromkeys(("data_type", "dtype", "dataType"), "--dtype"),
    "fill_value": "--fill-value",
    "driver": "--format",
    "format": "--format",
    "shards": "--shard",
    "codec": "--codec",
    "checksum": "--checksum",
    "dimension_names": "--dimension-names",
    "dimension_units": "--units",
    "cast": "--cast",
    "fingerprint": "--keep-fingerprint",
    "method": "--method",
    "convention": "--convention",
    "steps": "--levels or --factors",
    "axes": "--axes or --units",
    "part": "--region",
    "number of parts": "--part",
}
INFORMATIVE = "given options"
"""Member of a task that isn't part of it, but has the options behind the rest."""

_LONGEST = 80  # characters of a value


def difference(begun: Mapping[str, JSON], now: Mapping[str, JSON]) -> str:
    """Return the differences between two tasks as text, which is empty if there are none.

    >>> difference({"method": "mean"}, {"method": "max"})
    'its method is another one (was "mean", now "max": --method)'
    """
    for name in [*now, *(name for name in begun if name in _OPTIONS and name not in now)]:
        then, here = begun.get(name, MISSING), now.get(name, MISSING)
        if then == here or name == INFORMATIVE:
            continue
        members = list(other_members(then, here))
        if not members and name in _OPTIONS:
            members = [f"was {_text(then)}, now {_text(here)}: {_OPTIONS[name]}"]
        # Digests say nothing to people; options do, if they differ.
        members = members or list(other_members(begun.get(INFORMATIVE), now.get(INFORMATIVE)))
        how = "; ".join(dict.fromkeys(members))
        is_other = "are others" if name in ("levels", "passes", "places") else "is another one"
        return f"its {name} {is_other}{how and f' ({how})'}"
    return ""


def told_options(fields: Mapping[str, object]) -> dict[str, JSON]:
    """Return options as JSON."""
    plain = (dict, list, int, float, str, type(None))

    def told(value: object) -> JSON:
        if type(value) is tuple:
            return [told(one) for one in value]
        return value if isinstance(value, plain) else str(value)

    return {name: told(value) for name, value in fields.items()}


def other_members(begun: JSON, now: JSON) -> Iterator[str]:
    """Yield a text for each member that differs, with the option of `cp` behind it.

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
