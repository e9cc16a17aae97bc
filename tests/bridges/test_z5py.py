"""``chunkwise.z5py`` beside z5py: the same calls give the same values, files and exceptions."""

from __future__ import annotations

import copy
import errno
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import z5py as theirs
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise
import chunkwise.z5py as ours
from chunkwise.z5py.dataset import Dataset

FORMATS = {"n5": ("a.n5", 2), "zarr2": ("a.zarr", 2), "zarr3": ("b.zarr", 3)}
SHAPE, CHUNKS = (10, 12), (4, 5)
VALUES = np.arange(120, dtype="u2").reshape(SHAPE)


class Raised:
    """Stands for an exception of a built-in class, or one that derives from it."""

    def __init__(self, error: Exception) -> None:
        self.classes = {c for c in type(error).__mro__ if c.__module__ == "builtins"} - {
            Exception,
            BaseException,
        }
        self.classes -= {object}

    def __eq__(self, other: object) -> bool:
        # The class that z5py raises is one of those that chunkwise's derives from.
        return isinstance(other, Raised) and (self.classes <= other.classes or other.classes <= self.classes)

    def __repr__(self) -> str:
        return f"Raised({sorted(c.__name__ for c in self.classes)})"


def outcome(call: Callable[[], Any]) -> Any:
    try:
        value = call()
    except Exception as e:
        return Raised(e)
    if isinstance(value, np.ndarray | np.generic):
        return (type(value), value.dtype, value.shape, value.tolist())
    return value


@pytest.fixture(params=FORMATS)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A new container of each library, in the same format."""
    name, zarr_format = FORMATS[request.param]
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    return (
        ours.File(str(tmp_path / "ours" / name), "a", zarr_format=zarr_format),
        theirs.File(str(tmp_path / "theirs" / name), "a", zarr_format=zarr_format),
    )


def same(both: Any, call: Callable[[Any], Any]) -> Any:
    """Check that a call has the same outcome on both; return it."""
    mine, wanted = (outcome(lambda at=at: call(at)) for at in both)
    assert mine == wanted
    return mine


def datasets(both: Any, **options: Any) -> Any:
    return tuple(f.create_dataset("d", data=VALUES, chunks=CHUNKS, **options) for f in both)


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.each_once
@pytest.mark.parametrize("name", ["a.n5", "a.zarr", "a.zr"])
@pytest.mark.parametrize("mode", ["r", "r+", "a", "w", "w-", "x", "q"])
@pytest.mark.parametrize("existing", [False, True])
def test_modes(name: str, mode: str, existing: bool, tmp_path: Path) -> None:
    def call(module: ModuleType) -> Any:
        path = str(tmp_path / module.__name__ / name)
        if existing:
            theirs.File(path, "a").create_group("old")
        f = module.File(path, mode)
        return f.filename == path, f.name, f.is_zarr, sorted(f), outcome(lambda: bool(f.create_group("new")))

    for module in (ours, theirs):
        (tmp_path / module.__name__).mkdir()
    mine, wanted = (outcome(lambda module=module: call(module)) for module in (ours, theirs))
    assert mine == wanted


def test_members_of_objects(tmp_path: Path) -> None:
    """All public members are there, but for an enumeration of z5py's C++; each text names its object."""
    found = []
    for module in (ours, theirs):
        file = module.File(str(tmp_path / module.__name__ / "a.n5"), "a")
        dataset = file.create_group("g").create_dataset("d", shape=(4,), chunks=(2,), dtype="u1")
        found.append((file, file["g"], dataset, dataset.attrs, file.attrs))
    for own, peer in zip(*found, strict=True):
        members = {name for name in dir(peer) if not name.startswith("_")} - {"file_modes"}
        assert members <= set(dir(own))
        for name in members:
            if "compressor" in name:
                assert getattr(own, name) == getattr(peer, name)
    path = str(tmp_path / "chunkwise.z5py" / "a.n5")
    dataset, attrs = found[0][2:4]
    assert repr(dataset) == f"<chunkwise.z5py.Dataset /g/d uint8 (4,) in {path}>"
    assert repr(attrs) == str(attrs) == f"<chunkwise.z5py.AttributeManager of {dataset!r}>"


def test_errors_of_files_have_their_number(tmp_path: Path) -> None:
    with pytest.raises(OSError) as missing:
        ours.File(str(tmp_path / "a.n5"))
    ours.File(str(tmp_path / "a.n5"), "a")
    with pytest.raises(FileExistsError) as existing:
        ours.File(str(tmp_path / "a.n5"), "x")
    assert (missing.value.errno, existing.value.errno) == (errno.EROFS, errno.EEXIST)


