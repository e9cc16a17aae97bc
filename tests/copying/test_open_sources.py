"""Open arrays as sources of copies."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.images.server.sources import sources_of
from chunkwise.images.server.trees import ServedArray


def _sums(domain, out, _):
    rows, columns = (
        np.arange(low, high) for low, high in zip(domain.inclusive_min, domain.exclusive_max, strict=True)
    )
    out[...] = np.add.outer(rows, columns)


@pytest.mark.parametrize("executor", [None, "processes"])
def test_open_arrays_are_copied(executor, tmp_path):
    """Stored ones with their attributes, views and virtual ones as they are."""
    values = np.arange(48, dtype="u2").reshape(8, 6)
    a = cw.create_array(tmp_path / "a", values[:4], chunks=(2, 3), attributes={"k": 1})
    b = cw.create_array(tmp_path / "b", values[4:], chunks=(2, 3))
    layout = cw.ChunkLayout(read_chunk_shape=[2, 2])
    sources = {
        "whole": (a, values[:4]),
        "part": (a[1:3], values[1:3]),
        "transposed": (a.T, values[:4].T),
        "concat": (cw.concat([a, b], axis=0), values),
        "cast": (cw.cast(a, "float32"), values[:4].astype("f4")),
        "downsample": (cw.downsample(a, [2, 2], "stride"), values[:4:2, ::2]),
        "memory": (cw.array(values), values),
        "virtual_chunked": (
            cw.virtual_chunked(_sums, dtype="u2", shape=[4, 5], chunk_layout=layout),
            np.add.outer(np.arange(4), np.arange(5)),
        ),
    }
    with cw.Transaction() as transaction:
        changed = a.with_transaction(transaction)
        changed[0, 0] = 99
        cw.copy(changed, tmp_path / "transaction")
    assert cw.read(tmp_path / "transaction")[0, 0] == 99
    a[0, 0] = 0
    with ProcessPoolExecutor(1) as pool:
        for name, (source, expected) in sources.items():
            cw.copy(source, tmp_path / name, executor=pool if executor else None, verify=True)
            copied = cw.open_array(tmp_path / name)
            np.testing.assert_array_equal(copied, expected)
            assert dict(copied.attrs) == ({"k": 1} if name == "whole" else {})
    assert cw.plan_copy(cw.concat([a, b], axis=0), tmp_path / "planned").n_tasks


ARRANGED = {
    "cast": lambda store: cw.cast(store, "float32"),
    "transposed": lambda store: store.transpose(),
    "reversed": lambda store: store[::-1].translate_to[0, 0],
    "reversed twice": lambda store: store[::-1, ::-1].translate_to[0, 0],
    "diagonal": lambda store: store[cw.d[0, 1].diagonal][:, cw.newaxis][:, [0] * 4],
    "in a transaction": lambda store: _changed(store),
}


def _changed(store):
    view = store.with_transaction(cw.Transaction())
    view[0, 0] = 99
    return view


@pytest.mark.parametrize("how", ARRANGED)
def test_a_stored_array_never_stands_for_a_view_of_the_same_domain(tmp_path, how):
    view = ARRANGED[how](cw.create_array(tmp_path / "a.zarr", np.arange(16).reshape(4, 4), chunks=(2, 2)))
    expected = view.read().result()
    group = cw.create_group(tmp_path / "g.zarr")
    with pytest.raises(cw.errors.InvalidArgumentError, match="a view of an array can't be copied as a node"):
        group.copy(view, "b")
    if how != "in a transaction":
        cw.copy(view, tmp_path / "c.zarr")
        np.testing.assert_array_equal(cw.read(tmp_path / "c.zarr"), expected)
    served = sources_of(view)["a.zarr"].find(())
    assert isinstance(served, ServedArray) and served.stored is None
    np.testing.assert_array_equal(served.view.read().result(), expected)
