"""The stored content of OCDBT databases: manifests, nodes and values."""

from __future__ import annotations

from typing import Any

from chunkwise import Context, Future, KvStore
from chunkwise.extension import Members, kvstores
from chunkwise.extension.inside import in_background, name_members

__all__ = ["dump"]


def dump(base: KvStore, node: str | None = None, *, context: Context | None = None) -> Future[Any]:
    """Return the content of a part of an OCDBT database, as JSON with byte strings.

    Parameters
    ----------
    base : KvStore
        Location of the database.
    node : str, optional
        Part to show: a ``"location"`` or ``"indirect_value"`` of an earlier result; by default the manifest.
    context : Context, optional
        Its ``data_copy_concurrency`` limits the decoding.

    Returns
    -------
    Future
        A dict, or the bytes of a value.

    Raises
    ------
    InvalidArgumentError
        If `node` is no location.
    NotFoundError
        If there is no database, or no such file in it.
    DataCorruptionError
        If something else is stored there, or it is damaged.

    Examples
    --------
    >>> import chunkwise
    >>> store = chunkwise.KvStore.open({"driver": "ocdbt", "base": "memory://"}).result()
    >>> store["a"] = b"b"
    >>> manifest = chunkwise.ocdbt.dump(store.base).result()
    >>> chunkwise.ocdbt.dump(store.base, manifest["versions"][-1]["root"]["location"]).result()
    {'entries': [{'inline_value': b'b', 'key': b'a'}], 'height': 0}
    """
    if not isinstance(base, KvStore):
        raise TypeError(f"base: expected a KvStore, got {type(base).__name__}")
    spec: Any = kvstores.find("ocdbt").parse(Members({"base": base._bound_spec()}))
    return in_background(spec.part_reader(node, context))


name_members(globals(), __all__)
