"""Region references: every canonical type, in datasets, attributes and compounds, in v2, v3 and N5."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from examples import examples
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import chunkwise
from chunkwise.core.kvstore.reference.hdf5_objects import region_json
from chunkwise.errors import OutOfBoundsError
from chunkwise.hdmf import RegionReference, ZarrIO, open_store
from chunkwise.hdmf.model.region import normalize_region, parse_region, same_region, select_region

FORMATS = ("zarr2", "zarr3", "n5")
SHAPE = (6, 4)
DATA = np.arange(24, dtype="i4").reshape(SHAPE)

# Each with what NumPy selects.
REGIONS: dict[str, tuple[Any, Any]] = {
    "all": (..., DATA),
    "none": ({"type": "none", "ndim": 2}, np.empty(0, "i4")),
    "slices": ((slice(1, 5, 2), slice(0, 3)), DATA[1:5:2, :3]),
    "hyperslab": (
        {"type": "hyperslab", "start": [0, 1], "stride": [3, 2], "count": [2, 2], "block": [2, 1]},
        DATA[np.ix_([0, 1, 3, 4], [1, 3])],
    ),
    "blocks": ([4, 0, 1], DATA[[4, 0, 1]]),
    "scattered": (
        {"type": "blocks", "blocks": [[[0, 0], [1, 1]], [[3, 2], [3, 3]]]},
        np.array([0, 1, 4, 5, 14, 15], "i4"),
    ),
    "points": ([(5, 0), (0, 3), (2, 2)], np.array([20, 3, 10], "i4")),
}


def builders(region: Any) -> GroupBuilder:
    data = DatasetBuilder("data", DATA.copy(), attributes={"object_id": "d-1"})
    group = GroupBuilder("group", attributes={"object_id": "g-1"})
    reference = RegionReference(region, data)
    rows = [(1, "one", reference, ReferenceBuilder(group)), (2, "two", reference, ReferenceBuilder(data))]
    dtype = [
        {"name": "id", "dtype": "int32"},
        {"name": "label", "dtype": "utf8"},
        {"name": "roi", "dtype": "region"},
        {"name": "whole", "dtype": "object"},
    ]
    return GroupBuilder(
        "root",
        groups=[group],
        datasets=[
            data,
            DatasetBuilder("regions", [reference, RegionReference(slice(0, 2), data)], dtype="region"),
            DatasetBuilder("one", reference, dtype="region"),
            DatasetBuilder("table", rows, dtype=dtype),
        ],
        attributes={"object_id": "root-1", "roi": reference, "plain": ReferenceBuilder(group)},
    )


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", REGIONS)
def test_checklist_regions_of_every_type_and_place(tmp_path: Path, kind: str, format: str) -> None:
    region, expected = REGIONS[kind]
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=format) as io:
        io.write_builder(builders(region))
    with ZarrIO(tmp_path / "a.zarr") as io:
        root = io.read_builder()
        data = root.datasets["data"]
        attribute = root.attributes["roi"]
        assert isinstance(attribute, RegionReference)
        assert isinstance(attribute, ReferenceBuilder)
        assert attribute.builder is data
        np.testing.assert_array_equal(attribute.data(), expected)
        boxes = attribute.selection if kind in ("blocks", "scattered") else [attribute.selection]
        picked = [np.ravel(DATA[box]) for box in boxes]
        np.testing.assert_array_equal(np.sort(np.concatenate(picked)), np.sort(np.ravel(expected)))
        assert root.attributes["plain"] is root.groups["group"]

        regions = root.datasets["regions"].data
        assert (len(regions), regions.shape, regions.dtype) == (2, (2,), "region")
        np.testing.assert_array_equal(regions[0], expected)
        np.testing.assert_array_equal(regions[0:2][1], DATA[:2])
        assert regions.ref(0).region == attribute.region
        assert regions.ref(0).builder is data
        np.testing.assert_array_equal(regions.invert()[0], expected)

        scalar = root.datasets["one"].data
        assert isinstance(scalar, RegionReference)
        assert scalar.region == attribute.region

        table = root.datasets["table"].data
        row = table[1]
        assert (row["id"], row["label"]) == (2, "two")
        np.testing.assert_array_equal(row["roi"], expected)
        assert row["whole"] is data
        assert table[0]["whole"] is root.groups["group"]
        assert io.broken_links == []


@pytest.mark.parametrize("format", FORMATS)
def test_checklist_regions_of_targets_that_grew_or_shrank(tmp_path: Path, format: str) -> None:
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=format) as io:
        io.write_builder(builders((slice(2, 6), slice(None))))
    for n_rows, fits in ((9, True), (6, True), (4, False)):
        array = chunkwise.open(tmp_path / "a.zarr/data", write=True).result()
        array.resize(exclusive_max=(4, n_rows) if format == "n5" else (n_rows, 4)).result()
        with ZarrIO(tmp_path / "a.zarr", mode="r-") as io:
            root = io.read_builder()  # opening never fails
            if fits:
                np.testing.assert_array_equal(root.attributes["roi"].data(), DATA[2:6])
            else:
                with pytest.raises(IndexError, match="reaches up to"):
                    root.attributes["roi"].data()
                with pytest.raises(IndexError):
                    root.datasets["regions"].data[0]


NO_REGIONS: list[tuple[Any, str]] = [
    ([6], "6"),
    ([(0, 4)], "4"),
    ((slice(None), 4), "4"),
    ([(0, 1, 2)], r"point \[0, 1, 2\] for a dataset of rank 2"),
    ({"type": "slices", "slices": [[0, 7, 1], [0, 4, 1]]}, r"reaches up to \[7, 4\]"),
    (
        {"type": "slices", "slices": [[0, 7, 1], [0, 4, 1]], "shape": [7, 4]},  # as another region has it
        r"reaches up to \[7, 4\]",
    ),
    ({"type": "points", "points": "ab", "shape": [6, 4]}, "list of points"),
    (["x"], r"list of integers or of coordinates, but received: \['x'\]"),
    ((slice(None),) * 3, "3"),
    (np.ones((2, 2), bool), r"mask of shape \(2, 2\) for a dataset of shape \(6, 4\)"),
    ((np.newaxis, 0), "slices, integers or one list"),
    (([0, 1], [0, 1]), "only one axis may have a list"),
    ((slice(None, None, -1), [0]), "only one axis may have a list"),
    (([0, 1], slice(0, 4, 2)), "slices of step 1 on the others"),
]


@pytest.mark.parametrize(("region", "error"), NO_REGIONS, ids=lambda value: str(value)[:30])
def test_checklist_regions_out_of_range_are_not_written(region: Any, error: str) -> None:
    with pytest.raises((ValueError, IndexError), match=error):
        RegionReference(region, DatasetBuilder("data", DATA))


def test_a_scalar_has_no_region_but_all() -> None:
    one = DatasetBuilder("one", np.float32(5))
    assert RegionReference(..., one).region == {"type": "all", "shape": []}
    for region in ([0], slice(0, 1), [(0,)]):
        with pytest.raises((ValueError, IndexError), match=r"scalar|rank 0|dimension|indices"):
            RegionReference(region, one)


@pytest.mark.parametrize(
    "index", [[], ([], slice(None)), ([0, 1], slice(2, 2)), np.zeros(SHAPE, bool)], ids=str
)
def test_regions_of_no_elements(index: Any) -> None:
    region = RegionReference(index, DatasetBuilder("data", DATA)).region
    assert select_region(DATA, region).size == 0
    assert same_region(region, {"type": "none", "ndim": 2, "shape": list(SHAPE)})


@pytest.mark.parametrize("form", ["spec", "compat"])
def test_regions_in_attributes_of_zarr2_have_two_forms(tmp_path: Path, form: Any) -> None:
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=2, region_attributes=form) as io:
        io.write_builder(builders(slice(0, 3)))
    stored = open_store(str(tmp_path / "a.zarr")).tree.nodes["/"].attributes["roi"]
    if form == "spec":
        assert stored["zarr_dtype"] == "region"
        assert stored["value"]["region"]["type"] == "slices"
    else:
        assert list(stored) == ["_REGION_REFERENCE"]
    with ZarrIO(tmp_path / "a.zarr") as io:
        np.testing.assert_array_equal(io.read_builder().attributes["roi"].data(), DATA[:3])


def test_long_regions_of_zarr3_compounds_go_to_a_dataset_beside(tmp_path: Path) -> None:
    points = [(i % 6, i % 4) for i in range(2000)]
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=3) as io:
        io.write_builder(builders(points))
    store = open_store(str(tmp_path / "a.zarr"))
    assert store.tree.nodes["/table"].attributes["_REGION_FIELDS"] == {"roi": "table__roi_regions"}
    with ZarrIO(tmp_path / "a.zarr") as io:
        row = io.read_builder().datasets["table"].data[0]
        np.testing.assert_array_equal(row["roi"], [DATA[p] for p in points])


def test_checklist_regions_from_hdf5(tmp_path: Path) -> None:
    """h5py's references become regions that select what h5py selects."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        dataset = f.create_dataset("data", data=DATA)
        references = [
            dataset.regionref[1:5:2, :3],
            dataset.regionref[...],
            dataset.regionref[[0, 2, 5]],
            dataset.regionref[DATA % 5 == 0],
        ]
        stored = f.create_dataset("regions", (len(references),), h5py.regionref_dtype)
        for i, reference in enumerate(references):
            stored[i] = reference
            region = region_json(f, reference, DATA.shape)
            assert parse_region(region)["type"] in ("hyperslab", "all", "blocks", "points")
            np.testing.assert_array_equal(
                np.sort(select_region(DATA, region), axis=None), np.sort(dataset[reference], axis=None)
            )
            if region["type"] != "points":
                np.testing.assert_array_equal(select_region(DATA, region), dataset[reference])
        root = GroupBuilder(
            "root",
            datasets=[DatasetBuilder("data", dataset), DatasetBuilder("regions", stored, dtype="region")],
        )
        for format in FORMATS:
            with ZarrIO(tmp_path / f"{format}.zarr", mode="w", format=format) as io:
                io.write_builder(root)
            with ZarrIO(tmp_path / f"{format}.zarr") as io:
                regions = io.read_builder().datasets["regions"].data
                for i, reference in enumerate(references):
                    assert np.size(regions[i]) == np.size(dataset[reference])
                np.testing.assert_array_equal(regions[0], dataset[references[0]])


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_regions_select_what_numpy_does(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=6))
    array = np.arange(np.prod(shape)).reshape(shape)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    terms = index if isinstance(index, tuple) else (index,)
    negative = sum(isinstance(t, slice) and (t.step or 1) < 0 for t in terms)
    try:
        region = normalize_region(index, shape)
    except ValueError:
        assert negative > 1 or (negative and any(isinstance(t, slice) and (t.step or 1) > 1 for t in terms))
        return
    expected = array[index]
    selected = select_region(array, parse_region(region, shape))
    np.testing.assert_array_equal(np.ravel(selected), np.ravel(expected))


