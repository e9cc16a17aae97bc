"""Data types of other packages: a name in Zarr v3, and the NumPy type of elements in memory.

They are rows of the catalogue, or registered in ``chunkwise.core.base.catalogue.data_types``.  Only Zarr v3
can store their names, so arrays in other formats can't have them.  `chunkwise.core.dtypes.data_type.DataType`
takes the name or, if there are options, the JSON object of name and configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_object, expect_string
from chunkwise.core.base.catalogue import data_types
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError

__all__ = ["Extension", "extension_of", "find_extension", "name_of_extension"]


class Extension(Protocol):
    """Data type of another package; usually a frozen dataclass of its options.

    Attributes
    ----------
    name : str
        Its name in Zarr v3.
    memory_dtype : numpy.dtype
        Type of an element in memory: of fixed size, without objects, in native byte order.

    Notes
    -----
    Two members are optional.  ``fill_rank`` is the depth of the lists that make up a fill value in JSON, 0 if
    it is not a list.  ``from_numbers(array, casting)`` converts an array of numbers to ``memory_dtype``, by
    one of NumPy's rules for casting; without it, users must pass values that NumPy itself converts.
    """

    name: ClassVar[str]

    @property
    def memory_dtype(self) -> np.dtype[Any]: ...

    @classmethod
    def parse(cls, configuration: Mapping[str, JSON]) -> Self:
        """Return the type with the options of a ``configuration``, which is empty if missing."""
        ...

    def to_json(self) -> dict[str, JSON]:
        """Return the ``configuration``: the exact inverse of `parse`."""
        ...

    def parse_fill_value(self, value: JSON) -> npt.ArrayLike:
        """Return the element that a fill value in JSON stands for."""
        ...

    def print_fill_value(self, fill: npt.NDArray[Any]) -> JSON:
        """Return the JSON of an element given as an array of shape ``()``."""
        ...


def find_extension(name: str, configuration: Mapping[str, JSON]) -> Extension | None:
    """Return the data type that is registered under `name`, with its options; None if there is none."""
    try:
        kind = data_types.find(name, "zarr3")
    except UnknownExtensionError:
        return None
    found: Extension = kind.parse(configuration)
    memory = found.memory_dtype
    if memory.hasobject or not memory.itemsize or not memory.isnative or memory.subdtype is not None:
        raise InvalidArgumentError(
            f'data type "{name}" has elements of {memory!r}, but expected a type of fixed size, '
            "without objects, in native byte order"
        )
    return found


def name_of_extension(extension: Extension) -> str:
    """Return the name of the data type; the inverse of `extension_of`."""
    configuration = extension.to_json()
    if not configuration:
        return extension.name
    return json.dumps({"name": extension.name, "configuration": configuration}, separators=(",", ":"))


def extension_of(name: str) -> Extension | None:
    """Return the data type that is called `name`; None if there is none."""
    if not name.startswith("{"):
        return find_extension(name, {})
    try:
        value = json.loads(name)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return None
    members = Members(expect_object(value))
    own, configuration = members.take("name", expect_string), members.take("configuration", expect_object, {})
    members.finish()
    return find_extension(own, configuration)
