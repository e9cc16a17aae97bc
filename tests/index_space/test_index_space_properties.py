"""Properties of any transform: NumPy's result, the general way's result, and exact inverses."""

import copy
import pickle

import numpy as np
import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap, compose
from chunkwise.core.index_space.fast_indexing import fast_index
from chunkwise.core.index_space.indexing import index_mapping
from chunkwise.errors import OutOfBoundsError

INDEX = st.integers(-4, 9)
STRIDES = st.integers(-3, 3).filter(bool)


def points(domain):
    """Return all positions in a domain."""
    return [np.add(point, domain.origin).tolist() for point in np.ndindex(domain.shape)]


def elements(transform, array):
    """Return what `transform` selects from an array whose origin is 0, by evaluating each point."""
    out = np.empty(transform.shape, array.dtype)
    for point in np.ndindex(out.shape):
        position = [x + lo for x, lo in zip(point, transform.origin, strict=True)]
        out[point] = array[transform(position)]
    return out


@st.composite
def domains(draw, max_rank=3):
    rank = draw(st.integers(0, max_rank))
    lower = draw(st.lists(st.integers(-3, 3), min_size=rank, max_size=rank))
    shape = draw(st.lists(st.integers(0, 6), min_size=rank, max_size=rank))
    flags = st.lists(st.booleans(), min_size=rank, max_size=rank)
    labels = draw(st.permutations("xyzw"))
    return IndexDomain(
        inclusive_min=lower,
        shape=shape,
        implicit_lower_bounds=draw(flags),
        implicit_upper_bounds=draw(flags),
        labels=[label if draw(st.booleans()) else "" for label in labels[:rank]],
    )


@st.composite
def affine_transforms(draw, domain=None):
    domain = draw(domains()) if domain is None else domain
    maps = [st.builds(OutputIndexMap, INDEX)]
    if domain.rank:
        dims = st.integers(0, domain.rank - 1)
        maps.append(st.builds(lambda d, o, s: OutputIndexMap(d, offset=o, stride=s), dims, INDEX, STRIDES))
    return IndexTransform(domain, draw(st.lists(st.one_of(maps), max_size=4)))


ends = st.none() | INDEX
slices = st.builds(slice, ends, ends, st.sampled_from([None, None, 1, 2, -1, -3]))
keys = st.one_of(
    st.lists(st.one_of(INDEX, slices, st.just(...)), max_size=4).map(tuple), INDEX, slices, st.just(...)
)


@settings(max_examples=examples(600), deadline=None)
@given(affine_transforms(), keys)
def test_fast_path_is_the_general_path(transform, key):
    """Where the short way gives a result, it is that of the general way; it never accepts an error."""
    fast = fast_index(transform._domain, transform._output, key)
    if fast is not None:
        assert IndexTransform._make(*fast) == index_mapping(transform, key)


def test_fast_path_takes_the_common_keys():
    """Integers, slices, steps and an ellipsis don't need the general way."""
    transform = IndexTransform(input_shape=[9, 9, 9])
    for key in (3, (1, 2, slice(3, 5)), (..., 3), slice(None, None, 2), (slice(1, 4), 2), (), ...):
        assert fast_index(transform._domain, transform._output, key) is not None, key


