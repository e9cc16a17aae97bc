// The settings of what is shown: position, forms, wells, contrast, metadata.

import { channelControls, legend, setWindow } from "./contrast.js";
import { ask, redraw } from "./drawing.js";
import { $, make, say, table } from "./elements.js";
import { kept, save } from "./link.js";
import { labelLinks, listOf } from "./overlays.js";
import { jump, slider } from "./position.js";
import { actions, current, view } from "./state.js";
import { bytes } from "./texts.js";

export function settings(attributes) {
  view.sliders = new Map();
  const { image } = view;
  const moved = (d) => view.form === "table" || view.form === "plot" || view.panels.some((p) => p.through === d);
  const dims = [...image.others, ...image.dims.filter((d) => d !== null && view.shape[d] > 1 && moved(d))];
  const hidden = image.channel !== null && view.form !== "plot" && view.shape[image.channel] > 1 && (image.labels || view.shape[image.channel] > 16) ? [image.channel] : [];
  const sliders = [...hidden, ...dims].map(slider);
  $("sliders").replaceChildren(...(image.well ? wellLinks(image.well) : []), ...formLinks(), ...(view.rank && (sliders.length || view.form !== "table") ? [make("h2", { textContent: "Position" }), ...sliders, jump()] : []));
  channels();
  const rows = Object.entries(image.metadata).map(([name, value]) => [name, name === "size" ? bytes(value) : Array.isArray(value) ? value.join(name === "codecs" ? ", " : " × ") : String(value)]);
  if (view.rank) rows.push(["axes", image.axes.map((a, d) => `${a.name}${a.unit ? `: ${Number(image.levels[0].scale[d].toPrecision(5))} ${a.unit}` : ""}`).join(", ")]);
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
  const forms = image.forms.length < 2 ? [] : [choice("show", image.forms.map((one) => [one.form, FORMS[one.form]]), form, (as) => actions.open(path, new URLSearchParams({ as })))];
  const fields = !image.fields.length ? [] : [choice("field", [["", "all"], ...image.fields.map((name) => [name, name])], field, (name) => { view.field = name; save(); redraw(); })];
  return [...forms, ...fields];
}

// The fields of the well that the image belongs to, by name, and the way back to the plate.
function wellLinks({ path, plate: above, fields, field, acquisitions }) {
  const keep = () => kept(view);
  const choice = make("select", {}, ...fields.map((name) => make("option", {
    value: name, textContent: typeof acquisitions[name] === "number" ? `${name} (acquisition ${acquisitions[name]})` : name })));
  choice.value = field;
  choice.setAttribute("aria-label", "field of view");
  choice.addEventListener("change", () => actions.open(`${path}/${choice.value}`, keep()));
  const nodes = [make("h2", { textContent: `Well ${path.split("/").slice(-2).join("/")}` }), make("label", {}, make("span", { textContent: "field" }), choice)];
  if (above !== null) {
    const back = make("button", { id: "to-plate", textContent: "Plate", title: "All wells of the plate (P)" });
    back.addEventListener("click", () => {
      const state = keep();
      state.set("well", path.slice(above.length + 1));
      if (field !== fields[0]) state.set("field", field);
      actions.open(above, state);
    });
    nodes.push(back);
  }
  return nodes;
}

export function attributesOf(attributes) {
  if (!attributes || !Object.keys(attributes).length) return [];
  return [make("details", {}, make("summary", { textContent: "Attributes" }), make("pre", { textContent: JSON.stringify(attributes, null, 1) }))];
}

export function channels() {
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

// Find the window of a channel; keep one that is set while the request is under way.
export async function contrast(mine, channel, keep = false) {
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
