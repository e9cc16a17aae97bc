"""``ZarrDataIO``: data with its storage settings; also reads those of hdmf's wrapper for HDF5."""

from __future__ import annotations

import warnings
from typing import Any

import numcodecs
import numpy as np
from hdmf.data_utils import DataIO

from chunkwise.copying.array_options import array_options, shard_sizes
from chunkwise.core.kvstore.reference.hdf5_elements import SHUFFLE, filter_documents, filters_of
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import as_integer, as_items
from chunkwise.hdmf.model.codecs import Settings

__all__ = ["ZarrDataIO", "settings_of", "settings_of_h5"]

_UNSET: Any = object()

_KEPT = (1, SHUFFLE, 32001, 32015)  # filters of HDF5 by their registered numbers: zlib, Blosc, zstd


class ZarrDataIO(DataIO):  # type: ignore[misc, unused-ignore]
    """Data with its storage settings.

    Parameters
    ----------
    data : array_like or iterator
    chunks : int, tuple of int, bool or "auto", optional
        Chunk shape, as `chunkwise.create_array` takes it; by default about 1 MiB.
    fillvalue : scalar, optional
        Value of elements that were not written.
    compressor, compressors : codec, list, bool or None
        Two names of one option.  True, the default, is the usual compressor of the format; False or None
        means none.  A codec is a name, JSON in the form of any format, or an object of numcodecs or
        zarr-python.
    filters : list of codec, optional
        Codecs before the compressor.
    serializer : codec, optional
        Codec that turns a chunk into bytes; Zarr v3.
    shards : int, tuple of int, bool or "auto", optional
        Zarr v3; as for `chunks`.
    link_data : bool
        Whether data that is a dataset of another store becomes a link to it.
    dtype, shape
        For data that is set later.

    Raises
    ------
    InvalidArgumentError
        If both `compressor` and `compressors` are given, or `shards` are not whole `chunks`.

    Warns
    -----
    UserWarning
        If `shards` is a shape and the format chooses `chunks`.
    """

    def __init__(
        self,
        data: Any = None,
        chunks: Any = None,
        fillvalue: Any = None,
        compressor: Any = _UNSET,
        filters: Any = None,
        link_data: bool = False,
        *,
        compressors: Any = _UNSET,
        serializer: Any = None,
        shards: Any = None,
        dtype: Any = None,
        shape: Any = None,
    ) -> None:
        given = {k: v for k, v in (("data", data), ("dtype", dtype), ("shape", shape)) if v is not None}
        if "data" in given and len(given) > 1:
            raise InvalidArgumentError(
                "dtype and shape are for data that is set later; this data has its own"
            )
        super().__init__(**given)
        if compressor is not _UNSET and compressors is not _UNSET:
            raise InvalidArgumentError('"compressor" and "compressors" are one option; give one of them')
        codec = compressors if compressor is _UNSET else compressor
        self._compressor = True if codec is _UNSET else codec
        self._link_data = bool(link_data)
        self._sizes = _check_sizes(chunks, shards)
        self._options = {
            "chunks": chunks,
            "fill_value": fillvalue,
            "filters": filters,
            "serializer": None if isinstance(serializer, str) and serializer == "auto" else serializer,
            "shards": shards,
        }
        self._given = {name: value for name, value in self._options.items() if value is not None}
        if compressor is not _UNSET:
            self._given["compressor"] = codec
        elif compressors is not _UNSET:
            self._given["compressors"] = codec

    @property
    def link_data(self) -> bool:
        """True if data of another store becomes a link."""
        return self._link_data

    @property
    def io_settings(self) -> dict[str, Any]:
        """The given storage options; a compressor of None means none."""
        out = dict(self._given)
        for name in {"compressor", "compressors"} & out.keys():
            if out[name] is True:  # the default
                del out[name]
            elif out[name] is False:
                out[name] = None
        return out

    @property
    def settings(self) -> Settings:
        """The same as the store takes it."""
        # The choice of the format may depend on the data, such as an iterator.
        chunks = None if self._sizes.get("chunks") == "auto" else self._options["chunks"]
        return Settings(**{**self._options, "chunks": chunks}, compressor=self._compressor)

    def get_io_params(self) -> dict[str, Any]:
        """Return the arguments that make this again, without the data."""
        given = {"fillvalue" if name == "fill_value" else name: value for name, value in self._given.items()}
        return {**given, "link_data": self._link_data}

    @staticmethod
    def is_h5py_dataset(obj: Any) -> bool:
        """Return True if an object is a dataset of h5py."""
        return (type(obj).__module__, type(obj).__name__) == ("h5py._hl.dataset", "Dataset")

    @staticmethod
    def hdf5_to_zarr_filters(h5dataset: Any) -> list[Any]:
        """Return numcodecs' equivalents of the filters of an h5py dataset, in their order.

        Parameters
        ----------
        h5dataset : h5py.Dataset

        Warns
        -----
        UserWarning
            For a filter that numcodecs does not have; it is left out.
        """
        return codecs_of_h5(h5dataset)

    @classmethod
    def from_h5py_dataset(cls, h5dataset: Any, **options: Any) -> ZarrDataIO:
        """Return an h5py dataset wrapped to be stored with its own chunks and compression.

        Parameters
        ----------
        h5dataset : h5py.Dataset
        **options
            Those of this class; they take precedence.
        """
        settings = settings_of_h5(h5dataset)
        own = {"chunks": settings.chunks, "fillvalue": settings.fill_value, "filters": settings.filters}
        if not {"compressor", "compressors"} & options.keys():
            own["compressor"] = settings.compressor
        return cls(h5dataset, **{**own, **options})

    def __copy__(self) -> ZarrDataIO:
        return type(self)(self.data, **self.get_io_params())


