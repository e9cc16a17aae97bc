// The position: crosshair, sliders, and the values there.

import { ask, axisText, redraw } from "./drawing.js";
import { $, make, say } from "./elements.js";
import { positions } from "./goto.js";
import { save } from "./link.js";
import { input, plate, view } from "./state.js";

const FRAME = 120; // milliseconds that a position is shown, at least, when positions are played

export function moveTo(dim, value) {
  view.cross[dim] = Math.min(Math.max(Math.round(value) || 0, 0), Math.max(view.shape[dim] - 1, 0));
  for (const input of (view.sliders && view.sliders.get(dim)) || []) input.value = view.cross[dim];
  const margin = view.shape[dim] > 1 && view.panels.some((p) => [p.across, p.down].includes(dim));
  if (margin) keepVisible(dim);
  save();
  redraw();
}

function keepVisible(dim) {
  for (const panel of view.panels) {
    for (const [axis, length] of [["across", panel.canvas.clientWidth], ["down", panel.canvas.clientHeight]]) {
      if (panel[axis] !== dim) continue;
      const at = view.screen(panel, axis, view.cross[dim] + 0.5, length);
      if (at < 0 || at > length) view.center[dim] = view.cross[dim] + 0.5;
    }
  }
}

export function slider(dim) {
  const n = view.shape[dim], input = make("input", { type: "range", min: 0, max: n - 1, value: view.cross[dim], id: `slider-${dim}` });
  const out = make("input", { type: "number", min: 0, max: n - 1, value: view.cross[dim] });
  const axis = view.image.axes[dim];
  out.setAttribute("aria-label", `${axis.name}, number`);
  const set = (value) => { moveTo(dim, Number(value)); };
  input.addEventListener("input", () => set(input.value));
  out.addEventListener("change", () => set(out.value));
  view.sliders.set(dim, [input, out]);
  const player = make("button", { textContent: "▶", title: `Play through ${axis.name}`, "aria-pressed": "false" });
  player.setAttribute("aria-label", `play through ${axis.name}`);
  player.addEventListener("click", () => play(play.dim === dim ? null : dim, player));
  return make("div", { className: "slider" }, make("label", {}, make("span", { textContent: axis.name }), input, out), player);
}

// Show one position of a dimension after the other, each when the one before is drawn; null stops.
export function play(dim, button = null) {
  clearTimeout(play.timer);
  if (play.button) { play.button.textContent = "▶"; play.button.setAttribute("aria-pressed", "false"); }
  Object.assign(play, { dim, button });
  if (dim === null) return;
  button.textContent = "❚❚";
  button.setAttribute("aria-pressed", "true");
  const next = () => {
    if (document.body.dataset.idle === "true") moveTo(dim, (view.cross[dim] + 1) % view.shape[dim]);
    play.timer = setTimeout(next, FRAME);
  };
  play.timer = setTimeout(next, FRAME);
}

// The field for a position, in elements or in units.
export function jump() {
  const { axes } = view.image, unit = axes.find((a) => a.unit)?.unit;
  const field = make("input", { id: "jump", type: "text", placeholder: `Go to ${axes.map((a) => a.name).join(", ")}`, title: `Positions in elements${unit ? " or in units" : ""} (J)${unit ? `, such as ${axes.find((a) => a.unit).name}=2.5 ${unit}` : ""}` });
  field.setAttribute("aria-label", "go to a position");
  field.addEventListener("change", () => {
    try {
      if (field.value.trim()) positions(field.value, view.image).forEach((at, dim) => moveTo(dim, at));
      field.value = "";
      say("");
      showValue([...view.cross]);
    } catch (error) {
      say(error.message);
    }
  });
  return field;
}

export function step(panel, key, far) {
  const n = far ? 10 : 1;
  const moves = { ArrowLeft: ["across", -n], ArrowRight: ["across", n], ArrowUp: ["down", -n], ArrowDown: ["down", n], PageUp: ["through", -n], PageDown: ["through", n] };
  const [axis, by] = moves[key] || [];
  if (!axis || panel[axis] === null) return false;
  moveTo(panel[axis], view.cross[panel[axis]] + by);
  showValue([...view.cross]);
  return true;
}

// What stands beside the title: a place at once, what is there as soon as `look` has found it.
export function point(where, look) {
  const turn = point.turn = (point.turn || 0) + 1;
  clearTimeout(point.timer);
  $("pointer").textContent = where;
  point.value = "";
  if (!look) return;
  point.timer = setTimeout(async () => {
    const [found, value] = await look().then((texts) => [` = ${texts.join("; ")}`, texts.join("; ")], (error) => [`: ${error.message}`, ""]);
    if (turn !== point.turn) return;
    $("pointer").textContent = where + found;
    point.value = value;
  }, 60);
}

export async function valueAt(path, at) { return (await ask("value", { path, at: at.join(",") })).value; }

export function pointTo(panel, x, y) {
  const at = [...view.cross];
  for (const [axis, offset, length] of [["across", x, panel.canvas.clientWidth], ["down", y, panel.canvas.clientHeight]]) {
    const dim = panel[axis];
    if (dim === null) continue;
    at[dim] = Math.floor(view.position(panel, axis, offset, length));
    if (at[dim] < 0 || at[dim] >= view.shape[dim]) { point(""); return; }
  }
  showValue(at);
}

export function showValue(at) {
  const mine = view, { channel, labels } = mine.image;
  const where = at.map((p, dim) => (dim === channel && !labels ? null : axisText(dim, p))).filter(Boolean).join("  ");
  const active = channel !== null && !labels ? mine.channels.filter((c) => c.active).slice(0, 4) : [null];
  point(where, async () => {
    const values = await Promise.all(active.map((c) => valueAt(mine.path, at.map((p, d) => (c && d === channel ? c.index : p)))));
    return [values.join(", "), ...await Promise.all(mine.overlays.map((o) => labelAt(mine, o, at)))];
  });
}

// What is at a place of a well, in parts of it; `path` is null for none.
export function showWell(path, x, y) {
  const found = path && plate && plate.lead ? plate.elements(path, x, y) : null;
  const [image] = found || [];
  if (!image || !image.path) { point(path || ""); return; }
  const active = image.channel === null ? [null] : plate.active.slice(0, 4);
  const value = ({ path: p, at, channel }, c) => valueAt(p, at.map((n, dim) => (dim === channel && c !== null ? c : n)));
  point(`${path} at ${image.at.filter((_, dim) => dim !== image.channel).join(", ")}`, () => Promise.all([
    Promise.all(active.map((c) => value(image, c))).then((values) => values.join(", ")),
    ...found.slice(1).map(async (o) => `${o.label} ${o.path ? await value(o, null) : "-"}`),
  ]));
}

async function labelAt(main, overlay, at) {
  const index = [...overlay.cross];
  at.forEach((p, dim) => { const e = main.dimIn(overlay, dim); if (e !== null) index[e] = Math.floor(main.positionIn(overlay, dim, p + 0.5)); });
  if (index.some((p, dim) => p < 0 || p >= overlay.shape[dim])) return `${overlay.label} -`;
  return `${overlay.label} ${await valueAt(overlay.path, index)}`;
}
