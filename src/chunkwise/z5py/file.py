"""``File``, ``N5File``, ``ZarrFile``, ``S3File``: roots of trees, opened as z5py opens them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar, Self

from chunkwise.errors import AlreadyExistsError, NodeNotFoundError, NotFoundError, noted
from chunkwise.extension.inside import is_url, shown_text
from chunkwise.extension.trees import (
    Location,
    find_node,
    format_of,
    format_said,
    locate,
    node_above,
    tree_format,
)
from chunkwise.extension.trees import Tree as NodeTree
from chunkwise.groups.group import Group as Tree
from chunkwise.groups.open_group import Mode, open_group
from chunkwise.z5py.group import Group

__all__ = ["File", "N5File", "S3File", "ZarrFile"]

_MODES: dict[str, Mode] = {"r": "r", "r+": "r+", "a": "a", "w": "w", "w-": "w-", "x": "w-"}
_SEPARATORS = (".", "/")


class File(Group):
    """The root of a container: a directory, or whatever `chunkwise.open_group` takes.

    Parameters
    ----------
    path : str, path-like, spec or KvStore
    mode : {"r", "r+", "a", "w", "w-", "x"}
        ``r``, ``r+``: it must exist.  ``a``: it is created if it is missing.  ``w``: an existing
        container is deleted.  ``w-``, ``x``: it must not exist.
    use_zarr_format : bool, optional
        Whether it is Zarr, not N5.  By default as an existing container, by name, as the group around it, or
        else N5.
    dimension_separator : {".", "/"}
        Of keys in Zarr v2.
    zarr_format : {2, 3}, optional
        Of a new container; by default that of the group around it, or else 2.

    Raises
    ------
    OSError
        If it is missing and must exist (``EROFS``), or exists and must not (``EEXIST``).
    KeyError
        For an unknown mode.
    RuntimeError
        If it is not of the format that was asked for.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise.z5py
    >>> path = tempfile.mkdtemp() + "/a.n5"
    >>> with chunkwise.z5py.File(path, "a") as f:
    ...     _ = f.create_dataset("raw", shape=(64, 64), dtype="uint8")
    >>> list(chunkwise.z5py.File(path))
    ['raw']
    """

    n5_exts: ClassVar[set[str]] = {".n5"}
    zarr_exts: ClassVar[set[str]] = {".zarr", ".zr"}

    def __init__(
        self,
        path: str | os.PathLike[str] | Any,
        mode: str = "r",
        use_zarr_format: bool | None = None,
        dimension_separator: str = ".",
        zarr_format: int | None = None,
    ) -> None:
        if mode not in _MODES:
            raise KeyError(mode)
        if dimension_separator not in _SEPARATORS:
            raise ValueError(f'dimension_separator: expected "." or "/", got {dimension_separator!r}')
        if zarr_format not in (None, 2, 3):
            raise ValueError(f"zarr_format: expected 2 or 3, got {zarr_format!r}")
        inferred = self.infer_format(path, look=mode not in ("w", "w-", "x"))
        if inferred is not None and use_zarr_format is not None:
            _check_format(inferred, bool(use_zarr_format))
        self._path = path
        self._dimension_separator = dimension_separator
        super().__init__(self, _open(path, _MODES[mode], use_zarr_format, inferred, zarr_format))

    @property
    def filename(self) -> str:
        """The path."""
        return shown_text(self._path) if isinstance(self._path, str) else self._group.location.text

    @property
    def name(self) -> str:
        """``"/"``."""
        return "/"

    @classmethod
    def infer_format(cls, path: Any, *, look: bool = True) -> bool | None:
        """Return True for Zarr, False for N5, None if neither name nor content, if looked at, shows it."""
        if isinstance(path, str | os.PathLike):
            suffix = PurePosixPath(os.fspath(path)).suffix
            if suffix in cls.zarr_exts | cls.n5_exts:
                return suffix in cls.zarr_exts
        node = find_node(locate(path)) if look else None
        return None if node is None or node.format is None else not node.rules.has_containers

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _group_at(self, tree: NodeTree, names: Sequence[str]) -> Group:
        """Return the group that `names` lead to; the file itself for its root."""
        if tree is self._group._tree and not names:
            return self
        node = tree.find(tuple(names), tree.format)
        if node is None:
            raise NodeNotFoundError(f"/{'/'.join(names)} in {tree.root.text}")
        return Group(self, Tree._make(tree, names, node))

    def __reduce__(self) -> tuple[Any, ...]:
        # By now the mode has created or deleted the container.
        mode = "r+" if self._writable else "r"
        path = self._path
        if isinstance(path, str | os.PathLike):
            text = os.fspath(path)
            path = shown_text(text) if is_url(text) else os.path.abspath(text)
        return _reopened, (type(self), path, mode, self._dimension_separator)


def _reopened(cls: type[File], path: Any, mode: str, dimension_separator: str) -> File:
    file = cls.__new__(cls)
    File.__init__(file, path, mode, None, dimension_separator)
    return file


def _check_format(found: bool, wanted: bool) -> None:
    if found != wanted:
        names = ("N5", "Zarr")
        raise RuntimeError(f"{names[found]} file cannot be opened in {names[wanted]} format")


def _open(
    path: Any, mode: Mode, is_zarr: bool | None, inferred: bool | None, zarr_format: int | None
) -> Tree:
    location = locate(path)
    node = None if mode in ("w", "w-") else find_node(location)
    known = None if node is None else node.format  # then its own format counts
    format = known or _format_of_new(location, is_zarr, inferred, zarr_format)
    for wanted in (is_zarr, inferred if format_said(location, None) is None else None):
        if wanted is not None:
            _check_format(not tree_format(format).has_containers, bool(wanted))
    try:
        return open_group(path, mode, format=None if known else format, consolidated=False)
    except AlreadyExistsError as e:
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), location.text) from e
    except NotFoundError as e:
        error = OSError(errno.EROFS, os.strerror(errno.EROFS), location.text)
        raise noted(error, 'nothing is there; File(path, "a") makes a container') from e


def _format_of_new(
    location: Location, is_zarr: bool | None, inferred: bool | None, zarr_format: int | None
) -> str:
    """Return the format of a new container; z5py's own default is N5, and for Zarr v2."""
    option = f"zarr{zarr_format}" if zarr_format and (is_zarr or inferred) else None
    if is_zarr is False:
        option = "n5"
    said = format_said(location, option)
    if said is not None:
        return said
    if is_zarr:
        above = node_above(location)
        around = None if above is None or above.rules.has_containers else above.format
        return around or "zarr2"
    return format_of(location, "group", source="zarr2" if inferred else "n5")


