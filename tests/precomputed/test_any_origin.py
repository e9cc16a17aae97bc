"""An array that doesn't begin at 0 is planned, explained, cut into blocks and checked as one that does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.copying.plain_read import read_plainly
from chunkwise.dask.convert import aligned_sizes
from chunkwise.errors import OutOfRangeError

_SHARDING = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 1,
    "minishard_bits": 1,
    "shard_bits": 1,
    "hash": "identity",
}
_SPECS = {
    "zarr3": {"driver": "zarr3"},
    "sharded": {"driver": "zarr3"},
    "zarr2": {"driver": "zarr"},
    "n5": {"driver": "n5"},
    "memory": {"driver": "array"},
}


def _volume(
    values: np.ndarray[Any, Any], origin: tuple[int, ...], chunk: tuple[int, ...], sharded: bool
) -> cw.TensorStore:
    scale = {
        "size": list(values.shape[:3]),
        "voxel_offset": list(origin),
        "chunk_size": list(chunk),
        "resolution": [4, 4, 40],
        "encoding": "raw",
        **({"sharding": _SHARDING} if sharded else {}),
    }
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": "memory://",
        "multiscale_metadata": {"type": "image", "data_type": "uint8", "num_channels": 1},
        "scale_metadata": scale,
        "create": True,
    }
    volume = cw.open(spec, context=cw.Context()).result()
    volume.write(values).result()
    return volume


@st.composite
def _parts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[slice, ...]:
    out = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        out.append(slice(start, draw(st.integers(start + 1, n)), draw(st.integers(1, 3))))
    return tuple(out)


def _moved(part: tuple[slice, ...], origin: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(s.start + at, s.stop + at, s.step) for s, at in zip(part, origin, strict=True))


@settings(max_examples=examples(20))
@given(st.data())
def test_a_volume_with_an_offset_is_planned_as_one_without(data: st.DataObject) -> None:
    size = data.draw(st.tuples(*[st.integers(1, 12)] * 3))
    chunk = data.draw(st.tuples(*[st.integers(1, 8)] * 3))
    origin = data.draw(st.tuples(*[st.integers(-1000, 1000)] * 3))
    sharded = data.draw(st.booleans())
    values = np.random.default_rng(0).integers(0, 200, (*size, 1), dtype="uint8")
    at_zero, volume = (_volume(values, at, chunk, sharded) for at in ((0, 0, 0), origin))
    part = data.draw(_parts(volume.shape))
    views = at_zero[part], volume[_moved(part, (*origin, 0))]
    for a, b in ((at_zero, volume), views):
        assert b.explain().requests == a.explain().requests
        assert [str(one) for one in b.explain().strategies] == [str(one) for one in a.explain().strategies]
        assert aligned_sizes(b) == aligned_sizes(a)
        np.testing.assert_array_equal(read_plainly(b), a.read().result())
    assert volume._repr_html_().count("<rect") == at_zero._repr_html_().count("<rect")


@settings(max_examples=examples(20))
@given(st.data())
@pytest.mark.parametrize("kind", _SPECS)
def test_a_moved_view_is_planned_as_the_array(kind: str, data: st.DataObject) -> None:
    spec = dict(_SPECS[kind])
    if kind != "memory":
        spec["kvstore"] = "memory://"
    if kind == "sharded":
        spec["schema"] = {"chunk_layout": {"write_chunk": {"shape": [8, 8]}, "read_chunk": {"shape": [4, 4]}}}
    elif kind != "memory":
        spec["schema"] = {"chunk_layout": {"chunk": {"shape": [5, 4]}}}
    base = (
        cw.array(np.zeros((17, 11), "uint8"))
        if kind == "memory"
        else cw.open(spec, dtype="uint8", shape=[17, 11], create=True, context=cw.Context()).result()
    )
    origin = data.draw(st.tuples(*[st.integers(-1000, 1000)] * 2))
    part = data.draw(_parts((17, 11)))
    whole = base.translate_to[origin] if kind == "memory" else cw.stack([base.translate_to[origin]], 0)[0]
    np.testing.assert_array_equal(read_plainly(whole[_moved(part, origin)]), base[part].read().result())
    if kind == "memory":
        return
    for moved in (base.translate_to[origin], whole):
        assert moved[_moved(part, origin)].explain().requests == base[part].explain().requests
    assert aligned_sizes(base.translate_to[origin]) == aligned_sizes(base)


def test_a_plan_outside_the_grid_is_an_error_and_ends() -> None:
    from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import ClippedGrid

    for index in (-1, 20, 100):
        with pytest.raises(OutOfRangeError, match=rf"Index {index} is outside \[0, 20\)"):
            ClippedGrid((16,), (20,)).cell(0, index)
