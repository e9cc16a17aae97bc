"""Options of new arrays in every form that people write, in every creator, with one meaning."""

import json
import re
from decimal import Decimal
from fractions import Fraction

import dask.array as da
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
import zarr.codecs as z
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise as cw
import chunkwise.z5py
from chunkwise.cli.main import main
from chunkwise.errors import OptionError
from chunkwise.hdmf import ZarrDataIO, ZarrIO

VALUES = np.arange(48, dtype="u2").reshape(6, 8)
NAMES = ["y", "x"]
CONTEXT = cw.Context()
MEMORY = cw.KvStore.open("memory://", context=CONTEXT).result()
SOURCE = MEMORY / "source/"
SIZES = ("chunks", "shards")

DELTA = {"id": "delta", "dtype": "<u2", "astype": "<u2"}

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
            {
                "codec": cw.CodecSpec(
                    {"driver": "zarr", "compressor": {"id": "gzip", "level": 3}, "filters": None}
                )
            },
            {"codec": cw.CodecSpec({"driver": "n5", "compression": {"type": "gzip", "level": 3}})},
            {
                "codec": cw.CodecSpec(
                    {"driver": "zarr3", "codecs": [{"name": "gzip", "configuration": {"level": 3}}]}
                )
            },
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
            {"codec": ["none"]},
            {"codec": cw.CodecSpec({"driver": "zarr", "compressor": None, "filters": None})},
            {"codec": cw.CodecSpec({"driver": "n5", "compression": {"type": "raw"}})},
        ],
    ],
    "filters": [
        [
            {"codec": [numcodecs.Delta("<u2"), "none"]},
            {"filters": [numcodecs.Delta("<u2")], "compressor": None},
            {"filters": numcodecs.Delta("<u2"), "compressors": ()},
            {"codec": cw.CodecSpec({"driver": "zarr", "compressor": None, "filters": [DELTA]})},
        ],
        [
            {"codec": [numcodecs.Delta("<u2"), "gzip:3"]},
            {"filters": [DELTA], "compressor": "gzip:3"},
            {
                "codec": cw.CodecSpec(
                    {"driver": "zarr", "compressor": {"id": "gzip", "level": 3}, "filters": [DELTA]}
                )
            },
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
                {"y": "4 nm"},
                {"y": (4, "nm"), "x": None},
            ]
        ],
        [
            {"dimension_units": u}
            for u in [
                ["nm", "nm"],
                [cw.Unit("nm")] * 2,
                [(1, "nm")] * 2,
                ["1 nm", "nm"],
                {"x": "nm", "y": "1 nm"},
            ]
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


def _shape(place, options, format):
    array = cw.create_array(
        place / "t/a/", shape=VALUES.shape, dtype="u2", format=format, **_names(options), **options
    )
    array[...] = VALUES


def _create_dataset(place, options, format):
    cw.create_group(place / "t/", format=format).create_dataset(
        "a", data=VALUES, **_names(options), **options
    )


def _require_array(place, options, format):
    group = cw.create_group(place / "t/", format=format)
    group.require_array("a", shape=(6, 8), dtype="u2", **_names(options), **options)[...] = VALUES


def _require_dataset(place, options, format):
    group = cw.create_group(place / "t/", format=format)
    group.require_dataset("a", (6, 8), "u2", **_names(options), **options)[...] = VALUES


def _copy_as_planned(place, options, format):
    there = place / "t/a/"
    plan = cw.plan_copy(SOURCE / "a/", there, format=format, **options)
    cw.copy(SOURCE / "a/", there, format=format, plan=plan, **options)


def _datatree(place, options, format):
    tree = xr.DataTree.from_dict({"/t": xr.Dataset({"a": (NAMES, VALUES)})})
    cw.xarray.write_datatree(tree, place, format=format, encoding={"/t": {"a": options}})


def _pyramid(place, options, format):
    conventions = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}
    if format == "n5":  # whose axes are x, y
        options = {n: o[::-1] if n in SIZES and np.ndim(o) == 1 else o for n, o in options.items()}
    cw.downsample_pyramid(
        SOURCE / "a/", place / "t/", convention=conventions[format], levels=0, **options
    ).result()


def _z5py(place, options, format):
    options = {{"fill_value": "fillvalue"}.get(name, name): value for name, value in options.items()}
    kind = {"use_zarr_format": format != "n5", **({"zarr_format": 3} if format == "zarr3" else {})}
    cw.z5py.File(place / "t", "a", **kind).create_dataset("a", data=VALUES, **options)


