"""Ranges of keys against their definition: comparing bytes."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.kvstore import key_range
from chunkwise.core.kvstore.key_range import KeyRange, decode_key, encode_key, prefix_end
from chunkwise.core.kvstore.value import resolve_range

raw = st.lists(st.sampled_from([b"/", b"0", b"a", b"\xc3\xa9", b"\xfe", b"\xff"]), max_size=5).map(b"".join)
ranges = st.builds(KeyRange, raw, raw)


def holds(keys, key):
    return keys.inclusive_min <= key and (keys.exclusive_max == b"" or key < keys.exclusive_max)


def test_examples():
    assert doctest.testmod(key_range).failed == 0


@given(raw)
def test_any_bytes_are_a_key(key):
    assert encode_key(decode_key(key)) == key


@given(ranges, raw)
def test_contains(keys, key):
    assert (key in keys) == holds(keys, key) == (decode_key(key) in keys)
    assert not (keys.empty and key in keys)
    assert KeyRange.between(keys.start, keys.stop) == keys


@given(raw, raw)
def test_prefix(prefix, key):
    assert (key in KeyRange.of_prefix(decode_key(prefix))) == key.startswith(prefix)
    assert (key in KeyRange.of_key(decode_key(prefix))) == (key == prefix)


@given(ranges, ranges, raw)
def test_intersect(a, b, key):
    assert (key in a.intersect(b)) == (key in a and key in b)


@given(ranges, raw, raw)
def test_covers_and_overlaps(keys, prefix, rest):
    text = decode_key(prefix)
    if keys.covers(text):
        assert prefix + rest in keys
    if prefix + rest in keys:
        assert keys.overlaps(text)


@given(ranges, raw, raw)
def test_shifted(keys, prefix, key):
    if not keys.empty:
        assert (prefix + key in keys.shifted(decode_key(prefix))) == (key in keys)
        if not key.startswith(prefix):
            assert key not in keys.shifted(decode_key(prefix))


@given(ranges, raw)
def test_common_directory(keys, key):
    directory = encode_key(keys.common_directory())
    assert directory == b"" or directory.endswith(b"/")
    if key in keys:
        assert key.startswith(directory)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        ("a/b/", "a/b0", "a/b/"),
        ("a/b", "a/c", "a/"),
        ("a/b", "b", ""),
        ("a/b", "", ""),
        ("", "b", ""),
        ("a/b/c", "a/b/c\0", "a/b/"),
    ],
)
def test_common_directory_is_the_longest(start, stop, expected):
    assert KeyRange.between(start, stop).common_directory() == expected


@given(raw)
def test_prefix_end_is_the_least_bound(prefix):
    end = prefix_end(prefix)
    if end:
        assert prefix < end and not end.startswith(prefix)
        assert prefix + b"\xff" * 5 < end
    else:
        assert prefix.strip(b"\xff") == b""


@given(st.integers(0, 9), st.integers(-12, 12), st.none() | st.integers(0, 12))
def test_resolve_range_is_slicing(size, start, stop):
    value = bytes(range(size))
    try:
        begin, end = resolve_range(start, stop, size)
    except ValueError:
        assert (
            start < -size or start > size or (stop is not None and (start < 0 or not start <= stop <= size))
        )
    else:
        assert value[begin:end] == value[start : size if stop is None else stop] or start == 0 == begin
        assert 0 <= begin <= end <= size