def test_formats_of_files(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    assert ours.File(path, "a").is_zarr is theirs.File(path + "2", "a").is_zarr is False
    # What z5py's documentation says of the two, and z5py does not do.
    assert ours.File(path + "3", "a", use_zarr_format=True).is_zarr
    assert ours.File.infer_format(path + "4") is None
    assert ours.File(path + "3").is_zarr
    for module in (ours, theirs):
        with pytest.raises(RuntimeError):
            module.File(str(tmp_path / "x.n5"), "a", use_zarr_format=True)
        with pytest.raises(RuntimeError):
            module.N5File(str(tmp_path / "x.zarr"), "a")
        with pytest.raises(RuntimeError):
            module.ZarrFile(path)
    chunkwise.create_group(tmp_path / "y.n5", format="zarr2")
    with pytest.raises(RuntimeError, match="Zarr file cannot be opened in N5 format"):
        ours.File(tmp_path / "y.n5", "a")
    with pytest.raises(ValueError, match="zarr_format"):
        ours.ZarrFile(str(tmp_path / "x.zarr"), "a", zarr_format=4)
    with pytest.raises(ValueError, match="dimension_separator"):
        ours.ZarrFile(str(tmp_path / "x.zarr"), "a", dimension_separator=":")


def test_format_of_an_existing_container_counts(both: Any, tmp_path: Path) -> None:
    for f in both:
        again = type(f)(f.filename, "a", zarr_format=2)
        again.create_dataset("d", shape=(4,), dtype="u1")
    named = [sorted(p.name for p in Path(f.filename, "d").iterdir()) for f in both]
    assert named[0] == named[1]


# -- groups -----------------------------------------------------------------------------------------


def test_groups(both: Any) -> None:
    for name in ("a", "b", "b/c", "b/c/d"):
        assert same(both, lambda f, name=name: f.create_group(name).name) == f"/{name}"
    same(both, lambda f: f.create_group("a"))
    same(both, lambda f: f.create_group(""))
    same(both, lambda f: f.require_group("a").name)
    same(both, lambda f: f.require_group("e").name)
    same(both, lambda f: f.create_dataset("b/data", shape=SHAPE, dtype="u1").name)
    for name in ("b/data", "a"):
        same(both, lambda f, name=name: f.require_group(name).name)
        same(both, lambda f, name=name: f.is_sub_group(name))
    same(both, lambda f: f.is_sub_group("missing"))
    same(both, lambda f: (sorted(f), len(f), sorted(f.keys()), list(f["b/c"]), bool(f), bool(f["a"])))
    same(both, lambda f: [name in f for name in ("a", "b/c", "/a", "a/", "", "/", "zz", "b/zz", "b/data")])
    same(both, lambda f: f["zz"])
    same(both, lambda f: (f.get("zz"), f["b"].get("zz", 3)))
    same(both, lambda f: (f["b"].parent is f, f.parent is f, f["b/data"].file is f, f.file is f))
    same(both, lambda f: sorted((name, type(member).__name__) for name, member in f["b"].items()))
    seen: Any = ([], [])
    for f, names in zip(both, seen, strict=True):
        assert f.visititems(lambda name, member, names=names: names.append((name, member.name))) is None
    assert sorted(seen[0]) == sorted(seen[1])
    same(both, lambda f: f.visititems(lambda name, member: name if name.endswith("data") else None))
    same(both, lambda f: f.__delitem__("zz"))
    same(both, lambda f: (f.__delitem__("b/data"), f["b"].__delitem__("c"), list(f["b"])))
    for mode in ("r", "r+"):
        again = tuple(type(f)(f.filename, mode) for f in both)
        same(again, lambda f: f.require_group("a").name)
        for call in ("create_group", "require_group", "__delitem__"):
            same(again, lambda f, call=call: getattr(f, call)(f"new-{call}") is None)
        same(again, lambda f: f.create_dataset("r", shape=(3,), dtype="u1").shape)


def test_where_z5py_goes_astray(both: Any) -> None:
    """Parents are the groups above; no path leaves the file; nothing is made inside a dataset."""
    mine = both[0]
    mine.create_group("b/c")
    assert (mine["b/c"].parent.name, mine["/b/c"].name) == ("/b", "/b/c")
    mine.create_dataset("d", shape=(3,), dtype="u1")
    for path in ("../x", "a/..", "./k"):
        with pytest.raises(ValueError):
            mine.create_group(path)
    with pytest.raises(ValueError):
        mine.create_group("d/x")
    with pytest.raises(ValueError):
        del mine["/"]
    with pytest.raises(TypeError):
        mine[3]
    assert 3 not in mine


# -- making datasets --------------------------------------------------------------------------------


def described(ds: Any) -> Any:
    return (
        *(ds.shape, ds.chunks, ds.dtype, ds.compression, ds.compression_opts, ds.shards, ds.size, ds.ndim),
        *(len(ds), ds.number_of_chunks, ds.chunks_per_dimension, ds.is_zarr, ds.name, ds.n_threads),
    )


CREATED: list[dict[str, Any]] = [
    {"shape": (10, 12), "dtype": "uint8"},
    {"shape": (600, 600, 600), "dtype": "int64"},
    {"shape": (300000,), "dtype": np.uint16},
    {"shape": (70,) * 4, "dtype": float, "n_threads": 3},
    {"shape": [4, 5], "chunks": [2, 2], "dtype": np.dtype("u4")},
    {"shape": (10,), "chunks": (20,), "dtype": "u1"},
    {"shape": (10,), "chunks": (3, 3), "dtype": "u1"},
    {"shape": (10,)},
    {"dtype": "u1"},
    {},
    {"shape": (10,), "dtype": "S3"},
    {"shape": (10,), "dtype": "nonsense"},
    {"data": np.arange(12).reshape(3, 4)},
    {"data": np.arange(12, dtype="u1"), "dtype": "u2"},
    {"data": np.arange(12, dtype="u1"), "shape": (6, 2)},
    {"data": np.arange(12, dtype="u1"), "shape": (12,), "dtype": "uint8"},
    *({"shape": (4, 4), "dtype": "i2", "compression": name} for name in ("zlib", "bzip2", "zstd", "xz", "")),
    {"shape": (4, 4), "dtype": "f4", "compression": "blosc", "codec": "zstd", "shuffle": 2},
    {"shape": (4, 4), "dtype": "f4", "compression": "blosc", "blocksize": 64},
    {"shape": (4, 4), "dtype": "f4", "compression": "zstd", "level": 9},
    {"shape": (4, 4), "dtype": "f4", "compression": "gzip", "levle": 3},
    {"shape": (4, 4), "dtype": "f4", "compression": "raw", "level": 3},
    {"shape": (4, 4), "dtype": "f4", "compression": "zstd", "level": "3"},
    {"shape": (4, 4), "dtype": "u1", "maxshape": (8, 8)},
    {"shape": (8, 8), "dtype": "u1", "chunks": (2, 2), "shards": (4, 4)},
    {"shape": (8, 8), "dtype": "u1", "chunks": (2, 2), "shards": (3, 4)},
    {"shape": (8, 8), "dtype": "u1", "chunks": (2, 2), "chunk_key_encoding": "v2"},
    {"shape": (4,), "dtype": "u1", "fillvalue": None},
]


@pytest.mark.each_once
@pytest.mark.parametrize("options", CREATED, ids=lambda options: ",".join(map(str, options))[:40])
def test_creation(both: Any, options: dict[str, Any]) -> None:
    made = same(both, lambda f: described(f.create_dataset("g/d", **options)))
    if not isinstance(made, Raised):
        same(both, lambda f: f.create_dataset("g/d", **options).shape)
        # Each library reads what the other has made.
        crossed = (ours.File(both[1].filename)["g/d"], theirs.File(both[0].filename)["g/d"])
        same(crossed, described_or_values)


@pytest.mark.parametrize("options", [{"shape": 10}, {"shape": np.int64(10)}, {"shape": (10,), "chunks": 3}])
def test_one_number_is_a_shape_or_chunks(both: Any, options: dict[str, Any]) -> None:
    """As in all creators of chunkwise; z5py takes it for Zarr alone."""
    made = both[0].create_dataset("d", dtype="u1", **options)
    assert made.shape == (10,) and made.chunks == ((3,) if "chunks" in options else (10,))


def described_or_values(ds: Any) -> Any:
    return (described(ds)[:4], ds[tuple(slice(2) for _ in ds.shape)].tolist())


@pytest.mark.parametrize("fill", [7, 1.5, float("nan"), float("inf")])
def test_fill_values(both: Any, fill: float) -> None:
    if both[0].is_zarr:
        same(both, lambda f: str(f.create_dataset("d", shape=(4,), dtype="f4", fillvalue=fill)[:]))
    else:
        with pytest.raises(ValueError, match="fill value"):  # z5py takes it, and reads 0
            both[0].create_dataset("d", shape=(4,), dtype="f4", fillvalue=fill)


def test_require_dataset(both: Any) -> None:
    same(both, lambda f: described(f.require_dataset("r", shape=(4, 5), dtype="u1", chunks=(2, 2))))
    same(both, lambda f: described(f.require_dataset("r", shape=(4, 5))))
    same(
        both,
        lambda f: described(f.require_dataset("r", shape=[4, 5], dtype="uint8", chunks=[2, 2], n_threads=2)),
    )
    same(both, lambda f: f.require_dataset("r", shape=(4, 5), dtype="u1", compression="foo").shape)
    for wrong in ({"shape": (4, 6)}, {"shape": (4, 5), "dtype": "u2"}, {"shape": (4, 5), "chunks": (4, 4)}):
        assert isinstance(same(both, lambda f, wrong=wrong: f.require_dataset("r", **wrong).shape), Raised)
    same(both, lambda f: f.require_dataset("s", shape=(4, 5)).shape)
    same(both, lambda f: f.create_group("g").name)
    same(both, lambda f: f.require_dataset("g", shape=(4, 5), dtype="u1").shape)
    same(both, lambda f: f.require_dataset("t", shape=(2,), dtype="u1", data=np.ones(2, "u1"))[:])
    same(
        tuple(type(f)(f.filename) for f in both), lambda f: f.require_dataset("t", shape=(2,), dtype="u1")[:]
    )


def test_options_go_round(both: Any) -> None:
    """`compression` and `compression_opts` are options of a new dataset; not so for all of z5py's."""
    f = both[0]
    for name in ("raw", "gzip", "blosc", "zstd"):
        ds = f.create_dataset(name, shape=(4,), dtype="u2", compression=name)
        again = f.create_dataset(
            name + "2", shape=(4,), dtype="u2", compression=ds.compression, **ds.compression_opts
        )
        assert (again.compression, again.compression_opts) == (ds.compression, ds.compression_opts)
    default = f.create_dataset("level", shape=(4,), dtype="u2", level=3)  # z5py: RuntimeError in Zarr v2
    assert default.compression_opts["level"] == 3
    with pytest.raises(RuntimeError, match="nthreads"):
        f.create_dataset("x", shape=(4,), dtype="u2", compression="blosc", nthreads=2)
    with pytest.raises(TypeError):
        f.create_dataset("x", shape=(4,), dtype="u2", n_threads="two")
    with pytest.raises(ValueError, match="chunk_key_encoding"):
        f.create_dataset("x", shape=(4,), dtype="u2", chunk_key_encoding="v1")
    assert "x" not in f


def test_keys_of_chunks(tmp_path: Path) -> None:
    for separator in (".", "/"):
        for zarr_format, encoding in ((2, "default"), (3, "default"), (3, "v2")):
            name = f"{zarr_format}{encoding}{separator == '/'}.zarr"
            keys = []
            for module in (ours, theirs):
                path = tmp_path / module.__name__ / name
                path.parent.mkdir(exist_ok=True)
                f = module.ZarrFile(str(path), "a", dimension_separator=separator, zarr_format=zarr_format)
                f.create_dataset("d", data=VALUES, chunks=CHUNKS, chunk_key_encoding=encoding)
                keys.append(sorted(str(p.relative_to(path)) for p in path.rglob("*")))
            assert keys[0] == keys[1]


# -- regions ----------------------------------------------------------------------------------------


INDICES: dict[str, Any] = {
    **{str(i): i for i in (3, -1, 9, 10, -11, np.int64(3), "x", [1, 2], None, ...)},
    "slice": slice(None),
    "()": (),
    "step": slice(None, None, 2),
    "one": slice(None, None, 1),
    "back": slice(None, None, -1),
    "tail": slice(-2, None),
    "long": slice(2, 50),
    "empty": slice(5, 2),
    "out": slice(20, 30),
    "el": (3, 4),
    "row": (3, slice(None)),
    "column": (..., 3),
    "split": (3, ..., 4),
    "long tuple": (slice(None),) * 3,
    "two": (..., ...),
    "axis": (slice(None), None),
    "behind": (3, 4, ...),
    "mask": np.zeros(SHAPE, bool),
    "float slice": slice(1.0, 3.0),
    "box": np.s_[1:7, 2:11],
}


def test_indices(both: Any) -> None:
    pair = datasets(both)
    for name, index in INDICES.items():
        assert same(pair, lambda ds, index=index: ds[index]) is not None, name
    for index in (3, np.s_[1:7, 2:11], (..., 3), ()):
        same(pair, lambda ds, index=index: ds.index_to_roi(index))
    # Where they differ, chunkwise does as NumPy.
    assert np.array_equal(pair[0][-20:3], VALUES[-20:3])
    assert [row.tolist() for row in pair[0]] == VALUES.tolist()
    for wrong in (True, 3.0):
        with pytest.raises(TypeError):
            pair[0][wrong]


WRITTEN: list[Any] = [
    *((np.s_[1:3], v) for v in (7, 7.9, np.uint16(7), np.float32(7.5), True, "a")),
    *((np.s_[1:3], np.ones((2, 12), dtype)) for dtype in ("u2", "i8", "f4", ">u2", bool)),
    (np.s_[1:3], [[1] * 12] * 2),
    (np.s_[1:3], np.full((2, 12), "a")),
    *(
        (np.s_[1:3], np.ones(shape, "u2"))
        for shape in ((12,), (1, 12), (2, 1), (3, 12), (1, 2, 12), (1, 1), (1,))
    ),
    *((3, np.ones(shape, "u2")) for shape in ((12,), (1, 12))),
    *(((slice(None), 3), np.ones(shape, "u2")) for shape in ((10,), (10, 1), (1, 10), (9,))),
    ((3, 4), 9),
    (np.s_[0:4:2], 1),
    (np.s_[8:20], 1),
    (np.s_[8:12], np.ones((4, 12), "u2")),
    (np.s_[3:3], 1),
    (np.s_[1:3], np.asfortranarray(np.arange(24, dtype="u2").reshape(2, 12))),
    (np.s_[1:3], np.arange(48, dtype="u2").reshape(2, 24)[:, ::2]),
    ([1, 2], 3),
    (10, 3),
    (..., 3),
]


def test_writes(both: Any) -> None:
    pair = datasets(both)

    def call(ds: Any, index: Any, value: Any) -> Any:
        ds[...] = VALUES
        ds[index] = value
        return ds[...]

    for index, value in WRITTEN:
        same(pair, lambda ds, index=index, value=value: call(ds, index, value))
    mine = pair[0]
    with pytest.raises(OverflowError):  # z5py writes 4464
        mine[0] = 70000
    for wrong in (None, 1j):  # z5py: OSError, RuntimeError
        with pytest.raises(TypeError):
            mine[0] = wrong
    mine[3, 4] = np.array([5], "u2")  # as NumPy; z5py refuses it
    assert mine[3, 4] == 5
    mine[0] = np.array(6)
    assert (mine[0] == 6).all()


def test_subarrays(both: Any) -> None:
    pair = datasets(both)
    regions = [
        ((1, 2), (3, 5)),
        ([1, 2], [3, 5]),
        ((1, 2), (30, 5)),
        ((5, 2), (3, 5)),
        ((3, 2), (3, 5)),
        ((1,), (3,)),
    ]
    for start, stop in regions:
        same(pair, lambda ds, start=start, stop=stop: ds.read_subarray(start, stop))
    ones, wide = np.ones((2, 3), "u2"), np.ones((2, 3), "i8")
    for start, data in (
        ((1, 2), ones),
        ((1, 2), wide),
        ((9, 2), ones),
        ((1, 2), ones[0]),
        ((0, 0), [[1, 2]]),
    ):
        same(pair, lambda ds, start=start, data=data: (ds.write_subarray(start, data), ds[...].tolist()))
    for call in (
        lambda: pair[0].read_subarray((-1, 2), (3, 5)),
        lambda: pair[0].write_subarray((-1, 2), ones),
    ):
        with pytest.raises(RuntimeError):  # z5py: TypeError
            call()


def test_direct_reads_and_writes(both: Any) -> None:
    pair = datasets(both)
    reads: list[Any] = [
        (SHAPE, "u2"),
        (SHAPE, "f8"),
        ((4, 4), "u2"),
        ((4, 4), "u2", np.s_[1:3, 2:4], np.s_[0:2, 2:4]),
        ((4, 4), "u2", np.s_[1:4, 2:4], np.s_[0:2, 2:4]),
        ((4, 4), "u2", np.s_[1:5, 2:6]),
        ((4, 4), "u2", np.s_[8:12, 0:4]),
        ((12,), "u2", 3),
    ]
    for shape, dtype, *selections in reads:

        def read(ds: Any, shape: Any = shape, dtype: str = dtype, selections: Any = selections) -> Any:
            dest = np.zeros(shape, dtype)
            ds.read_direct(dest, *selections)
            return dest

        same(pair, read)
    writes: list[Any] = [
        (np.ones(SHAPE, "u2"),),
        (np.full((4, 4), 5, "u2"), np.s_[0:2, 0:2], np.s_[3:5, 3:5]),
        (np.full((2, 2), 6, "u2"), None, np.s_[3:5, 3:5]),
        (np.full((2, 2), 6, "u2"), None, np.s_[9:11, 3:5]),
        (np.ones(SHAPE),),
    ]
    for arguments in writes:
        same(pair, lambda ds, arguments=arguments: (ds.write_direct(*arguments), ds[...].tolist()))
    with pytest.raises(ValueError):  # z5py writes outside of the selection
        pair[0].write_direct(np.full((4, 4), 5, "u2"), np.s_[0:3, 0:2], np.s_[3:5, 3:5])


def test_as_an_array(both: Any) -> None:
    pair = datasets(both)
    assert np.array_equal(np.asarray(pair[0]), VALUES)
    assert np.asarray(pair[0], dtype="f4").dtype == "f4"
    with pytest.raises(ValueError):
        np.asarray(pair[0], copy=False)
    same(tuple(type(f)(f.filename)["d"] for f in both), lambda ds: ds.__setitem__(0, 1))
    pair[0][...] = pair[1]
    assert np.array_equal(pair[1], pair[0])


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_regions_against_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, 5)) for _ in shape)
    name, zarr_format = data.draw(st.sampled_from(sorted(FORMATS.values())))
    f = ours.File(str(tmp_path_factory.mktemp("regions") / name), "a", zarr_format=zarr_format)
    ds = f.create_dataset("d", shape=shape, chunks=chunks, dtype="i4", compression="raw")
    wanted = np.zeros(shape, "i4")
    for value in range(1, 4):
        index = tuple(
            data.draw(st.one_of(st.integers(-n, n - 1), st.slices(n).map(lambda s: slice(s.start, s.stop))))
            for n in shape
        )
        ds[index] = value
        wanted[index] = value
        assert np.array_equal(ds[index], wanted[index])
        assert np.shape(ds[index]) == np.shape(wanted[index])
    assert np.array_equal(ds[...], wanted)
    theirs_now = theirs.File(f.filename)["d"]
    assert np.array_equal(theirs_now[...], wanted)
    for cell in np.ndindex(*ds.chunks_per_dimension):
        assert outcome(lambda cell=cell: ds.read_chunk(cell)) == outcome(
            lambda cell=cell: theirs_now.read_chunk(cell)
        )