def _check_sizes(chunks: Any, shards: Any) -> dict[str, Any]:
    """Return chunks and shards as they are read; raise OptionError for invalid ones."""
    items = as_items(chunks)
    # Some writers copy the extents of an empty dataset to its chunks.
    given = {"chunks": chunks if items is None else [1 if as_integer(n) == 0 else n for n in items]}
    sizes = array_options({**given, "shards": shards})
    inner, outer = sizes.get("chunks", "auto"), sizes["shards"]
    if outer is not None and not isinstance(outer, str) and inner == "auto":
        warnings.warn("shards are given without chunks, which the format chooses", stacklevel=3)
    if isinstance(inner, tuple) and all(isinstance(n, int) and n > 0 for n in inner):
        shard_sizes(outer, inner, inner, 1)
    return sizes


def settings_of(data: DataIO) -> Settings:
    """Return the storage settings of data in a wrapper of any backend."""
    if isinstance(data, ZarrDataIO):
        return data.settings
    given = getattr(data, "io_settings", None)
    if type(data).__name__ == "H5DataIO" and isinstance(given, dict):
        return _from_h5_options(given)
    if type(data).__name__ == "ZarrDataIO" and isinstance(given, dict):  # hdmf-zarr's
        compressor = given.get("compressor", given.get("compressors", True))
        return Settings(
            chunks=given.get("chunks") or None,
            shards=given.get("shards"),
            compressor=compressor,
            filters=given.get("filters"),
            serializer=None if given.get("serializer") == "auto" else given.get("serializer"),
            fill_value=given.get("fill_value"),
        )
    return Settings()


def _from_h5_options(given: dict[str, Any]) -> Settings:
    known = {
        "chunks",
        "compression",
        "compression_opts",
        "shuffle",
        "fillvalue",
        "maxshape",
        "fletcher32",
        "dtype",
        "shape",
    }
    for name, value in given.items():
        if name not in known and value is not None:
            warnings.warn(f'HDF5 option "{name}" has no meaning here and is left out', stacklevel=3)
    if given.get("fletcher32"):
        warnings.warn("the checksum fletcher32 of HDF5 is left out", stacklevel=3)
    chunks = given.get("chunks")
    compression, level = given.get("compression"), given.get("compression_opts")
    compressor: Any = True
    filters: list[Any] = []
    if compression is True:
        compression = "gzip"
    if isinstance(compression, int) and not isinstance(compression, bool) and 0 <= compression <= 9:
        compression, level = "gzip", compression
    if compression == "gzip":
        compressor = {"id": "gzip", "level": 4 if level is None else int(level)}
    elif compression is not None:
        warnings.warn(f"HDF5 compression {compression!r} is not known; the default is used", stacklevel=3)
    if given.get("shuffle"):
        filters.append("shuffle")
    return Settings(
        chunks=None if chunks in (None, True, False) else tuple(chunks),
        compressor=compressor,
        filters=filters or None,
        fill_value=given.get("fillvalue"),
    )


def settings_of_h5(dataset: Any) -> Settings:
    """Return the settings of a dataset of h5py: its chunks, compression, other filters and fill value."""
    filters = codecs_of_h5(dataset)
    compressor: Any = True
    if filters and filters[-1].codec_id != "shuffle":
        compressor = filters.pop()
        if compressor.codec_id == "zlib":  # the same compression, in the frame that Zarr v3 and N5 have
            compressor = {"id": "gzip", "level": compressor.level}
    filters = ["shuffle" if codec.codec_id == "shuffle" else codec for codec in filters]
    fill = None
    if dataset.dtype.kind in "biufcS":
        fill = np.asarray(dataset.fillvalue).item()
    return Settings(chunks=dataset.chunks, compressor=compressor, filters=filters or None, fill_value=fill)


def codecs_of_h5(dataset: Any) -> list[Any]:
    """Return codecs of numcodecs that do what the filters of a dataset of h5py do; warn of others."""
    codecs, itemsize = [], dataset.dtype.itemsize
    for one in filters_of(dataset):
        is_skipped = one.number not in _KEPT or (one.number == SHUFFLE and dataset.dtype.kind == "O")
        documents = None if is_skipped else filter_documents([one], itemsize)
        if documents is not None:
            codecs += [numcodecs.get_codec(dict(document)) for document in documents]
        elif one.number != SHUFFLE:
            warnings.warn(f"filter {one.number} ({one.name}) of {dataset.name} is left out", stacklevel=3)
    return codecs
