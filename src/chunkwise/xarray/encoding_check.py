"""``EncodingCheck``: whether encoded values mean the same as the given ones.

xarray casts, and a value that a type can't hold becomes another number or truncated text.  So each block is
compared with its source; the error names the first value that differs.

* Numbers are compared by value.  With a scale they may differ by one step, as floating-point numbers by
  rounding; whole numbers must not change.
* NaN needs a value that marks it, and no other value may become that one.
* Times are decoded again by xarray, those of NumPy are cast back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError, noted
from chunkwise.extension.trees import FILL_VALUE

__all__ = ["EncodingCheck"]

_BLOCK = 1 << 18
"""Number of elements that are compared at a time."""

_ANY_LENGTH = (
    'elements of type object have any length: mode="a" replaces the stored variable by one that is '
    "astype(object)"
)


class EncodingCheck(NamedTuple):
    """A check of the blocks of one variable; it can be sent to other processes."""

    name: str
    attributes: Mapping[str, Any]  # for decoding the stored values
    element: str  # "str" or "bytes" if the array has elements of any length, else ""
    is_added: bool  # added to an existing variable: without a scale, fractions are not rounded to integers

    def __call__(self, given: Any, encoded: Any) -> npt.NDArray[Any]:
        """Return `encoded` if it means the same as `given`; raise InvalidArgumentError otherwise."""
        values: npt.NDArray[Any] = np.asarray(given)
        stored: npt.NDArray[Any] = np.asarray(encoded)
        if values.shape == stored.shape and values is not stored:  # else nothing but the type is asked for
            for one, other in zip(_blocks(values), _blocks(stored), strict=True):
                self._check(one, other)
        return stored

    def _check(self, given: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> None:
        kinds = given.dtype.kind + encoded.dtype.kind
        if given.dtype.kind in "mM" and encoded.dtype.kind in "mM":
            self._refuse_where((encoded.astype(given.dtype) != given) & ~np.isnat(given), given, encoded)
        elif given.dtype.kind in "mM":
            self._check_times(given, encoded)
        elif given.dtype.kind in "OUTS":
            self._check_text(given, encoded)
        elif all(kind in "biufc" for kind in kinds):
            self._check_numbers(given, encoded)

    def _check_times(self, given: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> None:
        import xarray as xr

        stored = xr.Variable(("x",), encoded, dict(self.attributes))
        decoded = xr.conventions.decode_cf_variable(
            self.name, stored, decode_timedelta=given.dtype.kind == "m"
        ).values
        wrong = np.isnat(decoded) != np.isnat(given)
        if encoded.dtype.kind == "f":
            # As exact as the type allows; a type of fewer bits may have been asked for.
            digits = np.float64 if self.is_added else encoded.dtype
            step = abs(decoded - given).astype("m8[ns]").astype("f8")
            whole = abs(given.astype("M8[ns]" if given.dtype.kind == "M" else "m8[ns]").astype("i8"))
            wrong |= ~np.isnat(given) & (step > 1e3 + 8 * float(np.finfo(digits).eps) * whole)
        else:
            wrong |= (decoded != given) & ~np.isnat(given)
        self._refuse_where(wrong, given, encoded)

    def _check_text(self, given: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> None:
        if given.dtype.kind == encoded.dtype.kind != "O" and encoded.dtype.itemsize >= given.dtype.itemsize:
            return
        kinds: dict[str, type] = {"U": str, "T": str, "S": bytes, "str": str, "bytes": bytes}
        expected = kinds.get(self.element) or kinds.get(encoded.dtype.kind)
        values = given.tolist()
        if not all(isinstance(value, str | bytes) for value in values):
            return  # times of other calendars, which xarray checks
        for value, stored in zip(values, encoded.tolist(), strict=True):
            if value != stored or (expected is not None and not isinstance(stored, expected)):
                what = f", as {stored!r} would be stored" if isinstance(stored, type(value)) else ""
                of = "bytes" if (expected or type(value)) is bytes else "text"
                held = (self.element and f"elements of {of}") or f"{encoded.dtype}, which is {of}"
                if encoded.dtype.kind in "US":
                    n = encoded.dtype.itemsize // (4 if encoded.dtype.kind == "U" else 1)
                    held = (
                        f"{encoded.dtype}: {of} of at most {n} {'bytes' if of == 'bytes' else 'characters'}"
                    )
                error = InvalidArgumentError(
                    f'variable "{self.name}": {_shown(value)} can\'t be stored as {held}{what}'
                )
                raise noted(error, _ANY_LENGTH if self.is_added and encoded.dtype.kind in "US" else "")

    def _check_numbers(self, given: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> None:
        stored = self._as_read(encoded)
        is_filled = self._is_fill(encoded)
        is_missing = given != given
        wrong = is_missing & ~(is_filled | (encoded != encoded))
        self._refuse_where(wrong, given, encoded, "has no value that stands for a missing one (_FillValue)")
        taken = is_filled & ~is_missing
        if not self.is_added and not self._is_packed:
            taken &= given != stored  # the value chosen for missing ones occurs in the data
        self._refuse_where(taken, given, encoded, f"takes {self._fills} for a missing value")
        with np.errstate(all="ignore"):
            if self._is_packed:
                read = stored.astype("f8") * self._scale + self._offset
                step = abs(self._scale) if encoded.dtype.kind in "iu" else 0.0
                digits = [x.dtype for x in (given, encoded) if x.dtype.kind == "f"]
                eps = max([float(np.finfo(of).eps) for of in digits], default=0.0) + np.finfo("f8").eps
                wide = given.astype("f8")
                allowed = step + 4 * eps * (abs(wide) + abs(self._offset) + abs(self._scale))
                wrong = ~(abs(read - wide) <= allowed)
            else:
                wrong = ~self._is_same(given, stored)
        self._refuse_where(wrong & ~is_missing & ~is_filled, given, encoded)

    def _is_same(self, given: npt.NDArray[Any], stored: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which elements are stored as given, apart from intended rounding."""
        if given.dtype.kind == "c" or stored.dtype.kind in "fc":
            if given.dtype.kind == "f" or (given.dtype.kind == stored.dtype.kind == "c"):
                rounded = stored == given.astype(stored.dtype)
                return np.asarray(rounded & (np.isfinite(stored) == np.isfinite(given)))
            if given.dtype.kind in "iu":  # whole numbers beyond the mantissa would change
                back = _within(stored.real, given.dtype)
                exact = np.where(back, stored.real, 0).astype(given.dtype) == given
                return np.asarray(back & exact & (stored == given))
            return np.asarray(stored == given)
        if given.dtype.kind == "f" and stored.dtype.kind in "iu":
            wide = stored.astype("f8")
            close = wide == given
            if not self.is_added:
                close = abs(wide - given) <= 0.5 + np.finfo("f8").eps * abs(given)
            return np.asarray(close & _within(given, stored.dtype))
        return np.asarray(stored == given)

    # -- what the attributes say -----------------------------------------------------------------------

    @property
    def _is_packed(self) -> bool:
        return "scale_factor" in self.attributes or "add_offset" in self.attributes

    @property
    def _scale(self) -> float:
        return float(np.asarray(self.attributes.get("scale_factor", 1)).item())

    @property
    def _offset(self) -> float:
        return float(np.asarray(self.attributes.get("add_offset", 0)).item())

    @property
    def _fills(self) -> list[Any]:
        found = [self.attributes[key] for key in (FILL_VALUE, "missing_value") if key in self.attributes]
        values = [value for each in found for value in np.asarray(each).ravel().tolist()]
        return list(dict.fromkeys(value for value in values if value == value))

    def _is_fill(self, encoded: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        out = np.zeros(encoded.shape, bool)
        for fill in self._fills:
            out |= (encoded == fill) | (self._as_read(encoded) == fill)
        return out

    def _as_read(self, encoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return numbers with the sign that ``_Unsigned`` gives them."""
        unsigned = str(self.attributes.get("_Unsigned", "")).lower()
        kinds = {("i", "true"): "u", ("u", "false"): "i"}
        kind = kinds.get((encoded.dtype.kind, unsigned))
        return encoded if kind is None else encoded.view(f"{kind}{encoded.dtype.itemsize}")

    # -- refusing ---------------------------------------------------------------------------------------

    def _refuse_where(
        self, wrong: npt.NDArray[Any], given: npt.NDArray[Any], encoded: npt.NDArray[Any], why: str = ""
    ) -> None:
        if not wrong.any():
            return
        value = given[wrong.argmax()]
        raise InvalidArgumentError(
            f'variable "{self.name}": {_shown(value)} can\'t be stored as {self._held(encoded.dtype, why)}'
        )

    def _held(self, dtype: np.dtype[Any], why: str) -> str:
        """Return what a type holds, in words."""
        how = [
            f"{key} {self.attributes[key]}"
            for key in ("scale_factor", "add_offset")
            if key in self.attributes
        ]
        if "units" in self.attributes and not how:
            how = [f"units {self.attributes['units']!r}"]
        text = f"{dtype}{' with ' if how else ''}{' and '.join(how)}"
        if why:
            return f"{text}, which {why}"
        if dtype.kind in "iu":
            read = self._as_read(np.zeros(1, dtype)).dtype
            ends: list[Any] = [np.iinfo(read).min, np.iinfo(read).max]
        elif dtype.kind == "f":
            ends = [float(np.finfo(dtype).min), float(np.finfo(dtype).max)]
        else:
            return text
        if self._is_packed:
            ends = sorted(end * self._scale + self._offset for end in ends)
        whole = "whole numbers " if dtype.kind in "iu" and not how else ""
        return f"{text}, which holds {whole}{ends[0]} to {ends[1]}"


def _blocks(values: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    flat = values.reshape(-1)
    for at in range(0, len(flat), _BLOCK):
        yield flat[at : at + _BLOCK]


def _within(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Return which floating-point numbers an integer type can hold, after rounding."""
    lowest, highest = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    inside = (values > lowest - 1) & (values < highest + 1) | (values == lowest)
    return np.asarray(inside, bool)


def _shown(value: Any) -> str:
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}..."
    return str(value)
