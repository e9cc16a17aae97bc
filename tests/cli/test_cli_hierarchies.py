"""``cp -r``, ``diff``, ``tree``, ``rm``, ``mv``, ``consolidate`` and ``migrate`` of whole hierarchies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from cli_arrays import Run, make, read
from cli_trees import FORMATS, RAW, files, make_tree

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore


@pytest.mark.each_once
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_a_copy_in_any_format_is_no_different(run: Run, tmp_path: Path, source: str, target: str) -> None:
    make_tree(tmp_path / "a", source)
    result = run("cp", "-r", tmp_path / "a", tmp_path / "b", "--format", target, "--verify", "--json")
    assert result.status == 0, result.err
    report = result.json
    assert (report["groups"], report["arrays"], report["links"]) == (3, 3, 1)
    assert report["left_out"] == [] and report["verified"] and report["format"] == target
    same = run("diff", tmp_path / "a", tmp_path / "b")
    assert (same.status, same.out) == (0, "") and "no differences" in same.err
    copy = cw.open_group(tmp_path / "b")
    np.testing.assert_array_equal(copy["latest"], RAW)
    assert copy.format == target and copy["raw/s0"].chunk_layout.read_chunk.shape == (10, 10)
    layout = run("diff", tmp_path / "a", tmp_path / "b", "--layout", "--json")
    assert layout.status == (source != target)
    assert ({d["what"] for d in layout.json} == {"format"}) == (source != target)


def test_what_n5_cannot_hold_is_reported(run: Run, tmp_path: Path) -> None:
    group = make_tree(tmp_path / "a", "zarr3")
    group.create_array("complex", np.array([1j]))
    group["raw"].attrs.update({"n5": 1, "nothing": None})
    group["float"].attrs["dataType"] = "x"
    result = run("cp", "-r", tmp_path / "a", tmp_path / "b.n5", "--json")
    assert result.status == 3
    left_out = {(entry["path"], entry["note"].split(" is left out")[0]) for entry in result.json["left_out"]}
    assert left_out == {
        ("complex", "array"),
        ("raw", 'attribute "n5"'),
        ("raw", 'attribute "nothing"'),
        ("float", 'attribute "dataType"'),
    }
    assert all(entry["note"] in result.err for entry in result.json["left_out"])
    text = run("cp", "-r", tmp_path / "a", tmp_path / "c.n5")
    assert text.status == 3 and "4 things left out" in text.out
    differences = run("diff", tmp_path / "a", tmp_path / "b.n5", "--json")
    assert differences.status == 1
    found = {(d["name"], d["what"], d["detail"]) for d in differences.json}
    assert found == {
        ("complex", "structure", ""),
        ("raw", "attribute", '"n5"'),
        ("raw", "attribute", '"nothing"'),
        ("float", "attribute", '"dataType"'),
    }


def test_a_dry_run_of_a_tree(run: Run, tmp_path: Path) -> None:
    group = make_tree(tmp_path / "a", "zarr3")
    group.create_array("large", shape=(300, 300, 300), dtype="u2", chunks=(1, 300, 300))
    group.create_array("complex", np.array([1j]))
    before = files(tmp_path)
    result = run("cp", "-r", tmp_path / "a", tmp_path / "b", "--format", "n5", "--dry-run", "--json")
    assert result.status == 0, result.err
    found = result.json
    assert (found["groups"], found["arrays"], found["links"]) == (3, 4, 1)
    assert [entry["path"] for entry in found["left_out"]] == ["complex"]
    (plan,) = found["larger_arrays"].values()
    assert plan["shape"] == [300, 300, 300] and len(plan["passes"]) == 1
    text = run("cp", "-r", tmp_path / "a", tmp_path / "b", "--format", "n5", "--dry-run")
    assert "3 groups, 4 arrays, 1 link" in text.out and "large: pass 1 of 1" in text.out
    assert "complex: array is left out" in text.err
    assert files(tmp_path) == before
    assert run("cp", "-r", tmp_path / "a", tmp_path / "b", "--dry-run", "--prices", "x").status == 2


def test_where_a_copy_may_go(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a.zarr", "zarr3")
    assert run("cp", tmp_path / "a.zarr", tmp_path / "b.zarr").status == 2
    assert run("cp", "-r", tmp_path / "a.zarr", tmp_path / "b.zarr").status == 0
    again = run("cp", "-r", tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert again.status == 1 and "--overwrite" in again.err
    cw.open_group(tmp_path / "b.zarr", "r+").create_group("extra")
    assert run("cp", "-r", tmp_path / "a.zarr", tmp_path / "b.zarr", "--overwrite").status == 0
    assert run("diff", tmp_path / "a.zarr", tmp_path / "b.zarr").status == 0
    inside = run("cp", "-r", tmp_path / "a.zarr", tmp_path / "a.zarr/raw/copy")
    assert inside.status == 1 and "inside" in inside.err
    assert run("cp", "-r", tmp_path / "a.zarr", tmp_path / "c", "--chunk", "2,2").status == 1
    assert run("cp", "-r", tmp_path / "a.zarr", tmp_path / "c", "--format", "zarr1").status == 2
    assert not (tmp_path / "c").exists()
    # an array is copied as without -r
    assert run("cp", "-r", tmp_path / "a.zarr/raw/s0", tmp_path / "s0", "--chunk", "7,20").status == 0
    np.testing.assert_array_equal(read(tmp_path / "s0"), RAW)


def test_an_unfinished_copy_goes_on(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a", "zarr3")
    (tmp_path / "a/raw/s1/c/0/0").write_bytes(b"damaged")
    failed = run("cp", "-r", tmp_path / "a", tmp_path / "b")
    assert failed.status == 1 and "s1" in failed.err
    status = run("status", tmp_path / "b")
    assert status.status == 1 and " arrays are whole" in status.out, status.out
    told = run("status", tmp_path / "b", "--json").json
    assert 0 <= told["arrays_done"] < told["arrays"] and told["owner"] is None
    assert "unfinished copy" in run("tree", tmp_path / "b").out
    make_tree(tmp_path / "a", "zarr3")
    resumed = run("cp", "-r", tmp_path / "a", tmp_path / "b", "--resume")
    assert resumed.status == 0, resumed.err
    assert run("diff", tmp_path / "a", tmp_path / "b").status == 0


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_fingerprints_that_are_kept(run: Run, tmp_path: Path, format: str) -> None:
    make_tree(tmp_path / "a", "zarr3")
    for more in ([], ["--memory", "4kB"]):  # so little that arrays are copied in blocks
        target = tmp_path / f"b{len(more)}"
        options = ["--format", format, "--keep-fingerprint", "--quiet", *more]
        copied = run("cp", "-r", tmp_path / "a", target, *options)
        assert copied.status == 0, copied.err
        reports = [each for each in run("verify", target, "--json").json if each["kind"] == "array"]
        assert len(reports) > 2 and all(each["fingerprint"] is True for each in reports)
        key = {"zarr3": "c/0/0", "zarr2": "0.0", "n5": "0/0"}[format]
        (target / "raw/s0" / key).unlink()
        assert run("verify", target).status == 1


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_consolidated_metadata_are_copied_as_such(run: Run, tmp_path: Path, format: str) -> None:
    make_tree(tmp_path / "a", format).consolidate()
    for target in ("zarr2", "zarr3"):
        assert run("cp", "-r", tmp_path / "a", tmp_path / target, "--format", target).status == 0
        root = zarr.open_consolidated(str(tmp_path / target), zarr_format=int(target[-1]))
        assert root["raw/s0"].shape == (35, 20)


def test_diff_says_what_is_different(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a", "zarr3")
    other = make_tree(tmp_path / "b", "zarr2")
    other["raw/s0"][3, 4] = 9999
    other["raw/s0"][30, 1] = 9999
    other["empty"].attrs.update({"k": True, "new": 1.0})
    del other["float"]
    other.create_array("float", np.zeros((2, 2)))
    other.create_group("more")
    result = run("diff", tmp_path / "a", tmp_path / "b", "--json")
    assert result.status == 1
    by_name = {(d["name"], d["what"], d["detail"]): (d["left"], d["right"]) for d in result.json}
    assert by_name == {
        ("empty", "attribute", '"k"'): ("v", True),
        ("empty", "attribute", '"new"'): (None, 1.0),
        ("float", "shape", ""): ([3], [2, 2]),
        ("more", "structure", ""): (None, "group"),
        ("raw/s0", "values", "(2 of 700 differ; the first at [3, 4])"): (64, 9999),
    }
    text = run("diff", tmp_path / "a", tmp_path / "b")
    assert len(text.out.splitlines()) == 5 and "5 differences" in text.err
    assert "raw/s0: values (2 of 700 differ; the first at [3, 4]): 64 | 9999" in text.out
    some = run("diff", tmp_path / "a", tmp_path / "b", "--no-values", "--no-attributes", "--json")
    assert {d["what"] for d in some.json} == {"shape", "structure"}
    assert run("diff", tmp_path / "a", tmp_path / "b", "--quiet").out == ""
    types = run("diff", tmp_path / "a/raw/s0", tmp_path / "a/float", "--json")
    assert {d["what"] for d in types.json} >= {"shape", "dtype"}


def test_diff_fails_with_a_status_of_its_own(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a", "zarr3")
    make_tree(tmp_path / "b", "zarr3")
    missing = run("diff", tmp_path / "a", tmp_path / "c")
    assert missing.status == 2 and str(tmp_path / "c") in missing.err and not missing.out
    (tmp_path / "b/raw/s0/c/0/0").write_bytes(b"damaged")
    assert run("diff", tmp_path / "a", tmp_path / "b").status == 2
    assert run("diff", tmp_path / "a", tmp_path / "b", "--no-values").status == 0
    (tmp_path / "b/raw/zarr.json").write_text("{")
    assert run("diff", tmp_path / "a", tmp_path / "b", "--no-values").status == 2


def test_diff_of_values_that_are_no_plain_numbers(run: Run, tmp_path: Path) -> None:
    cases: list[tuple[Any, Any]] = [
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
        (np.array([np.nan, 1]), np.array([np.nan, 2])),
        (np.array([1 + 2j, 3]), np.array([1 + 2j, 4])),
    ]
    for number, (one, two) in enumerate(cases):
        root = cw.open_group(tmp_path / str(number), "w")
        dtype = "ustring" if one.dtype == object else None
        root.create_array("one", one, dtype=dtype)
        root.create_array("same", one, dtype=dtype)
        root.create_array("two", two, dtype=dtype)
        assert (
            run(
                "diff", root.location.store.root + root.location.path + "one", tmp_path / f"{number}/same"
            ).status
            == 0
        )
        result = run("diff", tmp_path / f"{number}/one", tmp_path / f"{number}/two", "--json")
        (difference,) = result.json
        assert difference["detail"] == "(1 of 2 differ; the first at [1])"


@pytest.mark.parametrize("format", FORMATS)
def test_tree_shows_sizes_attributes_and_links(run: Run, tmp_path: Path, format: str) -> None:
    make_tree(tmp_path / "a", format)
    plain = run("tree", tmp_path / "a").out
    assert "latest -> /raw/s0" in plain and "@" not in plain and "1.40 kB" in plain and "gzip:3" in plain
    full = run("tree", "-a", "-s", tmp_path / "a").out
    assert '@title = "tree"' in full and '@unit = "nm"' in full and "zarr_link" not in full
    assert "8 of 8 chunks stored in" in full
    top = run("tree", "-d", 1, tmp_path / "a").out
    assert "s0" not in top.replace("/raw/s0", "") and "raw" in top
    nodes = {node["name"]: node for node in run("tree", "-a", "-s", tmp_path / "a", "--json").json}
    assert list(nodes) == ["", "empty", "float", "raw", "raw/s0", "raw/s1"]
    assert nodes["raw/s0"]["stored"]["chunks"] == 8 and nodes["raw/s0"]["bytes"] == 1400
    assert nodes["raw/s0"]["attributes"]["unit"] == "nm" and nodes["raw/s0"]["chunks"] == [10, 10]
    assert nodes[""]["links"] == {"latest": {"path": "/raw/s0", "source": "."}}
    assert run("tree", "-d", "-1", tmp_path / "a").status == 2


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_consolidated_tree_is_shown_with_one_request(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    make_tree(tmp_path / "a", format)
    plain = run("tree", "-a", tmp_path / "a").out
    cw.open_group(tmp_path / "a", "r+").consolidate()
    keys: list[str] = []
    for name in ("read", "list_children"):
        before = getattr(FileStore, name)

        def counted(self: FileStore, key: str, *args: Any, _before: Any = before, **options: Any) -> Any:
            keys.append(key)
            return _before(self, key, *args, **options)

        monkeypatch.setattr(FileStore, name, counted)
    assert run("tree", "-a", tmp_path / "a").out == plain
    assert len(keys) == (1 if format == "zarr3" else 2)  # zarr.json is looked for first
    assert run("tree", "-a", tmp_path / "a", "--no-consolidated").out == plain
    assert len(keys) > 8


@pytest.mark.parametrize("format", FORMATS)
def test_rm(run: Run, tmp_path: Path, format: str) -> None:
    group = make_tree(tmp_path / "a", format)
    if format != "n5":
        group.consolidate()
    before = files(tmp_path)
    refused = run("rm", tmp_path / "a/float", tmp_path / "a/raw")
    assert refused.status == 2 and "-r" in refused.err and files(tmp_path) == before
    assert run("rm", tmp_path / "a/missing").status == 1
    assert run("rm", "-f", tmp_path / "a/missing").status == 0
    dry = run("rm", "-r", "-n", tmp_path / "a")
    assert "would delete" in dry.out and "3 arrays" in dry.out and files(tmp_path) == before
    assert run("rm", tmp_path / "a/float", tmp_path / "a/empty").status == 0
    assert run("rm", tmp_path / "a/latest", "--json").json[0]["kind"] == "link"
    assert not (tmp_path / "a/float").exists() and (tmp_path / "a/raw/s0").exists()
    left = cw.open_group(tmp_path / "a")
    assert list(left) == ["raw"]
    assert run("rm", "-r", tmp_path / "a/raw").status == 0
    assert list(cw.open_group(tmp_path / "a")) == []
    assert run("rm", "-r", tmp_path / "a").status == 0 and not (tmp_path / "a").exists()


def test_rm_leaves_other_directories_alone(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "data/a", "zarr3")
    (tmp_path / "data/notes.txt").write_text("mine")
    before = files(tmp_path)
    result = run("rm", "-r", tmp_path / "data")
    assert result.status == 2 and "neither an array nor a group" in result.err
    assert run("rm", "-r", tmp_path).status == 2
    assert files(tmp_path) == before


@pytest.mark.parametrize("format", FORMATS)
def test_mv(run: Run, tmp_path: Path, format: str) -> None:
    group = make_tree(tmp_path / "a", format)
    if format != "n5":
        group.consolidate()
    assert run("mv", tmp_path / "a/raw/s0", tmp_path / "a/deep/er/s0").status == 0
    assert run("mv", tmp_path / "a/raw", tmp_path / "a/cooked", "--json").status == 0
    moved = cw.open_group(tmp_path / "a")
    np.testing.assert_array_equal(moved["deep/er/s0"], RAW)
    assert "raw" not in moved and "cooked/s1" in moved and moved["deep/er/s0"].attrs["unit"] == "nm"
    assert run("mv", tmp_path / "a/cooked", tmp_path / "a/float").status == 1
    assert run("mv", tmp_path / "a/cooked", tmp_path / "a/cooked/x").status == 2
    assert run("mv", tmp_path / "a/missing", tmp_path / "a/x").status == 1
    if format != "n5":
        assert run("consolidate", "--check", tmp_path / "a").status == 0
    # out of the hierarchy, the whole of it, and back
    assert run("mv", tmp_path / "a/deep/er/s0", tmp_path / "s0").status == 0
    np.testing.assert_array_equal(read(tmp_path / "s0"), RAW)
    assert run("mv", tmp_path / "a", tmp_path / "b").status == 0
    assert run("mv", tmp_path / "s0", tmp_path / "b/new/s0").status == 0
    np.testing.assert_array_equal(cw.open_group(tmp_path / "b")["new/s0"], RAW)
    assert not (tmp_path / "a").exists() and not (tmp_path / "zarr.json").exists()


def test_mv_refuses_what_has_no_place(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a", "zarr3")
    make_tree(tmp_path / "b.n5", "n5")
    assert run("mv", tmp_path / "a/raw/s0", tmp_path / "b.n5/s0").status == 2
    assert run("mv", tmp_path / "a/float", tmp_path / "a/raw/s0/x").status == 1
    assert run("mv", tmp_path / "a/float", "memory://x").status == 2
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/file").touch()
    assert run("mv", tmp_path / "plain", tmp_path / "other").status in (1, 2)
    assert (tmp_path / "plain/file").exists()
    assert run("diff", tmp_path / "a", tmp_path / "a").status == 0


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_consolidate(run: Run, tmp_path: Path, format: str) -> None:
    make_tree(tmp_path / "a", format)
    assert run("consolidate", tmp_path / "a", "--check").status == 1
    written = run("consolidate", tmp_path / "a", "--json")
    assert written.status == 0 and written.json["nodes"] == 5 and written.json["left_out"] == []
    assert run("consolidate", tmp_path / "a", "--check", "--json").json["problems"] == []
    root = zarr.open_consolidated(str(tmp_path / "a"), zarr_format=int(format[-1]))
    np.testing.assert_array_equal(root["raw/s0"][:], RAW)
    # what another program changes behind our back is found
    name = ".zattrs" if format == "zarr2" else "zarr.json"
    document = json.loads((tmp_path / "a/raw/s0" / name).read_text())
    (document if format == "zarr2" else document["attributes"])["unit"] = "mm"
    (tmp_path / "a/raw/s0" / name).write_text(json.dumps(document))
    stale = run("consolidate", tmp_path / "a", "--check")
    assert stale.status == 1 and "raw/s0" in stale.out
    assert run("consolidate", tmp_path / "a", "--remove", "--json").json["removed"] is True
    assert run("consolidate", tmp_path / "a", "--check", "--json").json["exists"] is False


def test_consolidate_is_for_zarr_groups(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a.n5", "n5")
    make(tmp_path / "b", "zarr3", RAW, (10, 10))
    for path in (tmp_path / "a.n5", tmp_path / "b", tmp_path):
        assert run("consolidate", path).status == 2
    assert run("consolidate", tmp_path / "missing").status == 1


@pytest.mark.parametrize("keep_old", [False, True])
def test_migrate_a_hierarchy(run: Run, tmp_path: Path, keep_old: bool) -> None:
    make_tree(tmp_path / "a", "zarr2").consolidate()
    make_tree(tmp_path / "as it was", "zarr2")
    before = files(tmp_path / "a")
    planned = run("migrate", tmp_path / "a", "--json").json
    assert planned["applied"] is False and len(planned["nodes"]) == 6 and files(tmp_path / "a") == before
    options = ["--keep-old"] if keep_old else []
    done = run("migrate", tmp_path / "a", "--apply", *options)
    assert done.status == 0 and "6 nodes migrated" in done.out
    assert cw.open_group(tmp_path / "a").format == "zarr3"
    assert run("diff", tmp_path / "as it was", tmp_path / "a").status == 0
    assert run("consolidate", tmp_path / "a", "--check").status == 0
    root = zarr.open_consolidated(str(tmp_path / "a"), zarr_format=3)
    np.testing.assert_array_equal(root["raw/s0"][:], RAW)
    assert dict(root["empty"].attrs) == {"k": "v"}
    names = {Path(name).name for name in files(tmp_path / "a")}
    assert (".zarray" in names) == (".zgroup" in names) == keep_old and ".zmetadata" not in names
    assert run("migrate", tmp_path / "a", "--json").json["nodes"] == [] or keep_old


def test_migrate_all_or_nothing(run: Run, tmp_path: Path) -> None:
    make_tree(tmp_path / "a", "zarr2")
    document = json.loads((tmp_path / "a/float/.zarray").read_text())
    (tmp_path / "a/float/.zarray").write_text(json.dumps({**document, "filters": [{"id": "unheard of"}]}))
    before = files(tmp_path)
    result = run("migrate", tmp_path / "a", "--apply")
    assert result.status == 1 and "float: array: CAN'T BE" in result.out and files(tmp_path) == before
    make_tree(tmp_path / "b.n5", "n5")
    assert run("migrate", tmp_path / "b.n5", "--apply").status == 1


@pytest.mark.parametrize("format", FORMATS)
def test_paths_into_attributes(run: Run, tmp_path: Path, format: str) -> None:
    make_tree(tmp_path / "a", format)
    assert run("attrs", tmp_path / "a", "get", "list[1]/a").out == "2\n"
    assert run("attrs", tmp_path / "a", "set", "list[1]/b", "[3]", "other/x", '"y"', "plain", "1").status == 0
    shown = run("attrs", tmp_path / "a", "--json").json
    assert shown["list"] == [1, {"a": 2, "b": [3]}] and shown["other"] == {"x": "y"} and shown["plain"] == 1
    removed = run("attrs", tmp_path / "a", "rm", "list[0]", "--json")
    assert removed.json["list"] == [{"a": 2, "b": [3]}]
    assert run("attrs", tmp_path / "a", "get", "list[7]").status == 1
    assert run("attrs", tmp_path / "a", "rm", "list[7]").status == 1
    assert run("attrs", tmp_path / "a", "set", "k", "1", "odd").status == 2
    assert run("attrs", tmp_path / "a", "set", "[0]", "1").status == 1


def test_a_name_comes_before_a_path(run: Run, tmp_path: Path) -> None:
    group = cw.open_group(tmp_path / "a", "w", attributes={"a/b": 1, "a": {"b": 2}})
    assert run("attrs", tmp_path / "a", "get", "a/b").out == "1\n"
    assert run("attrs", tmp_path / "a", "set", "a/b", "3").status == 0
    assert run("attrs", tmp_path / "a", "rm", "a/b").status == 0
    assert run("attrs", tmp_path / "a", "get", "a/b").out == "2\n"
    assert group.attrs.refresh() == {"a": {"b": 2}}


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_others_stay_and_are_named(run: Run, tmp_path: Path, format: str) -> None:
    group = cw.create_group(tmp_path / "a", format=format)
    group.create_array("x/y", np.arange(5), chunks=(2,))
    (tmp_path / "a/x/notes.txt").write_text("mine")
    for options, left in ((["-n"], "would stay"), ([], "stays")):
        result = run("rm", "-r", *options, tmp_path / "a")
        assert result.status == 3 and left in result.err and "notes.txt" in result.err
    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["x", "notes.txt"]
    moved = cw.create_group(tmp_path / "b", format=format)
    refused = run("mv", tmp_path / "b", tmp_path / "a/x")
    assert refused.status == 1 and (tmp_path / "a/x/notes.txt").read_text() == "mine"
    assert list(moved) == []


def test_old_copies_in_a_subgroup_are_told_and_renewed(run: Run, tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "a", format="zarr3")
    group.create_array("in/x", [1, 2])
    cw.open_group(tmp_path / "a/in", "r+").consolidate()
    group.consolidate()
    file = tmp_path / "a/in/x/zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "attributes": {"new": 1}}))
    told = run("consolidate", "--check", tmp_path / "a")
    assert told.status == 1 and any("in: " in line for line in told.out.splitlines())
    assert run("consolidate", tmp_path / "a").status == 0
    assert run("consolidate", "--check", tmp_path / "a").status == 0
    assert dict(cw.open_group(tmp_path / "a/in", consolidated=True)["x"].attrs) == {"new": 1}
