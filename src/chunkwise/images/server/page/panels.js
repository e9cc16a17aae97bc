// The panels of an image.

import { redraw } from "./drawing.js";
import { $, make } from "./elements.js";
import { save } from "./link.js";
import { listen, listenTable } from "./pointer.js";
import { fourth, input, view } from "./state.js";

export function title(name, more) {
  $("title").textContent = name;
  $("subtitle").textContent = more;
  document.title = `${name} · chunkwise`;
}

export function layout() {
  const panels = $("panels");
  panels.replaceChildren(...view.panels.map((panel, number) => {
    const table = view.form === "table";
    panel.canvas = make(table ? "div" : "canvas", { tabIndex: 0, id: `panel-${number}`, role: table ? "region" : "application", className: table ? "values" : "" });
    panel.caption = make("figcaption");
    const names = [panel.across, panel.down].filter((d) => d !== null).map((d) => view.image.axes[d].name);
    panel.canvas.setAttribute("aria-label", table ? "Values: arrows move" : `${view.form === "plot" ? "Plot" : "Slice"} ${names.join(" ")}: arrows move, Page Up and Page Down go through`);
    (table ? listenTable : listen)(panel, number);
    return make("figure", {}, panel.canvas, panel.caption);
  }), fourth.build());
  arrange();
  view.fit();
}

// A plane alone has the fourth pane below it, if there is something to show in it.
function arrange() {
  $("panels").className = `n${view.panels.length}${fourth.kinds.length ? "" : " alone"}`;
}

// Draw a line from now on, or no longer; the first one goes through the crosshair.
export function draws(on, pane = on ? "profile" : "") {
  input.lining = on;
  $("line").setAttribute("aria-pressed", String(on));
  $("panels").classList.toggle("lining", on);
  if (!view) return;
  const number = Math.min(input.focused, view.panels.length - 1);
  const panel = view.panels[number], row = panel.down === null ? 0 : view.cross[panel.down];
  if (on && !fourth.line) fourth.line = { panel: number, ends: [row, 0, row, view.count(panel, "across") - 1] };
  if (!on) fourth.line = null;
  fourth.chosen = pane;
  arrange();
  $("panels").classList.toggle("lining", on);
  save();
  redraw();
}
