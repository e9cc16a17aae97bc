"""All doors say the same of a thing, by whichever name; the advice in their errors works."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import ALL_THINGS, cells_of, contradictions
from doors import ARRAY, DOORS, REFUSED, ask
from things import VALUES, names_of
from web import served

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.images.server.answer import Document
from chunkwise.images.server.formats import ZARR3
from chunkwise.images.server.sources import sources_of
from chunkwise.images.server.trees import ServedGroup

SAMPLE = (
    "HDF5 data", "OME 0.5", "Paintera", "precomputed segmentation", "OCDBT", "nothing",
    "ZIP of a folder with an image", "ZIP of a folder of pictures", "n5-viewer without s0",
    "COSEM in Zarr v2",
)  # fmt: skip
QUICK = (
    "open", "open_array", "read", "slice", "open_group", "open_multiscale", "serve", "info", "tree", "verify",
)  # fmt: skip


@pytest.mark.parametrize("title", SAMPLE)
def test_a_sample_agrees(tmp_path: Path, title: str) -> None:
    thing = ALL_THINGS[title](tmp_path)
    names = ("path", "URL with slash", "written out")
    cells = cells_of(thing, tmp_path, QUICK, names)
    assert list(contradictions(title, thing, cells)) == []


@pytest.mark.slow
@pytest.mark.parametrize("title", ALL_THINGS)
def test_all_doors_agree_by_all_names(tmp_path: Path, title: str) -> None:
    thing = ALL_THINGS[title](tmp_path)
    assert list(contradictions(title, thing, cells_of(thing, tmp_path))) == []


def _command(*words: str) -> int:
    return main([*words, "--quiet"])


_OPENERS = {
    "open_group": cw.open_group,
    "open_array": cw.open_array,
    "open_multiscale": cw.open_multiscale,
}

NAMED = r'"([^"]+\|[a-z0-9-]+:[^"]*)"(?! is it as a group)'
AS_GROUP = r'"([^"]+\|[a-z0-9-]+:[^"]*)" is it as a group'


def _copied(place: Any, at: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.errors.LossWarning)  # of images that lack a level
        return cw.copy_tree(place, at / "c", format="zarr3")


ADVICE: dict[str, Callable[[Any, re.Match[str], Path], object]] = {
    r"(open_group|open_array|open_multiscale) opens": lambda place, found, at: _OPENERS[found[1]](place),
    NAMED: lambda place, found, at: cw.open_multiscale(found[1]),
    AS_GROUP: lambda place, found, at: cw.open_group(found[1]),
    r"name one of its arrays: (/[^\s,;]+)": lambda place, found, at: cw.open_array(found[1]),
    r"such as (/[^\s,;]+)": lambda place, found, at: main(["info", found[1]]) == 0 or pytest.fail("info"),
    r"name one of them: (/[^\s,;]+)": lambda place, found, at: cw.open_multiscale(found[1]),
    r"chunkwise\.copy copies arrays": lambda place, found, at: cw.copy(place, at / "c", format="zarr3"),
    r"chunkwise\.copy_tree copies it": lambda place, found, at: _copied(place, at),
    r"-r copies it": lambda place, found, at: (
        _command("cp", "-r", str(place), str(at / "c"), "--format", "zarr3") in (0, 3) or pytest.fail("cp -r")
    ),
    r"`chunkwise info` says what": lambda place, found, at: (
        main(["info", str(place)]) == 0 or pytest.fail("info")
    ),
}
"""What errors tell to do, and that done literally."""


def _check_advice(title: str, tmp_path: Path, doors: Iterable[str]) -> None:
    """Follow each piece of advice in the errors of doors."""
    thing = ALL_THINGS[title](tmp_path)
    place = names_of(thing, tmp_path)["path"]
    for door in doors:
        refused = ask(door, place, tmp_path / f"out {door}")
        if not (isinstance(refused, tuple) and refused[0] == REFUSED):
            continue
        for number, (pattern, follow) in enumerate(ADVICE.items()):
            for found in re.finditer(pattern, refused[1]):
                at = tmp_path / f"advice {door} {number} {found.start()}"
                at.mkdir()
                assert follow(place, found, at) is not None, (door, refused[1])
                if pattern == NAMED and door not in ARRAY:
                    again = ask(door, found[1], at / "again")
                    is_refused = isinstance(again, tuple) and again[0] == REFUSED
                    assert not is_refused or re.search(r"open_\w+ opens", again[1]), (door, refused, again)


@pytest.mark.parametrize(
    "title", ["group zarr3", "PNG folder", "precomputed image", "NWB", "directory of levels"]
)
def test_advice_of_a_sample_works(tmp_path: Path, title: str) -> None:
    _check_advice(title, tmp_path, ("open", "open_array", "copy", "cp", "cp -r", "copy_tree", "open_group"))


@pytest.mark.slow
@pytest.mark.parametrize("title", ALL_THINGS)
def test_every_advice_in_an_error_works(tmp_path: Path, title: str) -> None:
    _check_advice(title, tmp_path, DOORS)


def test_open_objects_are_places(tmp_path: Path) -> None:
    """A group, an image and an array stand for what they are, at every door that takes places."""
    path = tmp_path / "i.zarr"
    cw.downsample_pyramid(cw.array(VALUES), path, levels=1, units=["4 nm"] * 3, sync=False).result()
    group, image = cw.open_group(path), cw.open_multiscale(path)
    for n, place in enumerate((group, image, image.levels[0], group["0"])):
        opened = cw.open_multiscale(place)
        np.testing.assert_array_equal(opened.levels[0].read().result(), VALUES)
        assert opened.scales[0] == (4, 4, 4)
        made = cw.downsample_pyramid(place, tmp_path / f"{n}.zarr", levels=1, sync=False).result()
        assert cw.open_multiscale(made.path).scales == image.scales
        assert not any(report.bad for report in cw.verify(place)) and cw.diff(place, place) == []
    assert cw.copy_tree(group, tmp_path / "tree.zarr").n_arrays == 2


def test_arrays_of_files_have_one_shape_and_one_name(tmp_path: Path) -> None:
    for title in ("TIFF", "HDF5 data"):
        thing = ALL_THINGS[title](tmp_path)
        for place in names_of(thing, tmp_path).values():
            np.testing.assert_array_equal(cw.read(place), VALUES)
            np.testing.assert_array_equal(cw.open_array(place), VALUES)
            assert list(cw.open_group(place))


def test_several_images_are_listed(tmp_path: Path) -> None:
    """Where one is wanted: channels of a container, whose levels stand for nothing alone."""
    container = cw.open_group(tmp_path / "c.n5", "w", format="n5")
    for n in range(2):
        container.create_array(f"c{n}/s0", VALUES + n)
    with pytest.raises(ValueError, match=r"holds several images.*c\.n5/c0.*c\.n5/c1"):
        cw.downsample_pyramid(tmp_path / "c.n5", tmp_path / "p.zarr").result()


def test_a_plate_in_an_archive_names_its_fields(tmp_path: Path) -> None:
    ALL_THINGS["plate of two fields"](tmp_path)
    place = f"{tmp_path}/plate.zip"
    assert main(["zip", f"{tmp_path}/plate.zarr", place, "--quiet"]) == 0
    with pytest.raises(ValueError, match="name one of them") as refused:
        cw.downsample_pyramid(place, tmp_path / "p.zarr").result()
    named = re.search(r"name one of them: ([^\s,;]+)", str(refused.value))
    assert named is not None
    np.testing.assert_array_equal(cw.open_multiscale(named[1]).levels[0], VALUES)


def test_a_pyramid_of_zarr_v1_is_of_a_format_with_groups(tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a", VALUES, format="zarr1")
    made = cw.downsample_pyramid(tmp_path / "a", tmp_path / "p", levels=1, sync=False).result()
    assert made.convention == "ome-ngff-0.5"
    np.testing.assert_array_equal(made.levels[0], VALUES)


def test_references_are_followed_whether_written_out_or_not(tmp_path: Path) -> None:
    thing = ALL_THINGS["kerchunk"](tmp_path)
    cells = cells_of(thing, tmp_path, QUICK, ("path", "written out"))
    for door in QUICK:
        assert cells[door, "path"][0] == cells[door, "written out"][0], cells[door, "path"]
        assert door == "open" or cells[door, "path"][0] != REFUSED, cells[door, "path"]


def test_commands_that_change_see_what_commands_that_show_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in a database; not an archive that isn't named as one, pictures, or chunks."""
    database = f"{tmp_path}/{ALL_THINGS['OCDBT'](tmp_path).path}"
    assert main(["attrs", database, "set", "a", "1"]) == 0
    assert main(["zip", database, f"{tmp_path}/o.zip", "--quiet"]) == 0
    np.testing.assert_array_equal(cw.read(f"{tmp_path}/o.zip"), VALUES)
    for place in (database, f"{tmp_path}/o.zip"):
        capsys.readouterr()
        assert main(["attrs", place]) == 0 and capsys.readouterr().out == "a = 1\n"
    assert main(["attrs", f"{tmp_path}/o.zip", "set", "a", "2"]) == 2
    assert f'changed only as "{tmp_path}/o.zip|zip:"' in capsys.readouterr().err
    assert main(["attrs", f"{tmp_path}/o.zip|zip:", "set", "a", "2"]) == 0
    for title, kind in (("precomputed image", "array"), ("PNG", "array"), ("OME-Zarr in OCDBT", "group")):
        place = f"{tmp_path}/{ALL_THINGS[title](tmp_path).path}"
        assert main(["status", place]) == 0 and f"{kind}, with no" in capsys.readouterr().out
        assert main(["zip", place, f"{tmp_path}/p.zip", "--quiet"]) == (1 if kind == "array" else 0)
    chunks = f"{tmp_path}/{ALL_THINGS['chunks'](tmp_path).path}"
    for words in (
        ["zip", chunks, f"{tmp_path}/c.zip"],
        ["status", chunks],
        ["attrs", chunks, "set", "a", "1"],
    ):
        capsys.readouterr()
        assert main(words) == 1 and "is inside the array" in capsys.readouterr().err