# -- chunks -----------------------------------------------------------------------------------------


def test_chunks(both: Any) -> None:
    pair = datasets(both, compression="gzip")
    sparse = tuple(f.create_dataset("e", shape=SHAPE, chunks=CHUNKS, dtype="u2") for f in both)
    for cell in ((0, 0), (2, 2), [1, 1], (3, 0)):
        for read in (lambda ds, cell=cell: ds.read_chunk(cell), lambda ds, cell=cell: ds.chunk_exists(cell)):
            same(pair, read)
            same(sparse, read)
    for cell, header in (((0, 0), False), ((2, 2), False), ((2, 2), True)):
        same(pair, lambda ds, cell=cell, header=header: ds.get_chunk_shape(cell, header))
    writes: list[Any] = [
        ((0, 0), np.full(CHUNKS, 9, "u2")),
        ((0, 1), np.full((3, 5), 9, "u2")),
        ((0, 1), np.full(CHUNKS, 9, "u1")),
        ((0, 1), [[1] * 5] * 4),
        ((3, 1), np.full(CHUNKS, 9, "u2")),
        ((0,), np.full(CHUNKS, 9, "u2")),
        ((2, 2), np.full(CHUNKS, 8, "u2")),
        ((2, 2), np.full((2, 2), 7, "u2")),
        ((1, 1), np.arange(20, dtype="u2")),
        ((0, 1), np.arange(7, dtype="u2"), True),
        ((0, 1), np.arange(70, dtype="u2"), True),
        ((0, 1), np.arange(20, dtype="u2"), True),
        ((0, 1), np.arange(7, dtype="u4"), True),
        ((7, 7), np.arange(7, dtype="u2"), True),
    ]
    for cell, data, *varlen in writes:
        same(sparse, lambda ds, cell=cell, data=data, varlen=varlen: ds.write_chunk(cell, data, *varlen))
        for at in ((0, 0), (0, 1), (1, 1), (2, 2)):
            same(sparse, lambda ds, at=at: ds.read_chunk(at))
            same(sparse, lambda ds, at=at: ds.get_chunk_shape(at, True))
    # Blocks of any length are the same for the other library.
    crossed = (ours.File(both[1].filename)["e"], theirs.File(both[0].filename)["e"])
    for at in ((0, 0), (0, 1), (1, 1), (2, 2)):
        same(crossed, lambda ds, at=at: ds.read_chunk(at))
    same(
        tuple(type(f)(f.filename)["e"] for f in both),
        lambda ds: ds.write_chunk((0, 0), np.full(CHUNKS, 9, "u2")),
    )
    for wrong in ((-1, 0), (0,)):  # z5py: TypeError, or a value
        with pytest.raises(RuntimeError):
            pair[0].chunk_exists(wrong)
        with pytest.raises(RuntimeError):
            pair[0].read_chunk(wrong)
    with pytest.raises(RuntimeError):  # z5py: numbers of no meaning
        pair[0].get_chunk_shape((9, 9))


