"""Two directories change places, at once where the system can."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from chunkwise.core.kvstore.files import exchange as file_exchange
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, StorageError, UnsupportedError


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str, str]:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    return str(tmp_path / "new"), str(tmp_path / "old"), str(tmp_path / "aside")


def held(places: tuple[str, str, str]) -> list[str | None]:
    files = [Path(place, "which") for place in places]
    return [file.read_text() if file.exists() else None for file in files]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may lack the call")
def test_they_change_places_at_once(places: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "rename")
    file_exchange.exchange_paths(*places)
    assert held(places) == ["old", "new", None]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, None])
def test_one_is_aside_for_a_moment_where_the_system_cannot(
    places: tuple[str, str, str], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = None if code is None else lambda a, b: -1
    monkeypatch.setattr(file_exchange, "_exchange_call", lambda: fails)
    monkeypatch.setattr("ctypes.get_errno", lambda: code)
    file_exchange.exchange_paths(*places)
    assert held(places) == ["old", "new", None]


def test_a_failure_changes_nothing(places: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="old"):
        file_exchange.exchange_paths(places[0] + "er", *places[1:])
    assert held(places) == ["new", "old", None]
    monkeypatch.setattr(file_exchange, "_exchange_call", lambda: None)
    with pytest.raises(FileNotFoundError, match="newer"):
        file_exchange.exchange_paths(places[0] + "er", *places[1:])
    assert held(places) == ["new", "old", None]


@pytest.mark.parametrize("sync", [False, True])
def test_the_directories_above_are_synchronized_if_asked(
    places: tuple[str, str, str], sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronized: list[str] = []
    monkeypatch.setattr(file_exchange, "sync_directory", synchronized.append)
    assert file_exchange.exchange_directories(*places, sync=sync)
    assert synchronized == [os.path.dirname(places[0])] * sync
    assert held(places) == ["old", "new", None]
    missing = (places[0], places[1] + "er", places[2])
    assert not file_exchange.exchange_directories(*missing, sync=sync)


@pytest.mark.parametrize(
    ("path", "can"),
    [
        ("old", True),
        ("none", True),
        ("none/of/these/yet", True),
        ("old/which", False),
        ("old/which/below", False),
        ("link", False),
        ("dangling", False),
        ("/", False),
    ],
)
def test_what_can_change_places(places: tuple[str, str, str], path: str, can: bool, tmp_path: Path) -> None:
    """Directories, and what is not there yet below one; not files, links and mounted file systems."""
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert file_exchange.can_exchange(str(tmp_path / path)) is can


@pytest.mark.parametrize("path", ["old", "none", "none/of/these/yet"])
def test_the_directory_above_must_be_ones_own(
    places: tuple[str, str, str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is the nearest directory that is there, whose names change."""
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "access", lambda *question: asked.append(question))
    assert not file_exchange.can_exchange(str(tmp_path / path))
    assert asked == [(str(tmp_path), os.W_OK | os.X_OK)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EXDEV, UnsupportedError),
        (errno.EBUSY, UnsupportedError),
        (errno.EPERM, UnsupportedError),
        (errno.EACCES, UnsupportedError),
        (errno.EIO, StorageError),
        (errno.ENOSPC, StorageError),
    ],
)
def test_what_the_system_refuses_is_told_from_what_fails(
    places: tuple[str, str, str],
    code: int,
    kind: type[ChunkwiseError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A caller takes another way after the first, and gives up after the second."""

    def refuse(*_: str) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(file_exchange, "exchange_paths", refuse)
    with pytest.raises(ChunkwiseError, match=os.strerror(code)) as caught:
        file_exchange.exchange_directories(*places, sync=False)
    assert type(caught.value) is kind
    assert held(places) == ["new", "old", None]


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("new", "other", None),
        ("new", "not/there/yet", None),
        ("new", "empty", None),
        ("new", "old", AlreadyExistsError),
        ("new", "old/which", AlreadyExistsError),
        ("gone", "other", ChunkwiseError),
        ("new", "new/below", ChunkwiseError),
    ],
)
def test_a_directory_that_moves_moves_with_all_or_stays(
    places: tuple[str, str, str],
    source: str,
    target: str,
    error: type[ChunkwiseError] | None,
    sync: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synchronized: list[str] = []
    monkeypatch.setattr("chunkwise.core.kvstore.files.file_store.sync_directory", synchronized.append)
    (tmp_path / "empty").mkdir()
    store = FileStore(tmp_path, sync=sync)
    if error is None:
        store.move_directory(source, target)
        assert not (tmp_path / source).exists()
        assert (tmp_path / target / "which").read_text() == "new"
        assert set(synchronized) == ({str(tmp_path), str((tmp_path / target).parent)} if sync else set())
        return
    with pytest.raises(error):
        store.move_directory(source, target)
    assert held(places) == ["new", "old", None] and not synchronized
