"""What differs between TensorStore and chunkwise in random programs, each by its exact kind, and why.

The reasons are told to users in docs/tensorstore.md.  A rule looks at the outcomes of the first step that differs,
so that no other difference hides behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["KNOWN", "Difference"]


class Difference(NamedTuple):
    """The first step with another outcome: what TensorStore gives, and what chunkwise gives."""

    steps: list[str]
    theirs: Any
    ours: Any

    @property
    def step(self) -> str:
        return self.steps[-1]

    @property
    def text(self) -> str:
        """TensorStore's message, empty without an error."""
        return _text(self.theirs)

    @property
    def our_text(self) -> str:
        """The message of chunkwise, empty without an error."""
        return _text(self.ours)

    @property
    def members(self) -> dict[str, tuple[Any, Any]]:
        """What differs in JSON values, by path; `_NONE` stands for a missing member."""
        return dict(_differing(self.theirs, self.ours, ""))

    def before(self, part: str) -> bool:
        """Return True if an earlier step has this part."""
        return any(part in step for step in self.steps[:-1])


_NONE = "missing"


def _text(outcome: Any) -> str:
    found: str = outcome.get("text", "") if isinstance(outcome, dict) else ""
    return found


def _failed(outcome: Any) -> bool:
    return isinstance(outcome, dict) and "error" in outcome


