"""Arrays of every type, units and structure, given to each command; and ways to begin a command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cli_arrays import Run, make
from cli_trees import files

import chunkwise as cw
from chunkwise import errors
from chunkwise.copying.difference import diff
from chunkwise.copying.verify import verify_nodes
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import require_node

STRUCT = np.dtype([("a", "<i4"), ("b", "S3"), ("c", [("x", "<f4"), ("t", "<M8[s]")])])
TYPES = ["?", "i1", "u8", "f2", "f8", "c8", "S5", "U3", "V3", "<M8[ns]", "<m8[s]", STRUCT]
SMALL = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint2]


@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
def test_elements_of_every_type_are_shown(run: Run, tmp_path: Path, dtype: np.dtype) -> None:
    values = np.ones((2, 3), "u1").astype(dtype) if dtype != STRUCT else np.ones((2, 3), dtype)
    make(tmp_path / "a", "zarr3", values, (2, 2))
    assert run("slice", tmp_path / "a").status == 0
    shown = run("slice", tmp_path / "a", "--json")
    assert shown.status == 0 and np.array(shown.json["values"], object).shape[:2] == (2, 3)
    assert run("slice", tmp_path / "a", "--region", "0,0", "--json").status == 0
    picture = run("slice", tmp_path / "a", "--png", tmp_path / "a.png")
    assert (picture.status == 0) == (tmp_path / "a.png").exists()
    make(tmp_path / "b", "zarr3", np.zeros((2, 3), dtype), (2, 2))
    assert run("diff", tmp_path / "a", tmp_path / "b", "--json").status == 1
    assert run("diff", tmp_path / "a", tmp_path / "a").status == 0


def test_members_of_structured_elements_have_their_names(run: Run, tmp_path: Path) -> None:
    values = np.array([(1, b"ab", (2.5, "2000-01-01")), (3, b"", (np.nan, "NaT"))], STRUCT)
    make(tmp_path / "a", "zarr3", values, (2,))
    assert run("slice", tmp_path / "a", "--json").json["values"] == [
        {"a": 1, "b": "ab", "c": {"x": 2.5, "t": "2000-01-01T00:00:00"}},
        {"a": 3, "b": "", "c": {"x": "NaN", "t": "NaT"}},
    ]


@pytest.mark.parametrize("other", [None, ["nm", None], ["nm", "s"]])
def test_units_are_compared_with_none(run: Run, tmp_path: Path, other: list[str | None] | None) -> None:
    for name, units in (("a", ["nm", "nm"]), ("b", other)):
        options = {} if units is None else {"dimension_units": units}
        make(tmp_path / name, "zarr3", np.zeros((4, 4), "u1"), (2, 2), **options)
    for left, right in (("a", "b"), ("b", "a")):
        result = run("diff", tmp_path / left, tmp_path / right, "--json")
        assert result.status == 1
        assert [found["what"] for found in result.json] == ["dimension_units"]


def test_migration_of_a_hierarchy_has_no_notes_on_its_own_groups(run: Run, tmp_path: Path) -> None:
    with_groups = cw.open_group(str(tmp_path / "top.zarr"), "w", format="zarr2")
    for name in ("a/x", "a/y", "z"):
        with_groups.create_array(name, shape=[4], dtype="uint8")
    whole = run("migrate", tmp_path / "top.zarr", "--json").json["nodes"]
    assert len(whole) == 5 and not any("group" in note for node in whole for note in node["notes"])
    for part in ("a", "z"):  # what is above stays as it is
        assert "top.zarr" in run("migrate", tmp_path / "top.zarr" / part).out


@pytest.mark.parametrize("module", ["chunkwise", "chunkwise.cli"])
def test_the_command_is_a_module_too(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("chunkwise ")


def test_messages_say_what_is_there_and_what_to_type(run: Run, tmp_path: Path) -> None:
    """A group, an archive, a file, a directory of something else; on the command line and in Python."""
    make(tmp_path / "a.zarr", "zarr3", np.zeros(3, "u1"), (2,))
    (tmp_path / "text").write_text("x")
    (tmp_path / "data.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert run("zip", tmp_path / "a.zarr", tmp_path / "a.zip").status == 0
    (tmp_path / "other/below").mkdir(parents=True)
    (tmp_path / "other/notes.txt").write_text("x")
    cw.open_group(str(tmp_path / "only"), "w")
    expected = {
        "missing": "nothing is there",
        "text": "it is a file",
        "other/notes.txt": "it is a file",
    }
    for command in ("info", "tree", "verify", "slice"):
        result = run(command, tmp_path / "data.h5")
        assert result.status == 1 and "no HDF5 file that can be read" in result.err, (command, result.err)
    for name, what in expected.items():
        for command in ("info", "tree", "verify", "slice"):
            result = run(command, tmp_path / name)
            assert result.status == 1 and what in result.err, (command, result.err)
        with pytest.raises(errors.NotFoundError, match=re.escape(what)):
            cw.open_group(str(tmp_path / name))
        with pytest.raises(ValueError, match=re.escape(what)):
            cw.open(str(tmp_path / name)).result()
    for command in ("info", "verify", "slice"):  # what is in an archive
        assert run(command, tmp_path / "a.zip").status == 0
    with pytest.raises(ValueError, match=r'directory of something else: "below", "notes.txt"'):
        cw.open(str(tmp_path / "other")).result()
    for format in ("zarr2", "zarr3", "n5"):
        group = cw.open_group(str(tmp_path / format), "w", format=format)
        with pytest.raises(ValueError, match=r"it is a group, which open_group opens$"):
            cw.open(str(tmp_path / format)).result()
        group.create_array("x", shape=[2], dtype="uint8")
        with pytest.raises(ValueError, match=f"such as {re.escape(str(tmp_path / format / 'x'))}"):
            cw.open(str(tmp_path / format)).result()


@pytest.mark.parametrize(("name", "driver"), [("a.zarr", "zarr3"), ("a.n5", "n5"), ("a", "zarr3")])
def test_the_url_that_creates_is_told(tmp_path: Path, name: str, driver: str) -> None:
    url = f"{tmp_path / name}|{driver}:"
    options = {"create": True, "dtype": "f4", "shape": [3]}
    with pytest.raises(ValueError, match=re.escape(url)):
        cw.open(str(tmp_path / name), **options).result()
    assert cw.open(url, **options).result().dtype == cw.float32


def test_short_names_of_numpy() -> None:
    for name in ("f4", "<f8", ">i2", "u1", "?", "c16", "<M8[ns]", "<U7", "|S3"):
        assert cw.dtype(name) == cw.dtype(np.dtype(name))
    for name in ("f3", "O", "int", "r16"):
        with pytest.raises(ValueError, match=f'No TensorStore data type with name: "{name}"'):
            cw.dtype(name)


def test_progress_tells_all_bytes(tmp_path: Path) -> None:
    """Under one name, of what compares, checks, archives and copies."""
    values = np.random.default_rng(0).integers(0, 99, (64, 64)).astype("u2")
    for name in ("a", "b"):
        make(tmp_path / name, "zarr3", values, (16, 16))
    told: list[int] = []
    assert not list(diff(tmp_path / "a", tmp_path / "b", progress=told.append))
    assert sum(told) == values.nbytes
    told.clear()
    reports = list(verify_nodes(require_node(locate(tmp_path / "a")), progress=told.append))
    assert sum(told) == reports[0].nbytes > 0
    told.clear()
    group = cw.open_group(str(tmp_path / "g"), "w")
    group.copy(cw.open(str(tmp_path / "a")).result(), "x", progress=lambda _, nbytes: told.append(nbytes))
    assert sum(told) == values.nbytes


@pytest.mark.parametrize(
    ("name", "content", "package", "extra"),
    [
        ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "h5py", "hdf5"),
        ("a.tif", b"II*\0" + bytes(100), "tifffile", "tiff"),
    ],
)
def test_a_missing_extra_is_a_message(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    package: str,
    extra: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.setitem(sys.modules, package, None)
    for command in (["info"], ["tree"], ["verify"]):
        result = run(*command, tmp_path / name)
        assert result.status == 1
        assert f'needs {package}: pip install "chunkwise[{extra}]"' in result.err
    result = run("cp", "-r", tmp_path / name, tmp_path / "b.zarr")
    assert result.status == 1 and not (tmp_path / "b.zarr").exists()


def test_a_scheduler_without_distributed_is_a_message(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a", "zarr3", np.ones((2, 3), "u1"), (2, 2))
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run("cp", tmp_path / "a", tmp_path / "b", "--on", "tcp://localhost:1")
    assert result.status == 1 and "needs distributed: pip install" in result.err


def test_a_path_that_leads_into_a_file_is_told_how_to_write(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    result = run("info", tmp_path / "a.h5" / "group" / "data")
    assert result.status == 1
    assert f'is an HDF5 file, whose content is "{tmp_path / "a.h5"}|hdf5:group/data"' in result.err
    assert "nothing is there" in run("info", tmp_path / "b.h5" / "group").err


REFUSED = [
    ("cp a.zarr out --dry-run --prices {bad", "prices: expected JSON, but received '{bad'"),
    ("cp a.zarr out --dry-run --prices none.json", "prices: expected JSON or the name of a file with it"),
    ('cp a.zarr out --dry-run --prices {"get":1}', 'prices: expected {"get": ..., "put": ...}'),
    ("cp a.zarr out --prices {}", "--prices goes with --dry-run"),
    ("cp a.zarr out --dtype u1 --cast scale --part 1/2", "each part would read the whole source first"),
    ("cp a.zarr out --part 1/2 --overwrite", "--overwrite would let each part delete"),
    ("cp -r a.zarr out --layout bdv", "--layout"),
    ("cp -r g.zarr out --format zarr1", "Zarr v1 has no groups"),
    ("cp g.zarr out", "g.zarr is a group; -r copies it with all that is in it"),
    ("mv plain out", 'at plain: it is a directory of something else: "file"'),
    ("mv nested out", "nested is a directory that is neither an array nor a group"),
    ("rm -r nested", "nested is a directory that is neither an array nor a group; nothing is deleted"),
    ("mv g.zarr/link out", "g.zarr/link is a link; it can be moved in its own hierarchy only"),
    ("mv none out", "none"),
    ("rm plain", 'at plain: it is a directory of something else: "file"'),
    ("rm g.zarr", "-r deletes it with all that is in it"),
    ("zip g.zarr out/", '"out/" names a directory; expected the name of the archive'),
    ("slice a.zarr --png out.png --orthogonal --depth 16", "--orthogonal pictures have a --depth of 8"),
    ("slice a.zarr --orthogonal", "--orthogonal needs --png OUT"),
    ("slice rgb.zarr --png out.png --depth 16", "pictures of three colours have a --depth of 8"),
    ("slice records.zarr --npy out.npy", "elements of type json can't be saved as .npy"),
    ("slice large.zarr --png out.png", "choose a smaller --region"),
    ("slice a.zarr --region ...,... --npy out.npy", 'has more than one "..."'),
    ("stack out.json", "there are no layers"),
    ("stack out.json a.zarr --axes x", "--axes: expected 2 names, for 10 × 6"),
    ("image image.zarr --scale x=1,2", "--scale: expected values, or some by name"),
    ("image image.zarr --scale x=1,x=2", '--scale: a name occurs twice in "x=1,x=2"'),
    ("serve a.zarr --no-token --token t", "--token and --no-token exclude each other"),
    ("serve a.zarr --port 99999", "--port: "),
    ("view a.zarr --headless out.gif", ".png"),
]


@pytest.mark.parametrize(("words", "text"), REFUSED)
def test_what_is_refused_changes_nothing(
    run: Run, tmp_path: Path, words: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "a.zarr", "zarr3", np.ones((10, 6), "f4"), (4, 4))
    make(tmp_path / "rgb.zarr", "zarr3", np.ones((10, 6, 3), "u1"), (4, 4, 3))
    group = cw.create_group("g.zarr")
    group.create_array("x", np.arange(4))
    group.create_link("link", "/g.zarr/x")
    cw.create_array("records.zarr", shape=(2,), dtype="json", format="zarr2")
    cw.create_array("large.zarr", shape=(100_000, 100_000), chunks=(1000, 1000), dtype="u1")
    cw.downsample_pyramid("a.zarr", "image.zarr", levels=2).result()
    make(tmp_path / "nested/x", "zarr3", np.ones(3), (2,))
    Path("plain").mkdir()
    Path("plain/file").write_text("kept")
    before = files(tmp_path)
    result = run(*words.split())
    assert result.status in (1, 2) and result.out == ""
    assert text in result.err, result.err
    assert files(tmp_path) == before
