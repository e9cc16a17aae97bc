// Labels above the images, and those that are picked.

import { ask, redraw } from "./drawing.js";
import { $, make, say } from "./elements.js";
import { labelList } from "./labels.js";
import { save } from "./link.js";
import { moveTo, valueAt } from "./position.js";
import { actions, labelled, plate, view } from "./state.js";
import { View } from "./view.js";

// `mine` is an image, or a plate.
export function labelLinks(mine) {
  const names = mine === plate ? [...plate.labels] : mine.image.labelImages;
  mine.overlayBoxes = new Map();
  if (!names.length) return [];
  const opacity = make("input", { type: "range", min: 0, max: 1, step: 0.05, value: mine.opacity });
  opacity.setAttribute("aria-label", "opacity of labels");
  opacity.addEventListener("input", () => { mine.opacity = Number(opacity.value); save(); redraw(); });
  const rows = names.map((name) => {
    const on = make("input", { type: "checkbox", checked: mine.overlays.some((o) => o.label === name) });
    on.setAttribute("aria-label", `labels ${name} above the image`);
    on.addEventListener("change", () => overlay(name, on.checked));
    mine.overlayBoxes.set(name, on);
    const row = make("div", { className: "channel" }, on, make("span", { textContent: name }));
    if (mine === view) {
      const alone = make("button", { textContent: "Alone", title: "Open these labels as an image" });
      alone.addEventListener("click", () => actions.open(`${mine.path}/labels/${name}`));
      row.append(alone);
    }
    return row;
  });
  return [make("h2", { textContent: `Labels above the image${mine === view ? "" : "s"}` }), ...rows, make("label", {}, make("span", { textContent: "opacity" }), opacity), ...(mine === view ? listOf(mine.overlays[0]) : [])];
}

export function listOf(mine) {
  if (!mine || mine.form === "table") return [];
  const go = (at) => at.forEach((p, e) => {
    const dim = mine === view ? e : mine.dimIn(view, e);
    if (dim !== null) moveTo(dim, mine === view ? p : Math.floor(mine.positionIn(view, e, p + 0.5)));
  });
  return [labelList(mine, { ask, go, pick: (label) => pick(mine, label) })];
}

// Show one label of a view alone, "" all of them.
function pick(mine, label) {
  mine.picked = label;
  if (mine.marked) mine.marked();
  save();
  redraw();
}

// Pick the label at the crosshair; if it is picked already, or there is none, all are shown.
export async function pickHere() {
  const mine = labelled();
  if (!mine || mine.form === "table") return;
  if (mine !== view) view.align(mine);
  if (mine.cross.some((p, d) => p < 0 || p >= mine.shape[d])) { pick(mine, ""); return; }
  const label = await valueAt(mine.path, mine.cross).catch((error) => { say(error.message); return mine.picked; });
  if (labelled() === mine) pick(mine, label === mine.picked || label === "0" ? "" : label);
}

// Draw a label image above what is shown, or no longer: as its box says when the answer comes.
export async function overlay(name, shown) {
  const mine = view || plate, box = mine.overlayBoxes.get(name);
  if (!box) return;
  const path = `${mine.path}/labels/${name}`, there = () => mine.overlays.find((o) => o.label === name);
  box.checked = shown;
  if (mine === plate) { // which asks for those of each well
    mine.overlays = [...mine.labels].filter((label) => mine.overlayBoxes.get(label).checked).map((label) => ({ label }));
  } else if (!shown && there()) {
    there().tiles.clear();
    mine.overlays = mine.overlays.filter((o) => o !== there());
  } else if (shown && !there()) {
    try {
      const { image } = await ask("image", { path });
      if (mine !== view || !box.checked || there()) return;
      if (!image) throw new Error(`there is no image at ${path}`);
      mine.overlays.push(Object.assign(new View({ ...image, labels: true }, path, redraw, "planes"), { label: name }));
      const order = ({ label }) => mine.image.labelImages.indexOf(label); // whichever came first
      mine.overlays.sort((a, b) => order(a) - order(b));
      mine.overlays[0].picked ||= mine.wantedLabel;
      mine.wantedLabel = "";
    } catch (error) {
      if (mine !== view) return;
      box.checked = Boolean(there());
      say(error.message);
    }
  }
  if (mine === view) $("labels").replaceChildren(...labelLinks(mine));
  save();
  redraw();
}
