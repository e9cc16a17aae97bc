"""Members of the specs of all drivers: schema and its short forms, context, kvstore."""

from __future__ import annotations

from typing import NamedTuple, Self

from chunkwise.core.base.binding import MISSING, Members, expect_int, expect_string
from chunkwise.core.specs.context import ContextSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, parse_kvstore_spec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.schema_constraints import dtype_from_json
from chunkwise.core.specs.url import kvstore_json_from_url
from chunkwise.errors import SpecError

__all__ = ["SpecMembers", "kvstore_from_url"]


def kvstore_from_url(url: str) -> KvStoreSpec:
    """Return the kvstore spec of a URL."""
    return parse_kvstore_spec(kvstore_json_from_url(url), kvstore_from_url)


class SpecMembers(NamedTuple):
    """Members of every spec."""

    schema: Schema  # ``schema``, with ``dtype``, and with ``rank`` unless a transform has its own rank
    context: ContextSpec | None

    @classmethod
    def take(cls, members: Members, *, rank_is_of_driver: bool = True) -> tuple[Self, int | None]:
        """Take the members; also return ``rank``, which belongs to the transform if there is one."""
        context = members.take("context", ContextSpec, None)
        schema = members.take("schema", Schema, None) or Schema()
        members.take("dtype", lambda v: schema._set_dtype(dtype_from_json(v)), None)

        def take_rank(value: object) -> int:
            rank = expect_int(value, 0, 32)
            if rank_is_of_driver:
                schema._set_rank(rank)
            return rank

        rank = members.take("rank", take_rank, None)
        return cls(schema, context), rank

    @staticmethod
    def take_kvstore(members: Members) -> KvStoreSpec | None:
        """Take the member ``kvstore``, an object or a URL."""
        return members.take(
            "kvstore", lambda v: None if v is MISSING else parse_kvstore_spec(v, kvstore_from_url), None
        )

    def take_kvstore_and_path(self, members: Members) -> KvStoreSpec | None:
        """Take ``kvstore``, and ``path``, which is joined to its path."""
        kvstore = self.take_kvstore(members)
        path = members.take("path", expect_string, None)
        if path is None:
            return kvstore
        if kvstore is None:
            raise SpecError(
                'Error parsing object member "path": "path" must be specified in conjunction with "kvstore"'
            )
        return kvstore.joined(path)