@settings(max_examples=examples(80), deadline=None)
@given(hnp.arrays(bool, hnp.array_shapes(max_dims=3, max_side=5)))
def test_masks_select_in_c_order(mask: Any) -> None:
    array = np.arange(mask.size).reshape(mask.shape)
    np.testing.assert_array_equal(select_region(array, normalize_region(mask, mask.shape)), array[mask])


@pytest.mark.parametrize(
    "region",
    [
        {},
        {"type": "cube", "shape": [2]},
        {"type": "blocks", "shape": [2], "blocks": 5},
        {"type": "blocks", "shape": [2], "blocks": [[[1]]]},
        {"type": "points", "shape": [2], "points": 5},
        {"type": "points", "shape": 2, "points": [[0]]},
        {"type": "slices", "shape": [2], "slices": [[0, 1, 0]]},
        {"type": "slices", "shape": [2], "slices": [[1, 0, 1]]},
        {"type": "slices", "shape": [2, 2], "slices": [[0, 1, 1]]},
        {"type": "points", "shape": [2], "points": [[-1]]},
        {"type": "points", "shape": [2], "points": [[0, 0]]},
        {"type": "blocks", "shape": [2], "blocks": [[[1], [0]]]},
        {"type": "hyperslab", "shape": [9], "start": [0], "stride": [1], "count": [2], "block": [2]},
        {"type": "slices", "shape": [2], "slices": [[0, True, 1]]},
    ],
    ids=str,
)
def test_malformed_regions_are_named(region: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"region|slices|box|points|Expected|overlap|start"):
        parse_region(region)


