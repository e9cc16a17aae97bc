"""zarr-python on stores of chunkwise, and with its engine (extra ``[zarr]``).

`Store` is a store of zarr-python over any kvstore, `CodecPipeline` hands arrays of zarr-python to chunkwise.
"""

from chunkwise.extension.inside import name_members, needs

try:
    import zarr as _zarr  # noqa: F401  (the package, not this one)
except ImportError as e:
    raise ImportError(f"{needs('chunkwise.zarr', 'zarr')} ({e})") from e

from chunkwise.zarr.pipeline import CodecPipeline
from chunkwise.zarr.store import Store

__all__ = ["CodecPipeline", "Store"]

name_members(globals(), __all__)