@st.composite
def numpy_keys(draw):
    """A shape and an index expression that NumPy and TensorStore agree on."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    broadcast = draw(st.sampled_from([(2,), (3,), (2, 2), (1, 3)]))
    terms, arrays = [], 0
    for n in shape:
        kind = draw(st.sampled_from(["int", "slice", "array"]))
        if kind == "int" and not arrays:
            # Integers beside arrays take part in NumPy's broadcasting but not in TensorStore's.
            terms.append(draw(st.integers(0, n - 1)))
        elif kind == "array" and not (terms and isinstance(terms[-1], int)):
            size = int(np.prod(broadcast))
            values = draw(st.lists(st.integers(0, n - 1), min_size=size, max_size=size))
            terms.append(np.reshape(values, broadcast))
            arrays += 1
        else:
            start = draw(st.integers(0, n))
            terms.append(slice(start, draw(st.integers(start, n)), draw(st.sampled_from([None, 1, 2, 3]))))
    if arrays:
        terms = [slice(t, t + 1) if isinstance(t, int) else t for t in terms]
    return tuple(shape), tuple(terms)


@settings(max_examples=examples(300), deadline=None)
@given(numpy_keys())
def test_numpy_agrees(case):
    """Within bounds and without negative numbers the elements are those that NumPy selects."""
    shape, key = case
    array = np.arange(np.prod(shape)).reshape(shape)
    transform = IndexTransform(input_shape=shape)
    np.testing.assert_array_equal(elements(transform[key], array), array[key])


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_outer_indexing_is_a_grid(data):
    """``oindex`` applies each array alone, as ``numpy.ix_`` does; a mask counts as its true positions."""
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    key = []
    for n in shape:
        if data.draw(st.booleans()):
            key.append(np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))))
        else:
            key.append(np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=4)), int))
    array = np.arange(np.prod(shape)).reshape(shape)
    found = elements(IndexTransform(input_shape=shape).oindex[tuple(key)], array)
    np.testing.assert_array_equal(found, array[np.ix_(*key)])


@st.composite
def pairs(draw):
    """Return `a`, `b` and whether the domain of `a` has all that `b` leads to."""
    b, margin = draw(affine_transforms()), [0, 0, 1, 2]
    if draw(st.booleans()):
        b, margin = b.mark_bounds_implicit[False], [0, 0, 0, 1, 2, -1]
    lower, upper, fits = [], [], True
    for m in b.output:
        dim = b.domain[m.input_dimension] if m.input_dimension is not None else cw.Dim(1)
        stride = m.stride if m.input_dimension is not None else 0
        found = sorted(m.offset + stride * x for x in (dim.inclusive_min, dim.inclusive_max))
        margins = [draw(st.sampled_from(margin)) for _ in range(2)]
        lower.append(found[0] - margins[0])
        upper.append(max(found[1] + 1 + margins[1], lower[-1] + 1))
        fits = fits and lower[-1] <= found[0] and found[1] < upper[-1]
    domain = IndexDomain(inclusive_min=lower, exclusive_max=upper)
    return draw(affine_transforms(domain)), b, fits or not b.domain.size


@settings(max_examples=examples(300), deadline=None)
@given(pairs())
def test_composition_is_application_twice(pair):
    """``compose(a, b)(x) == a(b(x))``, or `b` leads out of the domain of `a`."""
    a, b, fits = pair
    if not fits:
        with pytest.raises(OutOfBoundsError):
            compose(a, b)
        return
    c = compose(a, b)
    assume(c.size <= 300)  # implicit bounds of `b` become those of `a`
    for point in np.ndindex(c.shape):
        x = [p + lo for p, lo in zip(point, c.origin, strict=True)]
        assert c(x) == a(b(x))


@st.composite
def arrays_of_arrays(draw):
    """Return `a` and `b`, whose outputs are index arrays, dimensions and constants; `b` leads into `a`."""
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def maps(domain):
        for _ in range(2):
            kind, stride = draw(st.sampled_from(["array", "array", "single", "constant"])), draw(STRIDES)
            if kind == "array":
                extents = [n if draw(st.booleans()) else 1 for n in domain.shape]
                yield OutputIndexMap(numbers.integers(-4, 9, extents), offset=draw(INDEX), stride=stride)
            elif kind == "single":
                yield OutputIndexMap(draw(st.integers(0, 1)), offset=draw(INDEX), stride=stride)
            else:
                yield OutputIndexMap(draw(INDEX))

    size = st.integers(1, 3)
    domain = IndexDomain([cw.Dim(size=draw(size), inclusive_min=draw(INDEX)) for _ in range(2)])
    b = IndexTransform(domain, list(maps(domain)))
    found = np.array([b(x) for x in points(domain)])
    below, above = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    domain = IndexDomain(inclusive_min=found.min(axis=0) - below, exclusive_max=found.max(axis=0) + above)
    return IndexTransform(domain, list(maps(domain))), b


@settings(max_examples=examples(300), deadline=None)
@given(arrays_of_arrays())
def test_composition_of_index_arrays_is_application_twice(pair):
    a, b = pair
    c = compose(a, b)
    assert c.shape == b.shape
    assert [c(x) for x in points(c.domain)] == [a(b(x)) for x in points(b.domain)]


@settings(max_examples=examples(200), deadline=None)
@given(arrays_of_arrays(), st.data())
def test_a_domain_as_index_keeps_what_is_in_it(pair, data):
    """Also of index arrays, wherever their domain begins."""
    _, transform = pair
    bounds = []
    for dim in transform.domain:
        indices = st.integers(dim.inclusive_min, dim.inclusive_max)
        bounds.append(sorted([data.draw(indices), data.draw(indices)]))
    wanted = IndexDomain([cw.Dim(first, last + 1) for first, last in bounds])
    part = transform[wanted]
    assert (part.origin, part.shape) == (wanted.origin, wanted.shape)
    assert [part(x) for x in points(wanted)] == [transform(x) for x in points(wanted)]


@settings(max_examples=examples(300), deadline=None)
@given(affine_transforms())
def test_text_forms_are_exact(transform):
    """JSON, pickling and copying give an equal transform back."""
    assert IndexTransform(json=transform.to_json()) == transform
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert copy.deepcopy(transform) == transform
    assert IndexDomain(json=transform.domain.to_json()) == transform.domain


@settings(max_examples=examples(200), deadline=None)
@given(domains(), st.data())
def test_inverse_leads_back(domain, data):
    """The inverse of shifts, flips, permutations and integer indices undoes them."""
    order = data.draw(st.permutations(range(domain.rank)))
    strides = st.sampled_from([1, -1])
    maps = [OutputIndexMap(d, offset=data.draw(INDEX), stride=data.draw(strides)) for d in order]
    transform = IndexTransform(domain, [*maps, OutputIndexMap(7)])
    inverse = transform.inverse()
    assert inverse.input_rank == domain.rank + 1
    assert inverse.domain[-1].inclusive_min == 7 and inverse.domain[-1].size == 1
    for point in np.ndindex(domain.shape):
        x = tuple(p + lo for p, lo in zip(point, domain.origin, strict=True))
        assert inverse(transform(x)) == x
    assert inverse.inverse().domain == domain


@pytest.mark.parametrize(
    "output",
    [
        [OutputIndexMap(input_dimension=0, stride=2)],
        [OutputIndexMap(5)],
        [OutputIndexMap([1, 2])],
        [OutputIndexMap(input_dimension=0)] * 2,
    ],
)
def test_no_inverse(output):
    """Strides, unused inputs, index arrays and repeated inputs have no inverse."""
    with pytest.raises(ValueError, match="not invertible"):
        IndexTransform(input_shape=[2], output=output).inverse()


def test_index_arrays_are_views_after_slicing():
    """Slicing an index array map neither copies the array nor lets it be changed."""
    transform = IndexTransform(input_shape=[100])[np.arange(50)]
    part = transform[10:20]
    assert np.shares_memory(part.output[0].index_array, transform.output[0].index_array)
    assert not part.output[0].index_array.flags.writeable


def test_a_caller_keeps_its_array():
    """An index array is copied: changing the caller's afterwards changes nothing, and it stays writable."""
    mine = np.array([1, 2, 3])
    transform = IndexTransform(input_shape=[10])[mine]
    mine[0] = 9
    assert transform([0]) == (1,)


@given(domains())
@settings(max_examples=examples(100), deadline=None)
def test_a_domain_has_as_many_elements_as_points(domain):
    """Its size and shape count from its origin, wherever that is."""
    counts = [hi - lo for lo, hi in zip(domain.inclusive_min, domain.exclusive_max, strict=True)]
    assert list(domain.shape) == counts
    assert domain.size == int(np.prod(counts))


@pytest.mark.parametrize("arrays", [([0, 1], [0, 1, 2]), ([[0], [1]], [[0, 1], [1, 0], [1, 1]])])
def test_arrays_that_do_not_go_together_are_refused_before_they_are_applied(arrays):
    """An expression that fits no array is an error where it is written, except with `oindex`."""
    terms = tuple(map(np.array, arrays))
    for expression in (cw.d[0, 1], cw.d[0, 1].vindex):
        with pytest.raises(OutOfBoundsError, match="Incompatible index array shapes"):
            expression[terms]
    transform = IndexTransform(input_shape=[9, 9])
    assert transform[cw.d[0, 1].oindex[terms]].input_rank == sum(term.ndim for term in terms)
    with pytest.raises(OutOfBoundsError, match="Incompatible index array shapes"):
        transform[(*terms, 0)]  # rather than that there is one term too many