def _hdmf(place, options, format):
    options = {{"fill_value": "fillvalue", "codec": "compressor"}.get(n, n): o for n, o in options.items()}
    place.mkdir(parents=True)
    with ZarrIO(place / "t", mode="w", format=format) as io:
        data = ZarrDataIO(VALUES, **options)
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", data, dtype="uint16")]))


CREATORS = {
    "create_array": _create,
    "create_array(shape)": _shape,
    "Group.create_array": _create_in_group,
    "Group.create_dataset": _create_dataset,
    "Group.require_array": _require_array,
    "Group.require_dataset": _require_dataset,
    "copy": _copy,
    "copy(plan)": _copy_as_planned,
    "copy_tree": _tree,
    "Group.copy": _group_copy,
    "from_dask": _from_dask,
    "write_dataset": _dataset,
    "write_datatree": _datatree,
    "downsample_pyramid": _pyramid,
    "z5py": _z5py,
    "ZarrDataIO": _hdmf,
}
IN_FILES = ("z5py", "ZarrDataIO")
FORMATS = {
    "sizes": ["zarr3", "zarr2", "n5"],
    "shards": ["zarr3"],
    "codecs": ["zarr3", "zarr2", "n5"],
    "filters": ["zarr3", "zarr2"],
    "values": ["zarr3", "zarr2", "n5"],
}
CASES = [(what, format) for what, formats in FORMATS.items() for format in formats]


def _refused(creator, options, format):
    """Return what the error says, which names the option and says what it may be; None if there is none."""
    axes, named = {"dimension_names", "dimension_units"} & options.keys(), []
    for option in SIZES:
        if isinstance(options.get(option), dict):
            named.append(option)
    if axes and creator in ("write_dataset", "write_datatree"):
        return rf"unknown member.*{min(axes)}"
    if axes and creator in ("downsample_pyramid", "z5py", "ZarrDataIO"):
        return min(axes)
    if named and creator in ("z5py", "ZarrDataIO"):
        return f"^(dataset /a: )?{named[0]}: the dimensions have no names"
    if "fill_value" in options and creator == "downsample_pyramid":
        return "'fill_value'; leave it out"
    if "fill_value" in options and format == "n5" and not creator.startswith("write_data"):
        return "fill_?value: "
    if "fill_value" in options and format != "zarr3" and creator.startswith("write_data"):
        return 'encoding "fill_value"'
    codec = options.get("codec")
    if creator == "ZarrDataIO" and isinstance(codec, cw.CodecSpec):
        return "Expected a codec"
    if creator == "from_dask" and isinstance(codec, cw.CodecSpec):  # as in TensorStore
        of = {"zarr": "zarr2"}.get(codec.to_json()["driver"], codec.to_json()["driver"])
        return None if of == format else "Cannot merge codec spec"
    if creator == "z5py" and not {"chunks", "fill_value"} & options.keys():
        return "z5py names a compressor|codec is one of"
    return None


@pytest.fixture(scope="module", autouse=True)
def source():
    cw.create_group(SOURCE).create_array("a", VALUES, dimension_names=NAMES, chunks=(6, 4))


def _documents(place, array="a"):
    names = ("zarr.json", ".zarray", ".zattrs", "attributes.json")
    if isinstance(place, cw.KvStore):
        there = place / f"t/{array}/"
        return {name: json.loads(there[name]) for name in names if name in there}
    files = [place / "t" / array / name for name in names]
    return {file.name: json.loads(file.read_bytes()) for file in files if file.exists()}


def _place(creator, path, name):
    return path / name if creator in IN_FILES else MEMORY / f"{path.name}/{creator}/{name}/"


def _check(creator, what, format, path, forms_of):
    if what == "filters" and creator in IN_FILES:  # whose compressor is no filter
        return
    for case, forms in enumerate(FORMS[what]):
        made = None
        for number, options in enumerate(forms_of(forms)):
            place = _place(creator, path, f"{what}-{format}-{case}-{number}")
            refused = _refused(creator, options, format)
            if refused:
                with pytest.raises((OptionError, ValueError, TypeError, RuntimeError)) as caught:
                    CREATORS[creator](place, options, format)
                assert re.search(refused, str(caught.value)), options
                continue
            CREATORS[creator](place, options, format)
            array = (
                {"zarr3": "0", "zarr2": "0", "n5": "s0"}[format] if creator == "downsample_pyramid" else "a"
            )
            found = _documents(place, array)
            assert found and (made is None or found == made), options
            made = found
            values = cw.open_array(place / "t" / array if creator in IN_FILES else place / f"t/{array}/")
            values = values if values.shape == VALUES.shape else values.T  # N5 is written in reverse
            np.testing.assert_array_equal(values, VALUES, err_msg=repr(options))


