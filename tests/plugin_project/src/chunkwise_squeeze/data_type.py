"""The data type ``fixed_point``: numbers with a fixed count of decimal places, kept as integers."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from chunkwise.extension import Members, expect_int, expect_string


@dataclass(frozen=True)
class FixedPoint:
    """Numbers with `digits` decimal places."""

    digits: int
    name, memory_dtype = "fixed_point", np.dtype("int64")

    @classmethod
    def parse(cls, configuration: Mapping[str, Any]) -> "FixedPoint":
        members = Members(configuration)
        digits = members.take("digits", lambda value: expect_int(value, 0, 18))
        members.finish()
        return cls(digits)

    def to_json(self) -> dict[str, Any]:
        return {"digits": self.digits}

    def parse_fill_value(self, value: Any) -> int:
        return int(Decimal(expect_string(value)).scaleb(self.digits))

    def print_fill_value(self, fill: Any) -> str:
        return str(Decimal(int(fill)).scaleb(-self.digits))
