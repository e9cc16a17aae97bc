"""``VolumeCopy``: an image copied to neuroglancer's precomputed format, each level as a scale.

The chunks are written first.  ``info``, which makes a volume of them, is the last document, so an unfinished
copy is none.  Axes become x, y, z and channel; sizes of voxels are in nanometres, and positions in whole
voxels, as the format has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from chunkwise import Context, Spec, TensorStore, Unit
from chunkwise import open as open_spec
from chunkwise.copying.array_options import array_options, for_array
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.copy_arrays import check_memory, copy_arrays, intermediate_name
from chunkwise.copying.copy_job import ArrayJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import CopyPlace, unfinished_copy_error
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.executors import Workers, room_of
from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.copying.losses import is_loss
from chunkwise.copying.narrowing import narrowing
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tree_copy import check_new
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import parse_chunk_name
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, Info, check_dtype
from chunkwise.core.driver.neuroglancer_precomputed.schema import with_new_scale
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, OptionError
from chunkwise.extension import JSON
from chunkwise.extension.inside import MISSING_GENERATION, KeyRange, check_alone, dump_bytes, parse_json
from chunkwise.extension.trees import VOLUME, Location, check_outside_arrays, is_made_here
from chunkwise.images.conventions.ome import shown_channels
from chunkwise.images.conventions.precomputed import as_volume
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage, corner, most_voted
from chunkwise.images.multiscale.metadata import unit_in
from chunkwise.images.multiscale.open import open_multiscale, single_array
from chunkwise.images.pyramid.image_sources import images_of, kept_attributes

__all__ = ["VolumeCopy", "copy_to_volume", "foreign_keys", "place_of_volume"]

_CHUNK = 64
_TAKEN = ("chunks", "shards", "codec", "dtype")
_ENCODINGS = ("encoding", "jpeg_quality", "png_level", "compressed_segmentation_block_size")
_NEARLY = 1e-3  # of a voxel
_NAMES = ("x", "y", "z", "channel")

_SHARD = re.compile(r"[0-9a-f]+\.(?:shard|index|data)")


@dataclass(frozen=True)
class _Scale:
    source: TensorStore  # x, y, z, channel, from 0 on
    spec: dict[str, JSON]  # without kvstore


def copy_to_volume(
    found: ResolvedPlace | TensorStore,
    destination: Location,
    options: Mapping[str, Any],
    how: CopyOptions,
    workers: Workers | None = None,
    left_out: str = "",
) -> VolumeCopy:
    """Return the copy of an array, or of an image with all its levels, to a precomputed volume."""
    # `left_out` is a note on arrays and files beside the array.
    if isinstance(found, TensorStore):
        return VolumeCopy(single_array(found), destination, options, how, workers, left_out)
    image = open_multiscale(found, drafts=True)
    if not isinstance(image, MultiscaleImage):
        parts = [] if found.location is None else images_of(image, found.location)
        if len(parts) != 1:
            raise InvalidArgumentError(
                f"{found.named or 'the source'} holds several images; a precomputed volume is one of them"
            )
        ((_, image),) = parts
    left_out = left_out or found.left_out or "; ".join(filter(is_loss, image._metadata.problems))
    return VolumeCopy(image.available(), destination, options, how, workers, left_out)


def sizes_by_axis(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return options whose sizes for axes x, y, z, in this order, are by axis."""
    out = dict(options)
    for name in ("chunks", "shards"):
        sizes = out.get(name)
        if isinstance(sizes, tuple) and len(sizes) in (3, len(names)) and tuple(names[:3]) == _NAMES[:3]:
            out[name] = dict(zip(_NAMES, sizes[:3], strict=False))
    return out


