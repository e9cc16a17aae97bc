"""Places of a stack without a layer: the error, the value read instead, and the report."""

import json

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.cli.main import main
from chunkwise.copying.summary import report_stack
from chunkwise.errors import InvalidArgumentError

NO_LAYER = -9


@st.composite
def scattered(draw):
    """A few boxes in a small space, as layers, and what a painter makes of them."""
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 8)) for _ in range(rank)]
    canvas, depth = np.full(shape, NO_LAYER), np.zeros(shape, int)
    layers = []
    for i in range(draw(st.integers(0, 6))):
        start = [draw(st.integers(0, n)) for n in shape]
        size = [draw(st.integers(0, n - a)) for n, a in zip(shape, start, strict=True)]
        box = tuple(slice(a, a + b) for a, b in zip(start, size, strict=True))
        canvas[box] = i
        depth[box] += 1
        layers.append(ts.array(np.full(size, i)).translate_to[tuple(start)])
    return layers, canvas, depth


@settings(max_examples=examples(150), deadline=None)
@given(scattered(), st.data())
def test_reads_with_a_fill_value(case, data):
    layers, canvas, _ = case
    stack = ts.overlay(layers, dtype="int64", shape=canvas.shape, fill_value=NO_LAYER)
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in canvas.shape)
    assert np.array_equal(stack[steps].read().result(), canvas[steps])
    points = tuple(data.draw(st.lists(st.integers(0, n - 1), min_size=3, max_size=3)) for n in canvas.shape)
    assert np.array_equal(stack.vindex[points].read().result(), canvas[points])
    again = ts.open(json.loads(json.dumps(stack.spec().to_json()))).result()
    assert np.array_equal(again.read().result(), canvas)


@settings(max_examples=examples(150), deadline=None)
@given(scattered())
def test_reports_are_exact(case):
    """Gaps are disjoint and all that is missing, and every pair of layers that overlap is there."""
    layers, canvas, depth = case
    report = report_stack(ts.overlay(layers, dtype="int64", shape=canvas.shape))
    holes = np.zeros(canvas.shape, int)
    for box in report.gaps:
        holes[tuple(map(slice, box.lower, box.upper))] += 1
    assert np.array_equal(holes, canvas == NO_LAYER)
    assert report.n_missing == holes.sum()
    assert report.n_hidden == np.maximum(depth - 1, 0).sum()
    pairs = set()
    for i, a in enumerate(layers):
        for j, b in enumerate(layers[:i]):
            common = a.domain.intersect(b.domain)
            if a.size and b.size and common.size:
                pairs.add((j, i, common.inclusive_min, common.exclusive_max))
    assert {(o.below, o.above, o.box.lower, o.box.upper) for o in report.overlaps} == pairs


def test_errors_name_the_region():
    layers = [ts.array(np.zeros((4, 4))), ts.array(np.zeros((4, 4))).translate_to[6, 8]]
    stack = ts.overlay(layers)
    for view, region in ((stack, "{ [0, 10), [0, 12) }"), (stack[2:4, 2:7], "{ [2, 4), [4, 7) }")):
        with pytest.raises(InvalidArgumentError, match="missing layer mapping") as caught:
            view.read().result()
        assert region in str(caught.value)


@pytest.mark.parametrize("view", [lambda stack: stack, lambda stack: stack[ts.newaxis, ts.newaxis]])
def test_a_stack_of_rank_0_without_layers(view):
    spec = {"driver": "stack", "layers": [], "schema": {"domain": {"rank": 0}, "dtype": "int32"}}
    stack = view(ts.open(spec).result())
    for work in (stack.read, lambda: stack.write(3)):
        with pytest.raises(InvalidArgumentError, match=r"Cell with origin=\{\} missing layer mapping"):
            work().result()
    filled = view(ts.open({**spec, "fill_value": 7}).result())
    assert (filled.read().result() == 7).all()
    report = report_stack(ts.open(spec).result())
    assert (report.n_missing, [box.lower for box in report.gaps]) == (1, [()])


def test_an_empty_stack_has_no_gaps():
    report = report_stack(ts.overlay([ts.array(np.zeros((0, 4)))]))
    assert (report.n_missing, report.gaps) == (0, ())


def test_holes_aren_t_written():
    """A fill value is read, but there is nowhere to store anything else."""
    values = np.zeros(3)
    stack = ts.overlay([ts.array(values)], shape=[5], fill_value=1.5)
    with pytest.raises(InvalidArgumentError, match="missing layer mapping"):
        stack.write(2).result()
    stack[:3].write(2).result()
    assert values.tolist() == [2, 2, 2]
    assert stack.read().result().tolist() == [2, 2, 2, 1.5, 1.5]
    assert stack.fill_value == 1.5


@pytest.mark.parametrize("value", [1.5, [1, 2], "one"])
def test_fill_values_that_don_t_fit(value):
    with pytest.raises((ValueError, TypeError)):
        ts.overlay([ts.array(np.zeros(3, "i4"))], fill_value=value)
    with pytest.raises(ValueError, match="fill_value"):
        ts.Spec({"driver": "stack", "layers": [ts.array(np.zeros(3, "i4")).spec()], "fill_value": value})


def test_ten_thousand_tiles():
    """A report of many layers doesn't compare each with each."""
    tiles = [
        ts.array(np.zeros((9, 9), "u1")).translate_to[8 * (i // 100), 8 * (i % 100)] for i in range(10_000)
    ]
    del tiles[4321]
    report = report_stack(ts.overlay(tiles))
    assert report.n_missing == 7 * 7
    assert [box.size for box in report.gaps] == [49]
    assert report.n_overlaps == 2 * 100 * 99 + 2 * 99 * 99 - 8


VIEWS = {
    "whole": lambda stack: stack,
    "labels": lambda stack: stack.label["y", "x"],
    "part": lambda stack: stack[0:5],
    "without gaps": lambda stack: stack[0:2],
    "turned": lambda stack: stack.T,
    "rows": lambda stack: stack[[0, 1, 2, 0, 1, 2, 0, 1]],
}


@pytest.mark.parametrize("view", VIEWS)
def test_gaps_are_shown_of_a_stack_and_not_of_its_views(tmp_path, capsys, view):
    """Those of the whole would be wrong for a part; `verify` finds the part's own."""
    layers = [ts.array(np.ones((2, 3))).translate_to[at, 0] for at in (0, 3, 6)]
    store = VIEWS[view](ts.overlay(layers))
    (tmp_path / "view.json").write_text(json.dumps(store.spec().to_json()))
    assert main(["info", str(tmp_path / "view.json"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["shape"] == list(store.shape)
    assert ts.IndexDomain(json=shown["domain"]) == store.domain
    if view in ("whole", "labels"):
        assert (shown["layers"], shown["missing_elements"]) == (3, 6)
    else:
        assert not {"gaps", "missing_elements", "layers"} & shown.keys()
