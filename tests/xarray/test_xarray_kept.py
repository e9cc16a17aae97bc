"""What is there survives: mistakes, failures of the store, sources that read what is written, labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from failing_store import FailingStore, contents, place_in

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.change import delete_all
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, require_node
from chunkwise.core.trees.replacement import leftovers
from chunkwise.errors import ChunkwiseError, StorageError
from chunkwise.xarray import write_dataset, write_datatree

FORMATS = ("zarr2", "zarr3", "n5")


def base(offset: float = 0.0) -> xr.Dataset:
    values = np.arange(8.0).reshape(4, 2) + offset
    return xr.Dataset(
        {"a": (("t", "x"), values), "b": ("x", [5.0, 6.0])},
        {"t": [0, 1, 2, 3], "x": [10, 20], "ref": 7},
        {"title": "base"},
    )


def read(place: Any, **options: Any) -> xr.Dataset:
    return xr.open_dataset(place, engine="chunkwise", **options).load()


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


MISTAKES: dict[str, dict[str, Any]] = {
    "codec": {"codec": "zsdt:5"},
    "codec as JSON": {"codec": [{"name": "zsdt"}]},
    "dtype": {"dtype": "int1x6"},
    "chunks of 0": {"chunks": (0,)},
    "rank of chunks": {"chunks": (2, 2)},
    "shards": {"shards": (3,), "chunks": (2,)},
    "fill value": {"fill_value": "many"},
    "range": {"dtype": "i1", "scale_factor": 0.01},
    "fill value beyond the type": {"dtype": "i1", "_FillValue": 300},
    "member": {"chunksize": (1,)},
}


@pytest.mark.each_once
@pytest.mark.parametrize("mode", ["w", "a", "w-"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_an_encoding_change_nothing(tmp_path: Path, mistake: str, mode: str) -> None:
    path = tmp_path / "a"
    write_datatree(xr.DataTree.from_dict({"/": base(), "/below": base()}), path)
    before = snapshot(tmp_path)
    wrong, group = {"b": MISTAKES[mistake]}, "new/deep" if mode == "w-" else "below"
    with pytest.raises((ValueError, TypeError, OverflowError)) as caught:
        write_dataset(base(1)[["a", "b"]], path, group=group, mode=mode, encoding=wrong)
    assert "b" in str(caught.value) or "b" in str(getattr(caught.value, "__notes__", ""))
    if mode != "w-":
        tree = xr.DataTree.from_dict({"/": base(2), "/below": base(2)})
        with pytest.raises((ValueError, TypeError, OverflowError)):  # all nodes are looked at first
            write_datatree(tree, path, mode=mode, encoding={"/below": wrong})
    assert snapshot(tmp_path) == before


def writes() -> dict[str, Callable[[Any], Any]]:
    new = base(100)
    more = base().assign_coords(t=[4, 5, 6, 7])
    return {
        "w": lambda p: write_dataset(new, p, mode="w"),
        "w with dask": lambda p: write_dataset(new.chunk(t=2), p, mode="w"),
        "a": lambda p: write_dataset(new.assign(c=new.b), p, mode="a"),
        "append": lambda p: write_dataset(more, p, append_dim="t"),
        "append with dask": lambda p: write_dataset(more.chunk(t=2), p, append_dim="t"),
        "tree": lambda p: write_datatree(xr.DataTree.from_dict({"/": new, "/n": new}), p, mode="w"),
        "new group": lambda p: write_dataset(new, p, group="n/m", mode="w-"),
    }


FAST = ("w with dask", "a", "append")


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", [pytest.param("zarr2", marks=pytest.mark.slow), "zarr3"])
@pytest.mark.parametrize(
    "how", [pytest.param(h, marks=[] if h in FAST else pytest.mark.slow) for h in writes()]
)
def test_a_failing_call_leaves_the_old_data_or_the_new(how: str, format: str, plain: bool) -> None:
    """The k-th call of the store fails.  Between two exchanges some variables may be new already."""

    def fail() -> None:
        raise StorageError("no more")

    def seen(place: Location) -> list[xr.Dataset]:
        groups = [place, *((place.child("n"),) if how == "tree" else ())]
        found = [_or_none(lambda g=group: read(place_of(g))) for group in groups]
        return [dataset for dataset in found if dataset is not None]

    def place_of(location: Location) -> Any:
        return cw.open_group(location, consolidated=False)

    start = MemoryStore()
    write_dataset(base(), place_in(start, "d/"), format=format)
    held = contents(start)

    def again() -> MemoryStore:
        store = MemoryStore()
        for key, value in held.items():
            store.write(key, value)
        return store

    whole = again()
    counted = FailingStore(whole, lambda: None, 0, plain=plain)
    write = writes()[how]
    with dask.config.set(scheduler="sync"):
        write(place_in(counted, "d/"))
        old, new = seen(place_in(start, "d/")), seen(place_in(whole, "d/"))
        step = max(1, counted.n_calls // (12 if how in FAST else 40))
        for at in range(1, counted.n_calls + 1, step):
            store = again()
            failing = FailingStore(store, fail, at, plain=plain)
            with suppress(StorageError, OSError):
                write(place_in(failing, "d/"))
            if plain and leftovers(place_in(store, "d/")):
                continue  # between the old and the new, which is whole where it was written
            found = seen(place_in(store, "d/"))
            if how == "a":  # variables take their places one by one
                for name, variable in found[0].variables.items():
                    of_both = [each[0].get(name) for each in (old, new)]
                    assert any(one is not None and one.variable.equals(variable) for one in of_both), (
                        at,
                        name,
                    )
                continue
            same_old = len(found) == len(old) and all(map(xr.Dataset.equals, found, old))
            assert same_old or all(map(xr.Dataset.equals, found, new)), at


def _or_none(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except (FileNotFoundError, cw.errors.NotFoundError):
        return None


# -- sources that read what is written -----------------------------------------------------------------


def source(path: Path, engine: str, lazy: bool) -> xr.Dataset:
    options: dict[str, Any] = {"chunks": {}} if lazy else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(path, engine=engine, **options)


@pytest.mark.each_once
@pytest.mark.parametrize("mode", ["w", "a"])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("format", "engine"),
    [
        ("zarr3", "chunkwise"),
        ("zarr3", "zarr"),
        pytest.param("zarr2", "chunkwise", marks=pytest.mark.slow),
        ("n5", "chunkwise"),
    ],
)
def test_what_replaces_its_source_is_right(
    tmp_path: Path, format: str, engine: str, lazy: bool, mode: str
) -> None:
    path = tmp_path / "a"
    write_dataset(base(), path, format=format, encoding={"a": {"chunks": (2, 1)}})
    for turned in (lambda d: d, lambda d: d.assign(a=d.a + 1), lambda d: d.isel(t=slice(None, None, -1))):
        expected = turned(read(path))
        write_dataset(turned(source(path, engine, lazy)), path, mode=mode)
        xr.testing.assert_equal(read(path), expected)


@pytest.mark.each_once
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_trees_can_replace_themselves(tmp_path: Path, format: str, lazy: bool) -> None:
    path = tmp_path / "a"
    tree = xr.DataTree.from_dict({"/": base(), "/some/data": base(3)})
    write_datatree(tree, path, format=format)
    opened = xr.open_datatree(path, engine="chunkwise", **({"chunks": {}} if lazy else {}))
    write_datatree(opened, path, mode="w")
    found = xr.open_datatree(path, engine="chunkwise")
    assert found["some"].encoding is not None and cw.open_group(path / "some/data").format == format
    xr.testing.assert_equal(found.load(), tree)


IN_PLACE: dict[str, tuple[Callable[[xr.Dataset], xr.Dataset], dict[str, Any], bool]] = {
    "blocks of their own": (lambda d: d[["a"]] + 1, {"mode": "r+"}, True),
    "turned": (lambda d: d[["a"]].isel(t=slice(None, None, -1)).drop_vars("t"), {"mode": "r+"}, False),
    "moved": (lambda d: d[["a"]].roll(t=1), {"mode": "r+"}, False),
    "less the mean": (lambda d: d[["a"]] - d[["a"]].mean(), {"mode": "r+"}, False),
    "a part elsewhere": (
        lambda d: d[["a"]].isel(t=slice(0, 2)).drop_vars(["t", "x", "ref"]),
        {"region": {"t": slice(1, 3)}},
        False,
    ),
    "appended": (lambda d: d.isel(t=slice(0, 2)).assign_coords(t=[8, 9]), {"append_dim": "t"}, True),
}


@pytest.mark.each_once
@pytest.mark.parametrize("engine", ["chunkwise", "zarr"])
@pytest.mark.parametrize("case", IN_PLACE)
def test_sources_of_writes_in_place(tmp_path: Path, case: str, engine: str) -> None:
    """Each block may follow from its own place; else the name of what is read and written is said."""
    change, options, possible = IN_PLACE[case]
    path = tmp_path / "a"
    write_dataset(base(), path, encoding={"a": {"chunks": (1, 2)}})
    before, expected = snapshot(path), change(base())
    changed = change(source(path, engine, True))
    if not possible or engine == "zarr":  # nothing is known of its blocks
        with pytest.raises(ValueError, match=r'variable "a" is read from .*load it first'):
            write_dataset(changed, path, **options)
        assert snapshot(path) == before
    else:
        write_dataset(changed, path, **options)
        found = read(path)["a"]
        np.testing.assert_array_equal(found[-2:] if case == "appended" else found, expected["a"])


def test_an_unfinished_replacement_must_not_read_what_it_replaces(tmp_path: Path) -> None:
    write_dataset(base(), tmp_path / "a")
    opened = source(tmp_path / "a", "chunkwise", True)
    before = snapshot(tmp_path)
    for mode in ("w", "a"):
        with pytest.raises(ValueError, match="load it first"):
            write_dataset(opened + 1, tmp_path / "a", mode=mode, compute=False)
    assert snapshot(tmp_path) == before
    delayed = write_dataset(base(5).chunk(t=2), tmp_path / "a", mode="w", compute=False)
    assert np.isnan(read(tmp_path / "a")["a"]).all()
    delayed.compute()
    xr.testing.assert_equal(read(tmp_path / "a"), base(5))


# -- labels ----------------------------------------------------------------------------------------------


def levels(t: list[int], level: list[int], ref: int = 7) -> xr.Dataset:
    values = [[float(10 * a + b) for b in level] for a in t]
    return xr.Dataset({"v": (("t", "level"), values)}, {"t": t, "level": level, "ref": ref})


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_there_keeps_its_labels(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    write_dataset(levels([0, 1], [1, 2]), path, format=format)
    before = snapshot(path)
    refused: dict[str, tuple[xr.Dataset, dict[str, Any]]] = {
        "level": (levels([2], [2, 1]), {"append_dim": "t"}),
        "ref": (levels([2], [1, 2], ref=8), {"append_dim": "t"}),
        "t": (levels([1, 0], [1, 2]).drop_vars(["level", "ref"]), {"region": {"t": slice(0, 2)}}),
    }
    for name, (dataset, options) in refused.items():
        with pytest.raises(ValueError, match=f'"{name}" is .*but stored as'):
            write_dataset(dataset, path, **options)
    other = xr.Dataset({"w": ("level", [1.0, 2.0])}, {"level": [2, 1]})
    with pytest.raises(ValueError, match=r'"level" is .* of v that is there'):
        write_dataset(other, path, mode="a")
    assert snapshot(path) == before
    part = levels([5], [1, 2]).drop_vars(["level", "ref"])
    with pytest.warns(UserWarning, match='"t" is .*it is not written'):
        write_dataset(part, path, region={"t": slice(1, 2)})
    assert read(path)["t"].values.tolist() == [0, 1] and read(path)["v"][1].values.tolist() == [51, 52]
    write_dataset(levels([2], [1, 2]), path, append_dim="t")
    assert read(path)["v"].sel(t=2, level=2).item() == 22
    write_dataset(xr.Dataset(coords={"level": [3, 4]}), path, mode="r+")  # the labels alone, on purpose
    assert read(path)["level"].values.tolist() == [3, 4]


# -- formats ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_groups_get_the_format_of_their_tree(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    write_dataset(base(), path, format=format)
    write_dataset(base(), path, group="by/path")
    write_dataset(base(), cw.open_group(path, "r+"), group="by_group")
    write_dataset(base(), path / "by_place")
    write_datatree(xr.DataTree.from_dict({"/n": base()}), path, group="tree")
    write_datatree(xr.DataTree.from_dict({"/more": base()}), path, mode="a")
    found = xr.open_datatree(path, engine="chunkwise")
    for name in ("by/path", "by_group", "by_place", "tree/n", "more"):
        assert cw.open_group(path / name).format == format
        xr.testing.assert_equal(found[name].to_dataset().load(), base())
    with pytest.raises(ValueError, match=f"in a tree of {format}"):
        write_dataset(base(), path, group="other", format="zarr2" if format != "zarr2" else "zarr3")


def test_trees_grow_in_the_nodes_that_have_the_dimension(tmp_path: Path) -> None:
    def tree(t: int) -> xr.DataTree:
        return xr.DataTree.from_dict({"/a/b": xr.Dataset({"v": ("t", [float(t)])}, {"t": [t]})})

    write_datatree(tree(0), tmp_path / "a")
    write_datatree(tree(1), tmp_path / "a", append_dim="t")
    assert xr.open_datatree(tmp_path / "a", engine="chunkwise")["a/b/v"].values.tolist() == [0, 1]
    with pytest.raises(ValueError, match="no node has a dimension"):
        write_datatree(tree(2), tmp_path / "a", append_dim="time")


# -- dask -------------------------------------------------------------------------------------------------

STORED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "its own blocks": (lambda a: cw.to_dask(a) * 2 + 1, lambda a: a, True),
    "a region": (lambda a: cw.to_dask(a[1:3]) * 2, lambda a: a[1:3], True),
    "another region": (lambda a: cw.to_dask(a[:, :2]), lambda a: a[:, 2:], True),
    "blocks elsewhere": (lambda a: cw.to_dask(a)[:2] * 0, lambda a: a[2:], True),
    "blocks that overlap": (lambda a: cw.to_dask(a)[:2] * 0, lambda a: a[1:3], False),
    "turned": (lambda a: cw.to_dask(a)[::-1], lambda a: a, False),
    "a turned view": (lambda a: cw.to_dask(a[::-1]), lambda a: a, False),
    "transposed": (lambda a: cw.to_dask(a).T, lambda a: a, False),
    "a moved region": (lambda a: cw.to_dask(a[:2]), lambda a: a[2:], True),
    "a region that overlaps": (lambda a: cw.to_dask(a[:2]), lambda a: a[1:3], False),
    "a sum": (lambda a: cw.to_dask(a) - cw.to_dask(a).sum(), lambda a: a, False),
    "neighbours": (lambda a: cw.to_dask(a).map_overlap(lambda b: b, depth=1), lambda a: a, False),
    "a virtual array": (lambda a: cw.to_dask(cw.stack([a, a])[1]), lambda a: a, False),
    "of zarr": (lambda a: da.from_zarr(zarr.open_array(a.kvstore.path)), lambda a: a, False),
    "a function": (
        lambda a: da.from_delayed(dask.delayed(lambda: a.read().result()[::-1])(), a.shape, "f8"),
        lambda a: a,
        False,
    ),
}


@pytest.mark.parametrize("case", STORED)
def test_dask_arrays_that_read_what_is_written(tmp_path: Path, case: str) -> None:
    make, part, possible = STORED[case]
    values = np.arange(16.0).reshape(4, 4)
    array = cw.create_array(tmp_path / "a.zarr", values, chunks=[1, 2])
    source, target = make(array), part(array)
    expected = source.compute(scheduler="sync")
    if possible:
        cw.store(source, target, scheduler="sync")
        np.testing.assert_array_equal(target.read().result(), expected)
        return
    with pytest.raises(ValueError, match=r"is read from .*a\.zarr"):
        cw.store(source, target)
    np.testing.assert_array_equal(array.read().result(), values)
    with pytest.raises(ValueError, match="is to be deleted"):
        cw.from_dask(source, str(tmp_path / "a.zarr"), delete_existing=True, compute=False)
    replaced = cw.from_dask(source, str(tmp_path / "a.zarr"), delete_existing=True)
    np.testing.assert_array_equal(replaced.read().result(), expected)


def test_sources_of_several_arrays_are_looked_at_together(tmp_path: Path) -> None:
    one, two = (cw.create_array(tmp_path / name, np.arange(4.0), chunks=[2]) for name in "ab")
    with pytest.raises(ValueError, match="is read from"):
        cw.store([cw.to_dask(one) + 1, cw.to_dask(one) * 2], [one, two])


def test_a_failure_of_from_dask_leaves_what_was_there(tmp_path: Path) -> None:
    def fail(block: Any) -> Any:
        raise ArithmeticError("a block")

    bad = da.ones(4, chunks=2).map_blocks(fail, dtype="f8", meta=np.empty(0))
    with pytest.raises(ArithmeticError):
        cw.from_dask(bad, str(tmp_path / "new.zarr"))
    assert not list(tmp_path.iterdir())
    cw.create_array(tmp_path / "a.zarr", np.arange(4.0), chunks=[2])
    before = snapshot(tmp_path)
    with pytest.raises(ArithmeticError):
        cw.from_dask(bad, str(tmp_path / "a.zarr"), delete_existing=True)
    with pytest.raises(ValueError, match="zsdt"):
        cw.from_dask(
            da.ones(4),
            str(tmp_path / "a.zarr"),
            delete_existing=True,
            codec=cw.CodecSpec({"driver": "zarr3", "codecs": [{"name": "zsdt"}]}),
        )
    assert snapshot(tmp_path) == before


def deleted_at(format: str, consolidated: bool | None, number: int) -> bool:
    """Delete the group around a dataset before its n-th write; return False if there is no such write."""
    held, begun = MemoryStore(), list[str]()
    top = place_in(held, "t/")
    cw.create_group(top, format=format)

    def look() -> None:
        writes = [key for call, key in store.calls if call == "write"]
        if len(writes) >= number and not begun:
            begun.append(writes[-1])
            delete_all(top, require_node(top))

    store, error = FailingStore(held, look, 1, always=True), None
    values = xr.Dataset({"a": ("t", [1, 2])}, {"t": [3, 4]})
    try:
        write_dataset(values, place_in(store, "t/z/"), format=format, consolidated=consolidated)
    except ChunkwiseError as e:
        error = e
    documents = [key for key in held.list() if key.rpartition("/")[2] in DOCUMENTS]
    if begun and documents:
        assert error is None, (begun, documents)
        assert read(place_in(held, "t/z/")).equals(values)
    return bool(begun)


@pytest.mark.parametrize(("format", "consolidated"), [("n5", None), ("zarr2", False), ("zarr3", False)])
def test_a_group_that_is_deleted_while_a_dataset_is_written(format: str, consolidated: bool | None) -> None:
    """The dataset can be opened, or the write fails; then nothing of it is left but chunks."""
    number = 1
    while deleted_at(format, consolidated, number):
        number += 1
    assert number > 4