class VolumeCopy(PlannedCopy):
    """A copy of an image to a precomputed volume."""

    command: ClassVar[str] = "the same command with --resume"
    format: ClassVar[str] = VOLUME

    @property
    def assumed(self) -> tuple[str, ...]:
        """Assumptions about the source that no metadata confirms."""
        return self._image.assumed

    def __init__(
        self,
        image: MultiscaleImage,
        destination: Location,
        options: Mapping[str, Any],
        how: CopyOptions,
        workers: Workers | None,
        left_out: str = "",
    ) -> None:
        if how.keep_fingerprint:
            raise InvalidArgumentError(
                "--keep-fingerprint: a precomputed volume has no attributes for a fingerprint"
            )
        if how.part is not None:
            raise InvalidArgumentError(
                "--part: a precomputed volume is not copied in parts; workers copy it together with --on"
            )
        self._image = image
        self._options = sizes_by_axis(array_options(options), [axis.name for axis in image.axes])
        for name in self._options:
            if name not in _TAKEN:
                raise OptionError(f"{name}: a precomputed volume can't have it; it has {', '.join(_TAKEN)}")
        self._notes = [left_out] if left_out else []
        self._dims = _dims_of(image)
        self._keys: list[str] = []
        self._scales = self._planned_scales()
        self._jobs: list[ArrayJob] = []
        super().__init__(place_of_volume(destination, how), how, workers)

    @property
    def passes(self) -> CopyPlan:
        """The passes over the first scale."""
        return self._jobs[0].plan

    def open(self) -> TensorStore:
        """Return the first scale, newly opened."""
        kvstore = self._destination.location.kvstore()
        return open_spec({"driver": VOLUME, "kvstore": kvstore, "open": True}).result()

    def _planned_scales(self) -> list[_Scale]:
        image, keys, dims = self._image, self._keys, self._dims
        scales = []
        for number, level in enumerate(image.levels):
            source = as_volume(most_voted(level), dims)
            sizes = [1.0 if dim is None else self._nanometres(number, dim) for dim in dims[:3]]
            place = (image.scales[number], image.translations[number])
            at = corner(*place, image.scales[0])
            self._note_place(number, dims, at)
            dtype = self._options.get("dtype", source.dtype)
            is_labels = image.is_labels and dtype.kind == "int"
            encoding: dict[str, JSON] = {"encoding": "raw"}
            if is_labels and dtype.name in ("uint32", "uint64"):
                encoding = {"encoding": "compressed_segmentation"}
            scale: dict[str, JSON] = {
                "size": list(source.shape[:3]),
                "resolution": sizes,
                "voxel_offset": [0 if dim is None else at[dim] for dim in dims[:3]],
                **(encoding if "codec" not in self._options else _encoding(self._options["codec"])),
            }
            key = "_".join(f"{size:.6g}" for size in sizes)
            scale["key"] = key if key not in keys else f"{key}.{number}"
            keys.append(scale["key"])
            layout = self._layout(source, dims)
            kind = "segmentation" if is_labels else "image"
            if image.is_labels and not is_labels:
                self._note(f"that it holds labels is left out: a segmentation has integers, not {dtype.name}")
            check_dtype(dtype)
            spec: dict[str, JSON] = {
                "driver": VOLUME,
                "multiscale_metadata": {
                    "type": kind,
                    "data_type": dtype.name,
                    "num_channels": source.shape[3],
                },
                "scale_metadata": scale,
                "schema": {"chunk_layout": layout},
            }
            scales.append(_Scale(source, spec))
        lost = kept_attributes(ArrayImage((), image), "n5").attributes
        if lost:
            self._note(f"attributes are left out: info has no place for them ({', '.join(lost)})")
        if image.label_colors:
            self._note("colours of labels are left out: info has no place for them")
        shown = shown_channels(image)
        if any(channel.label or channel.color for channel in shown):
            names = ", ".join(channel.label or "-" for channel in shown)
            self._notes.append(f"names and colours of channels are left out: info has no place ({names})")
        return scales

    def _nanometres(self, number: int, dim: int) -> float:
        image = self._image
        size, unit = image.scales[number][dim], image.axes[dim].unit
        try:
            return float(f"{unit_in(Unit(size, unit), 'nm'):.12g}")
        except InvalidArgumentError:
            self._note(
                f"voxels of {image.axes[dim].name} are {size:g} {unit or 'without a unit'}; info says nm"
            )
            return size

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _note_place(self, number: int, dims: Sequence[int | None], at: Sequence[int]) -> None:
        image = self._image
        for dim in dims[:3]:
            if dim is None:
                continue
            size, one = image.scales[number][dim], image.scales[0][dim]
            exact = (image.translations[number][dim] - size / 2 + one / 2) / size
            if abs(exact - at[dim]) > _NEARLY:
                self._note(
                    f"a part of the position is left out: level {number} begins at {exact:g} voxels of "
                    f"{image.axes[dim].name}, and info has whole ones"
                )

    def _layout(self, source: TensorStore, dims: Sequence[int | None]) -> dict[str, JSON]:
        usual = self._image.stored_chunks or (None,) * len(self._image.axes)
        own = [(_CHUNK if dim is None else usual[dim] or _CHUNK) for dim in dims[:3]]
        chunks = [max(1, min(n, size)) for n, size in zip(own, source.shape, strict=False)]
        for name in ("chunks", "shards"):
            sizes = self._options.get(name)
            if isinstance(sizes, tuple) and len(set(sizes)) > 1:
                raise OptionError(
                    f'{name}: give sizes by axis, {{"x": 64, "y": 64, "z": 16}} or x=64,y=64,z=16, '
                    "as a volume has x first"
                )
        given = {
            name: _by_axis(self._options[name]) for name in ("chunks", "shards") if self._options.get(name)
        }
        template = ArrayTemplate(
            shape=source.shape, dtype=source.dtype, chunks=(*chunks, source.shape[3]), names=_NAMES
        )
        found = for_array(given, template)
        read = [*(found.get("chunks") or template.chunks)[:3], source.shape[3]]  # type: ignore[index]
        layout: dict[str, JSON] = {"read_chunk": {"shape": read}}
        if found.get("shards"):
            layout["write_chunk"] = {"shape_soft_constraint": [*found["shards"][:3], source.shape[3]]}
        return layout

    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        how, known = self._how, {} if begun is None else begun["task"]
        plans = known.get("plans") if known.get("source") == self._image.location else None
        context = Context({} if how.sync else {"file_io_sync": False})
        self._jobs, shown = [], list[JSON]()
        plan = TreePlan(notes=[("", note) for note in self._notes])
        room, before = room_of(self.workers, how.memory), None
        for number, scale in enumerate(self._scales):
            spec = {**scale.spec, "kvstore": self._top.kvstore(), "open": True, "assume_metadata": True}
            target = open_spec(spec, context=context).result().label["", "", "", ""]
            target = target.translate_to[(0,) * 4]
            convert = None
            if "dtype" in self._options:
                convert = narrowing(scale.source, self._options["dtype"], how.cast)
            where = self._top.child(str(scale.spec["scale_metadata"]["key"]))
            source = self._source_of(number, scale.source, before)
            job, before = ArrayJob(copy_arrays(source, target, where, convert, is_stored=False)), target
            made = job.arrays.plan(room)
            between = intermediate_name()
            if isinstance(plans, list) and number < len(plans):
                made = CopyPlan.from_json(plans[number])
                check_memory(how.memory, made.memory)
                between = intermediate_name(known.get("between"))
            job.use_plan(made, summed=False, intermediate=between)
            self._jobs.append(job)
            plan.large[str(number)] = job
            shown.append(made.to_json())
        task: dict[str, JSON] = {
            "source": self._image.location,
            "scales": [scale.spec for scale in self._scales],
            "plans": shown,
        }
        return plan, SmallArrays(self._top, self._top, "zarr3", (), how), task

    def _source_of(self, number: int, source: TensorStore, before: TensorStore | None) -> TensorStore:
        """Return the source of a scale: a level of the image, or the scale `before`."""
        return source

    @property
    def _info(self) -> Info:
        info: Info | None = None
        for scale in self._scales:
            driver: Any = Spec(scale.spec)._driver
            constraints = replace(driver.constraints, scale_index=None)
            info = with_new_scale(info, constraints, driver.schema)
        assert info is not None, "an image has a level"
        return info

    def _stored_info(self) -> bytes | None:
        value = self._top.store.read(self._top.path + INFO_KEY).value
        return None if value is None else bytes(value)

    def _is_there(self) -> bool:
        return self._stored_info() == dump_bytes(self._info.document)

    def _check_free(self) -> list[tuple[int, int]]:
        check_outside_arrays(self._top)
        if self._destination.replacement is None:
            check_new(self._top, "volume", "zarr3")
        return []

    def _own_parts(self) -> Sequence[Location]:
        return [self._top]

    def _delete_own(self) -> bool:
        return False

    def _surround_first(self) -> None:
        """Do nothing: chunks need no group."""

    def _surround(self) -> None:
        store, key, raw = self._top.store, self._top.path + INFO_KEY, dump_bytes(self._info.document)
        generation = store.write(key, raw, if_equal=MISSING_GENERATION)
        if generation is not None:
            check_alone(store, key, generation, self._fence(0).check)
        elif self._stored_info() != raw:  # by this copy, before a process was killed
            raise AlreadyExistsError(f"{store.describe(key)} was made by another process meanwhile")

    def _commit(self, confirm: Callable[[], None]) -> None:
        if self._destination.replacement is not None:
            self._destination.commit(confirm)

    def _name_of(self, path: str) -> str:
        return f"scale {path}"


