// The page: opens what is at a path, from the tree or the URL.

import { setSide } from "./contrast.js";
import { toggle } from "./controls.js";
import { ask, problems, redraw } from "./drawing.js";
import { $, make, say, table } from "./elements.js";
import { Fourth } from "./fourth.js";
import { kept, restore, restoreChannels, restoreOpacity, save, write } from "./link.js";
import { labelLinks, overlay } from "./overlays.js";
import { draws, layout, title } from "./panels.js";
import { PlateView } from "./plate.js";
import { play, point, showWell } from "./position.js";
import { attributesOf, channels, contrast, settings } from "./settings.js";
import { actions, fourth, plate, setShown, view } from "./state.js";
import { Tree } from "./tree.js";
import { View } from "./view.js";

let tree = null;

async function open(path, wanted = new URLSearchParams()) {
  const turn = ++open.turn;
  try {
    const { image, well, plate: found, attributes } = await ask("image", { path });
    if (turn !== open.turn) return; // something else was asked for meanwhile
    if (well) { await open(`${path}/${well.fields[0]}`, wanted); return; }
    tree.show(path);
    if (view) for (const { tiles } of [view, ...view.overlays, fourth]) tiles.clear();
    if (plate) plate.clear();
    setShown(null);
    draws(false);
    play(null);
    for (const id of ["sliders", "contrast", "labels", "hint"]) $(id).replaceChildren();
    point("");
    problems([]);
    $("chunk-info").hidden = true;
    $("grid").disabled = $("line").disabled = $("picture").disabled = true;
    if (image) await showImage(image, path, attributes, wanted);
    else if (found) await showPlate(found, path, wanted);
    else await showGroup(path, attributes);
  } catch (error) {
    if (turn === open.turn) say(error.message);
  }
  redraw();
}

open.turn = 0;
actions.open = open;

async function showGroup(path, attributes) {
  const turn = open.turn, list = make("ul");
  title(path, "");
  $("panels").className = "n1";
  $("panels").replaceChildren(make("div", { className: "group" }, make("p", { className: "note", textContent: "This is a group. Choose an array or an image in it." }), list));
  $("metadata").replaceChildren(...attributesOf(attributes));
  save.text = `#${new URLSearchParams({ path })}`;
  write();
  const { members } = await ask("tree", { path });
  if (turn !== open.turn) return;
  list.append(...members.map(({ name, shape, dtype = "" }) => {
    const button = make("button", { textContent: name });
    button.addEventListener("click", () => open(`${path}/${name}`));
    return make("li", {}, button, make("small", { textContent: shape ? `${shape.join(" × ")} ${dtype}` : "" }));
  }));
}

async function showImage(image, path, attributes, wanted) {
  const mine = new View(image, path, redraw, wanted.get("as"));
  setShown(mine, null, new Fourth(mine, { ask, changed: redraw, saved: save, limited: (channel, side, value) => { setSide(channel, side, value); save(); redraw(); } }));
  view.field = image.fields.includes(wanted.get("field")) ? wanted.get("field") : "";
  $("grid").disabled = $("line").disabled = !["planes", "rgb"].includes(view.form);
  $("picture").disabled = view.form === "table";
  title(image.well ? path.split("/").slice(-3).join("/") : image.name || path, `${image.levels[0].shape.join(" × ")} ${image.dtype}${image.levels.length > 1 ? `, ${image.levels.length} levels` : ""}`);
  layout();
  restore(wanted);
  if (fourth.line) draws(true, wanted.get("pane") || "profile");
  settings(attributes);
  save();
  for (const channel of view.channels) if (view.contrasts) contrast(mine, channel, channel.window !== null);
  await Promise.all(wanted.getAll("overlay").map((name) => overlay(name, true)));
}

async function showPlate(found, path, wanted) {
  const enter = async (field) => {
    await open(field, kept(plate));
    if (document.activeElement === document.body && view) view.panels[0].canvas.focus({ preventScroll: true });
  };
  const labelled = () => { if (mine === plate) $("labels").replaceChildren(...labelLinks(mine)); };
  const mine = new PlateView(found, path, { ask, open: enter, changed: redraw, point: showWell, labelled });
  setShown(null, mine);
  title(found.name, `plate of ${found.wells.length} wells, ${found.rows.length} × ${found.columns.length}`);
  $("panels").className = "n1";
  $("panels").replaceChildren(plate.build());
  $("picture").disabled = false;
  $("metadata").replaceChildren(make("h2", { textContent: "Metadata" }), table([["wells", found.wells.length], ["fields of a well", found.fieldCount === null ? "unknown" : `up to ${found.fieldCount}`]]));
  await plate.start();
  if (mine !== plate) return;
  plate.field = wanted.get("field") || "";
  const cell = Number(wanted.get("cell"));
  if (cell >= 20 && cell <= 512) plate.cell = cell;
  restoreChannels(wanted, plate.channels);
  restoreOpacity(wanted);
  plate.overlays = [...new Set(wanted.getAll("overlay"))].map((label) => ({ label }));
  const choice = make("select", {}, make("option", { value: "", textContent: "first" }), ...[...plate.fields].map((name) => make("option", { value: name, textContent: name })));
  choice.value = plate.field;
  choice.setAttribute("aria-label", "field of view");
  choice.addEventListener("change", () => { plate.show(choice.value); save(); });
  $("sliders").replaceChildren(make("h2", { textContent: "Fields" }), make("label", {}, make("span", { textContent: "field" }), choice));
  channels();
  save();
  plate.label(plate.lead.image.labelImages);
  $("sliders").append(plate.key());
  const from = plate.wells.get(wanted.get("well"));
  if (from) from.cell.focus();
  const { labels } = plate.lead.image;
  await Promise.all(mine.channels.filter((c) => c.active && !labels).map((channel) => contrast(mine.lead, channel, channel.window !== null)));
}

$("search").addEventListener("input", () => tree.search($("search").value));
window.addEventListener("resize", redraw);

new ResizeObserver(redraw).observe($("panels"));

async function start() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const light = window.matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = wanted.get("theme") || (light ? "light" : "dark");
  if (window.innerWidth <= 760) { toggle("tree-pane", "show-tree", false); toggle("settings", "show-settings", false); }
  tree = new Tree($("tree"), { ask, choose: (path) => open(path) });
  await tree.fill();
  const first = wanted.get("path") || (await ask("first", {}).catch(() => ({}))).path || tree.top;
  if (first && !open.turn) await open(first, wanted); // unless something was chosen meanwhile
  redraw();
}

window.addEventListener("hashchange", () => {
  const wanted = new URLSearchParams(location.hash.slice(1));
  clearTimeout(save.timer);
  write.hash = location.hash;
  if (wanted.get("path")) open(wanted.get("path"), wanted);
});

start().catch((error) => say(error.message));

window.chunkwise = { get view() { return view; }, get plate() { return plate; }, get fourth() { return fourth; } };
