"""Parsing the layers of a stack, of which most say the same in all but kvstore and transform."""

from __future__ import annotations

from typing import Any

from chunkwise.binding import JSON, dump
from chunkwise.driver.based_spec import parse_base
from chunkwise.index_space import IndexTransform
from chunkwise.spec.kvstore_spec import parse_kvstore_spec
from chunkwise.spec.spec import Spec
from chunkwise.spec.spec_members import kvstore_from_url

__all__ = ["LayerParser"]

_OWN = ("kvstore", "transform")
_NOT_ALONE = ("path", "rank")  # what these mean depends on the members above


class LayerParser:
    """Parses layers one after the other; what several have in common is parsed once.

    A layer that is not like an earlier one goes the long way, and so does one with an error in it.
    """

    def __init__(self) -> None:
        self._known: dict[str, Spec] = {}

    def parse(self, value: JSON) -> Spec:
        """Return the spec of a layer.

        Raises
        ------
        SpecError
            As :class:`Spec` does.
        """
        if not isinstance(value, dict) or "kvstore" not in value or any(name in value for name in _NOT_ALONE):
            return parse_base(value)
        rest = {name: member for name, member in value.items() if name not in _OWN}
        try:
            key = dump(rest)
        except (TypeError, ValueError):
            return parse_base(value)
        known = self._known.get(key)
        if known is None:
            self._known[key] = common = parse_base(rest)
            assert common._driver.kvstore is None
            return parse_base(value)
        rank = known._driver.rank
        if rank is None:
            return parse_base(value)
        transform = known._transform
        if "transform" in value:
            transform = _transform(value["transform"])
            if transform is None or transform.output_rank != rank:
                return parse_base(value)
        try:
            kvstore = parse_kvstore_spec(value["kvstore"], kvstore_from_url)
            return Spec._of(known._driver.with_kvstore(kvstore.as_directory()), transform)
        except (TypeError, ValueError):
            return parse_base(value)


def _transform(value: Any) -> IndexTransform | None:
    try:
        return IndexTransform(json=value)
    except (TypeError, ValueError):
        return None
