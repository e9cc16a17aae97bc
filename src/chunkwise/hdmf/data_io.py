"""How a dataset is to be stored, wrapped around its data: ``ZarrDataIO``, and hdmf's own for HDF5."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hdmf.data_utils import DataIO

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf.codecs import Settings

__all__ = ["ZarrDataIO", "settings_of", "settings_of_h5"]

_UNSET: Any = object()


class ZarrDataIO(DataIO):  # type: ignore[misc, unused-ignore]
    """Data together with how it is to be stored.

    Parameters
    ----------
    data : array_like or iterator
    chunks : tuple of int or True, optional
        Chunk shape; by default about 1 MiB.
    fillvalue : scalar, optional
        What is read where nothing was written.
    compressor, compressors : codec, list, bool or None
        Two names of one option.  True, the default, is the usual compressor of the format, False or None is
        none.  A codec is a name, JSON in the form of any format, or an object of numcodecs or zarr-python.
    filters : list of codec, optional
        What comes before the compressor.
    serializer : codec, optional
        What makes bytes of a chunk; Zarr v3.
    shards : tuple of int or "auto", optional
        Zarr v3.
    link_data : bool
        Whether data that is a dataset of another store becomes a link to it.
    dtype, shape
        Of data that is set later.

    Raises
    ------
    InvalidArgumentError
        If both `compressor` and `compressors` are given.
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
        super().__init__(**given)
        if compressor is not _UNSET and compressors is not _UNSET:
            raise InvalidArgumentError('"compressor" and "compressors" are one option; give one of them')
        self._compressor = compressors if compressor is _UNSET else compressor
        if self._compressor is _UNSET:
            self._compressor = True
        self._chunks = chunks
        self._fillvalue = fillvalue
        self._filters = filters
        self._link_data = bool(link_data)
        self._serializer = serializer
        self._shards = shards

    @property
    def link_data(self) -> bool:
        """Whether data of another store becomes a link."""
        return self._link_data

    @property
    def io_settings(self) -> dict[str, Any]:
        """The options that say how the data is stored."""
        return {
            "chunks": self._chunks,
            "fill_value": self._fillvalue,
            "compressor": self._compressor,
            "filters": self._filters,
            "serializer": self._serializer,
            "shards": self._shards,
        }

    @property
    def settings(self) -> Settings:
        """The same as the store takes it."""
        chunks = None if self._chunks in (None, True, False) else self._chunks
        return Settings(
            chunks=chunks if chunks is None or isinstance(chunks, int) else tuple(chunks),
            shards=self._shards,
            compressor=self._compressor,
            filters=self._filters,
            serializer=self._serializer,
            fill_value=self._fillvalue,
        )

    def get_io_params(self) -> dict[str, Any]:
        """Return the arguments that make this again, without the data."""
        return {
            "chunks": self._chunks,
            "fillvalue": self._fillvalue,
            "compressor": self._compressor,
            "filters": self._filters,
            "link_data": self._link_data,
            "serializer": self._serializer,
            "shards": self._shards,
        }

    @classmethod
    def from_h5py_dataset(cls, h5dataset: Any, **options: Any) -> ZarrDataIO:
        """Return a dataset of h5py, to be stored with the chunks and compression that it has.

        Parameters
        ----------
        h5dataset : h5py.Dataset
        **options
            Take precedence.
        """
        settings = settings_of_h5(h5dataset)
        own = {
            "chunks": settings.chunks,
            "fillvalue": settings.fill_value,
            "compressor": settings.compressor,
            "filters": settings.filters,
        }
        return cls(h5dataset, **{**own, **options})

    def __copy__(self) -> ZarrDataIO:
        return type(self)(self.data, **self.get_io_params())


def settings_of(data: DataIO) -> Settings:
    """Return how data in a wrapper of any backend is to be stored."""
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
        compressor = {"id": "zlib", "level": 4 if level is None else int(level)}
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
    """Return how a dataset of h5py is stored: its chunks, compression, shuffle and fill value.

    The compression becomes the compressor, with nothing on top of it.  A dataset that is not compressed gets
    the default.
    """
    filters = ["shuffle"] if dataset.shuffle else []
    compressor: Any = True
    if dataset.compression == "gzip":
        compressor = {"id": "zlib", "level": int(dataset.compression_opts or 4)}
    fill = None
    if dataset.dtype.kind in "biuf":
        fill = np.asarray(dataset.fillvalue).item()
    return Settings(chunks=dataset.chunks, compressor=compressor, filters=filters or None, fill_value=fill)