@pytest.mark.each_once
@pytest.mark.parametrize("creator", CREATORS)
@pytest.mark.parametrize(("what", "format"), CASES)
def test_each_form_means_the_same(creator, what, format, tmp_path):
    """A sample: the first form, and each third."""
    _check(creator, what, format, tmp_path, lambda forms: [forms[0], *forms[1::3]])


@pytest.mark.slow
@pytest.mark.parametrize("creator", CREATORS)
@pytest.mark.parametrize(("what", "format"), CASES)
def test_all_forms_mean_the_same(creator, what, format, tmp_path):
    _check(creator, what, format, tmp_path, lambda forms: forms)


@pytest.mark.parametrize(
    "how",
    [
        {"filters": [numcodecs.Delta("<u2")]},
        {"metadata": {"filters": [DELTA]}},
        {"codec": cw.CodecSpec({"driver": "zarr", "compressor": None, "filters": [DELTA]})},
    ],
)
def test_zeros_behind_filters_are_no_missing_values(how, tmp_path):
    """As the fill value of Zarr v2 is for xarray."""
    cw.create_group(tmp_path, format="zarr2").create_array("a", VALUES, dimension_names=NAMES, **how)
    with xr.open_zarr(tmp_path, consolidated=False) as dataset:
        np.testing.assert_array_equal(dataset.a, VALUES)


TEXT = [
    (["--chunk=3,8"], {"chunks": (3, 8)}),
    (["--chunk=3,-1"], {"chunks": (3, 8)}),
    (["--chunk=[3, 8]"], {"chunks": (3, 8)}),
    (["--chunk=3x8"], {"chunks": (3, 8)}),
    (["--chunk=y=3,x=-1"], {"chunks": (3, 8)}),
    (["--chunk=x=auto,y=3"], {"chunks": (3, 8)}),
    (["--chunk=4"], {"chunks": (4, 4)}),
    (["--chunk=auto,auto"], {"chunks": "auto"}),
    (["--chunk=3,4", "--shard=-1"], {"chunks": (3, 4), "shards": (6, 8)}),
    (["--chunk=3,4", "--shard=auto"], {"chunks": (3, 4), "shards": "auto"}),
    (["--chunk=3,4", "--shard=none"], {"chunks": (3, 4), "shards": None}),
    (["--codec=gzip:3"], {"codec": "gzip:3"}),
    (["--codec", '{"id": "gzip", "level": 3}'], {"codec": "gzip:3"}),
    (["--codec", '[{"name": "gzip", "configuration": {"level": 3}}]'], {"codec": "gzip:3"}),
    (["--codec=none"], {"codec": "none"}),
]


@pytest.mark.parametrize("command", ["create", "cp", "cp -r", "pyramid"])
def test_commands_take_the_same(command, tmp_path):
    source = tmp_path / "src.zarr"
    cw.create_group(source).create_array("a", VALUES, dimension_names=NAMES, chunks=(6, 4))
    for number, (flags, options) in enumerate(TEXT):
        there, here = tmp_path / f"{number}.zarr", tmp_path / f"{number}-python.zarr"
        if command == "create":
            new = ["--shape=6,8", "--dtype=uint16", "--dimension-names=y,x"]
            assert main(["create", str(there / "a"), *new, *flags]) == 0
            cw.create_array(here / "a", shape=(6, 8), dtype="u2", dimension_names=NAMES, **options)
        elif command == "pyramid":
            there_too = [str(source / "a"), str(there), "--levels=0", "--quiet"]
            assert main(["pyramid", *there_too, *flags]) == 0
            cw.downsample_pyramid(source / "a", here, levels=0, **options).result()
        elif command == "cp":
            assert main(["cp", str(source / "a"), str(there / "a"), "--quiet", *flags]) == 0
            cw.copy(source / "a", here / "a", **options)
        else:
            assert main(["cp", "-r", str(source), str(there), "--quiet", *flags]) == 0
            cw.copy_tree(source, here, **options)
        name = "0/zarr.json" if command == "pyramid" else "a/zarr.json"
        assert json.loads((there / name).read_bytes()) == json.loads((here / name).read_bytes()), flags


