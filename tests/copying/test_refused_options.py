"""A wrong option is an error that names it, in every writer, and nothing is changed, not even a directory."""

import dask.array as da
import numcodecs
import numpy as np
import pytest
import xarray as xr

import chunkwise as cw
import chunkwise.xarray
from chunkwise.errors import ChunkwiseError

VALUES = np.arange(48, dtype="u2").reshape(6, 8)
THING = object()


class NoConfig:
    def get_config(self):
        raise ValueError("a codec of another version")


SIZES = [
    {3, 8},
    "x",
    b"x",
    (1, 2, 3, 4),
    (0, 1),
    (1.5, 2),
    {"q": 1},
    {1: 1},
    THING,
    (-2, 1),
    [[1, 2]],
    {"y": 0},
    1.5,
]
NAMES = [["x"], 5, [1, 2], b"ab", ["a\ud800", "b"], {"a": 1}]
UNITS = [["nm"], 5, [THING, None], ["nm", float("inf")], [b"nm", 1], "nm"]
FLAGS = ["no", 2, THING]
ARRAY = {
    "chunks": SIZES,
    "shards": SIZES,
    "codec": [
        False,
        "nope",
        "gzip:99",
        {"name": 5},
        {"name": "gzip", "configuration": {"level": 99}},
        {"id": "zlib", "level": 99},
        {"foo": 1},
        7,
        [1],
        THING,
        ["zstd", 5],
        {"name": "blosc", "configuration": {"cname": "nope"}},
        numcodecs.Zlib,
        NoConfig(),
        {"driver": "zarr3"},
        {"encoding": "jpeg"},
        {"driver": "neuroglancer_precomputed", "encoding": "jpeg"},
    ],
    "compressors": [True],
    "serializer": [True, [{"name": "bytes"}]],
    "checksum": FLAGS,
    "fill_value": [1.5, 70000, -1, "x", THING, [1, 2], b"x", float("nan")],
    "dtype": ["nope", 5, THING, "S5", "u3"],
}
AXES = {"dimension_names": NAMES, "dimension_units": UNITS}
COPY = {
    "shards": [*SIZES, (5, 8)],
    "executor": ["threads", "threads:0", "threads:²", "foo:2", 2, THING, "processes:x"],
    "memory": ["x", -1, 0, 1.5, True, [1]],
    "progress": [5, "x"],
    "cast": ["nope", 5, "clamp", "scale"],  # without a dtype
    "verify": FLAGS,
    "resume": FLAGS,
    "sync": FLAGS,
    "keep_fingerprint": FLAGS,
}
PLACE = {"format": ["nope", 5], "overwrite": FLAGS}
BAD_ATTRIBUTES = ["x", 5, [1], {"a": THING}, {1: 2}, {"a": float("nan")}, {"a": "\ud800"}, {"\udc00": 1}]
ATTRIBUTES = {"attributes": BAD_ATTRIBUTES}
SHAPES = ["3,3", (-1, 2), (1.5,), THING, {"a": 1}]
NEW = {"metadata": ["x", 5, {"foo": 1}], "non_finite": ["x"], "shape": SHAPES}
CREATE = {**{n: v for n, v in ARRAY.items() if n != "dtype"}, "dtype": ["nope", 5, THING, "u3"], **AXES}


def _group(place):
    return cw.open_group(place / "tree.zarr", "r+")


def _group_copy(place, **options):
    own = {name: options[name] for name in options if (name in COPY and name != "shards") or name == "strict"}
    others = {name: options[name] for name in options if name not in own}
    _group(place).copy("a", "new/c", options=others, **own)


def _pyramid(place, **options):
    cw.downsample_pyramid(place / "tree.zarr/a", place / "dst", **options).result()


def _from_dask(place, **options):
    cw.from_dask(da.from_array(VALUES, chunks=3), place / "dst", **options)


