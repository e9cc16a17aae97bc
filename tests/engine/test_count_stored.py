"""Counting stored chunks: request by request and by listing, which must agree; arrays of any extent."""

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.engine import count_stored as module

FORMS = {
    "n5": ("n5", {}),
    "zarr": ("zarr", {}),
    "zarr3": ("zarr3", {}),
    "shards": ("zarr3", {"read_chunk": {"shape": [2, 3]}, "write_chunk": {"shape": [4, 6]}}),
}
VIEWS = {
    "all": lambda s: s,
    "part": lambda s: s[3:17, 5:6],
    "strided": lambda s: s[1:19:2, 4:],
    "backwards": lambda s: s[::-1, 18:2:-3],
    "row": lambda s: s[7],
    "point": lambda s: s[7, 7],
    "transposed": lambda s: s.T[2:9, 11:],
    "far apart": lambda s: s[::7],
    "points": lambda s: s.vindex[[1, 9, 17], [0, 5, 18]],
    "diagonal": lambda s: s[ts.d[0, 1].diagonal],
    "nothing": lambda s: s[4:4],
}


@pytest.mark.parametrize("form", list(FORMS))
def test_listing_agrees_with_asking(form, monkeypatch):
    driver, layout = FORMS[form]
    store = ts.open(
        {"driver": driver, "kvstore": "memory://a/"},
        create=True,
        dtype="uint8",
        shape=[20, 19],
        schema=ts.Schema(chunk_layout=ts.ChunkLayout(layout or {"chunk": {"shape": [2, 3]}})),
    ).result()
    rng = np.random.default_rng(0)
    for i, j in zip(rng.integers(0, 20, 25), rng.integers(0, 19, 25), strict=True):
        store[int(i), int(j)] = 1
    for view in VIEWS.values():
        counted = []
        for many in (10**9, 0):
            monkeypatch.setattr(module, "_MANY", many)
            viewed = view(store)
            counted.append(viewed._array.count_stored(viewed._transform).result())
            one = viewed._array.count_stored(viewed._transform, 1).result()
            assert bool(one.n_stored) == bool(counted[-1].n_stored), "one is looked for"
        assert counted[0] == counted[1]


def asked(view):
    found = view.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    return found.not_stored, found.fully_stored


def test_an_array_of_any_extent(tmp_path):
    for driver, layout in FORMS.values():
        store = ts.open(
            {"driver": driver, "kvstore": f"file://{tmp_path}/{driver}{len(layout)}/"},
            create=True,
            dtype="uint8",
            shape=[2**40, 2**40],
            schema=ts.Schema(chunk_layout=ts.ChunkLayout(layout or {"chunk": {"shape": [2, 3]}})),
        ).result()
        assert asked(store) == (True, False)
        store[2**39, 2**39] = 1
        assert asked(store) == (False, False)
        assert asked(store[: 2**39]) == (True, False)


@pytest.mark.parametrize("form", list(FORMS))
def test_one_stored_chunk_answers_whether_any_is(form):
    driver, layout = FORMS[form]
    kvstore = {"driver": "memory", "path": f"{form}/"}
    context = ts.Context()
    store = ts.open(
        {"driver": driver, "kvstore": kvstore},
        create=True,
        dtype="uint8",
        shape=[20, 19],
        schema=ts.Schema(chunk_layout=ts.ChunkLayout(layout or {"chunk": {"shape": [2, 3]}})),
        context=context,
    ).result()
    store[...] = 1
    # All but the first are damaged, which who goes on would see, or missing.
    files = ts.KvStore.open(kvstore, context=context).result()
    chunks = sorted(key for key in files.list().result() if b"json" not in key and b".z" not in key)
    for key in chunks[1:]:
        files[key] = b"x"
    assert store.storage_statistics(query_not_stored=True).result().not_stored is False
    if form == "shards":
        with pytest.raises(ValueError, match="is shorter than the index of a shard"):
            store.storage_statistics(query_fully_stored=True).result()


def test_a_shard_that_is_deleted_after_it_was_listed_counts_as_missing(monkeypatch):
    """No statistics fail because somebody deletes at the same time."""
    store = ts.open(
        {"driver": "zarr3", "kvstore": "memory://a/"},
        create=True,
        dtype="uint8",
        shape=[8],
        schema=ts.Schema(chunk_layout=ts.ChunkLayout(read_chunk_shape=[2], write_chunk_shape=[4])),
    ).result()
    store.write(1).result()
    monkeypatch.setattr(module, "_MANY", 0)
    stored_cells = module.stored_cells

    def then_deleted(array, driver):
        yield from list(stored_cells(array, driver))[:1]
        rest = list(stored_cells(array, driver))[1:]
        driver.delete("a/c/1")
        yield from rest

    monkeypatch.setattr(module, "stored_cells", then_deleted)
    assert store._array.count_stored(store._transform).result().n_stored == 2