@pytest.mark.parametrize(
    "units", [["2 um", "0.5 um"], {"y": "2 um", "x": "0.5 um"}, {"x": "0.5 um"}, {"q": "1 um"}]
)
def test_units_by_name(units, tmp_path):
    """Pyramids and commands take them too; others stay as they are; other names are refused."""
    source = tmp_path / "src.zarr"
    cw.create_array(source, VALUES, dimension_names=NAMES, dimension_units=["2 um", "9 um"])
    flag = units if isinstance(units, list) else [f"{name}={unit}" for name, unit in units.items()]
    commands = [["cp"], ["pyramid", "--levels=0"]]
    if "q" in units:
        for call in (cw.copy, cw.downsample_pyramid):
            option = {cw.copy: "dimension_units"}.get(call, "units")
            with pytest.raises(
                OptionError, match=f'{option}: the .* has no dimension "q"; there are "x", "y"'
            ):
                call(source, tmp_path / "x", **{option: units})
        for command in commands:
            assert main([*command, str(source), str(tmp_path / "x"), "--quiet", "--units", *flag]) != 0
        return
    cw.copy(source, tmp_path / "0", dimension_units=units)
    cw.downsample_pyramid(source, tmp_path / "1", levels=0, units=units).result()
    for n, command in enumerate(commands):
        assert main([*command, str(source), f"{tmp_path}/{n + 2}", "--quiet", "--units", ",".join(flag)]) == 0
    for n in (0, 2):
        assert [str(unit) for unit in cw.open_array(tmp_path / str(n)).dimension_units] == ["2 um", "0.5 um"]
    for n in (1, 3):
        assert cw.open_multiscale(tmp_path / str(n)).scales[0] == (2, 0.5)


@pytest.mark.each_once
@pytest.mark.parametrize("command", ["create", "cp", "cp -r", "pyramid"])
@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--chunk=0,1", "--chunk: expected a size of at least 1"),
        ("--chunk=3,y=4", "--chunk: .* has no name"),
        ("--chunk=x", "--chunk: expected"),
        ("--chunk=q=4", "chunks?: .*no dimension"),
        ("--chunk=1,2,3", "chunks?.*3|3.*chunks?"),
        ("--shard=1.5", "--shard: expected"),
        ("--codec={}", "codec: expected"),
        ("--codec=nope", 'codec.*"nope"'),
    ],
)
def test_commands_refuse_the_same(command, flag, words, tmp_path, capsys):
    source = tmp_path / "src.zarr"
    cw.create_group(source).create_array("a", VALUES, dimension_names=NAMES, chunks=(6, 4))
    there = tmp_path / "there.zarr"
    arguments = {
        "create": ["create", there, "--shape=6,8", "--dtype=uint16", "--dimension-names=y,x"],
        "cp": ["cp", source / "a", there],
        "cp -r": ["cp", "-r", source, there],
        "pyramid": ["pyramid", source / "a", there],
    }[command]
    try:
        status = main([*map(str, arguments), flag])
    except SystemExit as e:
        status = e.code
    assert status not in (0, None)
    assert re.search(words, capsys.readouterr().err)
    assert not there.exists()


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


@pytest.mark.parametrize(
    ("dtype", "said"), [("flaot32", 'did you mean "float32"'), (5, "A data type is a name")]
)
def test_a_data_type_that_is_none(dtype, said, tmp_path):
    for write in (
        lambda: cw.create_array(tmp_path / "a", shape=3, dtype=dtype),
        lambda: cw.copy(cw.array(VALUES), tmp_path / "a", dtype=dtype),
        lambda: cw.from_dask(da.ones(3), tmp_path / "a", dtype=dtype),
    ):
        with pytest.raises(cw.errors.OptionError, match=f"^dtype: .*{said}"):
            write()
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("options", ["filters", "codec"])
@pytest.mark.parametrize(
    ("values", "filter"), [(["a", "é"], numcodecs.VLenUTF8()), ([b"a", b"bc"], numcodecs.VLenBytes())]
)
def test_the_filter_of_text_is_there_once(options, values, filter, tmp_path):
    """As zarr-python 2 needs it to be named."""
    given = {options: [filter]} if options == "filters" else {"codec": [filter, numcodecs.Zstd(1)]}
    cw.create_array(tmp_path / "a", np.array(values, object), format="zarr2", **given)
    found = zarr.open_array(tmp_path / "a", mode="r")
    assert found[...].tolist() == values and len(found.filters) == 1


