"""Alignment on writes, bounds at I/O time, merging of domains, and the indexing surface for other classes."""

import numpy as np
import pytest
import tensorstore

from chunkwise.core.index_space import (
    Dim,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
    WritableIndexingMixin,
    align,
    d,
    merge_domains,
    resolve_bounds,
)
from chunkwise.errors import OutOfRangeError

SHAPES = [(), (3,), (2,), (4,), (1,), (2, 3), (2, 1), (1, 3), (1, 1), (3, 2), (1, 2, 3), (2, 2, 3), (5, 2, 3)]
LABELINGS = [(), ("x", "y"), ("y", "x"), ("", "x"), ("x", ""), ("x", "z")]


def theirs(source_shape, source_labels, target_shape, target_labels):
    """Return what TensorStore writes to a target of zeros, or its message."""
    target = tensorstore.array(np.zeros(target_shape, np.int32))
    source = tensorstore.array(
        np.arange(1, np.prod(source_shape, dtype=int) + 1, dtype=np.int32).reshape(source_shape)
    )
    view = target.label[target_labels] if target_labels else target
    try:
        view.write(source.label[source_labels] if source_labels else source).result()
    except ValueError as e:
        return str(e)
    return target.read().result()


def ours(source_shape, source_labels, target_shape, target_labels):
    """Return the same by way of `align`."""
    source = np.arange(1, np.prod(source_shape, dtype=int) + 1, dtype=np.int32).reshape(source_shape)
    try:
        transform = align(
            IndexDomain(shape=source_shape, labels=source_labels or None),
            IndexDomain(shape=target_shape, labels=target_labels or None),
        )
    except ValueError as e:
        return str(e)
    out = np.zeros(target_shape, np.int32)
    for point in np.ndindex(*target_shape):
        out[point] = source[transform(point)]
    return out


@pytest.mark.parametrize("source_labels", LABELINGS)
@pytest.mark.parametrize("target_labels", LABELINGS)
def test_alignment_is_tensorstores(source_labels, target_labels):
    """Written elements, and messages of failures, are TensorStore's for all small shapes and labelings."""
    for source_shape in SHAPES:
        if source_labels and len(source_shape) != 2:
            continue
        case = (source_shape, source_labels, (2, 3), target_labels)
        a, b = ours(*case), theirs(*case)
        if isinstance(b, str):
            assert isinstance(a, str) and b.startswith(a), case
        else:
            np.testing.assert_array_equal(a, b, err_msg=str(case))


def test_alignment_shifts_origins():
    """Lower bounds are put on each other."""
    transform = align(IndexDomain([Dim(5, 8)]), IndexDomain([Dim(-1, 1), Dim(2, 5)]))
    assert transform([-1, 2]) == (5,) and transform([0, 4]) == (7,)


STORAGE = IndexDomain(shape=[10, 20])
VIEW = IndexTransform(input_shape=[10, 20], implicit_upper_bounds=[True, True])


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (
            VIEW[11, 0],
            "OUT_OF_RANGE: Checking bounds of constant output index map for dimension 0: "
            "Index 11 is outside valid range [0, 10)",
        ),
        (
            VIEW[0:11],
            "OUT_OF_RANGE: Propagated bounds [0, 10), with size=10, for dimension 0 are incompatible "
            "with existing bounds [0, 11), with size=11.",
        ),
        (
            VIEW[2:15:3],
            "OUT_OF_RANGE: Propagated bounds [0, 3), with size=3, for dimension 0 are incompatible "
            "with existing bounds [0, 5), with size=5.",
        ),
        (VIEW[[1, 11], 3], "OUT_OF_RANGE: Index 11 is outside valid range [0, 10)"),
    ],
)
def test_bounds_at_io(transform, text):
    """What implicit bounds let through is found when the stored extent is known, with TensorStore's text."""
    with pytest.raises(OutOfRangeError) as caught:
        resolve_bounds(transform, STORAGE)
    assert str(caught.value) == text


def test_resolved_bounds():
    """Implicit bounds become those of the stored array; what is explicit or empty stays."""
    grown = IndexDomain(shape=[30, 40])
    assert resolve_bounds(VIEW, grown).shape == (30, 40)
    assert resolve_bounds(VIEW[3:, 2], grown).domain == IndexDomain([Dim(3, 30)])
    assert resolve_bounds(VIEW[3:7], grown).shape == (4, 40)
    assert resolve_bounds(VIEW[12:12], STORAGE).shape == (0, 20)
    within = VIEW.mark_bounds_implicit[False][2:4, ::2]
    assert resolve_bounds(within, STORAGE) is within


