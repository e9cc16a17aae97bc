"""What TensorStore refuses is refused in its words, and nothing is written; what it takes is taken alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorstore

import chunkwise

Z2 = {"dtype": "<i4", "shape": [4, 6], "chunks": [2, 3]}
Z3 = {
    "data_type": "int32",
    "shape": [4, 6],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
}
N5 = {"dataType": "int32", "dimensions": [4], "blockSize": [2], "compression": {"type": "raw"}}
RECORDS = {"dtype": [["x", "<i4", [2]], ["y", "<i2"]], "shape": [3], "chunks": [3]}


class Library(NamedTuple):
    """A library, with a place of its own."""

    ts: Any
    place: Path
    numbers: Any

    def spec(self, driver: str, metadata: Any = None, **members: Any) -> dict[str, Any]:
        """Return the spec of an array at a new place."""
        kvstore = {"driver": "file", "path": f"{self.place}/{next(self.numbers)}/"}
        given = {} if metadata is None else {"metadata": metadata}
        return {"driver": driver, "kvstore": kvstore, **given, **members}

    def create(self, driver: str, metadata: Any = None, spec: Any = None, **options: Any) -> Any:
        """Return a new array."""
        return self.ts.open(self.spec(driver, metadata, **spec or {}), create=True, **options).result()

    def reopen(self, driver: str, metadata: Any, constraints: Any = None, **options: Any) -> Any:
        """Return an array that is opened again with constraints."""
        spec = self.spec(driver)
        self.ts.open({**spec, "metadata": metadata}, create=True).result()
        again = {} if constraints is None else {"metadata": constraints}
        return self.ts.open({**spec, **again}, **options).result()


def _with(metadata: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**metadata, **members}


def _order(library: Library, order: list[int], *, hard: bool) -> Any:
    name = "inner_order" if hard else "inner_order_soft_constraint"
    layout = library.ts.ChunkLayout(**{name: order})
    array = library.create("zarr", dtype="int32", shape=[4, 6, 2][: len(order)], chunk_layout=layout)
    return array.spec().to_json()["metadata"]["order"], list(array.chunk_layout.inner_order)


def _zlib(library: Library) -> Any:
    return library.ts.CodecSpec({"driver": "zarr", "compressor": {"id": "zlib", "level": 1}})


Case = Callable[[Library], Any]
REFUSED: dict[str, Case] = {
    "zarr rank": lambda lib: lib.create("zarr", Z2, schema=lib.ts.Schema(rank=3)),
    "zarr3 rank": lambda lib: lib.create("zarr3", Z3, schema=lib.ts.Schema(rank=3)),
    "zarr type": lambda lib: lib.create("zarr", Z2, dtype="float32"),
    "zarr3 type": lambda lib: lib.create("zarr3", Z3, dtype="float32"),
    "n5 type": lambda lib: lib.create("n5", N5, dtype="float32"),
    "field type": lambda lib: lib.create("zarr", RECORDS, {"field": "x"}, dtype="float32"),
    "field rank": lambda lib: lib.create("zarr", RECORDS, {"field": "x"}, schema=lib.ts.Schema(rank=1)),
    "zarr3 no type": lambda lib: lib.create("zarr3", shape=[3]),
    "n5 no type": lambda lib: lib.create("n5", shape=[3]),
    "zarr fill": lambda lib: lib.create("zarr", _with(Z2, fill_value=3), fill_value=4),
    "zarr3 fill": lambda lib: lib.create("zarr3", _with(Z3, fill_value=3), fill_value=4),
    "zarr3 stored fill": lambda lib: lib.reopen("zarr3", _with(Z3, fill_value=3), fill_value=4),
    "zarr stored fill": lambda lib: lib.reopen("zarr", _with(Z2, fill_value=3), fill_value=4),
    "zarr no stored fill": lambda lib: lib.reopen("zarr", Z2, fill_value=4),
    "zarr units": lambda lib: lib.create("zarr", Z2, dimension_units=["nm", None]),
    "n5 stored units": lambda lib: lib.reopen(
        "n5", _with(N5, units=["nm"], resolution=[4]), dimension_units=["5nm"]
    ),
    "array codec": lambda lib: lib.ts.open(
        {"driver": "array", "array": [1], "dtype": "int32", "schema": {"codec": {"driver": "zarr"}}}
    ).result(),
    "zarr compressor": lambda lib: lib.create("zarr", _with(Z2, compressor=None), codec=_zlib(lib)),
    "zarr fill without type": lambda lib: lib.create("zarr", {"shape": [3], "fill_value": 3}, dtype="int32"),
    "zarr order": lambda lib: _order(lib, [1, 0, 2], hard=True),
    "zarr3 keys": lambda lib: lib.reopen("zarr3", Z3, {"chunk_key_encoding": {"name": "v2"}}),
    "zarr3 fill value": lambda lib: lib.reopen(
        "zarr3", _with(Z3, fill_value=3), {"fill_value": 4, "data_type": "int32"}
    ),
    "zarr3 names": lambda lib: lib.reopen(
        "zarr3", _with(Z3, dimension_names=["a", "b"]), {"dimension_names": ["a", "c"]}
    ),
    "zarr3 grid": lambda lib: lib.reopen(
        "zarr3", Z3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}}
    ),
    "zarr3 shape": lambda lib: lib.reopen("zarr3", Z3, {"shape": [4, 7]}),
    "array in a transaction": lambda lib: lib.ts.open(
        {"driver": "array", "array": [1], "dtype": "int32"}, transaction=lib.ts.Transaction()
    ).result(),
    "array resize": lambda lib: lib.ts.array([1, 2]).resize(exclusive_max=[3]).result(),
    "downsample write": lambda lib: lib.ts.downsample(lib.ts.array([1, 2]), [2], "mean").write(3).result(),
    "cast resize": lambda lib: (
        lib.ts.cast(lib.create("zarr", Z2)[1], lib.ts.float32).resize(exclusive_max=[8]).result()
    ),
    "explicit bound": lambda lib: lib.create("zarr", Z2)[0:2].resize(exclusive_max=[3, None]).result(),
    "shape of values": lambda lib: lib.create("zarr", Z2).write(np.zeros((3, 3), "i4")).result(),
    "spec of unknown rank": lambda lib: lib.ts.Spec({"driver": "zarr", "kvstore": "memory://x/"})[3:5],
    "rank of layers": lambda lib: lib.ts.open(
        {
            "driver": "stack",
            "layers": [{"driver": "array", "array": [1], "dtype": "int32"}],
            "schema": {"domain": {"rank": 2}},
        }
    ).result(),
    "member of a grid": lambda lib: lib.ts.ChunkLayout.Grid({"shape": [2, 3], "x": 1}),
}
TAKEN: dict[str, Case] = {
    "Fortran order": lambda lib: _order(lib, [1, 0], hard=True),
    "Fortran order, perhaps": lambda lib: _order(lib, [2, 1, 0], hard=False),
    "another order, perhaps": lambda lib: _order(lib, [1, 0, 2], hard=False),
    "units in memory": lambda lib: (
        lib.ts.open(
            {"driver": "array", "array": [1], "dtype": "int32", "schema": {"dimension_units": ["4nm"]}}
        )
        .result()
        .schema.to_json()
    ),
    "resized cast": lambda lib: (
        lib.ts.cast(lib.create("zarr", Z2), lib.ts.float32).resize(exclusive_max=[5, None]).result().shape
    ),
    "nothing to write": lambda lib: lib.ts.array(np.zeros((0, 3))).write(1).result(),
    "downsampled in a transaction": lambda lib: (
        lib.ts.downsample(lib.create("zarr", Z2), [2, 2], "mean")
        .with_transaction(lib.ts.Transaction())
        .read()
        .result()
        .tolist()
    ),
    "chunks of a downsampled array": lambda lib: (
        lib.ts.downsample(lib.create("zarr", Z2), [2, 2], "mean")
        .storage_statistics(query_not_stored=True)
        .result()
        .not_stored
    ),
    "spec of a cast": lambda lib: _spec_of_cast(lib),
    "base of a downsampled spec": lambda lib: lib.ts.Spec(
        {
            "driver": "downsample",
            "downsample_factors": [2],
            "downsample_method": "mean",
            "base": {"driver": "zarr", "kvstore": "memory://x/"},
        }
    ).base.to_json(),
    "fill value of a row": lambda lib: lib.create("zarr", _with(Z2, fill_value=7))[1].fill_value.tolist(),
    "grid by JSON": lambda lib: lib.ts.ChunkLayout.Grid({"shape": [2, 3], "aspect_ratio": [1, 2]}).to_json(),
    "grid by a grid": lambda lib: lib.ts.ChunkLayout.Grid(
        grid=lib.ts.ChunkLayout.Grid(shape=[2, 3])
    ).to_json(),
    "DLPack": lambda lib: list(
        np.from_dlpack(lib.create("zarr", Z2).read().result()).shape
        if lib.ts is tensorstore
        else np.from_dlpack(lib.create("zarr", Z2)).shape
    ),
}


def _spec_of_cast(library: Library) -> Any:
    base = {"driver": "zarr", "create": True, "open": True}
    spec = library.ts.Spec({"driver": "cast", "dtype": "float32", "base": base})
    mode = spec.open_mode
    spec.update(kvstore=library.ts.KvStore.Spec("memory://y/"))
    return mode.create, mode.open, spec.to_json(), spec.base.to_json()


def _libraries(place: Path) -> list[Library]:
    return [Library(ts, place / ts.__name__, count()) for ts in (tensorstore, chunkwise)]


def _files(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def _words(error: Exception, library: Library) -> str:
    """Return the text of an error without its status, TensorStore's sources and the place."""
    text = re.sub(r"^[A-Z_]+: ", "", str(error)).replace(str(library.place), "")
    return re.split(r" \[(tensorstore_spec|domain|transform)=", text)[0].partition(" [source locations")[0]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    said, files = [], []
    for library in _libraries(tmp_path):
        with pytest.raises((ValueError, NotImplementedError)) as caught:
            REFUSED[case](library)
        said.append(_words(caught.value, library))
        files.append(sorted(_files(library.place)))
    assert said[1] == said[0]
    assert files[1] == files[0], "nothing but what was made before"


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_taken(case: str, tmp_path: Path) -> None:
    theirs, ours = (TAKEN[case](library) for library in _libraries(tmp_path))
    assert ours == theirs