def test_chunks_in_shards(tmp_path: Path) -> None:
    pair = []
    for module in (ours, theirs):
        f = module.ZarrFile(str(tmp_path / f"{module.__name__}.zarr"), "a", zarr_format=3)
        ds = f.create_dataset("d", shape=(8, 8), dtype="u2", chunks=(2, 2), shards=(4, 4))
        ds[0, 0] = 1
        pair.append(ds)
    for cell in ((0, 0), (0, 1), (2, 2), (4, 4)):
        same(pair, lambda ds, cell=cell: (ds.chunk_exists(cell), outcome(lambda: ds.read_chunk(cell))))
    same(pair, lambda ds: (ds.write_chunk((1, 1), np.full((2, 2), 5, "u2")), ds[...].tolist()))
    same(pair, lambda ds: ds.write_chunk((1, 1), np.full((4, 4), 5, "u2")))


def test_blocks_that_others_pad(tmp_path: Path) -> None:
    """Of a padded block the part in the dataset is read; z5py reads beyond its memory."""
    group = chunkwise.create_group(tmp_path / "a.n5", format="n5")
    group.create_array("d", VALUES.T, chunks=CHUNKS[::-1], codec="gzip")
    ds = ours.File(str(tmp_path / "a.n5"), "r+")["d"]
    assert ds.read_chunk((2, 2)).tolist() == VALUES[8:, 10:].tolist()
    assert (ds.get_chunk_shape((2, 2)), ds.get_chunk_shape((2, 2), True)) == ([2, 2], [4, 5])
    ds[9] = 1
    assert ds.get_chunk_shape((2, 2), True) == [2, 2]
    assert theirs.File(str(tmp_path / "a.n5"))["d"][9].tolist() == [1] * 12


