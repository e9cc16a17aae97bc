"""Property: a tree of builders is the same in each format, and after conversions from one to another."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkwise.hdmf import Reference, ZarrIO, convert, open_store
from chunkwise.hdmf.backend import conversion

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ("zarr2", "zarr3", "n5", "hdf5")
NUMBERS = ("bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float32", "float64")
OTHER_NUMBERS = [name for name in NUMBERS if name not in ("bool", "int64", "float64")]  # than those of JSON
TARGETS = ("/", "/a", "/a/b", "/a/numbers")

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=5)
ascii_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=5)
shapes = st.sampled_from([(), (0,), (1,), (3,), (2, 3)])
plain_types = st.sampled_from([*NUMBERS, "text", "ascii", "reference"])


@st.composite
def member_types(draw: st.DrawFn, depth: int) -> Any:
    if depth and draw(st.integers(0, 3)) == 0:
        return draw(records(depth - 1))
    return draw(plain_types)


@st.composite
def records(draw: st.DrawFn, depth: int) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": draw(member_types(depth))} for name in "xyz"[: draw(st.integers(1, 3))]]


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type; references are paths."""
    if isinstance(kind, list):
        return st.tuples(*(values_of(member["dtype"]) for member in kind))
    if kind == "text":
        return texts
    if kind == "ascii":
        return ascii_texts.map(str.encode)
    if kind == "reference":
        return st.sampled_from(TARGETS)
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind == "f":
        return st.floats(width=8 * dtype.itemsize, allow_nan=False)  # type: ignore[arg-type]
    return st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@st.composite
def datasets(draw: st.DrawFn) -> tuple[Any, tuple[int, ...], list[Any]]:
    """Type, shape and values, in C order."""
    kind = draw(st.one_of(plain_types, records(2)))
    shape = draw(shapes)
    n = int(np.prod(shape, dtype=int))
    return kind, shape, draw(st.lists(values_of(kind), min_size=n, max_size=n))


attributes = st.one_of(
    texts,
    ascii_texts.map(str.encode).filter(bool),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(),
    st.lists(texts, min_size=1, max_size=3),
    st.sampled_from(OTHER_NUMBERS).flatmap(lambda name: values_of(name).map(np.dtype(name).type)),
    st.sampled_from(OTHER_NUMBERS).flatmap(
        lambda name: st.lists(values_of(name), min_size=1, max_size=3).map(lambda v: np.array(v, name))
    ),
    st.sampled_from(TARGETS).map(Reference),
)


def builders_of(
    given: list[tuple[Any, tuple[int, ...], list[Any]]], own: dict[str, Any], link: str
) -> GroupBuilder:
    numbers = DatasetBuilder("numbers", np.arange(6), attributes={"object_id": "4"})
    inner = GroupBuilder("b", attributes={"object_id": "3"})
    group = GroupBuilder("a", groups=[inner], datasets=[numbers], attributes={"object_id": "2"})
    root = GroupBuilder("root", groups=[group], attributes={"object_id": "1"})
    targets = dict(zip(TARGETS, (root, group, inner, numbers), strict=True))

    def stored(kind: Any, value: Any) -> Any:
        if isinstance(kind, list):
            return tuple(stored(m["dtype"], v) for m, v in zip(kind, value, strict=True))
        return ReferenceBuilder(targets[value]) if kind == "reference" else value

    for i, (kind, shape, values) in enumerate(given):
        items = [stored(kind, value) for value in values]
        data: Any = items[0] if shape == () else items
        if shape != () and kind in NUMBERS:
            data = np.array(items, kind).reshape(shape)
        elif len(shape) == 2:
            data = [items[start : start + shape[1]] for start in range(0, len(items), shape[1])]
        elif shape == () and kind in NUMBERS:
            data = np.dtype(kind).type(data)
        group.set_dataset(DatasetBuilder(f"d{i}", data, dtype=dtype_of(kind)))
    for name, value in own.items():
        inner.set_attribute(name, targets[value.path] if isinstance(value, Reference) else value)
    group.set_link(LinkBuilder(targets[link], "link"))
    return root


def dtype_of(kind: Any) -> Any:
    if isinstance(kind, list):
        return [{"name": m["name"], "dtype": dtype_of(m["dtype"])} for m in kind]
    return "object" if kind == "reference" else kind


def plain(value: Any) -> Any:
    """Return a value with references as their paths, and with the types of what is in arrays."""
    if isinstance(value, Reference):
        return "to", value.path
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype.name), value.shape, plain(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return type(value).__name__, repr(value)


def expected(kind: Any, value: Any) -> Any:
    if isinstance(kind, list):
        return tuple(expected(m["dtype"], v) for m, v in zip(kind, value, strict=True))
    if kind == "reference":
        return "to", value
    return plain(np.dtype(kind).type(value).item() if kind in NUMBERS else value)


def check(
    path: Path, given: list[tuple[Any, tuple[int, ...], list[Any]]], own: dict[str, Any], link: str
) -> None:
    store = open_store(f"{path}|hdf5:" if path.suffix == ".h5" else path)
    assert store.links("/a")["link"].path == link
    assert {k: plain(v) for k, v in store.attributes("/a/b").items() if k != "object_id"} == {
        k: plain(v) for k, v in own.items()
    }
    for i, (kind, shape, values) in enumerate(given):
        read = store.dataset(f"/a/d{i}").read()
        assert read.shape == shape
        assert [plain(v) for v in read.reshape(-1).tolist()] == [expected(kind, v) for v in values]
        if kind in NUMBERS:
            assert read.dtype == np.dtype(kind)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    given_=st.lists(datasets(), min_size=1, max_size=3),
    own=st.dictionaries(st.sampled_from(["p", "q", "r"]), attributes, max_size=3),
    link=st.sampled_from(TARGETS[1:]),
    formats=st.permutations(FORMATS),
)
def test_a_tree_is_the_same_in_each_format(
    given_: list[tuple[Any, tuple[int, ...], list[Any]]],
    own: dict[str, Any],
    link: str,
    formats: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(dir=base) as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            conversion, "_type_map", lambda: TypeMap(NamespaceCatalog())
        )  # copies of NWB's are slow
        first = next(name for name in formats if name != "hdf5")
        path = Path(directory, "first")
        with ZarrIO(path, "w", format=first) as io:
            io.write_builder(builders_of(given_, own, link))
        check(path, given_, own, link)
        for step, format in itertools.chain(enumerate(formats), [(len(FORMATS), first)]):
            before, path = path, Path(directory, f"{step}.h5" if format == "hdf5" else f"{step}")
            convert(before, path, format=format)
            if format == "hdf5":  # has one type for bytes and text of a fixed length, which is read as text
                own = {k: v.decode() if isinstance(v, bytes) else v for k, v in own.items()}
            else:
                check(path, given_, own, link)
