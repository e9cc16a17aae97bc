// The page: panels, settings, pointer, keyboard, and the URL that has it all.

import { channelControls, legend, setSide, setWindow } from "./contrast.js";
import { Fourth } from "./fourth.js";
import { positions } from "./goto.js";
import { labelList } from "./labels.js";
import { MAP_NAMES } from "./maps.js";
import * as picture from "./picture.js";
import { PlateView } from "./plate.js";
import { cellAt } from "./table.js";
import { bytes } from "./texts.js";
import { Tree } from "./tree.js";
import { View } from "./view.js";

const FRAME = 120; // milliseconds that a position is shown, at least, when positions are played
const SAMPLED = 32; // elements for a pixel from which a tile is too large to be read whole

const $ = (id) => document.getElementById(id);
let view = null; // what is shown: an image, or a plate
let plate = null;
let fourth = null; // the pane beside the slices of an image
let lining = false; // whether dragging draws a line
let tree = null;
let focused = 0;
let scheduled = false;
let busy = 0; // requests that aren't tiles

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(properties)) if (key.includes("-")) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

async function ask(call, query) {
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

function say(text) {
  $("message").textContent = text;
  clearTimeout(say.timer);
  if (text) say.timer = setTimeout(() => say(""), 6000);
}

function redraw() {
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

function axisText(dim, position) {
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

function problems(texts) {
  const all = [...new Set(texts)];
  $("problems").hidden = !all.length;
  $("problems").replaceChildren(...(all.length ? [make("h2", { textContent: "What can't be read" })] : []),
    ...all.slice(0, 8).map((text) => make("p", { textContent: text })));
}

function chunkInfo() {
  const panel = view.panels[Math.min(focused, view.panels.length - 1)];
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

function table(rows) {
  return make("table", {}, ...rows.map(([name, value]) => make("tr", {}, make("th", { textContent: name }), make("td", { textContent: value }))));
}

// -- opening ------------------------------------------------------------------------------------

async function open(path, wanted = new URLSearchParams()) {
  const turn = ++open.turn;
  try {
    const { image, well, plate: found, attributes } = await ask("image", { path });
    if (turn !== open.turn) return; // something else was asked for meanwhile
    if (well) { await open(`${path}/${well.fields[0]}`, wanted); return; }
    tree.show(path);
    if (view) for (const { tiles } of [view, ...view.overlays, fourth]) tiles.clear();
    if (plate) plate.clear();
    view = plate = fourth = null;
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
  const mine = view = new View(image, path, redraw, wanted.get("as"));
  view.field = image.fields.includes(wanted.get("field")) ? wanted.get("field") : "";
  $("grid").disabled = $("line").disabled = !["planes", "rgb"].includes(view.form);
  $("picture").disabled = view.form === "table";
  fourth = new Fourth(view, { ask, changed: redraw, saved: save, limited: (channel, side, value) => { setSide(channel, side, value); save(); redraw(); } });
  title(image.well ? path.split("/").slice(-3).join("/") : image.name || path, `${image.levels[0].shape.join(" × ")} ${image.dtype}${image.levels.length > 1 ? `, ${image.levels.length} levels` : ""}`);
  layout();
  restore(wanted);
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
  const mine = plate = new PlateView(found, path, { ask, open: enter, changed: redraw, point: showWell, labelled });
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

function title(name, more) {
  $("title").textContent = name;
  $("subtitle").textContent = more;
  document.title = `${name} · chunkwise`;
}

function layout() {
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
function draws(on) {
  lining = on;
  $("line").setAttribute("aria-pressed", String(on));
  $("panels").classList.toggle("lining", on);
  if (!view) return;
  const number = Math.min(focused, view.panels.length - 1);
  const panel = view.panels[number], row = panel.down === null ? 0 : view.cross[panel.down];
  if (on && !fourth.line) fourth.line = { panel: number, ends: [row, 0, row, view.count(panel, "across") - 1] };
  if (!on) fourth.line = null;
  fourth.chosen = on ? "profile" : "";
  arrange();
  $("panels").classList.toggle("lining", on);
  save();
  redraw();
}

// -- settings -----------------------------------------------------------------------------------

function slider(dim) {
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
function play(dim, button = null) {
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
function jump() {
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

function moveTo(dim, value) {
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

function settings(attributes) {
  view.sliders = new Map();
  const { image } = view;
  const moved = (d) => view.form === "table" || view.form === "plot" || view.panels.some((p) => p.through === d);
  const dims = [...image.others, ...image.dims.filter((d) => d !== null && view.shape[d] > 1 && moved(d))];
  const hidden = image.channel !== null && view.form !== "plot" && view.shape[image.channel] > 1 && (image.labels || view.shape[image.channel] > 16) ? [image.channel] : [];
  const sliders = [...hidden, ...dims].map(slider);
  $("sliders").replaceChildren(...(image.well ? wellLinks(image.well) : []), ...formLinks(), ...(view.rank && (sliders.length || view.form !== "table") ? [make("h2", { textContent: "Position" }), ...sliders, jump()] : []));
  channels();
  const rows = Object.entries(image.metadata).map(([name, value]) => [name, name === "size" ? bytes(value) : Array.isArray(value) ? value.join(name === "codecs" ? ", " : " × ") : String(value)]);
  rows.push(["axes", image.axes.map((a, d) => `${a.name}${a.unit ? `: ${Number(image.levels[0].scale[d].toPrecision(5))} ${a.unit}` : ""}`).join(", ")]);
  if (image.levels.length > 1) rows.push(["levels", image.levels.map((l) => l.shape.join(" × ")).join("; ")]);
  $("labels").replaceChildren(...labelLinks(view));
  $("metadata").replaceChildren(make("h2", { textContent: "Metadata" }), table(rows), ...attributesOf(attributes));
}

const FORMS = { planes: "Slices", rgb: "RGB", plot: "Plot", table: "Values" };

function choice(name, options, value, chosen) {
  const select = make("select", {}, ...options.map(([key, textContent]) => make("option", { value: key, textContent })));
  select.value = value;
  select.setAttribute("aria-label", name);
  select.addEventListener("change", () => chosen(select.value));
  return make("label", {}, make("span", { textContent: name }), select);
}

// How an array is shown, if there are several ways; which field of records.
function formLinks() {
  const { image, form, path, field } = view;
  const forms = image.forms.length < 2 ? [] : [choice("show", image.forms.map((one) => [one.form, FORMS[one.form]]), form, (as) => open(path, new URLSearchParams({ as })))];
  const fields = !image.fields.length ? [] : [choice("field", [["", "all"], ...image.fields.map((name) => [name, name])], field, (name) => { view.field = name; save(); redraw(); })];
  return [...forms, ...fields];
}

// What stays from a plate to its wells and back: channels, labels above them.
function kept({ channels: all, overlays, opacity }) {
  const state = new URLSearchParams({ channels: channelText(all) });
  for (const { label } of overlays) state.append("overlay", label);
  if (overlays.length) state.set("opacity", opacity);
  return state;
}

// The fields of the well that the image belongs to, by name, and the way back to the plate.
function wellLinks({ path, plate: above, fields, field, acquisitions }) {
  const keep = () => kept(view);
  const choice = make("select", {}, ...fields.map((name) => make("option", {
    value: name, textContent: typeof acquisitions[name] === "number" ? `${name} (acquisition ${acquisitions[name]})` : name })));
  choice.value = field;
  choice.setAttribute("aria-label", "field of view");
  choice.addEventListener("change", () => open(`${path}/${choice.value}`, keep()));
  const nodes = [make("h2", { textContent: `Well ${path.split("/").slice(-2).join("/")}` }), make("label", {}, make("span", { textContent: "field" }), choice)];
  if (above !== null) {
    const back = make("button", { id: "to-plate", textContent: "Plate", title: "All wells of the plate (P)" });
    back.addEventListener("click", () => {
      const state = keep();
      state.set("well", path.slice(above.length + 1));
      if (field !== fields[0]) state.set("field", field);
      open(above, state);
    });
    nodes.push(back);
  }
  return nodes;
}

// `mine` is an image, or a plate.
function labelLinks(mine) {
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
      alone.addEventListener("click", () => open(`${mine.path}/labels/${name}`));
      row.append(alone);
    }
    return row;
  });
  return [make("h2", { textContent: `Labels above the image${mine === view ? "" : "s"}` }), ...rows, make("label", {}, make("span", { textContent: "opacity" }), opacity), ...(mine === view ? listOf(mine.overlays[0]) : [])];
}

// The view whose labels can be picked: the image itself, or the first labels above it.
function labelled() { return view && (view.image.labels ? view : view.overlays[0]); }

function listOf(mine) {
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
async function pickHere() {
  const mine = labelled();
  if (!mine || mine.form === "table") return;
  if (mine !== view) view.align(mine);
  if (mine.cross.some((p, d) => p < 0 || p >= mine.shape[d])) { pick(mine, ""); return; }
  const label = await valueAt(mine.path, mine.cross).catch((error) => { say(error.message); return mine.picked; });
  if (labelled() === mine) pick(mine, label === mine.picked || label === "0" ? "" : label);
}

// Draw a label image above what is shown, or no longer: as its box says when the answer comes.
async function overlay(name, shown) {
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

function attributesOf(attributes) {
  if (!attributes || !Object.keys(attributes).length) return [];
  return [make("details", {}, make("summary", { textContent: "Attributes" }), make("pre", { textContent: JSON.stringify(attributes, null, 1) }))];
}

function channels() {
  const lead = current(), box = $("contrast");
  if (lead.form === "table") { box.replaceChildren(); return; }
  if (lead.image.labels) {
    box.replaceChildren(make("h2", { textContent: "Labels" }), make("p", { textContent: "Each label has a colour of its own, the same in every view; 0 is black." }), ...listOf(lead));
    return;
  }
  const log = make("input", { type: "checkbox", checked: lead.log });
  log.addEventListener("change", () => { lead.log = log.checked; lead.channels.forEach((c) => c.show && c.show()); save(); redraw(); });
  box.replaceChildren(make("h2", { textContent: "Contrast" }), ...lead.channels.map((channel) =>
    channelControls(channel, {
      changed: () => {
        if (channel.active && !channel.window) contrast(lead, channel);
        save(); redraw();
      },
      auto: () => contrast(lead, channel),
      typed: () => contrast(lead, channel, true),
      log: () => lead.log,
    })), make("label", { className: "log" }, log, make("span", { textContent: "counts as logarithms" })), ...legend(lead.image.dtype));
}

// The view whose channels are shown: of a plate that of its first field.
function current() { return view || (plate && plate.lead); }

// Find the window of a channel; keep one that is set while the request is under way.
async function contrast(mine, channel, keep = false) {
  const before = channel.window, turn = channel.turn = (channel.turn || 0) + 1;
  const at = mine.shape.map((_, d) => (d === mine.image.channel ? channel.index : mine.image.others.includes(d) ? mine.cross[d] : ""));
  try {
    const found = await ask("contrast", { path: mine.path, at: at.join(","), over: keep && channel.window ? channel.window.join(",") : "" });
    if (mine !== current() || turn !== channel.turn) return;
    const { window: limits, ...rest } = found;
    Object.assign(channel, rest);
    if (!keep && channel.window === before) setWindow(channel, limits);
    if (channel.show) channel.show();
    save();
  } catch (error) {
    if (mine !== current() || turn !== channel.turn) return;
    if (!channel.window) channel.window = [0, 1];
    say(error.message);
  }
  redraw();
}

// -- pointer ------------------------------------------------------------------------------------

function listenTable(panel, number) {
  panel.canvas.addEventListener("focus", () => { focused = number; redraw(); });
  panel.canvas.addEventListener("click", ({ target }) => {
    const at = cellAt(view, panel, target);
    if (!at) return;
    at.forEach((p, dim) => moveTo(dim, p));
    showValue(at);
  });
}

function listen(panel, number) {
  const { canvas } = panel;
  const pointers = new Map();
  let moved = false;
  canvas.addEventListener("focus", () => { focused = number; redraw(); });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = pointers.size > 1;
    const start = elementAt(panel, event);
    if (lining && !moved) fourth.line = { panel: number, ends: [...start, ...start] };
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) { pointTo(panel, event.offsetX, event.offsetY); return; }
    const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    if (lining && pointers.size === 1) {
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
    if (pointers.delete(event.pointerId) && lining) redraw();
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

function zoomAt(panel, factor, x, y) {
  const { clientWidth, clientHeight } = panel.canvas;
  const sides = [["across", x, clientWidth], ["down", y, clientHeight]].filter(([axis]) => panel[axis] !== null);
  const before = sides.map(([axis, at, length]) => view.position(panel, axis, at, length));
  view.zoom = Math.min(Math.max(view.zoom * factor, 1e-6), 400);
  sides.forEach(([axis, at, length], i) => { view.center[panel[axis]] += before[i] - view.position(panel, axis, at, length); });
  redraw();
}

// What stands beside the title: a place at once, what is there as soon as `look` has found it.
function point(where, look) {
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

async function valueAt(path, at) { return (await ask("value", { path, at: at.join(",") })).value; }

function pointTo(panel, x, y) {
  const at = [...view.cross];
  for (const [axis, offset, length] of [["across", x, panel.canvas.clientWidth], ["down", y, panel.canvas.clientHeight]]) {
    const dim = panel[axis];
    if (dim === null) continue;
    at[dim] = Math.floor(view.position(panel, axis, offset, length));
    if (at[dim] < 0 || at[dim] >= view.shape[dim]) { point(""); return; }
  }
  showValue(at);
}

function showValue(at) {
  const mine = view, { channel, labels } = mine.image;
  const where = at.map((p, dim) => (dim === channel && !labels ? null : axisText(dim, p))).filter(Boolean).join("  ");
  const active = channel !== null && !labels ? mine.channels.filter((c) => c.active).slice(0, 4) : [null];
  point(where, async () => {
    const values = await Promise.all(active.map((c) => valueAt(mine.path, at.map((p, d) => (c && d === channel ? c.index : p)))));
    return [values.join(", "), ...await Promise.all(mine.overlays.map((o) => labelAt(mine, o, at)))];
  });
}

// What is at a place of a well, in parts of it; `path` is null for none.
function showWell(path, x, y) {
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

// -- keyboard -----------------------------------------------------------------------------------

function step(panel, key, far) {
  const n = far ? 10 : 1;
  const moves = { ArrowLeft: ["across", -n], ArrowRight: ["across", n], ArrowUp: ["down", -n], ArrowDown: ["down", n], PageUp: ["through", -n], PageDown: ["through", n] };
  const [axis, by] = moves[key] || [];
  if (!axis || panel[axis] === null) return false;
  moveTo(panel[axis], view.cross[panel[axis]] + by);
  showValue([...view.cross]);
  return true;
}

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
  const panel = view.panels[Math.min(focused, view.panels.length - 1)];
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

function toggle(pane, button, shown = $(pane).hidden) {
  $(pane).hidden = !shown;
  $(button).setAttribute("aria-expanded", String(shown));
  redraw();
}

$("show-tree").addEventListener("click", () => toggle("tree-pane", "show-tree"));
$("show-settings").addEventListener("click", () => toggle("settings", "show-settings"));
$("help").addEventListener("click", () => $("keys").showModal());
$("fit").addEventListener("click", () => { if (plate) { plate.zoom(0); save(); } else if (view) { view.fit(); save(); redraw(); } });
$("line").addEventListener("click", () => { if (view) draws(!lining); });
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
$("search").addEventListener("input", () => tree.search($("search").value));
window.addEventListener("resize", redraw);
new ResizeObserver(redraw).observe($("panels"));

// -- the URL ------------------------------------------------------------------------------------

function save() {
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

function write() {
  clearTimeout(save.timer);
  // The browser sets a new hash before it tells of it; what somebody just asked for stays.
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

function restoreChannels(wanted, channels) {
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

function restore(wanted) {
  const numbers = (name) => plain(wanted, name).split(",").filter(Boolean).map(Number);
  const at = numbers("at"), center = numbers("center");
  if (at.length === view.rank && at.every(Number.isFinite)) at.forEach((p, dim) => { view.cross[dim] = Math.min(Math.max(p, 0), Math.max(view.shape[dim] - 1, 0)); });
  if (center.length === view.rank && center.every(Number.isFinite)) view.center = center;
  const zoom = Number(plain(wanted, "zoom"));
  if (zoom > 0 && zoom < 1e4) view.zoom = zoom;
  const [panel, ...ends] = numbers("line"), turn = numbers("turn"), drawn = view.panels[panel];
  const inside = (p, i) => Number.isInteger(p) && p >= 0 && p < view.count(drawn, i % 2 ? "across" : "down");
  if (drawn && ends.length === 4 && ends.every(inside)) { fourth.line = { panel, ends }; draws(true); }
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

function restoreOpacity(wanted) {
  const opacity = Number(wanted.get("opacity") || NaN);
  if (opacity >= 0 && opacity <= 1) (view || plate).opacity = opacity;
}

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
