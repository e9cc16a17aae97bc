"""Who finds out what is at a place: recognizers, which `resolve` asks, and nobody else."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import chunkwise

SOURCE = Path(chunkwise.__file__).parent

RECOGNIZERS = {
    "detect_format": {"core/arrays/open_chunked"},
    "sniff": {"core/arrays/open_chunked", "core/arrays/image"},
    "is_one_picture": {"core/arrays/open_chunked"},
    "file_kind": {"core/arrays/open_chunked", "core/trees/location"},
    "found_instead": {"core/arrays/open_chunked", "core/trees/node"},
    "group_instead": {"core/arrays/open_chunked"},
    "database_instead": {"core/trees/node"},
    "interrupted_instead": {"core/trees/node"},
    "inside_file": {"copying/resolve", "core/trees/node"},
    "in_database": {"copying/resolve"},
    "read_spec_file": {"copying/resolve", "core/api/open"},
    "pictures_at": {"copying/resolve"},
    "is_picture": {"cli/stack"},
    "read_bdv_file": {"images/conventions/bdv"},
    "find_images": {"images/multiscale/array_axes", "images/multiscale/open"},
    "precomputed_image": {"images/multiscale/array_axes", "images/multiscale/open"},
}
"""Modules that may import each function that looks at a place.  Take some out; nothing comes in."""

MAGIC = (b"PK\x03\x04", b"\x89HDF", b"II*\0", b"MM\0*", b"\x89PNG", b"\xff\xd8\xff", b"RIFF")
KNOW_MAGIC = {
    "core/codec/pictures",
    "core/driver/found_instead",
    "core/driver/auto",
    "core/kvstore/adapter/zip_read",
    "hdmf/opening",
}


@cache
def _modules() -> list[tuple[str, ast.AST]]:
    return [
        (str(path.relative_to(SOURCE).with_suffix("")), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def test_what_looks_at_places_is_imported_by_recognizers_alone() -> None:
    found: dict[str, set[str]] = {name: set() for name in RECOGNIZERS}
    for module, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chunkwise."):
                for name in node.names:
                    if name.name in found and module != "extension/trees" and "hdmf" not in node.module:
                        found[name.name].add(module)
    assert found == RECOGNIZERS


def test_first_bytes_of_files_are_known_in_few_places() -> None:
    found = {
        module
        for module, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and node.value.startswith(MAGIC)
    }
    assert found <= KNOW_MAGIC, found - KNOW_MAGIC


def test_no_command_takes_the_text_of_a_place_apart() -> None:
    """A part of a URL after "|" is read by `chunkwise.core.specs.url`; here a spec or a name is shown."""
    found = {
        module
        for module, tree in _modules()
        if module.startswith(
            ("cli/", "copying/", "groups/", "images/", "napari/", "hdmf/", "xarray/", "z5py/")
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "|"
    }
    assert found <= {"cli/info", "copying/pictures", "hdmf/model/place", "images/server/sources"}, found


KEYS = {
    "_creator", "affineTransform", "bioformats2raw.layout", "coordinateSystems", "coordinateTransformations",
    "downsamplingFactors", "image-label", "isLabelMultiset", "label-value", "multiScale", "multiscales",
    "ome", "omero", "painteraData", "pixelResolution",
}  # fmt: skip
"""Attributes by which conventions of images describe them."""

KNOW_KEYS = {
    "copying/conventions": {
        "bioformats2raw.layout", "image-label", "multiscales", "ome", "omero",
    },  # copies and migrations change the version of OME-Zarr
    "core/base/foreign_names": {"omero"},  # a name of other libraries
    "core/kvstore/adapter/zip_write": {"ome"},  # a member of the comment of an archive
    "core/kvstore/reference/tiff_table": {"coordinateTransformations", "multiscales", "omero"},
    "n5/blocks": {"isLabelMultiset"},  # how the elements are encoded
}  # fmt: skip
"""Modules beside those of conventions that name some of them.  Take some out; nothing comes in."""


def test_attributes_of_images_are_named_by_conventions_alone() -> None:
    found: dict[str, set[str]] = {}
    for module, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in KEYS:
                found.setdefault(module, set()).add(node.value)
    others = {m: keys for m, keys in found.items() if not m.startswith("images/conventions/")}
    assert others == KNOW_KEYS
    named = set().union(*(keys for m, keys in found.items() if m not in others))
    assert named == KEYS, "each is an attribute of a convention"