def test_what_only_chunkwise_says(tmp_path: Path) -> None:
    """TensorStore ignores some, has other words for others, and crashes at a stack of nothing."""
    ours = _libraries(tmp_path)[1]
    cases: dict[str, Case] = {
        "codec_chunk_shape not supported": lambda lib: lib.create(
            "zarr", dtype="int32", shape=[4, 6], chunk_layout=lib.ts.ChunkLayout(codec_chunk_shape=[2, 2])
        ),
        'Error opening "auto" driver: "kvstore" must be specified': lambda lib: lib.ts.open(
            {"driver": "auto"}
        ).result(),
        'Requested field "x" has no elements': lambda lib: lib.create(
            "zarr", _with(RECORDS, dtype=[["x", "<i4", [0]], ["y", "<i2"]]), {"field": "x"}
        ),
        "A stack without layers requires a domain": lambda lib: lib.ts.open(
            {"driver": "stack", "layers": [], "dtype": "int32"}
        ).result(),
        'dtype must be specified in "metadata"': lambda lib: lib.create(
            "zarr", None, {"field": "x"}, dtype="int32", shape=[3]
        ),
        "Invalid requested bounds": lambda lib: (
            lib.create("zarr", Z2).resize(exclusive_max=[-1, None]).result()
        ),
        '"host_header" is not supported': lambda lib: lib.ts.KvStore.open(
            {"driver": "s3", "bucket": "bucket", "host_header": "x", "endpoint": "http://localhost:1"}
        ).result(),
        'Expected "endpoint" to be an http or https URL, but received: "ftp://localhost"': lambda lib: (
            lib.ts.KvStore.open({"driver": "s3", "bucket": "bucket", "endpoint": "ftp://localhost"}).result()
        ),
    }
    for message, make in cases.items():
        with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
            make(ours)
    for path in _files(ours.place):
        assert path.endswith("/.zarray"), "of the array that was to be resized"


@pytest.mark.parametrize("ts", [tensorstore, chunkwise], ids=["tensorstore", "chunkwise"])
def test_json_values_that_are_not_written(ts: Any, tmp_path: Path) -> None:
    array = ts.open({"driver": "json", "kvstore": f"file://{tmp_path}/x.json"}).result()
    array[ts.newaxis][0:0].write(3).result()
    with pytest.raises((TypeError, ValueError)):
        array.write(np.array(object(), object)).result()
    assert list(tmp_path.iterdir()) == []
    array.write({"a": 1}).result()
    assert (tmp_path / "x.json").read_bytes() == b'{"a":1}'
