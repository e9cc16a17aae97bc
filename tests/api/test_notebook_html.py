"""HTML for notebooks: well formed, and nothing from attributes is run in it."""

from xml.etree import ElementTree

import numpy as np
import pytest

import chunkwise as cw

EVIL = "<script>alert(1)</script>&\"'"


def _parsed(shown):
    return ElementTree.fromstring(shown.replace("<details open>", "<details>"))


def _text(shown):
    return " ".join(_parsed(shown).itertext())


@pytest.mark.parametrize("shape", [(), (5,), (300, 200), (10, 20, 30), (2, 3, 64, 64, 100_000), (0, 4)])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_arrays(shape, format):
    group = cw.create_group("memory://", format=format)
    names = [f"d{i}{EVIL}" for i in range(len(shape))]
    array = group.create_array("a", shape=shape, dtype="uint16", dimension_names=names)
    shown = array._repr_html_()
    text = _text(shown)
    assert "uint16" in text and "/a" in text and str(shape) in text and "<script" not in shown
    has_drawing = bool(shape) and all(shape[-3:])
    assert ("<svg" in shown) == has_drawing
    if has_drawing:
        assert (EVIL in text or format == "zarr2") and f"{shape[-1]:,}" in text


def test_lines_between_chunks_are_to_scale():
    group = cw.create_group("memory://")
    array = group.create_array("a", shape=(100, 150), dtype="uint8", chunks=(10, 30), shards=(50, 90))
    root = _parsed(array._repr_html_())
    lines = [line.attrib for line in root.iter() if line.tag.endswith("line")]
    upright = sorted(float(at["x1"]) for at in lines if at["x1"] == at["x2"] and at["stroke-width"] == "0.5")
    assert upright == [30, 60, 90, 120]
    level = sorted(float(at["y1"]) for at in lines if at["y1"] == at["y2"] and at["stroke-width"] == "1.5")
    assert level == [50]


def test_views_and_unbounded_arrays():
    array = cw.array(np.zeros((4, 5)))
    assert "(2, 5)" in _text(array[1:3]._repr_html_())
    virtual = cw.virtual_chunked(lambda *a: None, dtype="uint8", rank=2)
    assert virtual._repr_html_() is None or "uint8" in virtual._repr_html_()


def test_groups_are_escaped_and_complete_keys():
    group = cw.create_group("memory://", attributes={"note": EVIL, EVIL: 1})
    group.create_array("raw", [1, 2])
    group.create_group("more")
    shown = group._repr_html_()
    assert "raw" in shown and "<script" not in shown
    assert group._ipython_key_completions_() == ["more", "raw"]


def test_specs_and_explanations():
    group = cw.create_group("memory://")
    array = group.create_array("a", np.arange(12), chunks=(3,))
    assert "zarr3" in _text(array.spec()._repr_html_())
    assert "requests" in _text(array.explain()._repr_html_()) and "4" in _text(array.explain()._repr_html_())


def test_images(tmp_path):
    cw.downsample_pyramid(
        cw.array(np.zeros((8, 8), "uint8")), tmp_path / "a.zarr", name=EVIL, levels=1
    ).result()
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert EVIL in _text(image._repr_html_()) and "<script" not in image._repr_html_()
    assert "ome-ngff-0.5" in _text(image._repr_html_())


def test_plates_and_wells(tmp_path):
    plate = cw.create_group(tmp_path / "p.zarr")
    names = ["A/1", "B/2"]
    wells = [{"path": n, "rowIndex": i, "columnIndex": i} for i, n in enumerate(names)]
    rows, columns = [{"name": "A"}, {"name": "B"}], [{"name": "1"}, {"name": "2"}]
    own = {"name": EVIL, "rows": rows, "columns": columns, "wells": wells}
    plate.attrs["ome"] = {"version": "0.5", "plate": own}
    plate.create_group("A/1").attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "left"}]}}
    found = cw.open_multiscale(tmp_path / "p.zarr")
    shown = found._repr_html_()
    assert EVIL in _text(shown) and "<script" not in shown
    assert "2 × 2" in _text(shown) and shown.count("<circle") == 2
    assert "left" in _text(found.wells["A/1"]._repr_html_())


def test_plain_text_stays():
    array = cw.array(np.zeros(3))
    assert repr(array).startswith("TensorStore({") and repr(array.spec()).startswith("Spec({")


def test_records_are_shown_in_words(tmp_path):
    pyramid = cw.downsample_pyramid(cw.array(np.zeros((8, 8), "u1")), tmp_path / "p.zarr", levels=2).result()
    assert "TensorStore (2, 2) uint8" in _text(pyramid._repr_html_())
    plan = cw.plan_copy(tmp_path / "p.zarr/0", tmp_path / "b.zarr")
    assert "1 task of 8 x 8" in _text(plan._repr_html_())


def test_what_describes_an_array_is_a_table(tmp_path):
    """Schema, domain, layout, codec, futures, attributes; lists of reports; all in words, and escaped."""
    attributes = {"<b>": "x" * 20, "n": [1, 2]}
    array = cw.create_array(
        tmp_path / "a.zarr", np.ones((20, 30), "u2"), chunks=(10, 10), codec="zstd:3", attributes=attributes
    )
    other = cw.create_array(tmp_path / "b.n5", np.zeros((20, 30), "u2"), codec="gzip:6")
    shown = {
        "uint16": array.schema,
        "[0, 20*)": array.domain,
        "[10, 10]": array.chunk_layout,
        "bytes, zstd:3": array.codec,
        "gzip:6": other.codec,
        "ndarray (20, 30) uint16": array.read(),
        "<b>": array.attrs,
        "input exclusive max": array[5:].spec().transform,
        "NodeReport": cw.verify(tmp_path / "a.zarr"),
        "600 of 600 differ": cw.diff(tmp_path / "a.zarr", tmp_path / "b.n5"),
        "nothing found": cw.diff(tmp_path / "a.zarr", tmp_path / "a.zarr"),
    }
    for word, value in shown.items():
        assert word in _text(value._repr_html_()), word
    assert "bytes, zstd:3" in array._repr_html_()
    assert cw.diff(tmp_path / "a.zarr", tmp_path / "a.zarr") == []
