"""Attribute paths, group paths and URIs against the tables that n5-java gave."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.base.binding import MISSING
from chunkwise.core.driver.n5.attribute_path import (
    get_attribute,
    normalize_group_path,
    parse_attribute_path,
    remove_attribute,
    set_attribute,
)
from chunkwise.errors import InvalidArgumentError
from chunkwise.groups.n5_uri import parse_n5_uri

TABLES = json.loads((Path(__file__).parent / "fixtures" / "paths_and_attributes.json").read_text("utf-8"))


@pytest.mark.parametrize("row", TABLES["normalize_attribute_path"], ids=lambda row: row["input"] or "empty")
def test_attribute_path(row):
    assert list(parse_attribute_path(row["input"])) == row["tokens"]
    assert parse_attribute_path(row["normalized"]) == parse_attribute_path(row["input"])


@pytest.mark.parametrize("row", TABLES["normalize_group_path"], ids=lambda row: row["input"] or "empty")
def test_group_path(row):
    if "error" in row:
        with pytest.raises(InvalidArgumentError, match="leads out of its container"):
            normalize_group_path(row["input"])
    else:
        # n5-java leaves the "/" of "//a", which can't be a group's path
        assert normalize_group_path(row["input"]) == row["normalized"].removeprefix("/")


@pytest.mark.parametrize("scenario", TABLES["attribute_operations"])
def test_operations_leave_the_document_that_java_leaves(scenario):
    document = {}
    for step in scenario:
        if step["op"] == "set":
            document = set_attribute(document, step["path"], step["value"])
        elif step["op"] == "get":
            found = get_attribute(document, step["path"])
            assert (None if found is MISSING else found) == step["returned"]
        else:
            document, removed = remove_attribute(document, step["path"])
            assert removed == step["returned"]
        assert document == step["after"]


def test_a_document_is_never_changed_in_place():
    before = {"a": {"b": [1, {"c": 2}]}}
    set_attribute(before, "a/b[1]/c", 3)
    remove_attribute(before, "a/b[0]")
    assert before == {"a": {"b": [1, {"c": 2}]}}


def test_a_member_that_looks_like_an_index_wins_in_an_object():
    assert get_attribute({"[0]": "member"}, "[0]") == "member"
    assert set_attribute({"[0]": "member"}, "[0]", 1) == {"[0]": 1}
    assert get_attribute(["element"], r"\[0]") is MISSING


def test_an_array_does_not_grow_without_bound():
    with pytest.raises(InvalidArgumentError, match="too far beyond the end"):
        set_attribute({}, "a[4000000000]", 1)


names = st.text(st.characters(exclude_characters="\\/[]\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..")
)
values = st.one_of(st.booleans(), st.integers(), st.text(), st.lists(st.integers()))


@given(st.lists(st.one_of(names, st.integers(0, 5)), min_size=1, max_size=5), values)
def test_what_was_set_is_read_and_can_be_removed(tokens, value):
    path = "/".join(f"[{token}]" if isinstance(token, int) else token for token in tokens)
    document = set_attribute({}, path, value)
    assert get_attribute(document, path) == value
    without, removed = remove_attribute(document, path)
    assert removed
    if isinstance(tokens[-1], str):
        assert get_attribute(without, path) is MISSING


@pytest.mark.parametrize("row", TABLES["uris"], ids=lambda row: row["input"])
def test_uri(row):
    uri = parse_n5_uri(row["input"])
    assert uri.container == row["container"]
    assert (uri.group if uri.group is not None else "/") == row["group"]
    assert (uri.attribute if uri.attribute is not None else "/") == row["attribute"]
    assert normalize_group_path(uri.group or "") == row["normalized_group"]
    assert parse_attribute_path(row["attribute"]) == parse_attribute_path(row["normalized_attribute"])
    assert str(uri) == row["string"]


def test_percent_escapes_are_decoded_in_the_attribute_only():
    assert parse_n5_uri("/x.n5?a%20b#c%20d") == ("/x.n5", "a%20b", "c d")
