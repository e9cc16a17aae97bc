// Keyboard and buttons.

import { redraw } from "./drawing.js";
import { $, say } from "./elements.js";
import { save, write } from "./link.js";
import { pickHere } from "./overlays.js";
import { draws } from "./panels.js";
import * as picture from "./picture.js";
import { zoomAt } from "./pointer.js";
import { point, step } from "./position.js";
import { contrast } from "./settings.js";
import { current, fourth, input, plate, view } from "./state.js";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const inField = event.target.matches("input, select, textarea");
  if (inField && event.key !== "Escape") return;
  if (event.key === "Escape") { event.target.blur(); return; }
  if (event.key === "?") { $("keys").showModal(); return; }
  if (event.key === "/") { toggle("tree-pane", "show-tree", true); $("search").focus(); event.preventDefault(); return; }
  const buttons = { g: "grid", l: "line", v: "pointer", d: "theme", t: "show-tree", s: "show-settings", i: "picture", 0: "fit" };
  if (buttons[event.key.toLowerCase()]) { $(buttons[event.key.toLowerCase()]).click(); return; }
  if (event.key.toLowerCase() === "c" && current()) { if (current().contrasts) current().channels.forEach((channel) => contrast(current(), channel)); return; }
  if (event.key.toLowerCase() === "p" && $("to-plate")) { $("to-plate").click(); return; }
  if (plate && "+=-".includes(event.key)) { plate.zoom(event.key === "-" ? 0.8 : 1.25); save(); return; }
  if (!view) return;
  if (event.key.toLowerCase() === "k") { pickHere(); return; }
  if (event.key.toLowerCase() === "j" && $("jump")) { toggle("settings", "show-settings", true); $("jump").focus(); event.preventDefault(); return; }
  const panel = view.panels[Math.min(input.focused, view.panels.length - 1)];
  const middle = [panel.canvas.clientWidth / 2, panel.canvas.clientHeight / 2];
  if (event.key === "+" || event.key === "=") { zoomAt(panel, 1.25, ...middle); save(); }
  else if (event.key === "-") { zoomAt(panel, 0.8, ...middle); save(); }
  else if (["1", "2", "3", "4"].includes(event.key)) { const found = [...view.panels, fourth][Number(event.key) - 1]; if (found) found.canvas.focus(); }
  else if (!event.target.closest("nav") && step(panel, event.key, event.shiftKey)) event.preventDefault();
});

// Browsers have a clipboard only for pages of this machine, or by HTTPS; elsewhere the old command does it.
async function copy(text, told) {
  try {
    await navigator.clipboard.writeText(text);
    say(told);
  } catch {
    const give = (event) => { event.clipboardData.setData("text/plain", text); event.preventDefault(); };
    document.addEventListener("copy", give, { once: true });
    say(document.execCommand("copy") ? told : text);
    document.removeEventListener("copy", give);
  }
}

export function toggle(pane, button, shown = $(pane).hidden) {
  $(pane).hidden = !shown;
  $(button).setAttribute("aria-expanded", String(shown));
  redraw();
}

$("show-tree").addEventListener("click", () => toggle("tree-pane", "show-tree"));
$("show-settings").addEventListener("click", () => toggle("settings", "show-settings"));
$("help").addEventListener("click", () => $("keys").showModal());
$("fit").addEventListener("click", () => { if (plate) { plate.zoom(0); save(); } else if (view) { view.fit(); save(); redraw(); } });
$("line").addEventListener("click", () => { if (view) draws(!input.lining); });
$("pointer").addEventListener("click", () => { if (point.value) copy(point.value, `Copied ${point.value}`); });
$("grid").addEventListener("click", () => {
  if (!view) return;
  view.grid = !view.grid;
  $("grid").setAttribute("aria-pressed", String(view.grid));
  save(); redraw();
});
$("picture").addEventListener("click", () => {
  const style = getComputedStyle(document.body), made = picture.compose($("panels"), style.backgroundColor, style.color);
  if (made) picture.save(made, $("title").textContent.replace(/[^\w.-]+/g, "-"));
});
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "light" ? "dark" : "light";
  save(); redraw();
});
$("share").addEventListener("click", async () => {
  save(); write();
  await copy(location.href, "The URL of this view is in the clipboard.");
});
