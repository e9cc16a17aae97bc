"""The widget that ``.view()`` returns: a slice to move and zoom, and a slider for each other dimension.

The front end sends the current view, and the kernel answers with a picture of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from math import isfinite
from typing import Any

import anywidget
import traitlets

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.notebook.slices import Drawn, Shown, Slice, Slicer

__all__ = ["SliceWidget"]


class SliceWidget(anywidget.AnyWidget):
    """A plane of an array or image; the kernel reads and draws the visible part."""

    _esm = resources.files("chunkwise.notebook").joinpath("slice.js").read_text("utf-8")
    n_levels = traitlets.Int().tag(sync=True)
    aspect = traitlets.Float().tag(sync=True)
    most = traitlets.Float().tag(sync=True)
    sliders: Any = traitlets.List().tag(sync=True)
    channels: Any = traitlets.List().tag(sync=True)
    wanted: Any = traitlets.Dict().tag(sync=True)
    shown: Any = traitlets.Dict().tag(sync=True)
    png = traitlets.Bytes().tag(sync=True)

    def __init__(self, source: MultiscaleImage | TensorStore) -> None:
        self._slicer = slicer = Slicer(source)
        super().__init__(
            n_levels=slicer.n_levels,
            aspect=slicer.aspect,
            most=slicer.most_zoom,
            sliders=[one._asdict() for one in slicer.sliders],
            channels=slicer.channels,
            wanted={**slicer.first()._asdict(), "number": 0},
        )
        self._draw()
        self.observe(lambda _: self._draw(), "wanted")

    def show(
        self,
        position: Sequence[int] | None = None,
        center: tuple[float, float] | None = None,
        zoom: float | None = None,
        channels: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        """Show another slice, or another part of it; parameters that are not given stay as they are.

        Parameters
        ----------
        position : sequence of int, optional
            Index along the dimension of each slider.
        center : tuple of float, optional
            Point in the middle, down and across, from 0 to 1.
        zoom : float, optional
            1 for all of the plane.
        channels : sequence, optional
            Number, colour such as ``"ff0000"``, black and white of each channel that is shown, such as
            ``[(0, "00ff00", 100, 900), (2, "ff00ff")]``. ``[]`` shows the one at the position in grey.

        Raises
        ------
        InvalidArgumentError
            If `position` doesn't have one index for each slider, or a value isn't a number.
        """
        given = {"position": position, "center": center, "zoom": zoom, "channels": channels}
        changed = {name: value for name, value in given.items() if value is not None}
        wanted = _slice_of({**self.shown_slice()._asdict(), **changed})
        names = [one["name"] for one in self.sliders]
        if len(wanted.position) != len(names):
            raise InvalidArgumentError(
                f"position: expected an index for each of {names}, but received {position!r}"
            )
        self.wanted = {**wanted._asdict(), "number": self.wanted["number"] + 1}

    def shown_slice(self) -> Slice:
        """Return the slice in view."""
        return _slice_of(self.shown)

    def _draw(self) -> None:
        number = self.wanted.get("number")
        try:
            drawn = self._slicer.draw(_slice_of(self.wanted))
        except (ChunkwiseError, TypeError, ValueError, LookupError) as e:
            # The picture stays, and so does what else can be looked at.
            before = self.shown or {
                **self._slicer.first()._asdict(),
                "box": (0, 0, 1, 1),
                "level": 0,
                "windows": (),
            }
            self.shown = {**before, "number": number, "problem": str(e)}
            return
        self._answer(drawn, number)

    def _answer(self, drawn: Drawn, number: object) -> None:
        with self.hold_sync():  # one message
            self.png = drawn.png
            self.shown = {
                **drawn.seen._asdict(),
                "box": drawn.box,
                "level": drawn.level,
                "problem": drawn.problem,
                "windows": drawn.windows,
                "number": number,
            }


def _slice_of(value: Mapping[str, Any]) -> Slice:
    """Return the content of a message; raise InvalidArgumentError if it is malformed."""
    try:
        down, across = map(float, value["center"])
        channels = tuple(map(_shown_of, value.get("channels", ())))
        return Slice(tuple(map(int, value["position"])), (down, across), float(value["zoom"]), channels)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(
            f"expected position, center, zoom and channels, but received {value!r}"
        ) from None


def _shown_of(value: Sequence[Any]) -> Shown:
    """Return a channel as it is shown: number, colour, black and white, of which the last may be missing."""
    given = [*value, *("ffffff", None, None)[len(value) - 1 :]]
    number, color, low, high = given
    if not re.fullmatch("[0-9a-fA-F]{6}", color):
        raise ValueError(color)
    ends = [None if end is None else float(end) for end in (low, high)]
    if not all(end is None or isfinite(end) for end in ends):
        raise ValueError(ends)
    return Shown(int(number), color, ends[0], ends[1])