def _dims_of(image: MultiscaleImage) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the dimensions that are x, y, z and channel; None for one that is missing."""
    names = [axis.name.lower() for axis in image.axes]
    kinds = [axis.type for axis in image.axes]
    x, y, z = (names.index(name) if name in names else None for name in "xyz")
    channel = kinds.index("channel") if "channel" in kinds else None
    shape = image.levels[0].shape
    others = [n for n in range(len(names)) if n not in (x, y, z, channel) and shape[n] != 1]
    if others:
        listed = ", ".join(f"{image.axes[n].name or n} of {shape[n]}" for n in others)
        raise InvalidArgumentError(
            f"a precomputed volume has the axes x, y, z and channel, and {image.location} also has {listed}; "
            "copy a --region with an index there, or name the axes"
        )
    return x, y, z, channel


def _by_axis(sizes: Any) -> Any:
    if isinstance(sizes, Mapping):
        return {"channel" if name == "c" else name: n for name, n in sizes.items()}
    return dict.fromkeys("xyz", sizes[0]) if isinstance(sizes, tuple) else sizes


def _encoding(codec: object) -> dict[str, JSON]:
    if isinstance(codec, Mapping) and "encoding" in codec and set(codec) <= set(_ENCODINGS):
        return dict(codec)
    raise OptionError(
        'codec: of a precomputed volume it is an encoding, such as {"encoding": "png"}; others are raw, jpeg '
        "and compressed_segmentation"
    )


def place_of_volume(location: Location, how: CopyOptions) -> CopyPlace:
    """Return where a volume is written; raise if an existing one can't be replaced."""
    place = CopyPlace.choose(
        location,
        "volume",
        overwrite=how.overwrite,
        go_on=how.go_on,
        documents=(INFO_KEY,),
        foreign=foreign_keys,
    )
    if how.overwrite and place.replacement is not None:
        journal = read_journal(location)
        if journal is not None and "scales" not in journal["task"]:
            raise unfinished_copy_error(location)
        for key in foreign_keys(location):
            raise AlreadyExistsError(
                f"{location.text} can't be replaced: {location.store.describe(key)} belongs to no scale of "
                "the volume; delete it, or choose another place"
            )
    return place


def foreign_keys(location: Location) -> list[str]:
    """Return the keys below a location that belong to no scale of the volume there, nor to a copy to it."""
    path, below = location.path, KeyRange.of_prefix(location.path)
    value = location.store.read(path + INFO_KEY).value
    scales = None if value is None else {scale["key"] for scale in parse_json(bytes(value))["scales"]}
    return [
        key for key in location.store.list(below.start, below.stop) if not _is_own(key[len(path) :], scales)
    ]


def _is_own(name: str, scales: set[str] | None) -> bool:
    """Return True for a key of a volume with these scales; None if its ``info`` isn't there."""
    scale, _, chunk = name.rpartition("/")
    if name == INFO_KEY or any(map(is_made_here, name.split("/"))):
        return True
    if not scale or not (scales is None or scale in scales):
        return False
    return _SHARD.fullmatch(chunk) is not None or parse_chunk_name(chunk.removesuffix(".gz")) is not None
