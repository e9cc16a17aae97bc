"""Options of new arrays in every form that people write, in every creator, with one meaning."""

import dask.array as da
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
import zarr.codecs as z

import chunkwise as cw

VALUES = np.arange(48, dtype="u2").reshape(6, 8)
NAMES = ["y", "x"]
CONTEXT = cw.Context()
MEMORY = cw.KvStore.open("memory://", context=CONTEXT).result()
SOURCE = MEMORY / "source/"

FORMS = {
    "sizes": [
        [
            {"chunks": c}
            for c in [(3, 8), [3, 8], np.array([3, 8]), (np.int64(3), -1), {"y": 3, "x": -1}, (3, None)]
        ],
        [{"chunks": c} for c in [(4, 4), 4, np.int64(4), np.uint8(4), {"y": 4, "x": 4}]],
        [{"chunks": c} for c in [(6, 8), False, -1, (-1, -1), {"y": -1, "x": 8}, np.int64(-1)]],
        [{"chunks": c} for c in ["auto", True, ("auto", "auto"), np.bool_(True)]],
    ],
    "shards": [
        [
            {"chunks": (3, 4), "shards": s}
            for s in [(6, 8), -1, True, "auto", np.array([6, 8]), {"y": 6, "x": -1}, (-1, 8), ("auto", -1)]
        ],
        [{"chunks": (3, 4), "shards": s} for s in [None, False, np.bool_(False)]],
        [{"chunks": 2, "shards": s} for s in [4, (4, 4), np.int32(4), {"y": 4, "x": 4}]],
    ],
    "codecs": [
        [
            {"codec": "zstd:5"},
            {"codec": numcodecs.Zstd(level=5)},
            {"codec": {"id": "zstd", "level": 5}},
            {"codec": {"name": "zstd", "configuration": {"level": 5, "checksum": False}}},
            {"codec": z.ZstdCodec(level=5)},
            {"codec": [z.ZstdCodec(level=5)]},
            {"codec": [z.BytesCodec(), z.ZstdCodec(level=5)]},
            {"compressor": numcodecs.Zstd(level=5)},
            {"compressors": [z.ZstdCodec(level=5)]},
            {"compressors": z.ZstdCodec(level=5), "serializer": "auto", "filters": None},
            {"compressors": "zstd:5", "filters": ()},
        ],
        [
            {"codec": "gzip:3"},
            {"codec": numcodecs.GZip(level=3)},
            {"codec": {"type": "gzip", "level": 3}},
            {"codec": {"type": "gzip", "level": 3, "useZlib": False}},
            {"codec": {"name": "gzip", "configuration": {"level": 3}}},
            {"compressors": (z.GzipCodec(level=3),)},
        ],
        [
            {"codec": "blosc:zstd:4:bitshuffle"},
            {"codec": numcodecs.Blosc(cname="zstd", clevel=4, shuffle=numcodecs.Blosc.BITSHUFFLE)},
            {"codec": z.BloscCodec(cname="zstd", clevel=4, shuffle="bitshuffle", typesize=2)},
        ],
        [
            {"codec": "none"},
            {"codec": []},
            {"compressor": None},
            {"compressors": None},
            {"compressors": ()},
            {"codec": {"type": "raw"}},
        ],
    ],
    "values": [
        [{"fill_value": v} for v in [7, np.int64(7), np.uint8(7), 7.0, np.array(7), np.array(7, "f4")]],
        [{"dimension_names": n} for n in [("a", None), ["a", None]]],
        [{"dimension_names": n} for n in [("a", "b"), ["a", "b"], "ab", np.array(["a", "b"])]],
        [
            {"dimension_units": u}
            for u in [
                ["4 nm", None],
                ("4nm", None),
                [(4, "nm"), None],
                [[4, "nm"], None],
                [cw.Unit("4 nm"), None],
            ]
        ],
        [
            {"dimension_units": u}
            for u in [["nm", "nm"], [cw.Unit("nm")] * 2, [(1, "nm")] * 2, ["1 nm", "nm"]]
        ],
    ],
}


def _names(options):
    return {} if "dimension_names" in options else {"dimension_names": NAMES}


def _group_copy(place, options, format):
    group = cw.create_group(place / "t/", format=format)
    group.copy(cw.open_array(SOURCE / "a/"), "a", **options)


def _tree(place, options, format):
    cw.copy_tree(SOURCE, place / "t/", format=format, **options)


def _copy(place, options, format):
    cw.copy(SOURCE / "a/", place / "t/a/", format=format, **options)


def _create(place, options, format):
    cw.create_array(place / "t/a/", VALUES, format=format, **_names(options), **options)


def _create_in_group(place, options, format):
    group = cw.create_group(place / "t/", format=format)
    group.create_array("a", VALUES, **_names(options), **options)


def _from_dask(place, options, format):
    driver = {"zarr2": "zarr"}.get(format, format)
    spec = {"driver": driver, "kvstore": (place / "t/a/").url}
    cw.from_dask(da.from_array(VALUES, chunks=6), spec, context=CONTEXT, **_names(options), **options)


