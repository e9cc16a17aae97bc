// The controls of a channel: whether it is shown, its colour, its window and how values are spread.

function make(name, properties = {}, label = "") {
  const node = Object.assign(document.createElement(name), properties);
  if (label) node.setAttribute("aria-label", label);
  return node;
}

// `changed` is called when a channel is to be drawn anew, `auto` when its window is to be found by percentiles.
export function channelControls(channel, { changed, auto }) {
  const on = make("input", { type: "checkbox", checked: channel.active }, `show ${channel.label}`);
  const color = make("input", { type: "color", value: `#${channel.color.replace("#", "").toLowerCase()}` }, `colour of ${channel.label}`);
  const low = make("input", { type: "number", step: "any" }, `black in ${channel.label}`);
  const high = make("input", { type: "number", step: "any" }, `white in ${channel.label}`);
  const button = make("button", { textContent: "Auto", title: "By percentiles (C)" });
  const histogram = make("canvas", { className: "histogram", width: 256, height: 44 });
  histogram.setAttribute("aria-hidden", "true");
  channel.show = () => {
    if (!channel.window) return;
    low.value = Number(channel.window[0].toPrecision(6));
    high.value = Number(channel.window[1].toPrecision(6));
    drawHistogram(histogram, channel);
  };
  on.addEventListener("change", () => { channel.active = on.checked; changed(); });
  color.addEventListener("input", () => { channel.color = color.value.slice(1); channel.show(); changed(); });
  const set = () => {
    if (low.value === "" || high.value === "") return;
    channel.window = [Number(low.value), Number(high.value)];
    channel.show();
    changed();
  };
  low.addEventListener("change", set);
  high.addEventListener("change", set);
  button.addEventListener("click", auto);
  dragWindow(histogram, channel, changed);
  channel.show();
  const head = make("div", { className: "channel" }), ends = make("div", { className: "window" }), all = make("div");
  head.append(on, make("span", { textContent: channel.label }), color);
  ends.append(low, high, button);
  all.append(head, histogram, ends);
  return all;
}

function drawHistogram(canvas, { histogram, range, window, color }) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!histogram) return;
  const most = Math.log1p(Math.max(...histogram)) || 1, w = canvas.width / histogram.length;
  context.fillStyle = color.toLowerCase() === "ffffff" ? "#8b949e" : `#${color}`;
  histogram.forEach((n, i) => { const h = (Math.log1p(n) / most) * canvas.height; context.fillRect(i * w, canvas.height - h, w - 0.5, h); });
  const x = (v) => ((v - range[0]) / (range[1] - range[0] || 1)) * canvas.width;
  context.fillStyle = "#5aa2ff";
  for (const v of window) context.fillRect(Math.min(Math.max(x(v) - 1, 0), canvas.width - 2), 0, 2, canvas.height);
}

function dragWindow(canvas, channel, changed) {
  canvas.addEventListener("pointerdown", (event) => {
    if (!channel.range || !channel.window) return;
    canvas.setPointerCapture(event.pointerId);
    const value = (e) => channel.range[0] + (e.offsetX / canvas.clientWidth) * (channel.range[1] - channel.range[0]);
    const side = Math.abs(value(event) - channel.window[0]) < Math.abs(value(event) - channel.window[1]) ? 0 : 1;
    const move = (e) => { channel.window = channel.window.map((v, i) => (i === side ? value(e) : v)); channel.show(); changed(); };
    move(event);
    canvas.onpointermove = move;
    canvas.onpointerup = () => { canvas.onpointermove = null; };
  });
}
