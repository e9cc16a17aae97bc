"""Errors about names that are nearly right say which one was meant, or which there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chunkwise
from chunkwise.cli.main import main
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError

MEMORY = {"driver": "memory"}


@pytest.mark.parametrize(
    ("call", "error", "meant"),
    [
        (lambda: chunkwise.Spec({"driver": "zar3", "kvstore": MEMORY}), UnknownExtensionError, "zarr3"),
        (
            lambda: chunkwise.Spec({"driver": "n5", "kvstore": {"driver": "fil"}}),
            UnknownExtensionError,
            "file",
        ),
        (lambda: chunkwise.CodecSpec({"driver": "zar"}), UnknownExtensionError, "zarr"),
        (lambda: chunkwise.dtype("uint17"), UnknownExtensionError, "uint16"),
        (lambda: chunkwise.Context({"cache_pol": {}}), InvalidArgumentError, "cache_pool"),
        (lambda: chunkwise.Schema({"domian": {}}), InvalidArgumentError, "domain"),
        (lambda: chunkwise.Spec({"driver": "n5", "metdata": {}}), InvalidArgumentError, "metadata"),
        (lambda: chunkwise.Spec("fiel:///x"), InvalidArgumentError, "file"),
        (lambda: chunkwise.KvStore.open("memory://a/|zpi:").result(), InvalidArgumentError, "zip"),
    ],
)
def test_the_name_that_was_meant(call: Callable[[], Any], error: type[Exception], meant: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert f'did you mean "{meant}"?' in "".join([str(found.value), *getattr(found.value, "__notes__", ())])


def test_a_scheme_that_is_like_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgumentError, match='unsupported URL scheme: "q"') as found:
        chunkwise.Spec("q://bucket/a")
    (note,) = found.value.__notes__
    known = note.partition("known: ")[2]
    assert {"file", "s3", "zip"} <= set(known.split(", "))
    assert main(["info", "q://bucket/a"]) == 1
    assert note in capsys.readouterr().err


def test_a_path_that_is_nearly_right(tmp_path: Path) -> None:
    chunkwise.create_array(tmp_path / "volume.zarr", shape=[2], dtype="uint8")
    (tmp_path / "other").mkdir()
    for call in (chunkwise.open_group, chunkwise.verify, lambda path: chunkwise.open(path).result()):
        with pytest.raises(ValueError, match=r'near it there is "volume\.zarr"$'):
            call(tmp_path / "volum.zarr")


def test_a_file_with_a_wrong_spec_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "view.json"
    file.write_text('{"driver": "zar3", "kvstore": "memory://"}')
    for command in (["info", str(file)], ["plan", str(file)], ["cp", str(file), str(tmp_path / "copy.zarr")]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert f"chunkwise: {file}: " in error and 'did you mean "zarr3"?' in error


def test_a_file_that_cant_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", [1, 2])
    (tmp_path / "there").mkdir()
    for name, words in (("none/a.npy", "there is no directory "), ("there", "is a directory, expected")):
        assert main(["slice", str(tmp_path / "a.zarr"), "--npy", str(tmp_path / name)]) == 1
        error = capsys.readouterr().err
        assert str(tmp_path / name) in error and words in error