def test_an_array_that_is_a_container_on_a_server_without_lists(tmp_path: Path) -> None:
    """What lies beside its chunks can't be seen there; the array can, and so can its damage."""
    place = tmp_path / "a.n5"
    cw.create_array(place, VALUES, format="n5", chunks=(2, 6, 8))
    with served(tmp_path) as url:
        for name in (f"{url}/a.n5", f"{url}/a.n5/"):
            for command in (["info", name], ["tree", name], ["verify", name], ["diff", name, str(place)]):
                assert main(command) == 0, command
        chunk = next(path for path in sorted(place.rglob("*")) if path.is_file() and path.suffix != ".json")
        chunk.write_bytes(chunk.read_bytes()[:-9])
        assert main(["verify", f"{url}/a.n5"]) == 1
        assert main(["diff", f"{url}/a.n5", str(place)]) != 0


@pytest.mark.parametrize("title", ["COSEM in Zarr v2", "OME 0.1", "OME 0.4", "n5-viewer"])
def test_served_groups_of_zarr3_are_images_of_ome_zarr(tmp_path: Path, title: str) -> None:
    thing = ALL_THINGS[title](tmp_path)
    sources = sources_of(tmp_path / thing.path)
    group = next(iter(sources.values())).find(())
    assert isinstance(group, ServedGroup)
    document = ZARR3.content(group, "zarr.json")
    assert isinstance(document, Document)
    (entry,) = json.loads(bytes(document.body))["attributes"]["ome"]["multiscales"]
    image = cw.open_multiscale(tmp_path / thing.path)
    assert [dataset["path"] for dataset in entry["datasets"]] == list(image.paths)
    assert {axis["name"] for axis in entry["axes"]} == {axis.name for axis in image.axes}