def test_number_of_threads(both: Any) -> None:
    pair = datasets(both)
    for n in (4, 0, 1):

        def call(ds: Any, n: int = n) -> Any:
            ds.n_threads = n
            return ds.n_threads, ds[...].tolist()

        same(pair, call)


def test_arrays_that_z5py_refuses(tmp_path: Path) -> None:
    group = chunkwise.create_group(tmp_path / "a.zarr", format="zarr2")
    for dtype in ("bool", "float16", "complex64"):
        group.create_array(dtype, np.arange(4).astype(dtype))
    f = ours.File(str(tmp_path / "a.zarr"), "r+")
    f.create_dataset("new", data=np.array([True, False]))
    assert {name: ds[...].tolist() for name, ds in f.items()} == {
        "bool": [False, True, True, True],
        "complex64": [0, 1, 2, 3],
        "float16": [0, 1, 2, 3],
        "new": [True, False],
    }


# -- attributes -------------------------------------------------------------------------------------


def test_attributes(both: Any) -> None:
    pair = tuple(ds.attrs for ds in datasets(both))
    same(pair, lambda a: (dict(a), len(a), list(a), "dimensions" in a, a.get("zz", 5)))
    for name in ("dimensions", "blockSize", "dataType", "compression"):
        same(pair, lambda a, name=name: a[name])
        same(pair, lambda a, name=name: a.__setitem__(name, [3]))
        same(pair, lambda a, name=name: a.__delitem__(name))
    values = [[1, "a", None, {"b": 2.5}], None, (1, 2)]
    for value in values:
        same(pair, lambda a, value=value: (a.__setitem__("x", value), a["x"], dict(a)))
    for value, stored in ((np.int64(3), 3), (np.arange(3), [0, 1, 2]), (b"x", "x")):  # z5py refuses these
        pair[0]["x"] = value
        assert pair[0]["x"] == stored
    with pytest.raises(TypeError, match="set; make it a list"):
        pair[0]["x"] = {1}
    same(pair, lambda a: (a.__setitem__("x", 1), dict(a)))
    same(pair, lambda a: (a.__setitem__(3, 1), dict(a)))
    same(
        pair,
        lambda a: (a.update({"q": 1}, w=2), a.update([("q", 5)]), a.pop("q"), a.setdefault("s", 4), dict(a)),
    )
    same(pair, lambda a: (a.__delitem__("x"), a.__delitem__("zz"), dict(a)))
    same(pair, lambda a: a.pop("zz"))
    same(pair, lambda a: (a.update(axes=["z", "y"], resolution=[1, 2]), dict(a)))
    same(
        both, lambda f: (f["d"].attrs["axes"], f["d"].shape, type(f)(f.filename, "a")["d"].attrs.update(n=1))
    )
    same(pair, lambda a: (a["n"], a.clear(), dict(a)))
    same(both, lambda f: (dict(f.attrs), len(f.attrs), f.attrs.__setitem__("a", 1), dict(f.attrs)))
    same(both, lambda f: f.attrs["n5"])
    if not both[0].is_zarr:
        same(both, lambda f: f.attrs.__setitem__("n5", "9.0.0"))
    same(both, lambda f: (f.create_group("g").attrs.update(b=2), dict(f["g"].attrs)))
    again = tuple(type(f)(f.filename) for f in both)
    same(again, lambda f: f.attrs.__setitem__("x", 1))
    same(again, lambda f: f["d"].attrs.__delitem__("x"))
    same(again, lambda f: dict(f["d"].attrs))


