"""Arrays that become Zarr v3 in place, read back by us, zarr-python and TensorStore; and those that can't."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorstore
import zarr

import chunkwise as ts
from chunkwise.cli.main import main

N = np.arange(35).reshape(7, 5)

ARRAYS = {
    "plain": (N.astype("<i4"), {"compressor": None}),
    "blosc": (N.astype("<u2"), {"compressor": {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": -1}}),
    "blosc bytes": (N.astype("u1"), {}),
    "big-endian F": (N.astype(">f8"), {"order": "F", "compressor": {"id": "zlib", "level": 1}}),
    "slashes": (N.astype("<i8"), {"dimension_separator": "/", "compressor": {"id": "gzip", "level": 1}}),
    "zstd": (N.astype("<f4"), {"compressor": {"id": "zstd", "level": 1}, "fill_value": "NaN"}),
    "bool": (N % 2 == 0, {"compressor": {"id": "bz2", "level": 1}}),
    "null": (N.astype("<i2"), {"fill_value": None, "compressor": {"id": "lz4", "acceleration": 1}}),
    "complex": (N.astype("<c8"), {"compressor": {"id": "lzma", "preset": 1}}),
    "delta": (N.astype("<i4"), {"filters": [{"id": "delta", "dtype": "<i4"}]}),
    "quantize": (
        (N / 4).astype("<f8"),
        {"filters": [{"id": "fixedscaleoffset", "offset": 0, "scale": 4, "dtype": "<f8", "astype": "<i2"}]},
    ),
    "shuffle": (N.astype("<u4"), {"filters": [{"id": "shuffle", "elementsize": 4}, {"id": "crc32"}]}),
}
OURS = ("delta", "quantize", "shuffle")  # codecs that zarr-python warns of, and TensorStore lacks
NOT_OF_TENSORSTORE = (*OURS, "big-endian F", "bool", "null", "complex")


def _create(path, values, metadata, shape=(9, 6), driver="zarr"):
    store = ts.open(
        {
            "driver": driver,
            "kvstore": f"file://{path}/",
            "metadata": {"chunks": [4, 3], "shape": list(shape), "dtype": values.dtype.str, **metadata},
        },
        create=True,
    ).result()
    store[: values.shape[0], : values.shape[1]] = values
    return store.read().result()


def _files(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize("name", list(ARRAYS))
def test_zarr2(name, tmp_path):
    values, metadata = ARRAYS[name]
    want = _create(tmp_path, values, metadata)
    (tmp_path / ".zattrs").write_text('{"a": [1, {"b": null}], "_ARRAY_DIMENSIONS": ["y", "x"]}')
    before = _files(tmp_path)
    plan = ts.migrate(tmp_path)
    assert _files(tmp_path) == before and not plan.applied  # a dry run
    done = ts.migrate(tmp_path, apply=True)
    assert done == plan._replace(applied=True)
    after = _files(tmp_path)
    assert json.loads(after.pop("zarr.json")) == done.document
    for key in (".zarray", ".zattrs"):
        assert key in done.removed and before.pop(key) and key not in after
    assert after == before  # not one chunk has been touched
    again = ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}).result()
    np.testing.assert_array_equal(again.read().result(), want)
    assert again.domain.labels == ("y", "x")
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], want)
    assert dict(zarr.open_array(tmp_path, mode="r").attrs) == {"a": [1, {"b": None}]}
    if name not in NOT_OF_TENSORSTORE:
        peer = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}).result()
        np.testing.assert_array_equal(peer.read().result(), want)
    again[8, 5] = want[0, 1]
    again.resize(exclusive_max=[10, 6]).result()
    assert ts.open(str(tmp_path)).result()[8, 5].read().result() == want[0, 1]


def test_text_and_records(tmp_path):
    texts = np.array([["a", "é"], ["", "xyz"]], object)
    spec = {
        "driver": "zarr",
        "kvstore": f"file://{tmp_path}/t/",
        "metadata": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}]},
    }
    ts.open(spec, create=True, dtype="ustring", shape=[2, 2]).result()[...] = texts
    ts.migrate(tmp_path / "t", apply=True)
    assert ts.open(str(tmp_path / "t")).result().read().result().tolist() == texts.tolist()
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    records = np.array([(1, 2.5), (3, -1)], dtype)
    z = zarr.create_array(tmp_path / "r", shape=(2,), chunks=(1,), dtype=dtype, zarr_format=2)
    z[...] = records
    ts.migrate(tmp_path / "r", apply=True)
    assert ts.open(str(tmp_path / "r")).result().read().result().tolist() == records.tolist()


def test_zarr1(tmp_path):
    want = np.zeros((9, 6), "<i4")
    want[:7, :5] = N
    store = ts.open(
        {"driver": "zarr1", "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="int32",
        shape=[9, 6],
        fill_value=0,
    ).result()
    store[...] = want
    (tmp_path / "attrs").write_text('{"k": 1}')
    done = ts.migrate(tmp_path, apply=True)
    assert done.removed == ("meta", "attrs") and done.document["attributes"] == {"k": 1}
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], want)


REFUSED = {
    "json2": {"dtype": "|O", "filters": [{"id": "json2"}], "fill_value": None},
    "big-endian record": {"dtype": [["a", ">i4"]], "fill_value": None},
    "field with a shape": {"dtype": [["a", "<i4", [2]]], "fill_value": None},
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_zarr3_can_not_say(name, tmp_path):
    document = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "compressor": None,
        "order": "C",
        "filters": None,
        **REFUSED[name],
    }
    (tmp_path / ".zarray").write_text(json.dumps(document))
    for apply in (False, True):
        with pytest.raises(ValueError, match=r"\.zarray.*has no equal in Zarr v3: ."):
            ts.migrate(tmp_path, apply=apply)
    assert [p.name for p in tmp_path.iterdir()] == [".zarray"]


@pytest.mark.parametrize("at", ["a/.zattrs", ".zattrs"])
@pytest.mark.parametrize(
    "attributes", [{"\ud800": 1, "b": 2}, {"b": {"c": ["\udc00"]}}], ids=["name", "value"]
)
def test_attributes_that_would_be_lost(attributes, at, tmp_path, capsys):
    """UTF-8 has no half of a surrogate pair, and the old documents are removed."""
    group = ts.create_group(tmp_path / "g", format="zarr2")
    group.create_array("a", data=N)
    (tmp_path / "g" / at).write_text(json.dumps(attributes))
    before = _files(tmp_path)
    for place in [tmp_path / "g"] + [tmp_path / "g/a"] * (at != ".zattrs"):
        for options in ({}, {"apply": True}, {"apply": True, "keep_old": True}):
            with pytest.raises(ValueError, match="half a surrogate pair"):
                ts.migrate(place, **options)
    if "b" in attributes and "\ud800" not in attributes:  # pytest's stderr can't show the name
        assert main(["migrate", str(tmp_path / "g"), "--apply"]) == 1
        assert "CAN'T BE" in capsys.readouterr().out
    assert _files(tmp_path) == before


def test_what_is_no_such_array(tmp_path):
    with pytest.raises(FileNotFoundError):
        ts.migrate(tmp_path / "nothing")
    for driver in ("n5", "zarr3"):
        ts.open(
            {"driver": driver, "kvstore": f"file://{tmp_path}/{driver}/"},
            create=True,
            dtype="uint8",
            shape=[2],
        ).result()
        with pytest.raises(ValueError, match="only Zarr v1 and v2 arrays"):
            ts.migrate(tmp_path / driver)
    zarr.create_group(tmp_path / "g", zarr_format=3)
    with pytest.raises(ValueError, match="no node of Zarr v1 or v2"):
        ts.migrate(tmp_path / "g")


def test_both_and_copies(tmp_path):
    """Old documents may stay; a group above is told of, and its consolidated metadata kept true."""
    root = zarr.open_group(tmp_path / "g", mode="w", zarr_format=2)
    root.create_array("a", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    zarr.consolidate_metadata(tmp_path / "g", zarr_format=2)
    done = ts.migrate(tmp_path / "g/a", apply=True, keep_old=True)
    assert done.removed == () and (tmp_path / "g/a/.zarray").exists()
    assert any("is of Zarr v2" in note for note in done.notes)
    (tmp_path / "g/a/zarr.json").unlink()
    ts.migrate(tmp_path / "g/a", apply=True)
    assert "a/.zarray" not in json.loads((tmp_path / "g/.zmetadata").read_text())["metadata"]


def test_command(tmp_path, capsys):
    _create(tmp_path / "a", N.astype("<i4"), {})
    assert main(["migrate", str(tmp_path / "a")]) == 0
    out = capsys.readouterr()
    assert "would be written" in out.out and "nothing was changed" in out.err
    assert not (tmp_path / "a/zarr.json").exists()
    assert main(["migrate", str(tmp_path / "a"), "--apply", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["applied"] is True and shown["document"] == json.loads(
        (tmp_path / "a/zarr.json").read_text()
    )
    assert main(["migrate", str(tmp_path / "a"), "--apply"]) == 1
    assert "only Zarr v1 and v2" in capsys.readouterr().err


def test_a_tree_without_old_nodes_is_told(tmp_path, capsys):
    ts.create_group(tmp_path / "a.zarr")
    assert main(["migrate", str(tmp_path / "a.zarr")]) == 0
    assert "nothing was changed; there is no node of Zarr v1 or v2" in capsys.readouterr().err
