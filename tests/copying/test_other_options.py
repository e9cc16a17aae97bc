"""A copy that is gone on with by other options: the error names each of them."""

from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.copying.array_options import array_options
from chunkwise.copying.copy import ArrayCopy
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import stored_source
from chunkwise.core.trees.location import locate

OTHER = {
    "--codec": {"codec": "gzip:2"},
    "--chunk": {"chunks": (3, 4)},
    "--dtype": {"dtype": "float64"},
    "--fill-value": {"fill_value": 7},
}


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("option", OTHER)
def test_the_option_is_named(tmp_path: Path, format: str, option: str) -> None:
    if option == "--fill-value" and format == "n5":
        option = "--chunk"  # N5 has no fill values
    cw.create_array(tmp_path / "a", np.arange(24, dtype="f4").reshape(6, 4), chunks=(2, 4))
    given = {"codec": "gzip:1", "chunks": (2, 4)}
    here, there = (locate(tmp_path / name) for name in "ab")
    ArrayCopy(stored_source(here), there, format, array_options(given), CopyOptions()).begin()
    with pytest.raises(ValueError, match="its target is another one") as e:
        cw.copy(here, there, format=format, resume=True, **{**given, **OTHER[option]})
    assert option in str(e.value)
    assert [name for name in ("--codec", "--chunk", "--dtype") if name in str(e.value)] in ([option], [])


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("option", [*OTHER, "--cast", "--keep-fingerprint"])
def test_the_option_of_a_tree_is_named(tmp_path: Path, format: str, option: str) -> None:
    """Of small arrays and of large ones, and where an option is left out."""
    if option == "--fill-value" and format == "n5":
        option = "--chunk"
    other = {**OTHER, "--cast": {"cast": "clamp"}, "--keep-fingerprint": {"keep_fingerprint": True}}[option]
    source = cw.create_group(tmp_path / "a", format="zarr3")
    source.create_array("small", np.arange(24, dtype="f4").reshape(6, 4), chunks=(2, 4))
    given = {"codec": "gzip:1", "chunks": (2, 4), "format": format}
    if option == "--cast":
        given["dtype"] = "f8"

    def stop(path: str, nbytes: int) -> None:
        raise RuntimeError("stopped")

    for number, (begun, now) in enumerate(((given, {**given, **other}), ({**given, **other}, given))):
        there = tmp_path / f"b{number}"
        with pytest.raises(RuntimeError, match="stopped"):
            cw.copy_tree(tmp_path / "a", there, progress=stop, **begun)
        with pytest.raises(ValueError, match="was begun and not finished: --resume goes on with it"):
            cw.copy_tree(tmp_path / "a", there, **begun)
        with pytest.raises(ValueError, match="can't be resumed") as e:
            cw.copy_tree(tmp_path / "a", there, resume=True, **now)
        assert option in str(e.value)
        assert cw.copy_tree(tmp_path / "a", there, resume=True, **begun).n_arrays == 1
