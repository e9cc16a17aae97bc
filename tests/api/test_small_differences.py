"""Small rules of TensorStore about specs and transactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw

LIBRARIES = pytest.mark.parametrize("ts", [cw, tensorstore], ids=["chunkwise", "tensorstore"])


def _made(ts: Any, context: Any) -> Any:
    return ts.open(
        "memory://a/|zarr3", create=True, dtype="int16", shape=[8], context=context,
        chunk_layout=ts.ChunkLayout(chunk_shape=[4]),
    ).result()  # fmt: skip


@LIBRARIES
def test_specs_bound_to_two_contexts(ts: Any) -> None:
    one, other = (_made(ts, ts.Context()) for _ in range(2))
    bound, others = (array.spec(retain_context=True) for array in (one, other))
    assert bound != others
    assert bound == one.spec(retain_context=True) == bound.copy()
    assert one.spec() == other.spec()
    assert bound != one.spec()


@LIBRARIES
def test_staleness_bounds_of_what_keeps_nothing(ts: Any) -> None:
    for spec in (ts.array([1, 2]).spec(), ts.stack([ts.array([1, 2])] * 2).spec()):
        before = spec.to_json()
        spec.update(recheck_cached=False)
        assert spec.to_json() == before
    mixed = ts.overlay([ts.array(np.zeros(2, "int16")), _made(ts, ts.Context())]).spec()
    mixed.update(recheck_cached_data=False)
    assert [layer.get("recheck_cached_data") for layer in mixed.to_json()["layers"]] == [None, False]


@LIBRARIES
def test_open_mode_of_layers(ts: Any) -> None:
    def mode(*layers: dict[str, Any]) -> Any:
        spec = {"driver": "zarr3", "schema": {"dtype": "int16", "domain": {"shape": [3]}}}
        array = {"driver": "array", "array": [1, 2, 3], "dtype": "int16"}
        return ts.Spec(
            {
                "driver": "stack",
                "layers": [
                    {**spec, "kvstore": f"memory://{i}/", **flags} if flags != {"array": 1} else array
                    for i, flags in enumerate(layers)
                ],
            }
        ).open_mode

    both = {"open": True, "create": True}
    assert mode({}, {}) == mode({"open": True}) == ts.OpenMode(open=True)
    assert mode(both, both) == ts.OpenMode(open=True, create=True)
    assert mode({"open": True}, {"create": True}) == ts.OpenMode()
    assert mode({"array": 1}, {}) == mode({"array": 1}) == ts.OpenMode()
    array = _made(ts, ts.Context())
    assert ts.overlay([array, array]).spec().open_mode == ts.OpenMode(open=True)


@LIBRARIES
def test_growth_in_a_repeatable_read(ts: Any) -> None:
    array = _made(ts, ts.Context())
    transaction = ts.Transaction(repeatable_read=True)
    assert array.with_transaction(transaction).resize(exclusive_max=[12]).result().shape == (12,)
    transaction.commit_sync()
    assert array.resolve().result().shape == (12,)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_shrink_in_a_repeatable_read(atomic: bool) -> None:
    """TensorStore never returns."""
    array = _made(cw, cw.Context())
    array[...] = 1
    transaction = cw.Transaction(repeatable_read=True, atomic=atomic)
    assert array.with_transaction(transaction).resize(exclusive_max=[4]).result().shape == (4,)
    assert array.resolve().result().shape == (8,)
    transaction.commit_sync()
    assert array.resize(exclusive_max=[8]).result().read().result().tolist() == [1] * 4 + [0] * 4