def _differing(a: Any, b: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted(a.keys() | b.keys()):
            yield from _differing(a.get(name, _NONE), b.get(name, _NONE), f"{path}/{name}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differing(x, y, f"{path}/{i}")
    elif a != b:
        yield path, (a, b)


def _all_members(d: Difference, pattern: str) -> bool:
    """Return True if only members differ whose paths match."""
    return (
        not _failed(d.theirs)
        and not _failed(d.ours)
        and all(re.fullmatch(pattern, path) for path in d.members)
    )


def _same_numbers(a: Any, b: Any) -> bool:
    """Return True for one number in two types, of which the second is the schema's."""
    one, two = ((x if isinstance(x, list) else [x, 0]) for x in (a, b))
    try:
        return all(float(x) == float(y) or int(x) == y or bool(x) is y for x, y in zip(one, two, strict=True))
    except (TypeError, ValueError):
        return False


def _fill_values(d: Difference) -> list[str]:
    return re.findall(r"fill_value=([\w.]+)", "".join(d.steps))


def _is_untyped_fill(d: Difference) -> bool:
    if d.step.endswith(".fill_value"):
        arrays = isinstance(d.theirs, list) and isinstance(d.ours, list)
        return arrays and _same_numbers(d.theirs[3], d.ours[3])
    return _all_members(d, r"(/\d+)?(/schema)?/fill_value(/\d+)?") and all(
        _same_numbers(*values) for values in d.members.values() if _NONE not in values
    )


def _is_equal_fill(d: Difference) -> bool:
    values = [
        float(value == "True") if value in ("True", "False") else float(value) for value in _fill_values(d)
    ]
    return "does not match existing value in schema" in d.text and d.ours is None and len(set(values)) == 1


def _is_forgotten_fill(d: Difference) -> bool:
    if d.step == "u.fill_value":
        return d.theirs is None and bool(_fill_values(d))
    gone = all(values[0] == _NONE for values in d.members.values())
    return d.step.startswith(("s[", "u[")) and _all_members(d, r"/1(/schema)?/fill_value") and gone


_FILLS = [
    ("a fill value that was given before the type has that type in chunkwise", _is_untyped_fill),
    ("the same fill value in two types is no contradiction", _is_equal_fill),
    (
        "a scalar fill value is the same in every view",
        lambda d: d.text.startswith("Error transforming fill_value") and not _failed(d.ours),
    ),
    ("TensorStore forgets the fill value of an update, and of an empty view", _is_forgotten_fill),
]
_EMPTY = (
    "an index out of bounds beside an empty range, which TensorStore refuses when it reads",
    lambda d: "constant output index map" in d.text and isinstance(d.ours, list) and 0 in d.ours[2],
)


def _is_reopened(d: Difference) -> bool:
    deleted = [i for i, step in enumerate(d.steps) if "update(delete_existing=True)" in step]
    opened = [
        i for i, step in enumerate(d.steps) if "update(open=True)" in step or "update(create=True)" in step
    ]
    after = bool(deleted and opened and deleted[0] < opened[-1])
    return after and list(d.members.values()) == [(_NONE, True)] and "/delete_existing" in d.members


def _is_old_handle(d: Difference) -> bool:
    bounds = r"/1/(transform/(input_exclusive_max|output)|domain/exclusive_max)(/.*)?"
    return d.before("a.resize(") and (
        (d.step.startswith(("a.spec(", "a.schema")) and _all_members(d, bounds))
        or ("storage_statistics" in d.step and isinstance(d.theirs, bool) and isinstance(d.ours, bool))
    )


def _is_kept_key(d: Difference) -> bool:
    """Keys that TensorStore's archive keeps though a range up to the end was deleted."""
    if "|zip:" not in d.steps[0] or not any("delete_range" in s and ", ''))" in s for s in d.steps):
        return False
    if isinstance(d.theirs, list) and isinstance(d.ours, list) and "list(" in d.step:
        return all(key in d.theirs for key in d.ours)
    if _failed(d.ours):
        return not _failed(d.theirs) and d.ours["error"] == "KeyError"
    return "missing" in str(d.ours) and "value" in str(d.theirs)


def _without_empty(keys: list[Any]) -> list[Any]:
    return [key for key in keys if key != ["bytes", ""]]


def _is_stripped_key(d: Difference) -> bool:
    both = isinstance(d.theirs, list) and isinstance(d.ours, list)
    stripped = "|zip:" in d.steps[0] and "strip_prefix_length" in d.step and both
    return stripped and _without_empty(d.ours) == _without_empty(d.theirs)


def _has_alpha(d: Difference) -> bool:
    """TensorStore adds the samples of alpha to those that count it already."""
    opened = d.step.startswith("a = ts.open(") and not _failed(d.theirs) and not _failed(d.ours)
    return opened and ("II*" in d.steps[2] or "MM" in d.steps[2]) and _channels(d) in ((3, 2), (5, 4))


def _channels(d: Difference) -> tuple[int, ...]:
    return tuple(int(re.findall(r"\[0, (\d+)\)", str(outcome))[-1]) for outcome in (d.theirs, d.ours))


def _is_low_float(d: Difference) -> bool:
    names = ("float8", "int4")
    of_type = any(f"ts.{name}" in d.steps[0] for name in names)
    reduced = any(
        f"'{method}'" in step for step in d.steps for method in ("mean", "min", "max", "median", "mode")
    )
    return of_type and reduced and "read()" in d.step and _elements_differ(d, lambda a, _: a in (0, "nan"))


def _are_arrays(d: Difference, *, members: int = 3) -> bool:
    """Return True for two arrays of one type (2 members), or also of one shape (3)."""
    arrays = all(isinstance(x, list) and x[:1] == ["array"] for x in (d.theirs, d.ours))
    return arrays and d.theirs[:members] == d.ours[:members]


def _elements_differ(d: Difference, as_known: Callable[[Any, Any], bool]) -> bool:
    """Return True for two arrays of one type and shape whose different elements are known."""
    return _are_arrays(d) and all(as_known(*pair) for _, pair in _differing(d.theirs[3], d.ours[3], ""))


KNOWN: dict[str, list[tuple[str, Callable[[Difference], bool]]]] = {
    "layouts": [],
    "schemas": [
        *_FILLS,
        (
            "a type that N5 lacks: chunkwise says so when the layout is asked for",
            lambda d: (
                d.step == "spec.chunk_layout"
                and not _failed(d.theirs)
                and "is not one of the supported" in d.our_text
            ),
        ),
        (
            "a grid origin that the format can't have: TensorStore says so when the layout is asked for",
            lambda d: d.step == "spec.chunk_layout" and "grid_origin" in d.text and not _failed(d.ours),
        ),
    ],
    "codecs": [
        (
            "codecs that TensorStore lacks",
            lambda d: '"lz4" is not registered' in d.text and "'type': 'lz4'" in d.step,
        ),
        (
            "chains of metadata are merged as those of a schema are, so that it may be chunkwise that adds shards",
            lambda d: (
                d.step.startswith("a = ts.open(")
                and not _failed(d.ours)
                and any("'metadata'" in step for step in d.steps)
                and ('Mismatch in "codecs"' in d.text or "Error setting write_chunk shape" in d.text)
            ),
        ),
        (
            "an empty list of filters is none",
            lambda d: list(d.members.items()) == [("/1/filters", ([], None))],
        ),
        (
            "Blosc and codecs around shards, which TensorStore refuses",
            lambda d: (
                d.step.startswith("a = ts.open(")
                and not _failed(d.ours)
                and ("Sharding codec" in d.text or "resolving codec" in d.text)
            ),
        ),
        (
            "a shape of shards that the inner chunks divide is chosen, TensorStore takes one that they don't",
            lambda d: "does not evenly divide chunk shape" in d.text and not _failed(d.ours),
        ),
        (
            "Blosc behind a codec of bytes shuffles bits of bytes",
            lambda d: (
                _all_members(d, r".*/configuration/(shuffle|typesize)")
                and {values for path, values in d.members.items() if path.endswith("/shuffle")}
                <= {("noshuffle", "shuffle"), ("noshuffle", "bitshuffle")}
            ),
        ),
        (
            "a codec's default that chunkwise leaves out",
            lambda d: (
                _all_members(d, r".*/configuration/checksum") and set(d.members.values()) == {(False, _NONE)}
            ),
        ),
    ],
    "stacks": [
        (
            "two dimensions of one label: TensorStore makes a domain that it refuses elsewhere",
            lambda d: not _failed(d.theirs) and "not unique" in d.our_text,
        ),
        _EMPTY,
    ],
    "casts": [_EMPTY],
    "downsampled": [
        _EMPTY,
        ("reductions of 8-bit floats and int4 are 0 or NaN in TensorStore", _is_low_float),
        (
            "TensorStore's median of numbers with NaN, which 100 is in 8-bit floats, depends on their order",
            lambda d: (
                "float8" in d.steps[0]
                and re.search(r"\b100\b|nan", d.steps[0]) is not None
                and any("'median'" in step for step in d.steps)
                and "read()" in d.step
                and _are_arrays(d)
            ),
        ),
        (
            "TensorStore's mean, median and mode by index arrays aren't always those of other reads",
            lambda d: (
                re.search("'(mean|median|mode)'", "".join(d.steps)) is not None
                and re.match(r"d\[.*\[.*\.read\(\)", d.step) is not None
                and _are_arrays(d)
            ),
        ),
        (
            "the spec of a memory array without elements, or with repeated ones",
            lambda d: (
                d.step == "d.spec()"
                and ("Cannot inverse transform" in d.text or "'array': []" in str(d.ours))
            ),
        ),
    ],
    "computed": [
        _EMPTY,
        (
            "TensorStore has no schema of a virtual scalar",
            lambda d: d.step == "a.schema" and d.text == "rank must be specified" and d.ours[1]["rank"] == 0,
        ),
        (
            "a transaction in which chunks were only read is committed, without a write function too",
            lambda d: "No write function specified" in d.text and d.step == "t.commit_sync()",
        ),
        (
            "a commit writes no chunk that was only read",
            lambda d: (
                not any(".write(" in s and not re.search(r"\b(\d+):\1\b", s) for s in d.steps)
                and (
                    (d.before("t.commit_sync()") and d.step == "sorted(map(str, log))")
                    or (d.step == "t.commit_sync()" and _failed(d.theirs) and d.ours is None)
                )
            ),
        ),
        (
            "chunks are asked for at each read, in TensorStore not twice at one reading of the clock",
            lambda d: d.step == "sorted(map(str, log))" and set(d.theirs) == set(d.ours),
        ),
        (
            "a read function whose generation stays after a write is asked again",
            lambda d: (
                d.before("TimestampedStorageGeneration")
                and d.before(".write(")
                and d.step.endswith(".read().result()")
                and _are_arrays(d)
            ),
        ),
        (
            "a part of a chunk that nothing reads: chunkwise refuses it when it is written, not at the commit",
            lambda d: "requires chunk-aligned writes" in d.our_text and not _failed(d.theirs),
        ),
    ],
    "stored": [
        ("a handle older than a resize: TensorStore has its old bounds with the new shape", _is_old_handle),
        _EMPTY,
    ],
    "transactions": [
        (
            "an atomic transaction over files: TensorStore may read the metadata again, as a second key",
            lambda d: (
                "as single atomic transaction" in d.text
                and not _failed(d.ours)
                and any(name in d.text for name in (".zarray", "zarr.json", "attributes.json"))
            ),
        ),
    ],
    "handles": [
        (
            "a handle that a transaction has opened: TensorStore refuses what others change meanwhile",
            lambda d: (
                "Metadata is inconsistent" in d.text
                and any(re.match(r"[ab]\.resize\(|d = ts\.open\(", step) for step in d.steps)
            ),
        ),
        (
            "a commit that changes no chunk, or replaces the array anyway: TensorStore refuses it, if the "
            "transaction had opened the array that others have replaced",
            lambda d: (
                "Error writing" in d.text
                and "Updated" in d.text
                and d.ours is None
                and d.step == "t.commit_sync()"
                and (
                    not any(re.match(r"[xy][.\[].*\.write\(", step) for step in d.steps)
                    or any("delete_existing=True" in s and "transaction=t" in s for s in d.steps)
                )
            ),
        ),
        (
            "chunks of an array that this process has replaced: TensorStore's cache still has them, without a "
            "limit too as long as a transaction holds them",
            lambda d: (
                any("delete_existing=True" in s and "transaction=t" not in s for s in d.steps[:-1])
                and ("1000000" in d.steps[0] or any(re.match(r"[xy]\[.*\.write\(", s) for s in d.steps))
                and not d.before("recheck_cached=True")
                and re.match(r"b.*\.read\(\)", d.step) is not None
                and _elements_differ(d, lambda _, ours: ours == 0)
            ),
        ),
        (
            "a commit over an array that others have replaced: TensorStore writes over it",
            lambda d: (
                d.before("delete_existing=True")
                and d.step == "t.commit_sync()"
                and not _failed(d.theirs)
                and re.match("(FAILED_PRECONDITION|ABORTED): Error writing", d.our_text) is not None
            ),
        ),
        (
            "a commit after others have resized the array: TensorStore's resize wins, and its chunks come back",
            lambda d: (
                any(re.match(r"[ab]\.resize\(", step) for step in d.steps)
                and (
                    (d.step == "t.commit_sync()" and d.our_text.startswith("ABORTED: Error writing"))
                    or (d.before("t.commit_sync()") and "read()" in d.step and _are_arrays(d, members=2))
                )
            ),
        ),
    ],
    "reopened": [
        (
            "the data type of layers, and the rank of a base, are written where they could be left out",
            lambda d: (
                _all_members(d, r"(/\d+)?(/base|/layers/\d+)+/(rank|dtype)")
                and all(theirs == _NONE for theirs, _ in d.members.values())
            ),
        ),
        (
            "layers that go beyond the end of their array are refused, as the views that they are",
            lambda d: (
                d.step in ("b.read().result()", "a.read().result()")
                and re.match(r"OUT_OF_RANGE: Layer \d+: Propagated bounds", d.our_text) is not None
                and not _failed(d.theirs)
            ),
        ),
    ],
    "batches": [
        (
            "where the index of a shard lies is written out",
            lambda d: (
                '"index_location":"end"' in str(d.ours)
                and str(d.ours).replace(',"index_location":"end"', "") == str(d.theirs)
            ),
        ),
        _EMPTY,
    ],
    "keys": [
        (
            "TensorStore fails for a reversed range",
            lambda d: d.ours == [] and ("bad_alloc" in d.text or "basic_string" in d.text),
        ),
        ("TensorStore's ZIP archives keep keys that a range deletes", _is_kept_key),
        ("TensorStore's ZIP archives don't list a key that is a stripped prefix", _is_stripped_key),
    ],
    "pipelines": [
        (
            "names of members and files that would lead elsewhere are refused",
            lambda d: (
                re.search(r"Invalid (file path|ZIP member name)", d.our_text) is not None
                and "//" in "".join(d.steps)
            ),
        ),
        (
            "a spec that is made of a spec is not checked again",
            lambda d: "Invalid file path" in d.text and d.step.startswith("ts.KvStore.Spec(a.kvstore.spec()"),
        ),
        (
            "a path behind neuroglancer-precomputed:",
            lambda d: "Invalid TensorStore URL" in d.text and "neuroglancer-precomputed:" in d.text,
        ),
    ],
    "specs": [
        *_FILLS,
        (
            "a layout with hard shapes, for a view by an index array that has no such dimension",
            lambda d: not _failed(d.theirs) and "No output dimension corresponds" in d.our_text,
        ),
        (
            "labels for an empty view with strides",
            lambda d: "labels=" in d.step and not _failed(d.theirs) and "non-unit-stride" in d.our_text,
        ),
        ("`open` or `create` after `delete_existing` takes that back in TensorStore", _is_reopened),
    ],
    "documents": [
        (
            "a number that JSON has no word for is read back as null, which is what is stored",
            lambda d: "read()" in d.step and d.theirs in ("nan", "inf", "-inf") and d.ours is None,
        ),
    ],
    "images": [
        _EMPTY,
        (
            "pixels are read when they are asked for, TensorStore's when the picture is opened",
            lambda d: d.before("k.delete_range(") and "NOT_FOUND" in d.our_text,
        ),
        (
            "options of encoding stay in the spec",
            lambda d: _all_members(d, r"/1/(quality|lossless|speed|quantizer|compression_level|page)"),
        ),
        ("samples of alpha in TIFF count once", _has_alpha),
        (
            "images of other types and of several pages are opened by their content",
            lambda d: '"auto" driver: Error opening "tiff" driver' in d.text and not _failed(d.ours),
        ),
    ],
    "precomputed": [
        (
            "indices beyond the channels, which TensorStore doesn't check in index arrays",
            lambda d: "OUT_OF_RANGE: Index" in d.our_text and isinstance(d.theirs, list),
        ),
        (
            "TensorStore's statistics don't know chunks at the end of a volume, nor shards",
            lambda d: "storage_statistics" in d.step and (d.theirs is False or _failed(d.theirs)),
        ),
        (
            "chunks of a shard that lie apart have no common shape",
            lambda d: _all_members(
                d,
                r"(/1)?(/chunk_layout)?/write_chunk/shape/\d|/1/write_chunk.*|/1/chunk_layout/write_chunk.*",
            ),
        ),
        ("volumes of float64", lambda d: "float64 data type is not one of the supported" in d.text),
        (
            "shapes of shards at the end of a volume",
            lambda d: (
                not _failed(d.ours)
                and (
                    "Cannot satisfy write chunk shape" in d.text
                    or "Error setting write_chunk shape" in d.text
                )
            ),
        ),
    ],
}
