"""Converting NWB and HDMF files between Zarr v2, Zarr v3, N5 and HDF5."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from hdmf.backends.io import HDMFIO
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog

from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import check_apart, replacing
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.work import TaskRunner
from chunkwise.core.kvstore.places.keys_below import delete_all_below
from chunkwise.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    LossWarning,
)
from chunkwise.extension.inside import as_nbytes, options_of
from chunkwise.extension.trees import Location, Replacement, format_of
from chunkwise.hdmf.backend.io import ZarrIO
from chunkwise.hdmf.difference import differences_of_copy
from chunkwise.hdmf.model.codecs import check_compressor
from chunkwise.hdmf.model.place import Place, named_place, place_of, source_name
from chunkwise.hdmf.model.tree import Format, detect_format
from chunkwise.hdmf.opening import destination_of, is_hdf5, no_store, open_file, open_store
from chunkwise.hdmf.storage.large_datasets import LargeDatasets
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning

if TYPE_CHECKING:
    from chunkwise.hdmf.backend.h5_copy import H5Copy

__all__ = ["convert", "open_source", "repack"]


def _type_map() -> TypeMap:
    """Return the types of NWB, or none if pynwb is not installed."""
    try:
        import pynwb
    except ImportError:
        return TypeMap(NamespaceCatalog())
    return pynwb.get_type_map()


def open_source(path: Place, **options: Any) -> HDMFIO:
    """Open a file for reading, whatever its format, with the types that it has cached."""
    type_map = _type_map()
    if isinstance(path, str | os.PathLike) and is_hdf5(path):
        from hdmf.backends.hdf5 import HDF5IO

        HDF5IO.load_namespaces(type_map, str(path))
        return HDF5IO(str(path), mode="r", manager=BuildManager(type_map))
    location = place_of(path)
    if detect_format(location) is None:
        raise no_store(location, source_name(path))
    io = ZarrIO(path, "r", BuildManager(type_map), **options)
    if io.store.specifications() is not None:
        io.load_namespaces_io(type_map)
    return io


@options_of(ZarrIO)
def convert(
    source: Place,
    target: Place,
    *,
    format: Literal["zarr2", "zarr3", "n5", "hdf5"] | None = None,
    overwrite: bool = False,
    drop_broken_links: bool = False,
    source_options: dict[str, Any] | None = None,
    codec: Any = None,
    progress: Callable[[int], object] | None = None,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    verify: bool = False,
    resume: bool = False,
    **options: Any,
) -> None:
    """Write a copy of a file in another format; all data is copied, and nothing is linked to the source.

    With `executor`, `memory`, `verify` or `resume`, numeric datasets of 1 MiB or more are copied last, in
    blocks, as by `chunkwise.copy`; this process writes the rest before that.

    Parameters
    ----------
    source, target : str, path or KvStore
    format : {"zarr2", "zarr3", "n5", "hdf5"}, optional
        Of the copy; by default HDF5 for a local path that ends in ``.nwb``, ``.h5`` or ``.hdf5``, else as the
        name says, as the group around it, or else Zarr v3.
    overwrite : bool
        Whether a store or file at `target` is replaced.
    drop_broken_links : bool
        Whether a file with broken links or references is copied without them; otherwise it is refused.
    source_options : dict, optional
        Those of `ZarrIO` for reading.
    codec : str, JSON or object, optional
        The compressor of all arrays, instead of those in `source`: as
        `chunkwise.hdmf.backend.data_io.ZarrDataIO` takes it; False for none.  Not for HDF5.
    progress : callable, optional
        Called with the number of bytes of a large dataset that were just written; not for HDF5.
    executor : concurrent.futures.Executor, optional
        Executor that copies the large datasets; its workers must see source and target under the same
        names.  By default threads of this process.
    memory : int or str, optional
        Bytes that a worker process may use for blocks, such as ``"2GB"``; as for `chunkwise.copy`.
    verify : bool
        Whether the copy is read again and compared with the source, as by `chunkwise.diff`: all datasets,
        attributes, links and references.  Datasets that workers have copied are read with a plain reader.
        Other values are an error, other differences a `LossWarning`.
    resume : bool
        Continue an unfinished conversion, if there is one; another executor may have begun it.  One that was
        interrupted before the first block has to be started again, with `overwrite`.
    **options
        Those of `ZarrIO` for writing.

    Raises
    ------
    AlreadyExistsError
        If there is something at `target`.
    InvalidArgumentError
        If source and target are the same, or one is in the other.
    BrokenLinkError
        If a link or reference is broken; the error names each.  Nothing is written then.
    FailedPreconditionError
        If the unfinished conversion is of another file or has other options, another process is at work on
        it, or a worker doesn't see source or target.
    DataCorruptionError
        If a dataset doesn't read back as it was written.

    Notes
    -----
    A copy that fails leaves nothing at `target`, except what `resume` needs: once blocks of large datasets
    are being copied, there is a journal.
    """
    ending = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
    if format is None and ending.endswith((".nwb", ".h5", ".hdf5")):
        format = "hdf5"
    check_apart(place_of(source), place_of(target))
    if format != "hdf5" and ending:
        format = cast(Format, format_of(named_place(target), "group", format=format))
    if format is not None and format != "hdf5":  # otherwise the destination tells it
        check_compressor(codec, format)
    workers, limit = workers_of(executor), as_nbytes(memory, "memory")
    how = CopyOptions(memory=limit, resume=resume, verify=verify, overwrite=overwrite)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress: expected a function, not {progress!r}")
    with open_source(source, **(source_options or {})) as src, ExitStack() as closed:
        h5 = None if isinstance(src, ZarrIO) else closed.enter_context(closing(_h5_copy(src)))
        if not drop_broken_links:
            _check_whole(src.source, _broken_links(src) if h5 is None else h5.broken)
        if format == "hdf5":
            if codec is not None:
                raise InvalidArgumentError("codec: HDF5 files are written with the compression that hdmf has")
            if executor is not None or memory is not None or verify or resume:
                raise InvalidArgumentError(
                    "HDF5 files are written by one process, as a whole: no executor, memory, verify or resume"
                )
            _to_hdf5(src, target, overwrite)
            return
        copies = replacement = None
        if executor is not None or memory is not None or verify or resume:
            place = place_of(target)
            if overwrite:  # the copy is made beside the old file, where another process can continue it
                destination_of(target, format, "force" if options.get("force_overwrite") else "replace")
                replacement = Replacement.begin(place, resumable=True)
                place = replacement.staging
                if not resume or read_journal(place) is None:
                    delete_all_below(place.store, place.path)
            copies = LargeDatasets(
                place,
                workers,
                {
                    "source": _identity(src),
                    "options": _as_text([format, codec, drop_broken_links, options]),
                },
                replace(how, overwrite=False),  # the place has been cleared
                compare=partial(_compare, src),
                progress=progress or (lambda nbytes: None),
            )
        mode = "w" if overwrite or (copies is not None and copies.begun) else "w-"
        options |= {"format": format, "codec": codec, "copies": copies, "replacement": replacement}
        _export(src, h5, target, mode, progress, options)


def repack(
    path: Place,
    *,
    format: Literal["zarr2", "zarr3", "n5"] | None = None,
    drop_broken_links: bool = False,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> None:
    """Write a store again in the current layout; the new store replaces the old one when it is complete.

    Parameters
    ----------
    path : str, path or KvStore
    format : {"zarr2", "zarr3", "n5"}, optional
        By default that of the store.
    drop_broken_links, progress, **options
        As for `convert`.

    Raises
    ------
    BrokenLinkError
        If a link or reference is broken; the error names each.  Nothing is changed then.
    """
    with open_source(path) as src:
        if not isinstance(src, ZarrIO):
            raise InvalidArgumentError(f"{src.source} is an HDF5 file, no store")
        if not drop_broken_links:
            _check_whole(src.source, _broken_links(src))
        _export(src, None, path, "w", progress, {**options, "format": format or src.store.format})


def _export(
    src: HDMFIO,
    h5: H5Copy | None,
    target: Place,
    mode: str,
    progress: Callable[[int], object] | None,
    options: dict[str, Any],
) -> None:
    """Write the content of a source as a new store, which is removed after a failure."""
    counted = None if progress is None else _RowsAsBytes(progress)
    copies = options.get("copies")
    with ZarrIO(target, mode, BuildManager(src.manager.type_map), progress=counted, **options) as out:
        if counted is not None:
            counted.io = out
        try:
            if h5 is None:
                out.export(src, write_args={"link_data": None}, in_place=True)
            else:
                out.copy_h5(h5, src.manager.namespace_catalog)
        except BaseException:  # an interrupt too
            if copies is None or not copies.begun:
                out.discard()
            raise


def _compare(src: HDMFIO, target: Location, compared: Collection[str], runner: TaskRunner) -> None:
    """Compare the new store with its source: other values are an error, anything else a `LossWarning`."""
    source = src.store if isinstance(src, ZarrIO) else open_file(src.source)
    for found in differences_of_copy(source, open_store(target), compared, runner):
        if found.name.startswith("specifications") and found.left is None:
            continue  # which a conversion adds
        if found.what == "values":
            raise DataCorruptionError(f"dataset /{found} (source | copy): it was not read as it was written")
        warnings.warn(f"the copy differs from its source: {found}", LossWarning, stacklevel=4)


def _identity(src: HDMFIO) -> list[Any]:
    """Return a mark of a file, which tells a resumed conversion whether it is still the same."""
    if isinstance(src, ZarrIO):
        nodes = sorted((path, node.document) for path, node in src.store.tree.nodes.items())
        return [src.store.location.journal_json(), hashlib.sha256(_as_text(nodes).encode()).hexdigest()]
    found = os.stat(src.source)
    return [os.path.realpath(src.source), found.st_size, found.st_mtime_ns]


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


class _RowsAsBytes:
    """Progress of streams, in bytes."""

    io: ZarrIO

    def __init__(self, progress: Callable[[int], object]) -> None:
        self._progress = progress
        self._done: dict[str, int] = {}

    def __call__(self, path: str, rows: int, expected: int | None) -> None:
        dataset = self.io.store.dataset(path)
        row = dataset.element.memory_dtype.itemsize * math.prod(dataset.shape[1:])
        self._progress((rows - self._done.get(path, 0)) * row)
        self._done[path] = rows


def _h5_copy(src: HDMFIO) -> H5Copy:
    from chunkwise.hdmf.backend.h5_copy import H5Copy

    return H5Copy(src._file, src.manager.namespace_catalog)


def _broken_links(src: ZarrIO) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenLinkWarning)  # the error names them
        src.read_builder()
    return src.broken_links


def _check_whole(source: str, broken: list[str]) -> None:
    if broken:
        listed = "\n".join(broken)
        raise BrokenLinkError(
            f"a copy of {source} would lack {len(broken)} broken links or references; "
            f"drop_broken_links=True makes one without them:\n{listed}"
        )


def _to_hdf5(src: HDMFIO, target: Place, overwrite: bool) -> None:
    from chunkwise.hdmf.backend.h5_target import copy_h5_file, write_h5

    if not isinstance(target, str | os.PathLike):
        raise InvalidArgumentError("HDF5 files are written to local paths only")
    with replacing(target, overwrite=overwrite) as part:
        if isinstance(src, ZarrIO):
            write_h5(src.stores, str(part), src.manager.namespace_catalog)
        else:
            copy_h5_file(src.source, part, Path(target))