class N5File(File):
    """A `File` in N5.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise.z5py
    >>> chunkwise.z5py.N5File(tempfile.mkdtemp() + "/a.n5", "a").is_zarr
    False
    """

    def __init__(self, path: str | os.PathLike[str] | Any, mode: str = "r") -> None:
        super().__init__(path, mode, False)


class ZarrFile(File):
    """A `File` in Zarr.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise.z5py
    >>> chunkwise.z5py.ZarrFile(tempfile.mkdtemp() + "/a.zarr", "a", zarr_format=3).is_zarr
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Any,
        mode: str = "r",
        dimension_separator: str = ".",
        zarr_format: int | None = None,
    ) -> None:
        super().__init__(path, mode, True, dimension_separator, zarr_format)


class S3File(File):
    """A `File` in a bucket of S3, or of a server that speaks its protocol.

    Parameters
    ----------
    bucket_name, name_in_bucket : str
    mode, use_zarr_format, zarr_format, dimension_separator
        As for `File`; Zarr, unless `use_zarr_format` is false.
    endpoint_url, region : str, optional
    anon : bool
        Read without credentials.
    access_key, secret_key : str, optional
        Refused: keys come from the environment, or from AWS's own files, not from code.

    Examples
    --------
    >>> import chunkwise.z5py
    >>> chunkwise.z5py.S3File("bucket", "a.zarr", access_key="k", secret_key="s")
    Traceback (most recent call last):
    ...
    ValueError: access_key, secret_key: expected them in the environment or in a profile of AWS
    """

    def __init__(
        self,
        bucket_name: str,
        name_in_bucket: str = "",
        mode: str = "r",
        use_zarr_format: bool | None = None,
        zarr_format: int | None = None,
        dimension_separator: str | None = None,
        endpoint_url: str | None = None,
        region: str = "us-east-1",
        anon: bool = False,
        access_key: str | None = None,
        secret_key: str | None = None,
    ) -> None:
        if access_key is not None or secret_key is not None:
            raise ValueError(
                "access_key, secret_key: expected them in the environment or in a profile of AWS"
            )
        place: dict[str, Any] = {"driver": "s3", "bucket": bucket_name, "aws_region": region}
        place["path"] = name_in_bucket and name_in_bucket.strip("/") + "/"
        if endpoint_url is not None:
            place["endpoint"] = endpoint_url
        if anon:
            place["aws_credentials"] = {"type": "anonymous"}
        super().__init__(place, mode, use_zarr_format is not False, dimension_separator or ".", zarr_format)