def test_filters_where_there_are_none(tmp_path):
    for format in ("n5", "zarr1"):
        with pytest.raises(cw.errors.OptionError, match="codec"):
            cw.create_array(tmp_path / "a", VALUES, format=format, filters=[numcodecs.Delta("i4")])
        assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("of", [np.asarray, cw.array, da.asarray, np.ndarray.tolist])
def test_the_shape_is_that_of_the_data(of, tmp_path):
    """A scalar alone fills an array; other data was repeated to fill it."""
    for data, shape in (
        (VALUES[:1], (3, *VALUES.shape[1:])),
        (VALUES, VALUES.shape[::-1]),
        (VALUES[0], VALUES.shape),
    ):
        with pytest.raises(ValueError, match=r"^shape: the data has"):
            cw.create_array(tmp_path / "a", of(data), shape=shape)
        assert not (tmp_path / "a").exists()
    for data, shape in ((VALUES, VALUES.shape), (VALUES[0], list(VALUES[0].shape))):
        cw.create_array(tmp_path / "a", of(data), shape=shape, overwrite=True)
        np.testing.assert_array_equal(cw.read(tmp_path / "a"), data)
    cw.create_array(tmp_path / "a", 7, shape=(2, 3), overwrite=True)
    assert cw.read(tmp_path / "a").tolist() == [[7] * 3] * 2


@pytest.mark.parametrize("format", ["zarr2", "n5"])
@pytest.mark.parametrize("chunks", [[5, 1, 5], -1, {"x": 5}, 4])
def test_shards_of_a_source_are_no_matter_where_there_are_none(tmp_path, chunks, format):
    """Chunks of a copy to a format without shards need not divide them; in Zarr v3 it keeps them."""
    values = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    source = cw.create_group(tmp_path / "a", format="zarr3")
    source.create_array("s", values, chunks=(1, 3, 2), shards=(3, 6, 6), dimension_names=["z", "y", "x"])
    wanted = {"x": (1, 3, 5), 4: (4, 4, 4), -1: (5, 6, 7)}
    wanted = (5, 1, 5) if isinstance(chunks, list) else wanted["x" if isinstance(chunks, dict) else chunks]
    cw.copy(tmp_path / "a/s", tmp_path / "b", format=format, chunks=chunks)
    cw.copy_tree(tmp_path / "a", tmp_path / "c", format=format, chunks=chunks)
    for copy in (cw.open_array(tmp_path / "b"), cw.open_array(tmp_path / "c/s")):
        assert copy.chunk_layout.write_chunk.shape == wanted
        assert (copy.read().result() == values).all()
    with pytest.raises(ValueError, match=r"shards of .* can't be divided"):
        cw.copy(tmp_path / "a/s", tmp_path / "d", format="zarr3", chunks=chunks)
    with pytest.raises(ValueError, match="has no shards"):
        cw.copy(tmp_path / "a/s", tmp_path / "d", format=format, chunks=chunks, shards=(3, 6, 6))


FILLS = [
    ("u1", np.datetime64("3000"), False),
    ("i8", np.datetime64("NaT", "s"), False),
    ("f8", np.timedelta64(3, "s"), False),
    ("u1", Decimal("1.1"), False),
    ("u1", Decimal("3"), True),
    ("u1", Fraction(1, 3), False),
    ("f4", Fraction(1, 4), True),
    ("f2", 2**64, False),
    ("M8[ns]", np.float64(1e300), False),
    ("M8[ns]", np.float32(0.5), False),
    ("M8[ns]", np.uint64(2**64 - 1), False),
    ("M8[ns]", np.int64(5), True),
    ("S3", np.float64(1e300), False),
    ("U3", np.str_("abcd"), False),
    ("U3", np.str_("abc"), True),
]


@pytest.mark.parametrize(("dtype", "fill", "fits"), FILLS, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_fill_value_is_one_of_the_type(dtype, fill, fits, format, tmp_path):
    """NumPy converts others without an error, to values that nobody asked for."""
    if fits:
        cw.create_array(tmp_path / "a", shape=2, dtype=dtype, fill_value=fill, format=format)
        expected = fill if isinstance(fill, np.generic) else float(fill)
        assert (cw.read(tmp_path / "a") == np.array(expected).astype(dtype)).all()
    else:
        with pytest.raises(cw.errors.OptionError, match=r"^fill_value: "):
            cw.create_array(tmp_path / "a", shape=2, dtype=dtype, fill_value=fill, format=format)
        assert not (tmp_path / "a").exists()
