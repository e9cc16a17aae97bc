// The controls of a channel: whether it is shown, its colour, its window and how values are spread; the legend.

import { MAP_NAMES } from "./maps.js";
import { NAN_COLOR } from "./tiles.js";

// What is black and white in a channel; whole numbers where the data are.
export function setWindow(channel, [low, high]) {
  channel.window = channel.whole ? [Math.floor(low), Math.ceil(high)] : [low, high];
}

// What colours mean that no channel has.
export function legend(dtype) {
  if (!/^(b?float|complex|datetime|timedelta)/.test(dtype)) return [];
  const complex = /^complex/.test(dtype) ? [make("p", { textContent: "Complex numbers are drawn as their magnitude." })] : [];
  const swatch = make("i");
  swatch.style.background = `rgb(${NAN_COLOR})`;
  const all = make("p", { className: "legend" });
  all.append(swatch, /time/.test(dtype) ? "NaT: no time" : "NaN: no number");
  return [all, ...complex];
}

function make(name, properties = {}, label = "") {
  const node = Object.assign(document.createElement(name), properties);
  if (label) node.setAttribute("aria-label", label);
  return node;
}

// `changed` is called when a channel is to be drawn anew, `auto` when its window is to be found by percentiles, `typed`
// when another one was typed; `log` tells whether histograms have logarithms.
export function channelControls(channel, { changed, auto, typed, log }) {
  const on = make("input", { type: "checkbox", checked: channel.active }, `show ${channel.label}`);
  const color = make("input", { type: "color", value: `#${channel.color.replace("#", "").toLowerCase()}` }, `colour of ${channel.label}`);
  const low = make("input", { type: "number", step: channel.whole ? 1 : "any" }, `black in ${channel.label}`);
  const high = make("input", { type: "number", step: channel.whole ? 1 : "any" }, `white in ${channel.label}`);
  const button = make("button", { textContent: "Auto", title: "By percentiles (C)" });
  const histogram = make("canvas", { className: "histogram", width: 256, height: 44 });
  histogram.setAttribute("aria-hidden", "true");
  channel.show = () => {
    if (!channel.window) return;
    [low.value, high.value] = channel.window.map((v) => (channel.whole ? v : Number(v.toPrecision(6))));
    drawHistogram(histogram, channel, log());
  };
  on.addEventListener("change", () => { channel.active = on.checked; changed(); });
  color.addEventListener("input", () => { channel.color = color.value.slice(1); channel.show(); changed(); });
  const set = () => {
    if (low.value === "" || high.value === "") return;
    setWindow(channel, [Number(low.value), Number(high.value)]);
    channel.show();
    changed();
    typed();
  };
  low.addEventListener("change", set);
  high.addEventListener("change", set);
  button.addEventListener("click", auto);
  dragWindow(histogram, channel, changed);
  channel.show();
  const head = make("div", { className: "channel" }), ends = make("div", { className: "window" }), all = make("div");
  head.append(on, make("span", { textContent: channel.label }), color);
  if (channel.mappable) {
    const map = make("select", {}, `colour map of ${channel.label}`);
    for (const name of ["", ...MAP_NAMES]) map.append(make("option", { value: name, textContent: name || "one colour" }));
    map.value = channel.map;
    color.hidden = channel.map !== "";
    map.addEventListener("change", () => { channel.map = map.value; color.hidden = map.value !== ""; changed(); });
    all.append(map);
  }
  ends.append(low, high, button);
  all.prepend(head, histogram, ends);
  return all;
}

function drawHistogram(canvas, { histogram, span, window, color }, log) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!histogram) return;
  const tall = log ? Math.log1p : Number, most = tall(Math.max(...histogram)) || 1, w = canvas.width / histogram.length;
  context.fillStyle = color.toLowerCase() === "ffffff" ? "#8b949e" : `#${color}`;
  histogram.forEach((n, i) => { const h = (tall(n) / most) * canvas.height; context.fillRect(i * w, canvas.height - h, w - 0.5, h); });
  const x = (v) => ((v - span[0]) / (span[1] - span[0] || 1)) * canvas.width;
  context.fillStyle = "#5aa2ff";
  for (const v of window) context.fillRect(Math.min(Math.max(x(v) - 1, 0), canvas.width - 2), 0, 2, canvas.height);
}

// Move one end of a window; the other stays where it is.
export function setSide(channel, side, value) {
  const inside = Math.min(Math.max(value, channel.span[0]), channel.span[1]);
  setWindow(channel, channel.window.map((v, i) => (i === side ? (channel.whole ? Math.round(inside) : inside) : v)));
  if (channel.show) channel.show();
}

function dragWindow(canvas, channel, changed) {
  canvas.addEventListener("pointerdown", (event) => {
    if (!channel.span || !channel.window) return;
    canvas.setPointerCapture(event.pointerId);
    const value = (e) => channel.span[0] + (e.offsetX / canvas.clientWidth) * (channel.span[1] - channel.span[0]);
    const side = Math.abs(value(event) - channel.window[0]) < Math.abs(value(event) - channel.window[1]) ? 0 : 1;
    const move = (e) => { setSide(channel, side, value(e)); changed(); };
    move(event);
    canvas.onpointermove = move;
    canvas.onpointerup = () => { canvas.onpointermove = null; };
  });
}