@st.composite
def spans(draw: Any, n: int) -> list[tuple[int, int]]:
    """Draw the first and last index of ranges of an axis that follow each other."""
    cuts = sorted(draw(st.sets(st.integers(0, n), min_size=2, max_size=5)))
    found = [(start, stop - 1) for start, stop in itertools.pairwise(cuts)]
    return draw(st.lists(st.sampled_from(found), min_size=1, unique=True).map(sorted))


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_boxes_that_make_a_grid_have_its_shape(data: Any) -> None:
    """If a box of the grid is missing, the elements of the others are a list in C order."""
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=3, max_side=6))
    array = np.arange(np.prod(shape)).reshape(shape)
    axes = [data.draw(spans(n)) for n in shape]
    boxes = [list(map(list, zip(*box, strict=True))) for box in itertools.product(*axes)]
    region = {"type": "blocks", "blocks": boxes, "shape": list(shape)}
    grid = np.ix_(*[np.concatenate([np.arange(first, last + 1) for first, last in axis]) for axis in axes])
    np.testing.assert_array_equal(select_region(array, region), array[grid])
    if sum(len(axis) > 1 for axis in axes) > 1:
        first, last = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
        inside = np.zeros(shape, bool)
        inside[grid] = True
        inside[tuple(slice(f, t + 1) for f, t in zip(first, last, strict=True))] = False
        np.testing.assert_array_equal(select_region(array, region), array[inside])


