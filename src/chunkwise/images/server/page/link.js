// The URL, which has all that is shown.

import { setWindow } from "./contrast.js";
import { $ } from "./elements.js";
import { MAP_NAMES } from "./maps.js";
import { current, fourth, labelled, plate, view } from "./state.js";

export function save() {
  const lead = current();
  if (!lead) return;
  const theme = document.documentElement.dataset.theme;
  const state = new URLSearchParams(view ? {
    path: view.path, at: view.cross.join(","), center: view.center.map((p) => Number(p.toFixed(2))).join(","),
    zoom: Number(view.zoom.toPrecision(5)), theme,
  } : { path: plate.path, theme });
  if (plate && plate.field) state.set("field", plate.field);
  if (plate && plate.cell) state.set("cell", Math.round(plate.cell));
  if (view && view.form !== view.image.forms[0].form) state.set("as", view.form);
  if (view && view.field) state.set("field", view.field);
  if (view && view.grid) state.set("grid", "1");
  if (labelled()?.picked) state.set("label", labelled().picked);
  if (!lead.log) state.set("log", "0");
  if (view && fourth.chosen) state.set("pane", fourth.chosen);
  if (view && fourth.line) state.set("line", [fourth.line.panel, ...fourth.line.ends].join(","));
  if (view && fourth.kind === "projection") state.set("turn", [fourth.yaw, fourth.pitch, fourth.zoom].map((n) => Number(n.toFixed(2))).join(","));
  const { overlays, opacity } = view || plate;
  for (const { label } of overlays) state.append("overlay", label);
  if (overlays.length) state.set("opacity", opacity);
  if (lead.contrasts) state.set("channels", channelText(lead.channels));
  clearTimeout(save.timer);
  save.text = `#${state}`;
  save.timer = setTimeout(write, 100);
}

export function write() {
  clearTimeout(save.timer);
  // The browser sets a new hash before it tells of it; a request made just now stays.
  if (location.hash !== write.hash) return;
  history.replaceState(null, "", save.text);
  write.hash = location.hash;
}

write.hash = location.hash;

function channelText(channels) {
  return channels.map((c) => [c.active ? 1 : 0, c.map || c.color.replace("#", ""), ...(c.window || [])].join("_")).join(",");
}

// A text of numbers: a plus sign that isn't escaped comes as a space.
function plain(wanted, name) { return (wanted.get(name) || "").replaceAll(" ", "+"); }

// What stays from a plate to its wells and back: channels, labels above them.
export function kept({ channels: all, overlays, opacity }) {
  const state = new URLSearchParams({ channels: channelText(all) });
  for (const { label } of overlays) state.append("overlay", label);
  if (overlays.length) state.set("opacity", opacity);
  return state;
}

export function restoreChannels(wanted, channels) {
  plain(wanted, "channels").split(",").forEach((text, i) => {
    const [active, color, ...ends] = text.split("_"), window = ends.map(Number);
    const channel = channels[i];
    if (!channel || color === undefined) return;
    channel.active = active === "1";
    if (/^[0-9a-f]{6}$/i.test(color)) channel.color = color;
    if (channel.mappable) channel.map = MAP_NAMES.includes(color) ? color : "";
    if (window.length === 2 && ends.every(Boolean) && window.every(Number.isFinite)) setWindow(channel, window);
  });
}

export function restore(wanted) {
  const numbers = (name) => plain(wanted, name).split(",").filter(Boolean).map(Number);
  const at = numbers("at"), center = numbers("center");
  if (at.length === view.rank && at.every(Number.isFinite)) at.forEach((p, dim) => { view.cross[dim] = Math.min(Math.max(p, 0), Math.max(view.shape[dim] - 1, 0)); });
  if (center.length === view.rank && center.every(Number.isFinite)) view.center = center;
  const zoom = Number(plain(wanted, "zoom"));
  if (zoom > 0 && zoom < 1e4) view.zoom = zoom;
  const [panel, ...ends] = numbers("line"), turn = numbers("turn"), drawn = view.panels[panel];
  const inside = (p, i) => Number.isInteger(p) && p >= 0 && p < view.count(drawn, i % 2 ? "across" : "down");
  if (drawn && ends.length === 4 && ends.every(inside)) fourth.line = { panel, ends };
  fourth.chosen = wanted.get("pane") || fourth.chosen;
  if (turn.length === 3 && turn.every(Number.isFinite) && turn[2] > 0) [fourth.yaw, fourth.pitch, fourth.zoom] = turn;
  view.grid = wanted.get("grid") === "1";
  view.log = wanted.get("log") !== "0";
  const label = /^-?\d+$/.test(plain(wanted, "label")) ? plain(wanted, "label") : "";
  if (view.image.labels) view.picked = label;
  else view.wantedLabel = label; // of the labels above it
  restoreOpacity(wanted);
  $("grid").setAttribute("aria-pressed", String(view.grid));
  restoreChannels(wanted, view.channels);
}

export function restoreOpacity(wanted) {
  const opacity = Number(wanted.get("opacity") || NaN);
  if (opacity >= 0 && opacity <= 1) (view || plate).opacity = opacity;
}