def test_json_of_attributes(both: Any) -> None:
    class Encoder(json.JSONEncoder):
        def default(self, value: Any) -> Any:
            return {"list": value.tolist()}

    class Decoder(json.JSONDecoder):
        def __init__(self) -> None:
            super().__init__(object_hook=lambda found: np.array(found["list"]) if "list" in found else found)

    try:
        for module in (ours, theirs):
            module.set_json_encoder(Encoder)
            module.set_json_decoder(Decoder)
        same(both, lambda f: (f.attrs.__setitem__("x", np.arange(3)), f.attrs["x"].tolist()))
    finally:
        for module in (ours, theirs):
            module.set_json_encoder(None)
            module.set_json_decoder(None)
    same(both, lambda f: f.attrs["x"])
    for value in ({1, 2}, object(), {"a": {1}}, iter([1])):
        with pytest.raises(TypeError) as caught:
            both[1].attrs["y"] = value
        with pytest.raises(TypeError, match="make it") as mine:
            both[0].attrs["y"] = value
        assert isinstance(mine.value, ValueError) and caught.type is TypeError
    with pytest.raises(RuntimeError):
        ours.set_json_encoder(dict)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        ours.set_json_decoder(dict)  # type: ignore[arg-type]
    with pytest.raises(ValueError):  # z5py writes what nothing can read
        both[0].attrs["x"] = float("nan")


