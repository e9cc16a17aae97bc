// Pointer and wheel on the panels.

import { redraw } from "./drawing.js";
import { save } from "./link.js";
import { pickHere } from "./overlays.js";
import { moveTo, pointTo, showValue } from "./position.js";
import { fourth, input, view } from "./state.js";
import { cellAt } from "./table.js";

export function listenTable(panel, number) {
  panel.canvas.addEventListener("focus", () => { input.focused = number; redraw(); });
  panel.canvas.addEventListener("click", ({ target }) => {
    const at = cellAt(view, panel, target);
    if (!at) return;
    at.forEach((p, dim) => moveTo(dim, p));
    showValue(at);
  });
}

export function listen(panel, number) {
  const { canvas } = panel;
  const pointers = new Map();
  let moved = false;
  canvas.addEventListener("focus", () => { input.focused = number; redraw(); });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = pointers.size > 1;
    const start = elementAt(panel, event);
    if (input.lining && !moved) fourth.line = { panel: number, ends: [...start, ...start] };
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) { pointTo(panel, event.offsetX, event.offsetY); return; }
    const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    if (input.lining && pointers.size === 1) {
      fourth.line = { panel: number, ends: [...fourth.line.ends.slice(0, 2), ...elementAt(panel, event)] };
      fourth.chosen = "profile";
      redraw();
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const far = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      zoomAt(panel, far([event.offsetX, event.offsetY]) / far(before), event.offsetX, event.offsetY);
    } else {
      pan(panel, dx, dy);
    }
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  const up = (event) => {
    if (pointers.delete(event.pointerId) && input.lining) redraw();
    else if (!moved && event.type === "pointerup") {
      for (const [axis, at, length] of [["across", event.offsetX, canvas.clientWidth], ["down", event.offsetY, canvas.clientHeight]]) {
        if (panel[axis] !== null) moveTo(panel[axis], Math.floor(view.position(panel, axis, at, length)));
      }
      pointTo(panel, event.offsetX, event.offsetY);
    }
    save();
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("dblclick", pickHere);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const delta = event.deltaY || event.deltaX;
    if (event.shiftKey && panel.through !== null) moveTo(panel.through, view.cross[panel.through] + Math.sign(delta));
    else zoomAt(panel, Math.exp(-Math.sign(delta) * Math.min(Math.abs(delta), 100) / 400), event.offsetX, event.offsetY);
    save();
  }, { passive: false });
}

// The row and column of a plane at a place of its panel, or nearest to it.
function elementAt(panel, { offsetX, offsetY }) {
  return [["down", offsetY, panel.canvas.clientHeight], ["across", offsetX, panel.canvas.clientWidth]].map(([axis, at, length]) => {
    return Math.min(Math.max(Math.floor(view.position(panel, axis, at, length)), 0), view.count(panel, axis) - 1);
  });
}

function pan(panel, dx, dy) {
  if (panel.across !== null) view.center[panel.across] -= dx / view.pixels(panel, "across");
  if (panel.down !== null) view.center[panel.down] -= dy / view.pixels(panel, "down");
  redraw();
}

export function zoomAt(panel, factor, x, y) {
  const { clientWidth, clientHeight } = panel.canvas;
  const sides = [["across", x, clientWidth], ["down", y, clientHeight]].filter(([axis]) => panel[axis] !== null);
  const before = sides.map(([axis, at, length]) => view.position(panel, axis, at, length));
  view.zoom = Math.min(Math.max(view.zoom * factor, 1e-6), 400);
  sides.forEach(([axis, at, length], i) => { view.center[panel[axis]] += before[i] - view.position(panel, axis, at, length); });
  redraw();
}