@st.composite
def slabs(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Draw a hyperslab inside of `shape`."""
    terms = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        block = draw(st.integers(1, n - start))
        stride = draw(st.integers(block, block + 2))
        count = draw(st.integers(0, (n - start - block) // stride + 1))
        terms.append((start, stride, count, block))
    start, stride, count, block = map(list, zip(*terms, strict=True))
    return {"type": "hyperslab", "start": start, "stride": stride, "count": count, "block": block}


def regions(shape: tuple[int, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Return regions whose elements are in C order, and lists of points."""
    array = np.arange(np.prod(shape)).reshape(shape)
    indices = hnp.basic_indices(shape, allow_newaxis=False, allow_ellipsis=False).filter(
        lambda index: all(not isinstance(t, slice) or (t.step or 1) > 0 for t in np.atleast_1d(index))
    )
    points = st.lists(st.sampled_from(np.argwhere(array >= 0).tolist()), max_size=6)
    return st.one_of(
        st.just({"type": "all"}),
        st.just({"type": "none", "ndim": len(shape)}),
        slabs(shape),
        points.map(lambda found: {"type": "points", "points": found}),
    ).map(lambda region: {**region, "shape": list(shape)}) | indices.map(lambda i: normalize_region(i, shape))


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_regions_are_the_same_that_select_the_same(data: Any) -> None:
    """Whatever their types; the same elements in another order are another region."""
    shape = data.draw(st.sampled_from([(5,), (3, 2)]))
    array = np.arange(np.prod(shape)).reshape(shape)
    one, other = data.draw(regions(shape)), data.draw(regions(shape))
    elements, others = (np.ravel(select_region(array, region)).tolist() for region in (one, other))
    assert same_region(one, other) == (elements == others)
    points = [list(map(int, np.unravel_index(element, shape))) for element in elements]
    assert same_region(one, {"type": "points", "points": points, "shape": list(shape)})


@settings(max_examples=examples(400), deadline=None)
@given(regions((4, 3)), st.tuples(st.integers(0, 4), st.integers(0, 3)))
def test_a_region_fits_a_dataset_that_has_all_its_elements(region: dict[str, Any], shape: Any) -> None:
    elements = np.unravel_index(np.ravel(select_region(np.arange(12).reshape(4, 3), region)), (4, 3))
    if all((found < n).all() for found, n in zip(elements, shape, strict=True)):
        parse_region(region, shape)
    else:
        with pytest.raises(OutOfBoundsError, match="reaches up to"):
            parse_region(region, shape)


MANY = {"start": 7, "stride": 9, "count": 2**23, "block": 2}  # along one dimension


@pytest.mark.parametrize("member", MANY)
@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_hyperslabs_of_too_many_blocks_to_list_differ_in_any_number(member: str, more: int) -> None:
    """The other dimension is told in two ways, so that the elements are compared, not the texts."""
    changed = {**MANY, member: MANY[member] + more}

    def region(terms: dict[str, int], count: int, block: int) -> dict[str, Any]:
        second = {"start": 0, "stride": block, "count": count, "block": block}
        members = {name: [terms[name], second[name]] for name in terms}
        return {"type": "hyperslab", "shape": [2**40, 3], **members}

    assert same_region(region(MANY, 3, 1), region(changed, 1, 3)) == (more == 0)


@pytest.mark.parametrize(
    ("terms", "rows", "same"),
    [
        ({"stride": 2, "count": 4, "block": 2}, [0, 8, 1], True),  # blocks that touch
        ({"stride": 1, "count": 8, "block": 1}, [0, 8, 1], True),
        ({"stride": 3, "count": 4, "block": 1}, [0, 12, 3], True),
        ({"stride": 8, "count": 1, "block": 8}, [0, 8, 1], True),
        ({"stride": 3, "count": 4, "block": 2}, [0, 8, 1], False),
        ({"stride": 2, "count": 8, "block": 1}, [0, 8, 1], False),
        ({"stride": 2, "count": 4, "block": 2}, [1, 9, 1], False),
    ],
)
def test_large_regions_are_compared_by_their_ranges(terms: Any, rows: list[int], same: bool) -> None:
    """They have too many elements to be listed."""
    shape, n = [20, 2**20], 2**20
    slab = {"start": [0, 0], **{name: [value, 1] for name, value in terms.items()}}
    slab["count"] = [terms["count"], n]
    hyperslab = {"type": "hyperslab", "shape": shape, **slab}
    slices = {"type": "slices", "shape": shape, "slices": [rows, [0, n, 1]]}
    assert same_region(hyperslab, slices) == same_region(slices, hyperslab) == same


@pytest.mark.parametrize(
    "index",
    [
        ([1, 1, 3], slice(0, 3)),
        ([3, 1], slice(2, 4)),
        (slice(None), [2, 0, 2]),
        (slice(1, 3), slice(None, None, -1)),
        ([2, 2], slice(None)),
    ],
)
def test_a_list_of_indices_may_repeat_or_descend(index: Any) -> None:
    """The selected values have the shape and order of NumPy's."""
    array = np.arange(60).reshape(6, 10)
    region = normalize_region(index, array.shape)
    np.testing.assert_array_equal(select_region(array, parse_region(region, array.shape)), array[index])