# -- the rest ---------------------------------------------------------------------------------------


def test_pickles(both: Any) -> None:
    datasets(both)
    for f in both:
        f.create_group("g")
    for mode in ("r", "r+"):
        files = tuple(type(f)(f.filename, mode) for f in both)
        again = tuple(pickle.loads(pickle.dumps(f)) for f in files)
        same(again, lambda f: (list(f["g"]), outcome(lambda: f.create_group(f"made-{type(f)}").parent is f)))
        same(files, lambda f: pickle.loads(pickle.dumps(f["d"]))[...])
        same(files, lambda f: pickle.loads(pickle.dumps(f["g"])).name)
        same(files, lambda f: copy.deepcopy(f["d"])[0])
    new = ours.N5File(both[0].filename + ".n5", "w")
    new.create_group("kept")
    again_new = pickle.loads(pickle.dumps(new))
    assert (type(again_new), list(again_new)) == (ours.N5File, ["kept"])


def test_other_stores() -> None:
    """A file is wherever `open_group` finds one."""
    store = chunkwise.KvStore.open("memory://z5/a.n5/").result()
    with ours.File(store, "a") as f:
        f.create_dataset("d", data=VALUES, chunks=CHUNKS)
    assert np.array_equal(ours.File(store)["d"][...], VALUES)
    assert np.array_equal(chunkwise.open_group(store)["d"].T, VALUES)


@pytest.mark.parametrize("name", ["a.n5", "a.zarr"])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_dataset_that_could_not_be_filled_is_deleted_and_no_other(
    name: str, replaces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name

    def fail(*_: object) -> None:
        if replaces:
            chunkwise.create_array(place / "x", [1, 2, 3], overwrite=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(Dataset, "__setitem__", fail)
    file = ours.File(str(place), "a")
    with pytest.raises(KeyboardInterrupt):
        file.create_dataset("x", data=np.arange(5))
    assert list(file) == ["x"] * replaces
    assert not replaces or chunkwise.read(place / "x").tolist() == [1, 2, 3]
