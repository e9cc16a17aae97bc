// Drawing what is shown when something has changed, and what stands beside it; requests that are waited for.

import { $, make, table } from "./elements.js";
import { fourth, input, plate, view } from "./state.js";
import { bytes } from "./texts.js";

const SAMPLED = 32; // elements for a pixel from which a tile is too large to be read whole

let scheduled = false;

let busy = 0; // requests that aren't tiles

export async function ask(call, query) {
  busy++;
  document.body.dataset.idle = "false";
  try {
    const response = await fetch(`api/${call}?${new URLSearchParams(query)}`);
    const found = await response.json();
    if (!response.ok) throw new Error(found.error);
    return found;
  } finally {
    busy--;
    redraw();
  }
}

export function redraw() {
  if (scheduled) return;
  scheduled = true;
  document.body.dataset.idle = "false";
  requestAnimationFrame(() => {
    scheduled = false;
    if (view) {
      const all = [view, ...view.overlays];
      for (const { tiles } of all) tiles.begin();
      fourth.tiles.begin();
      view.panels.forEach((panel, number) => { view.draw(panel, fourth.line && fourth.line.panel === number ? fourth.line.ends : null); caption(panel); });
      fourth.draw();
      for (const { tiles } of [...all, fourth]) tiles.end();
      problems(view.panels.flatMap((p) => p.problems || []));
      $("hint").textContent = view.panels.some(({ step }) => step >= SAMPLED)
        ? "There is no smaller level, so a pixel is one of many elements. `chunkwise pyramid` makes levels, which are shown sooner and as means." : "";
      chunkInfo();
    }
    if (plate) {
      if (plate.lead) plate.draw();
      problems(plate.problems);
    }
    const waits = view && [...view.answers.values()].some((a) => a.pending);
    const drawn = view ? [view, ...view.overlays].every(({ tiles }) => tiles.idle) && fourth.idle : !plate || plate.idle;
    const asked = view ? [view, ...view.overlays, fourth].reduce((n, { tiles }) => n + tiles.asked.size, busy) : plate ? busy + plate.asked.size + plate.waiting.length : busy;
    $("loading").textContent = asked ? `Reading, ${asked} to come` : "Reading";
    document.body.dataset.idle = String(busy === 0 && !waits && drawn);
  });
}

export function axisText(dim, position) {
  const axis = view.image.axes[dim], scale = view.image.levels[0].scale[dim], at = view.image.levels[0].translation[dim];
  const physical = axis.unit ? ` (${Number((position * scale + at).toPrecision(5))} ${axis.unit})` : "";
  return `${axis.name} ${position}${physical}`;
}

function caption(panel) {
  const { axes } = view.image;
  const name = (dim) => (dim === null ? "" : axes[dim].name);
  const through = panel.through === null ? "" : ` at ${axisText(panel.through, view.cross[panel.through])}`;
  if (view.form === "table") { panel.caption.textContent = ""; return; }
  const magnitude = /^complex/.test(view.image.dtype) ? ", magnitude" : "", note = panel.note || "";
  const level = view.image.levels.length > 1 ? `, level ${panel.level}` : "";
  const stretched = ["across", "down"].filter((axis) => panel.stretch[axis] > 1).map((axis) => `, ${name(panel[axis])} stretched ${Number(panel.stretch[axis].toPrecision(2))}:1`).join("");
  panel.caption.textContent = `${name(panel.across)}${name(panel.down)}${through}${level}${panel.step > 1 ? `, 1:${panel.step}` : ""}${magnitude}${note}${stretched}`;
}

export function problems(texts) {
  const all = [...new Set(texts)];
  $("problems").hidden = !all.length;
  $("problems").replaceChildren(...(all.length ? [make("h2", { textContent: "What can't be read" })] : []),
    ...all.slice(0, 8).map((text) => make("p", { textContent: text })));
}

function chunkInfo() {
  const panel = view.panels[Math.min(input.focused, view.panels.length - 1)];
  const found = view.grid && panel.chunks;
  $("chunk-info").hidden = !found;
  if (!found) return;
  const { level } = found;
  const at = [panel.down, panel.across].map((dim) => (dim === null ? 0 : view.index(level, dim, view.cross[dim])));
  const chunk = found.chunks.find(({ box }) => box[0] <= at[0] && at[0] < box[1] && box[2] <= at[1] && at[1] < box[3]);
  const rows = chunk ? [["chunk", chunk.cell.join(", ")], ["key", chunk.key],
    ["stored", chunk.unknown ? "unknown" : chunk.size === null ? "missing: all fill value" : bytes(chunk.size)]] : [["", found.note || ""]];
  $("chunk-info").replaceChildren(make("h2", { textContent: "Chunk at the crosshair" }), table(rows));
}