WRITERS = {
    "copy": (
        lambda place, **o: cw.copy(place / "tree.zarr/a", place / "dst", **o),
        {**ARRAY, **AXES, **COPY, **PLACE, "plan": ["x", 5]},
    ),
    "plan_copy": (
        lambda place, **o: cw.plan_copy(place / "tree.zarr/a", place / "dst", **o),
        {**ARRAY, **AXES, "executor": COPY["executor"], "memory": COPY["memory"], "format": ["nope"]},
    ),
    "copy_tree": (
        lambda place, **o: cw.copy_tree(place / "tree.zarr", place / "dst", **o),
        {**ARRAY, **AXES, **COPY, **PLACE, "part": ["x", 5, "0/3"], "strict": FLAGS},
    ),
    "copy_tree, replacing": (
        lambda place, **o: cw.copy_tree(place / "tree.zarr", place / "old.zarr", overwrite=True, **o),
        {**ARRAY, **AXES, **COPY, "strict": FLAGS},
    ),
    "Group.copy": (_group_copy, {**ARRAY, **AXES, **COPY, "strict": FLAGS}),
    "create_array": (
        lambda place, **o: cw.create_array(place / "dst", **{"shape": (6, 8), "dtype": "u2", **o}),
        {**CREATE, **ATTRIBUTES, **NEW, **PLACE},
    ),
    "create_array, replacing": (
        lambda place, **o: cw.create_array(
            place / "old.zarr/a", **{"shape": (6, 8), "dtype": "u2", "overwrite": True, **o}
        ),
        {**CREATE, **ATTRIBUTES, **NEW},
    ),
    "Group.create_array": (
        lambda place, **o: _group(place).create_array("n/c", **{"shape": (6, 8), "dtype": "u2", **o}),
        {**CREATE, **ATTRIBUTES, "shape": NEW["shape"], "overwrite": FLAGS},
    ),
    "from_dask": (
        _from_dask,
        {**{name: ARRAY[name] for name in ARRAY if name != "dtype"}, "dimension_names": NAMES},
    ),
    "write_dataset": (
        lambda place, **o: cw.xarray.write_dataset(
            xr.Dataset({"a": (["y", "x"], VALUES)}), place / "dst", encoding={"a": o}
        ),
        {**{name: ARRAY[name] for name in ARRAY if name != "dtype"}, "dtype": ["nope", 5, "u3"]},
    ),
    "create_group": (
        lambda place, **o: cw.create_group(place / "dst", **o),
        {**ATTRIBUTES, "non_finite": ["x"], "format": ["nope", "zarr1"]},
    ),
    "pyramid": (
        _pyramid,
        {
            **{name: ARRAY[name] for name in ("chunks", "shards", "codec")},
            **{name: COPY[name] for name in COPY if name not in ("cast", "keep_fingerprint")},
            "units": UNITS,
            "axes": [["x"], 5, ["x", "x"], "q", [1, 2]],
            "name": [b"x", 5],
            "factors": [0, "x", (1,), (0, 1), 1.5, [(2, 2), (1,)]],
            "levels": [-1, "x", 1.5],
            "method": ["nope", 5],
            "labels": FLAGS,
            "convention": ["nope", 5],
            "overwrite": FLAGS,
        },
    ),
}


def _tree(place):
    return {str(file.relative_to(place)): file.is_file() and file.read_bytes() for file in place.rglob("*")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("options")
    tree = cw.create_group(place / "tree.zarr")
    tree.create_array("a", VALUES, dimension_names=["y", "x"], chunks=(3, 4))
    tree.create_array("sub/b", np.arange(6, dtype="u2"))
    cw.create_group(place / "old.zarr").create_array("a", VALUES)
    return place


@pytest.mark.parametrize("writer", WRITERS)
def test_a_wrong_option_is_named_and_nothing_is_changed(place, writer):
    write, options = WRITERS[writer]
    before, wrong = _tree(place), []
    for option, values in options.items():
        for value in values:
            case = f"{option}={value!r}: "
            try:
                write(place, **{option: value})
            except (ChunkwiseError, TypeError) as e:
                named = option.removesuffix("s") if option == "attributes" else option
                if named not in str(e):
                    wrong.append(f"{case} not named by {type(e).__name__}: {e}")
            except Exception as e:
                wrong.append(f"{case} {type(e).__name__}: {e}")
            else:
                wrong.append(f"{case} no error")
            if _tree(place) != before:
                pytest.fail(f"{case} the tree has changed")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"compressor": "zstd", "compressors": "gzip"}, "compressor: given twice, as compressors too"),
        ({"codec": "zstd", "compressor": "gzip"}, "compressor: given twice, as codec too"),
        ({"names": ["a", "b"], "dimension_names": ["c", "d"]}, "dimension_names: given twice"),
        ({"chunks": {"x": 4}, "shards": (4, 4)}, "can't be divided"),
    ],
)
@pytest.mark.filterwarnings("ignore:the option names:DeprecationWarning")
def test_two_options_that_contradict_each_other(place, options, error):
    before = _tree(place)
    with pytest.raises(ChunkwiseError, match=error):
        cw.copy(place / "tree.zarr/a", place / "dst", **options)
    assert _tree(place) == before


def test_what_fits_no_array_is_an_error_and_the_old_tree_stays(tmp_path):
    """Without an option to blame: no array can be held by the format."""
    cw.create_group(tmp_path / "a.zarr").create_array("c", np.zeros(3, "complex64"))
    cw.create_group(tmp_path / "b.n5", format="n5").create_array("old", VALUES)
    before = _tree(tmp_path)
    with pytest.raises(ValueError, match=r"can hold none of the 1 arrays.*complex64"):
        cw.copy_tree(tmp_path / "a.zarr", tmp_path / "b.n5", format="n5", overwrite=True)
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("executor", ["threads:2", "processes:1"])
def test_text_names_an_executor_as_on_the_command_line(tmp_path, executor):
    cw.create_group(tmp_path / "a.zarr").create_array("a", VALUES)
    cw.copy(tmp_path / "a.zarr/a", tmp_path / "b", executor=executor)
    if executor == "threads:2":
        cw.copy_tree(tmp_path / "a.zarr", tmp_path / "c", executor=executor)
        assert not cw.diff(tmp_path / "a.zarr", tmp_path / "c", executor=executor)
        assert not [report.bad for report in cw.verify(tmp_path / "c", executor=executor) if report.bad]
    np.testing.assert_array_equal(cw.read(tmp_path / "b"), VALUES)
