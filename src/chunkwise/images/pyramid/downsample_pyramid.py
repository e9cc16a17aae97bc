"""``downsample_pyramid``: an image at several resolutions, each made from the one before.

The levels are planned: axes, factors, arrays (`chunkwise.images.pyramid.plan`); then `PyramidCopy` writes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from chunkwise import Future, Promise, TensorStore, Unit
from chunkwise.copying.array_options import Sizes, read_units
from chunkwise.copying.codec_option import CODEC_PARTS
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import packed
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.losses import warn_of_losses
from chunkwise.copying.pictures import without_channel
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.resolve import Place, ResolvedPlace, resolve
from chunkwise.core.engine.abandoned_changes import Change
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension.inside import as_nbytes, fail_at_exit, options_of, start_thread, watches
from chunkwise.extension.trees import (
    VOLUME,
    ChunkedArray,
    Destination,
    Location,
    LocationLike,
    Mode,
    is_volume,
    locate,
    located,
)
from chunkwise.images.conventions.convention import Kept, PyramidConvention
from chunkwise.images.conventions.known import PYRAMIDS, find_convention
from chunkwise.images.multiscale.array_axes import ArrayImage, image_of_array
from chunkwise.images.multiscale.metadata import axis_names
from chunkwise.images.multiscale.open import single_array
from chunkwise.images.pyramid.image_sources import kept_attributes
from chunkwise.images.pyramid.plan import PyramidOptions, plan_pyramid
from chunkwise.images.pyramid.pyramid_copy import PyramidCopy, PyramidGroup
from chunkwise.images.pyramid.pyramid_work import Pyramid, PyramidProgress, PyramidWork

__all__ = ["DEFAULT_MEMORY", "downsample_pyramid", "prepare_pyramid"]

_AVERAGED = "elements are averaged, as those of an image; labels=True (--labels) says otherwise"

DEFAULT_MEMORY = 256 << 20
"""Bytes that threads of this process use for blocks."""


@watches
@options_of(CODEC_PARTS)
def downsample_pyramid(
    array: Place,
    destination: LocationLike | None = None,
    *,
    convention: str | None = None,
    method: str | None = None,
    labels: bool | None = None,
    factors: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
    levels: int | None = None,
    axes: Sequence[str] | None = None,
    units: Sequence[Unit | str | None] | Mapping[str, Unit | str | None] | None = None,
    chunks: Sizes | None = None,
    shards: Sizes | None = None,
    codec: Any = None,
    name: str | None = None,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    sync: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    verify: bool = False,
    progress: Callable[[PyramidProgress], object] | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **codecs: Any,
) -> Future[Pyramid]:
    """Write a multiscale pyramid of an image.

    Every level is made from the one before, which is read once; if the memory allows it, several levels are
    made from one read.  The work is done in blocks of whole chunks, so memory doesn't grow with the image.
    An unfinished pyramid is not recognised as one: the attributes of the group are written last.

    Parameters
    ----------
    array : TensorStore, LocationLike, Group, MultiscaleImage, or an array of NumPy, dask, xarray or h5py
        The image: an open array, which may be virtual, such as a stack, or the location of one; or an image,
        whose full resolution is taken.  Blocks of dask are computed when they are needed.
    destination : LocationLike, optional
        The group for all levels.  By default `array`, which then must be a location, is the first level
        itself, and the others are written beside it: ``s0`` gets ``s1``, ``s2``, …
    convention : str, optional
        ``ome-ngff-0.5``, ``ome-ngff-0.4``, ``n5-viewer``, ``cosem`` or ``neuroglancer_precomputed``.
        By default n5-viewer below ``*.n5`` and OME-NGFF 0.5 elsewhere; without a `destination` that of the
        image, or the usual one for the format of `array`.  OME-NGFF 0.5 is Zarr v3, 0.4 is Zarr v2, the
        others are N5.  ``neuroglancer_precomputed``, or a URL or spec of this driver as `destination`, makes
        a precomputed volume.
    method : {"mean", "min", "max", "median", "mode", "stride"}, optional
        See `chunkwise.downsample`; by default the mean, or the mode for `labels`.
    labels : bool, optional
        Whether elements are labels, which must not be averaged; by default as the image of `array` says.  In
        OME-NGFF, labels get ``image-label`` metadata, and a group called ``labels`` lists the pyramid.
    factors : int, sequence of int, or of sequence of int, optional
        Factor along all axes of space, for each axis of the result, or such a list for each level.  By
        default 2 along axes of space, except where voxels are at least twice as large as along others.
    levels : int, optional
        Number of levels below full resolution; by default until one has no more elements than a chunk.
    axes : sequence of str, optional
        Names of the dimensions of `array`; by default those of the image that it is a level of, its labels,
        ``_ARRAY_DIMENSIONS``, or else x, y, z, c, t, from the dimension on whose elements lie next to each
        other.  Names ``t`` and ``time`` mean time, ``c`` and
        ``channel`` channels, others space.  The dimensions are put into the order of the convention: t, c,
        z, y, x in Zarr and x, y, z, c, t in N5.
    units : sequence of (Unit or str or None), or mapping, optional
        Sizes of a voxel, such as ``"4 nm"``, by dimension of `array` or by name of an axis; by default those
        of the image that it is a level of, of coordinates beside it, or its dimension units.
    chunks, shards : int, sequence of int, mapping, bool or "auto", optional
        Sizes for each axis of the result, as `chunkwise.create_array` takes them, or for some axes by name;
        by default the chunks of `array`, or else 64³, and no shards.
    codec : str, JSON, codec of numcodecs or zarr-python, or list, optional
        As for `chunkwise.create_array`, such as ``"zstd:3"``.  By default gzip in N5 and Zstandard in Zarr.
    name : str, optional
        Name of the image; by default that of the image of `array`, or of the group.
    executor : concurrent.futures.Executor, optional
        Computes the blocks, as for `chunkwise.copy`.  By default threads of this process.
    memory : int or str, optional
        Bytes that a worker process may use, such as ``"2GB"``; at least one chunk for each task.  By default
        268 MB in this process, or a quarter of the memory of a worker process.
    sync : bool
        Whether to wait until each chunk is on the disk.
    resume : bool
        Continue an unfinished pyramid, if there is one.
    overwrite : bool
        Replace existing arrays by the new levels, once all levels are complete.
    verify : bool
        Read every level again and compare each element with the level before, downsampled, before the group
        becomes a pyramid.
    progress : callable or bool, optional
        Called with a `PyramidProgress` after each block, one call at a time; if levels are made together,
        `level` is the first of them.  True shows a bar on stderr.
    storage_options : mapping, optional
        As for `open_group`; used for source and destination if they are URLs of an object store or web
        server.
    **codecs
        In place of `codec`, zarr-python's ``compressor``, ``compressors``, ``filters`` and ``serializer``.

    Returns
    -------
    Future of Pyramid
        After it is cancelled, no further block is begun.

    Warns
    -----
    LossWarning
        If the image of `array` has metadata that the convention can't hold; `Pyramid` lists it as `left_out`.

    Raises
    ------
    ValueError
        Immediately, if the options don't fit the image or the convention, or something is in the way.
    DataCorruptionError
        If `verify` finds a wrong value; `resume` then writes all levels again.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> image = chunkwise.array(np.arange(64 * 96, dtype="uint16").reshape(64, 96))
    >>> path = tempfile.mkdtemp() + "/image.zarr"
    >>> made = chunkwise.downsample_pyramid(image, path, units=["1 um"] * 2, levels=2).result()
    >>> [level.shape for level in made.levels]
    [(64, 96), (32, 48), (16, 24)]
    """
    check_progress(progress)
    if storage_options is not None:
        array, destination = located(storage_options, array, destination)
    workers = workers_of(executor)
    if executor is None:
        workers = replace(workers, memory=DEFAULT_MEMORY)
    options = PyramidOptions(
        convention=convention,
        method=method,
        labels=labels,
        factors=factors,
        levels=levels,
        axes=axes,
        units=None if units is None else read_units(units, "units"),
        name=name,
        arrays={"chunks": chunks, **({} if shards is None else {"shards": shards}), "codec": codec, **codecs},
    )
    how = CopyOptions(
        memory=as_nbytes(memory, "memory"), sync=sync, resume=resume, overwrite=overwrite, verify=verify
    )
    copy = prepare_pyramid(array, destination, options, how, workers)
    warn_of_losses([("", note) for note in copy.left_out])
    copy.begin()
    promise, future = Promise[Pyramid].new()
    fail_at_exit(promise, future, "future.result() waits for it, and resume=True goes on with it")
    copy.wanted = lambda: not promise.done()
    change = Change(future, future)  # waited for after Ctrl-C; what others write meanwhile is no part of it

    def work() -> None:
        try:
            tell = progress if callable(progress) else _not_told
            with shown_progress(progress is True, "pyramid", copy.nbytes_to_do, 0, workers) as advance:
                promise.set_result(copy.write(tell, advance))
        except BaseException as e:
            promise.set_exception(e)
        finally:
            change.end()

    if not start_thread(work):
        work()
    return future


def prepare_pyramid(
    array: Place,
    destination: LocationLike | None,
    options: PyramidOptions,
    how: CopyOptions,
    workers: Workers,
) -> PyramidWork:
    """Return the work that writes a pyramid, without writing anything; see `downsample_pyramid`."""
    options, convention = options.checked(), options.convention
    if how.resume and how.overwrite:
        raise InvalidArgumentError(
            "resume goes on with an unfinished pyramid, overwrite starts again: choose one"
        )
    found, volume = resolve(array), None
    if destination is not None and is_volume(locate(destination), convention):
        if convention not in (None, VOLUME) or options.name is not None:
            raise InvalidArgumentError("a precomputed volume has a convention of its own, and no name")
        volume = locate(destination)
        store, group, first, format = without_channel(found.as_array(of_image=True)), volume, None, ""
    else:
        mode: Mode = "among" if how.overwrite else "resume" if how.resume else "add"
        store, group, first, format = _places(found, destination, convention, mode)
    known = image_of_array(store, found.image)
    if first is not None and known.error is not None:
        raise known.error  # what the metadata say would be lost
    assumed = [found.assumed] if found.assumed and options.axes is None else []
    if (
        options.labels is None
        and options.method is None
        and known.is_labels is None
        and _may_be_labels(store)
    ):
        assumed.append(_AVERAGED)
    given, options = options.arrays, options.of_image(known.is_labels)
    chosen = find_convention("ome-ngff-0.5", "")  # whose axes a volume has, in another order
    if volume is None:
        chosen = _convention(convention, known, first, format)
    else:
        options = replace(options, arrays={})
    plan = plan_pyramid(store, known, chosen, options, first_name=first)
    plan = replace(plan, assumed=(*assumed, *plan.assumed))
    is_labels = options.labels is True
    if volume is not None:
        from chunkwise.images.pyramid.pyramid_work import VolumePyramid
        from chunkwise.images.pyramid.volume_copy import sizes_by_axis  # with the driver

        given = sizes_by_axis(given, axis_names(store, options.axes or known.names(store)))
        return VolumePyramid(
            plan, known, volume, given, how, workers, labels=is_labels, left_out=found.left_out
        )
    if first is not None and plan.convention.format != format:
        raise InvalidArgumentError(
            f"convention {plan.convention.name} is {plan.convention.format}, but the array is {format}; "
            "give a destination to have it copied"
        )
    is_alone = bool(known.shown) and known.image is None
    whole = single_array(store, image=found.image) if is_alone else None
    kept, archive = Kept(), None
    if first is None:
        kept = kept_attributes(known, plan.convention.format, whole)
        archive, group, how = packed(group, plan.convention.format, how, adds=True)
    shown = options.name or kept.name or _plain_name(group if archive is None else archive.location)
    made = PyramidGroup(group, plan.convention, shown, first=first, renamed=bool(options.name), kept=kept)
    copy = PyramidCopy(plan, group, made, how, workers, first=first, labels=is_labels, left_out=kept.left_out)
    copy.archive = archive
    return copy


def _may_be_labels(store: TensorStore) -> bool:
    """Return True for integers of 32 bits or more, as labels have them, and few images."""
    dtype = store.dtype.memory_dtype
    return dtype.kind in "iu" and dtype.itemsize > 2


def _not_told(progress: PyramidProgress) -> None:
    """Do nothing."""


def _plain_name(location: Location) -> str:
    name = location.name
    for suffix in (".zarr", ".n5", ".ome"):
        name = name.removesuffix(suffix)
    return name or "image"


def _convention(name: str | None, known: ArrayImage, first: str | None, format: str) -> PyramidConvention:
    """Return the convention: that of the image itself if it only gets more levels."""
    own = None if known.image is None or first is None else known.image.convention
    if own == "ome-ngff-0.6":
        raise UnsupportedError(
            "levels can't be added to a draft of OME-Zarr 0.6; give a destination to have it copied"
        )
    if name is None and own in PYRAMIDS and PYRAMIDS[own] == format:
        name = own
    return find_convention(name, format)


def _places(
    found: ResolvedPlace,
    destination: LocationLike | None,
    convention: str | None,
    mode: Mode,
) -> tuple[TensorStore, Location, str | None, str]:
    """Return array, group, name of the array if it is the first level, and the format that is wanted."""
    store = without_channel(found.as_array(of_image=True))
    if destination is None:
        if found.is_view:
            raise InvalidArgumentError("an open array needs a destination for its pyramid")
        node = found.as_node()
        if node.kind != "array":
            raise InvalidArgumentError(
                f"{node.location.text} is no array; name the first level of its image, or give a destination"
            )
        group = node.location.parent
        if group is None:
            raise InvalidArgumentError(
                f"{node.location.text} is in no group; give a destination for its pyramid"
            )
        return store, group, node.location.name, str(node.format)
    said = None if convention is None else find_convention(convention, "").format
    to = Destination.of(destination, "group", format=said, source=_stored_format(store), mode=mode)
    return store, to.location, None, to.format


def _stored_format(store: TensorStore) -> str | None:
    node = store._find_node().node if isinstance(store._array, ChunkedArray) else None
    return None if node is None else node.own_format
