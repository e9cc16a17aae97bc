"""A spec without a member that it needs: the error names the member and has an example, in every entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import chunkwise as cw

SPECS: list[tuple[dict[str, Any], str]] = [
    ({"path": "a"}, "driver"),
    ({"kvstore": {"path": "a"}}, "driver"),
    ({"driver": "n5", "kvstore": {}}, "driver"),
    *(({"driver": name}, "kvstore") for name in ("auto", "zarr", "zarr3", "n5", "json", "tiff", "png")),
    ({"driver": "neuroglancer_precomputed"}, "kvstore"),
    *(({"driver": name}, "base") for name in ("cast", "downsample", "hdf5", "zip")),
    ({"driver": "cast", "base": {}}, "driver"),
    ({"driver": "stack"}, "layers"),
    ({"driver": "kvstack"}, "layers"),
    ({"driver": "zarr3", "kvstore": {"driver": "http"}}, "base_url"),
    ({"driver": "zarr3", "kvstore": {"driver": "gcs"}}, "bucket"),
]

ENTRIES: dict[str, Callable[[Any, Path], Any]] = {
    "open": lambda spec, _: cw.open(spec).result(),
    "open_group": lambda spec, _: cw.open_group(spec),
    "open_multiscale": lambda spec, _: cw.open_multiscale(spec),
    "open_dataset": lambda spec, _: xr.open_dataset(spec, engine="chunkwise"),
    "verify": lambda spec, _: list(cw.verify(spec)),
    "diff": lambda spec, _: list(cw.diff(spec, spec)),
    "copy": lambda spec, out: cw.copy(spec, out),
    "copy_tree": lambda spec, out: cw.copy_tree(spec, out),
    "downsample_pyramid": lambda spec, out: cw.downsample_pyramid(spec, out).result(),
}


@pytest.mark.parametrize(("spec", "member"), SPECS, ids=str)
def test_the_member_is_named(tmp_path: Path, spec: dict[str, Any], member: str) -> None:
    for entry, call in ENTRIES.items():
        with pytest.raises(ValueError, match=f'"{member}"') as caught:
            call(spec, tmp_path / "out")
        notes = getattr(caught.value, "__notes__", [])
        assert any(f'for example {{"{member}":' in note for note in notes), entry
    assert not (tmp_path / "out").exists()