@pytest.mark.parametrize("seen", [(0, 10), (3, 10), (0, 7), (-2, 12)])
@pytest.mark.parametrize("upper", [10, 30])
@pytest.mark.parametrize("offset", [-1, 0, 1, 20])
@pytest.mark.parametrize("stride", [-2, -1, 1, 2, 3])
def test_implicit_bounds_become_all_indices_of_the_stored_array(stride, offset, upper, seen):
    """Whatever the map: with bounds that look like the stored ones, too."""
    view = IndexTransform(
        domain=IndexDomain([Dim(*seen, implicit_lower=True, implicit_upper=True)]),
        output=[OutputIndexMap(offset=offset, stride=stride, input_dimension=0)],
    )
    inside = [x for x in range(-99, 99) if 0 <= offset + stride * x < upper]
    resolved = resolve_bounds(view, IndexDomain(shape=[upper]))
    assert (resolved.domain.inclusive_min, resolved.domain.exclusive_max) == ((inside[0],), (inside[-1] + 1,))


@pytest.mark.parametrize(
    ("a", "b", "merged"),
    [
        (Dim(5, implicit_upper=True), Dim(5), Dim(5)),
        (Dim(), Dim(5), Dim(5)),
        (Dim("x"), Dim(5, implicit_upper=True), Dim(5, "x", implicit_upper=True)),
        (Dim(5, implicit_upper=True), Dim(6), "Mismatch in dimension 0: Upper bounds do not match"),
        (Dim(0, 2**62), Dim(5), "Mismatch in dimension 0: Upper bounds do not match"),
        (Dim(1, 5), Dim(5), "Mismatch in dimension 0: Lower bounds do not match"),
        (Dim(5, "x"), Dim(5, "y"), "Mismatch in dimension 0: Dimension labels do not match"),
    ],
)
def test_merge(a, b, merged):
    """An implicit infinite end is unspecified; any other pair must be equal."""
    first, second = IndexDomain([a]), IndexDomain([b])
    if isinstance(merged, str):
        with pytest.raises(ValueError) as caught:
            merge_domains(first, second)
        assert str(caught.value) == f"Cannot merge index domain {first} with index domain {second}: {merged}"
    else:
        assert merge_domains(first, second) == merge_domains(second, first) == IndexDomain([merged])


def test_merge_needs_equal_ranks():
    """Domains of different rank can't be merged."""
    with pytest.raises(ValueError, match="Ranks do not match"):
        merge_domains(IndexDomain(rank=1), IndexDomain(rank=2))


class View(WritableIndexingMixin):
    """A stand-in for a store: it records what is written where."""

    def __init__(self, transform, log):
        self._transform = transform
        self._log = log

    def _apply_transform_fn(self, fn):
        return View(fn(self._transform), self._log)

    def _write_at(self, transform, value):
        self._log.append((transform, value))


def test_surface_for_other_classes():
    """A class that applies a function to its transform has the same indexing as a transform."""
    base = IndexTransform(input_shape=[5, 6], input_labels=["x", "y"])
    view = View(base, [])
    for operation in (
        lambda v: v[1:3, 2],
        lambda v: v[d["y"].translate_by[3]],
        lambda v: v[IndexDomain(shape=[2, 2])],
        lambda v: v.oindex[[1, 2], [3, 4]],
        lambda v: v.vindex[:, [3, 4]],
        lambda v: v.label["a", "b"],
        lambda v: v.translate_to[7],
        lambda v: v.translate_by[1, None],
        lambda v: v.translate_backward_by[[1, 2]],
        lambda v: v.mark_bounds_implicit[:True],
        lambda v: v.transpose(["y", "x"]),
        lambda v: v.T,
    ):
        assert operation(view)._transform == operation(base)
    with pytest.raises(TypeError):
        iter(view)


def test_assignment():
    """``view[...] = x``, ``view.oindex[...] = x`` and ``view.vindex[...] = x`` give the indexed transform."""
    base, log = IndexTransform(input_shape=[5, 6]), []
    view = View(base, log)
    view[1:3, 2] = 7
    view.oindex[[1, 2], [3, 4]] = 8
    view.vindex[[1, 2], [3, 4]] = 9
    assert [value for _, value in log] == [7, 8, 9]
    assert log[0][0] == base[1:3, 2]
    assert log[1][0] == base.oindex[[1, 2], [3, 4]]
    assert log[2][0] == base.vindex[[1, 2], [3, 4]]


def test_read_only():
    """Domains, maps and transforms can't be changed; of a Dim only label and flags can."""
    transform = IndexTransform(input_shape=[5])
    for owner, name in [
        (transform, "domain"),
        (transform.domain, "inclusive_min"),
        (transform.output[0], "offset"),
        (Dim(3), "inclusive_min"),
    ]:
        with pytest.raises(AttributeError):
            setattr(owner, name, 1)
    dim = Dim(3)
    dim.label, dim.implicit_upper = "x", True
    assert dim == Dim(3, "x", implicit_upper=True)
