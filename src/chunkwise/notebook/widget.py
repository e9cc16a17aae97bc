"""The widget that ``.view()`` returns: a slice as a picture, and a slider for each other dimension."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import ChunkwiseError
from chunkwise.multiscale.image import MultiscaleImage
from chunkwise.notebook.slices import Slicer

__all__ = ["SliceWidget"]

_SCRIPT = """
function render({ model, el }) {
  const controls = document.createElement("div");
  const picture = document.createElement("img");
  const message = document.createElement("div");
  picture.alt = "slice";
  picture.style.cssText = "image-rendering:pixelated;max-width:100%;min-width:256px;display:block";
  let url = null;
  function row(name, low, high, value, change) {
    const label = document.createElement("label");
    const slider = document.createElement("input");
    const shown = document.createElement("span");
    label.style.cssText = "display:flex;gap:.5em;align-items:center;font-family:monospace";
    Object.assign(slider, { type: "range", min: low, max: high });
    slider.value = value;
    shown.textContent = value;
    slider.addEventListener("input", () => {
      shown.textContent = slider.value;
      change(Number(slider.value));
      model.save_changes();
    });
    label.append(name, slider, shown);
    return label;
  }
  function draw() {
    const rows = [];
    if (model.get("n_levels") > 1)
      rows.push(row("level", 0, model.get("n_levels") - 1, model.get("level"), (n) => model.set("level", n)));
    model.get("sliders").forEach((one, i) =>
      rows.push(row(one.name, one.start, one.stop - 1, model.get("position")[i], (n) => {
        const position = [...model.get("position")];
        position[i] = n;
        model.set("position", position);
      }))
    );
    controls.replaceChildren(...rows);
  }
  function show() {
    if (url) URL.revokeObjectURL(url);
    url = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    picture.src = url;
    message.textContent = model.get("error");
  }
  model.on("change:sliders", draw);
  model.on("change:png", show);
  model.on("change:error", show);
  el.append(controls, picture, message);
  draw();
  show();
  return () => url && URL.revokeObjectURL(url);
}
export default { render };
"""


class SliceWidget(anywidget.AnyWidget):
    """A plane of an array or image, at positions that sliders choose; the kernel reads and draws it."""

    _esm = _SCRIPT
    n_levels = traitlets.Int().tag(sync=True)
    level = traitlets.Int().tag(sync=True)
    sliders: Any = traitlets.List().tag(sync=True)
    position: Any = traitlets.List(traitlets.Int()).tag(sync=True)
    png = traitlets.Bytes().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)

    def __init__(self, source: MultiscaleImage | TensorStore) -> None:
        self._slicer = Slicer(source)
        level = self._slicer.n_levels - 1  # the one that is read fastest
        sliders = self._slicer.sliders(level)
        super().__init__(
            n_levels=self._slicer.n_levels,
            level=level,
            sliders=[one._asdict() for one in sliders],
            position=[(one.start + one.stop) // 2 for one in sliders],
        )
        self._draw()
        self.observe(self._turn, "level")
        self.observe(lambda _: self._draw(), "position")

    def _turn(self, change: Any) -> None:
        """Show another level at the same place."""
        self.level = min(max(self.level, 0), self.n_levels - 1)
        before = self.sliders
        sliders = self._slicer.sliders(self.level)
        position = [
            one.start + (at - old["start"]) * (one.stop - one.start) // (old["stop"] - old["start"])
            for one, old, at in zip(sliders, before, self.position, strict=True)
        ]
        self.sliders = [one._asdict() for one in sliders]
        if position == self.position:
            self._draw()
        self.position = position

    def _draw(self) -> None:
        try:
            self.png, self.error = self._slicer.png(self.level, self.position), ""
        except (ChunkwiseError, ValueError) as e:  # a damaged chunk, say: others can be looked at
            self.error = str(e)