def _dataset(place, options, format):
    dataset = xr.Dataset({"a": (NAMES, VALUES)})
    cw.xarray.write_dataset(dataset, place / "t/", format=format, encoding={"a": options})


CREATORS = {
    "create_array": _create,
    "Group.create_array": _create_in_group,
    "copy": _copy,
    "copy_tree": _tree,
    "Group.copy": _group_copy,
    "from_dask": _from_dask,
    "write_dataset": _dataset,
}
FORMATS = {
    "sizes": ["zarr3", "n5"],
    "shards": ["zarr3"],
    "codecs": ["zarr3", "zarr2", "n5"],
    "values": ["zarr3", "zarr2"],
}
CASES = [(what, format) for what, formats in FORMATS.items() for format in formats]


@pytest.fixture(scope="module", autouse=True)
def source():
    cw.create_group(SOURCE).create_array("a", VALUES, dimension_names=NAMES, chunks=(6, 4))


def _documents(place):
    kvstore = place / "t/a/"
    names = ("zarr.json", ".zarray", ".zattrs", "attributes.json")
    return {name: kvstore[name] for name in names if name in kvstore}


@pytest.mark.each_once
@pytest.mark.parametrize("creator", CREATORS)
@pytest.mark.parametrize(("what", "format"), CASES)
def test_each_form_means_the_same(creator, what, format):
    for case, forms in enumerate(FORMS[what]):
        of_variables = {"dimension_names", "dimension_units"}, {"fill_value"} if format == "zarr2" else set()
        if creator == "write_dataset" and set.union(*of_variables) & forms[0].keys():
            continue  # xarray has them elsewhere
        made = []
        for number, options in enumerate(forms):
            place = MEMORY / f"{creator}/{what}/{format}/{case}/{number}/"
            CREATORS[creator](place, options, format)
            made.append(_documents(place))
            assert made[-1] and made[-1] == made[0], options
            np.testing.assert_array_equal(cw.read(place / "t/a/"), VALUES, err_msg=repr(options))


@pytest.mark.parametrize("former", ["names", "units"])
def test_former_names_are_taken_with_a_warning(former):
    place = MEMORY / f"former/{former}/"
    with pytest.warns(DeprecationWarning, match=f"{former} is called dimension_{former} now"):
        cw.copy(SOURCE / "a/", place / "a/", **{former: ["nm", "um"]})
    cw.copy(SOURCE / "a/", place / "b/", **{f"dimension_{former}": ["nm", "um"]})
    assert (place / "a/")["zarr.json"] == (place / "b/")["zarr.json"]
    with pytest.raises(ValueError, match="given twice"), pytest.warns(DeprecationWarning):
        cw.copy(SOURCE / "a/", place / "c/", **{former: ["a", "b"], f"dimension_{former}": ["a", "b"]})


@pytest.mark.parametrize(("format", "codec"), [("zarr3", "gzip:3"), ("zarr3", "zstd:3"), ("zarr2", "zstd:3")])
def test_a_checksum_is_kept_unless_it_is_not_wanted(format, codec):
    place = MEMORY / f"checksum/{format}/{codec}/"
    for name, checksum in (("with", True), ("without", False)):
        cw.create_array(place / f"{name}/", VALUES, format=format, codec=codec, checksum=checksum)
    for name, options, same in (("a", {}, "with"), ("b", {"checksum": False}, "without")):
        cw.copy(place / "with/", place / f"{name}/", **options)
        found, wanted = (cw.open_array(place / f"{at}/").codec.to_json() for at in (name, same))
        assert found == wanted


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(
    ("options", "compressor"),
    [
        ({"filters": [numcodecs.Delta("i4")], "compressor": numcodecs.Zstd(1)}, 1),
        ({"filters": [{"id": "delta", "dtype": "<i4"}], "compressors": "zstd:1"}, 1),
        ({"codec": [numcodecs.Delta("i4"), "zstd:1"]}, 1),
        ({"codec": [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}, numcodecs.Zstd(1)]}, 1),
        ({"filters": numcodecs.Delta("i4")}, 3),  # the usual compressor follows
        ({"filters": [numcodecs.Delta("i4")], "compressor": None}, None),
    ],
)
def test_filters(format, options, compressor, tmp_path):
    """They come before the compressor in both versions, and a copy keeps them."""
    values = np.arange(100, dtype="i4")
    cw.create_array(tmp_path / "a", values, chunks=50, format=format, **options)
    cw.create_array(tmp_path / "plain", values, chunks=50, format=format)
    cw.copy(tmp_path / "plain", tmp_path / "b", **options)
    cw.copy(tmp_path / "a", tmp_path / "c")
    for name in "abc":
        found = zarr.open_array(tmp_path / name, mode="r")
        np.testing.assert_array_equal(found[...], values)
        assert [type(one).__name__ for one in found.filters] == ["Delta"]
        assert [one.level for one in found.compressors] == ([] if compressor is None else [compressor])


def test_filters_where_there_are_none(tmp_path):
    for format in ("n5", "zarr1"):
        with pytest.raises(cw.errors.OptionError, match="codec"):
            cw.create_array(tmp_path / "a", VALUES, format=format, filters=[numcodecs.Delta("i4")])
        assert not (tmp_path / "a").exists()
