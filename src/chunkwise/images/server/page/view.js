// The planes of an image: which tiles they need, how these are drawn, crosshair, grid, scale bar.

import { setWindow } from "./contrast.js";
import { drawPlot } from "./plot.js";
import { drawTable } from "./table.js";
import { bytes, lengthText, rgb } from "./texts.js";
import { TILE, Tiles, paint } from "./tiles.js";

export const AXIS_COLORS = ["#eb5f55", "#5ac86e", "#5a96fa"]; // of what belongs to x, y, z
const MOST_TILES = 64;
const THINNEST = 8; // one side of a plane to the other, as it is drawn; thinner ones are stretched

export class View {
  // `wanted` is the form in which it is shown, if it has that.
  constructor(image, path, redraw, wanted = "") {
    const form = image.forms.find(({ form }) => form === wanted) || image.forms[0];
    this.image = image = { ...image, ...form };
    this.form = form.form;
    this.path = path;
    this.redraw = redraw;
    this.tiles = new Tiles(redraw);
    this.answers = new Map();
    const first = image.levels[0];
    this.shape = first.shape;
    this.rank = this.shape.length;
    this.cross = this.shape.map((n) => (this.form === "table" ? 0 : Math.max(0, Math.floor(n / 2)))); // an element of full resolution
    this.center = this.shape.map((n) => n / 2);
    this.field = ""; // of records
    const dims = image.dims.filter((dim) => dim !== null);
    const units = new Set(dims.map((dim) => image.axes[dim].unit));
    const sizes = dims.map((dim) => first.scale[dim]);
    const least = Math.min(...sizes);
    // Voxels have their proportions where all axes have one unit, and they aren't extreme.
    const physical = units.size === 1 && Math.max(...sizes) / least <= 100;
    this.aspect = first.scale.map((size, dim) => (physical && dims.includes(dim) ? size / least : 1));
    this.voxel = physical ? least : null;
    this.unit = physical ? [...units][0] : "";
    this.zoom = 1; // pixels of the screen for the shortest side of a voxel
    this.panels = this.planes();
    this.channels = this.channelList();
    this.grid = false;
    this.interpolate = true;
    this.overlays = []; // views of label images that are drawn above this one
    this.opacity = 0.5; // of those
    this.picked = ""; // the label that is shown alone; the others are dim
    this.log = true; // whether counts of histograms are drawn as logarithms
  }

  planes() {
    const [x, y, z] = this.image.dims;
    const deep = z !== null && this.shape[z] > 1;
    const planes = [{ across: x, down: y, through: z }];
    if (deep) planes.push({ across: z, down: y, through: x }, { across: x, down: z, through: y });
    for (const plane of planes) plane.stretch = this.stretch(plane);
    return planes;
  }

  // Whether channels have windows of contrast.
  get contrasts() { return !this.image.labels && this.form !== "table"; }

  // Number of elements along an axis of a panel: 1 if the plane lacks it.
  count(panel, axis, level = 0) { return panel[axis] === null ? 1 : this.image.levels[level].shape[panel[axis]]; }

  // How much longer the sides of a plane are drawn than they are: one that is too thin to be seen gets wider.
  stretch({ across, down }) {
    if (across === null || down === null || this.form === "table") return { across: 1, down: 1 };
    const [wide, tall] = [across, down].map((dim) => Math.max(this.shape[dim], 1) * this.aspect[dim]);
    return { across: Math.max(1, tall / THINNEST / wide), down: Math.max(1, wide / THINNEST / tall) };
  }

  channelList() {
    const { channel, channels, labels } = this.image;
    const n = channel === null || labels ? 1 : this.shape[channel], colored = this.form === "rgb";
    const isRgb = colored || (n === 3 && this.image.dtype === "uint8"), names = isRgb ? ["red", "green", "blue", "alpha"] : [];
    const hues = n === 1 ? ["ffffff"] : isRgb ? ["ff0000", "00ff00", "0000ff"]
      : ["ff00ff", "00ff00", "00a0ff", "ffa000", "ff3030", "ffff00"];
    return Array.from({ length: Math.min(n, 16) }, (_, i) => {
      const given = channels[i] || {};
      const channel = {
        index: i, whole: /^u?int/.test(this.image.dtype), label: given.label || names[i] || (n > 1 ? `channel ${i}` : "values"),
        color: given.color || hues[i % hues.length], map: "", mappable: n === 1, window: null, range: null, span: null, histogram: null,
        active: given.active !== undefined ? given.active : i < (colored ? 3 : 4),
      };
      if (colored) channel.window = [0, 255];
      if (given.window && given.window.every((v) => v !== null)) setWindow(channel, given.window);
      return channel;
    });
  }

  // Pixels of the screen for an element along an axis of a panel.
  pixels(panel, axis) {
    const dim = panel[axis];
    return this.zoom * (panel.enlarged || 1) * (dim === null ? 1 : this.aspect[dim] * panel.stretch[axis]);
  }

  // Show all of each plane, as large as its panel is; the first one's is the zoom.
  fit() {
    this.zoom = 1;
    for (const panel of this.panels) panel.enlarged = 1;
    const fitting = this.panels.map((panel) => {
      const { clientWidth, clientHeight } = panel.canvas, length = (axis) => Math.max(this.count(panel, axis), 1) * this.pixels(panel, axis);
      return 0.94 * Math.min(clientWidth / length("across"), clientHeight / length("down"));
    });
    this.panels.forEach((panel, i) => { panel.enlarged = fitting[i] / fitting[0] || 1; });
    this.zoom = fitting[0];
    this.center = this.shape.map((n) => n / 2);
  }

  // Factor and offset of a level: element i of it covers [i * f + o, (i + 1) * f + o) of full resolution.
  place(level, dim) {
    const first = this.image.levels[0], other = this.image.levels[level];
    const f = other.scale[dim] / first.scale[dim];
    const edge = (l) => l.translation[dim] - l.scale[dim] / 2;
    return [f, (edge(other) - edge(first)) / first.scale[dim]];
  }

  // The coarsest level whose pixels are no larger than those of the screen, and how many elements make one.
  chooseLevel(panel, ratio) {
    const axes = ["across", "down"].filter((axis) => panel[axis] !== null);
    const size = (level) => Math.max(...axes.map((axis) => this.place(level, panel[axis])[0] * this.pixels(panel, axis) * ratio));
    let level = 0;
    this.image.levels.forEach((_, i) => { if (size(i) <= 1.5 && size(i) >= size(level)) level = i; });
    const most = Math.max(...["across", "down"].map((axis) => this.count(panel, axis, level)));
    let step = 1;
    while (step < most && size(level) * step * 2 <= 1.5) step *= 2;
    return [level, step];
  }

  index(level, dim, position) {
    const [f, o] = this.place(level, dim);
    const n = this.image.levels[level].shape[dim];
    return Math.min(Math.max(Math.floor((position + 0.5 - o) / f), 0), Math.max(n - 1, 0));
  }

  url(call, panel, level, box, step, channel) {
    const at = this.shape.map((_, dim) =>
      dim === this.image.channel && channel !== null ? channel : this.index(level, dim, this.cross[dim]));
    for (const dim of [panel.across, panel.down]) if (dim !== null) at[dim] = 0;
    const dims = [panel.down, panel.across].map((dim) => (dim === null ? "" : dim)).join(",");
    const query = new URLSearchParams({ path: this.path, level, dims, at: at.join(","), box: box.join(","), step });
    return `api/${call}?${query}`;
  }

  // Screen coordinates of a position along the two axes of a panel.
  screen(panel, axis, position, length) {
    const dim = panel[axis];
    const center = dim === null ? 0.5 : this.center[dim];
    return (position - center) * this.pixels(panel, axis) + length / 2;
  }

  position(panel, axis, at, length) {
    const dim = panel[axis];
    return (at - length / 2) / this.pixels(panel, axis) + (dim === null ? 0.5 : this.center[dim]);
  }

  visible(panel, level, step, width, height) {
    return ["down", "across"].flatMap((axis) => {
      const dim = panel[axis], length = axis === "down" ? height : width;
      if (dim === null) return [0, 1, 0, 1];
      const [f, o] = this.place(level, dim), n = this.image.levels[level].shape[dim];
      const lo = (this.position(panel, axis, 0, length) - o) / f;
      const hi = (this.position(panel, axis, length, length) - o) / f;
      const start = Math.max(0, Math.min(n, Math.floor(lo))), stop = Math.max(0, Math.min(n, Math.ceil(hi)));
      const tile = TILE * step;
      return [start, stop, Math.floor(start / tile), Math.ceil(stop / tile)];
    });
  }

  draw(panel, line = null) {
    const { canvas } = panel;
    panel.problems = [];
    if (this.form === "table") { drawTable(this, panel); return; }
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (this.form === "plot") {
      drawPlot(this, panel, context, width, height);
      this.drawCrosshair(context, panel, width, height);
      return;
    }
    const [level, step] = this.chooseLevel(panel, ratio);
    const last = this.image.levels.length - 1;
    this.drawUnread(context, panel, width, height);
    panel.level = level;
    panel.step = step;
    if (level < last) {
      this.drawLevel(context, panel, last, 1, width, height); // until the tiles above it have come
    }
    this.drawLevel(context, panel, level, step, width, height);
    for (const overlay of this.overlays) this.drawOverlay(overlay, context, panel, ratio, width, height);
    if (this.grid) this.drawGrid(context, panel, level, width, height);
    this.drawCrosshair(context, panel, width, height);
    this.drawScale(context, panel, width, height);
    if (line) this.drawLine(context, panel, line, width, height);
  }

  // Where the image is, until its tiles have come; black if no channel is shown.
  drawUnread(context, panel, width, height) {
    const [left, top] = [this.screen(panel, "across", 0, width), this.screen(panel, "down", 0, height)];
    const [right, bottom] = [["across", width], ["down", height]].map(([axis, length]) => this.screen(panel, axis, this.count(panel, axis), length));
    context.fillStyle = this.image.labels || this.channels.some((c) => c.active) ? unread(context) : "#000";
    context.fillRect(Math.max(left, 0), Math.max(top, 0), Math.min(right, width) - Math.max(left, 0), Math.min(bottom, height) - Math.max(top, 0));
  }

  // The length of a line between two elements of a panel, in its unit or in elements.
  length(panel, [r0, c0, r1, c1]) {
    const side = (dim, n) => (dim === null ? 0 : n * (this.unit ? this.image.levels[0].scale[dim] : 1));
    return [Math.hypot(side(panel.down, r1 - r0), side(panel.across, c1 - c0)), this.unit || "px"];
  }

  // The line whose values are shown, between the middles of two elements, with its length.
  drawLine(context, panel, [r0, c0, r1, c1], width, height) {
    const x = (c) => this.screen(panel, "across", c + 0.5, width), y = (r) => this.screen(panel, "down", r + 0.5, height);
    for (const [style, size] of [["#000b", 4], ["#ffd54a", 2]]) {
      context.strokeStyle = context.fillStyle = style;
      context.lineWidth = size;
      context.beginPath();
      context.moveTo(x(c0), y(r0));
      context.lineTo(x(c1), y(r1));
      context.stroke();
      context.beginPath(); // where it begins
      context.arc(x(c0), y(r0), size + 1, 0, 2 * Math.PI);
      context.fill();
    }
    const text = lengthText(...this.length(panel, [r0, c0, r1, c1]), 4);
    context.font = "12px system-ui, sans-serif";
    const wide = context.measureText(text).width + 8, [left, top] = [(x(c0) + x(c1) - wide) / 2, (y(r0) + y(r1)) / 2 + 8];
    const [at, under] = [Math.min(Math.max(left, 0), width - wide), Math.min(Math.max(top, 0), height - 18)];
    context.fillStyle = "#000b";
    context.fillRect(at, under, wide, 18);
    context.fillStyle = "#ffd54a";
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, at + 4, under + 9);
  }

  // Number of the dimension of another image that has the name of one of this image, null if it has none.
  dimIn(other, dim) {
    const found = dim === null ? -1 : other.image.axes.findIndex((axis) => axis.name === this.image.axes[dim].name);
    return found < 0 ? null : found;
  }

  // The position in another image of one in this image, by the scales and translations of both.
  positionIn(other, dim, position) {
    const e = this.dimIn(other, dim), mine = this.image.levels[0], its = other.image.levels[0];
    const world = (position - 0.5) * mine.scale[dim] + mine.translation[dim];
    return (world - its.translation[e]) / its.scale[e] + 0.5;
  }

  // Put the crosshair, center and zoom of another image where those of this image are.
  align(other) {
    other.zoom = this.zoom;
    this.shape.forEach((_, dim) => {
      const e = this.dimIn(other, dim);
      if (e === null) return;
      other.center[e] = this.positionIn(other, dim, this.center[dim]);
      other.cross[e] = Math.floor(this.positionIn(other, dim, this.cross[dim] + 0.5));
      other.aspect[e] = this.aspect[dim] * (other.image.levels[0].scale[e] / this.image.levels[0].scale[dim]);
    });
  }

  drawOverlay(overlay, context, panel, ratio, width, height) {
    this.align(overlay);
    const own = { across: this.dimIn(overlay, panel.across), down: this.dimIn(overlay, panel.down), problems: panel.problems, stretch: panel.stretch, enlarged: panel.enlarged };
    if ((own.across === null) !== (panel.across === null) || (own.down === null) !== (panel.down === null)) return;
    const [level, step] = overlay.chooseLevel(own, ratio);
    context.save();
    context.globalAlpha = this.opacity;
    overlay.drawLevel(context, own, level, step, width, height, true);
    context.restore();
  }

  drawLevel(context, panel, level, step, width, height, above = false) {
    const [, , t0, t1, , , u0, u1] = this.visible(panel, level, step, width, height);
    if ((t1 - t0) * (u1 - u0) > MOST_TILES) return;
    context.save();
    context.beginPath(); // what a coarser level has beyond the end is not there
    context.rect(...["across", "down"].map((axis) => this.screen(panel, axis, 0, axis === "down" ? height : width)),
      ...["across", "down"].map((axis) => this.count(panel, axis) * this.pixels(panel, axis)));
    context.clip();
    const active = this.channels.filter((c) => c.active || this.image.labels);
    const ratio = window.devicePixelRatio || 1;
    const span = (axis, t) => [t * TILE * step, Math.min((t + 1) * TILE * step, this.count(panel, axis, level))];
    const edge = (axis, dim, i, length) => {
      const [f, o] = dim === null ? [1, 0] : this.place(level, dim);
      return Math.round(this.screen(panel, axis, i * f + o, length) * ratio) / ratio; // so that no line is between tiles
    };
    for (let t = t0; t < t1; t++) {
      for (let u = u0; u < u1; u++) {
        const [r0, r1] = span("down", t), [c0, c1] = span("across", u);
        const several = this.image.channel !== null && !this.image.labels;
        const parts = active.map((c) => ({
          tile: this.tiles.get(this.url("tile", panel, level, [r0, r1, c0, c1], step, several ? c.index : null)),
          window: c.window, color: rgb(c.color), map: c.map,
        }));
        // A pixel may stand for fewer elements at the end; it is drawn whole and cut off there.
        const tall = Math.ceil((r1 - r0) / step) * step, wide = Math.ceil((c1 - c0) / step) * step;
        const top = edge("down", panel.down, r0, height), bottom = edge("down", panel.down, r0 + tall, height);
        const left = edge("across", panel.across, c0, width), right = edge("across", panel.across, c0 + wide, width);
        for (const { tile } of parts) {
          if (tile && tile.error) this.problem(context, panel, tile.error, left, top, right, bottom);
          for (const { box, message } of (tile && tile.damaged) || []) {
            panel.problems.push(message);
          }
        }
        const good = parts.filter(({ tile }) => tile && !tile.error);
        if (!good.length || good.length < parts.filter(({ tile }) => !tile || !tile.error).length) continue;
        if (!this.image.labels && active.some((c) => !c.window)) continue; // what is black and white isn't known yet
        const picture = paint(good, this.image.labels && this.image.labelColors, this.version(), above ? 0 : 255, this.picked);
        context.imageSmoothingEnabled = this.interpolate && !above && (right - left) / picture.width < 1;
        context.drawImage(picture, left, top, right - left, bottom - top);
        for (const { tile } of good) {
          for (const { box, message } of tile.damaged) {
            this.problem(context, panel, message, edge("across", panel.across, box[2], width),
              edge("down", panel.down, box[0], height), edge("across", panel.across, box[3], width),
              edge("down", panel.down, box[1], height));
          }
        }
      }
    }
    context.restore();
  }

  version() {
    return this.channels.map((c) => `${c.active}${c.color}${c.map}${c.window}`).join(";") + this.picked;
  }

  problem(context, panel, message, left, top, right, bottom) {
    if (!panel.problems.includes(message)) panel.problems.push(message);
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    context.fillStyle = "#5a1512";
    context.fill();
    context.strokeStyle = "#e5534b";
    context.lineWidth = 2;
    for (let x = left - (bottom - top); x < right; x += 14) {
      context.beginPath();
      context.moveTo(x, bottom);
      context.lineTo(x + (bottom - top), top);
      context.stroke();
    }
    context.strokeRect(left + 1, top + 1, right - left - 2, bottom - top - 2);
    context.restore();
  }

  // An answer in JSON, kept; {pending} until it has come.
  answer(url) {
    if (!this.answers.has(url)) {
      if (this.answers.size > 60) this.answers.clear();
      this.answers.set(url, { pending: true });
      fetch(url).then((r) => r.json()).catch((e) => ({ error: String(e) })).then((found) => {
        this.answers.set(url, found);
        this.redraw();
      });
    }
    return this.answers.get(url);
  }

  drawGrid(context, panel, level, width, height) {
    const [r0, r1, , , c0, c1] = this.visible(panel, level, 1, width, height);
    if (r1 <= r0 || c1 <= c0) return;
    const url = this.url("chunks", panel, level, [r0, r1, c0, c1], 1, null);
    const answer = this.answer(url);
    if (answer.pending) return;
    panel.chunks = { chunks: [], ...answer, level, note: answer.note || answer.error };
    const edge = (axis, dim, i, length) => {
      const [f, o] = dim === null ? [1, 0] : this.place(level, dim);
      return this.screen(panel, axis, i * f + o, length);
    };
    context.font = "11px ui-monospace, monospace";
    context.textBaseline = "top";
    for (const { key, box, size, unknown } of panel.chunks.chunks) {
      const top = edge("down", panel.down, box[0], height), bottom = edge("down", panel.down, box[1], height);
      const left = edge("across", panel.across, box[2], width), right = edge("across", panel.across, box[3], width);
      const missing = size === null && !unknown;
      if (missing) {
        context.fillStyle = "#ffb02033";
        context.fillRect(left, top, right - left, bottom - top);
      }
      if (answer.inner) {
        context.strokeStyle = "#ffffff40";
        context.lineWidth = 1;
        for (let r = box[0] + answer.inner[0]; r < box[1]; r += answer.inner[0]) line(context, left, edge("down", panel.down, r, height), right, edge("down", panel.down, r, height));
        for (let c = box[2] + answer.inner[1]; c < box[3]; c += answer.inner[1]) line(context, edge("across", panel.across, c, width), top, edge("across", panel.across, c, width), bottom);
      }
      context.strokeStyle = missing ? "#ffb020" : "#40d0ff";
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
      const text = `${key} ${missing ? "missing" : unknown ? "" : bytes(size)}`;
      if (context.measureText(text).width < right - left - 8 && bottom - top > 18) {
        context.fillStyle = "#000a";
        context.fillRect(left + 2, top + 2, context.measureText(text).width + 6, 15);
        context.fillStyle = missing ? "#ffd080" : "#b0ecff";
        context.fillText(text, left + 5, top + 4);
      }
    }
  }

  drawCrosshair(context, panel, width, height) {
    const colorOf = (dim) => AXIS_COLORS[this.image.dims.indexOf(dim)] || "#fff";
    context.lineWidth = 1;
    context.globalAlpha = 0.75;
    if (panel.across !== null) {
      const x = this.screen(panel, "across", this.cross[panel.across] + 0.5, width);
      context.strokeStyle = colorOf(panel.across);
      line(context, x, 0, x, height);
    }
    if (panel.down !== null) {
      const y = this.screen(panel, "down", this.cross[panel.down] + 0.5, height);
      context.strokeStyle = colorOf(panel.down);
      line(context, 0, y, width, y);
    }
    context.globalAlpha = 1;
  }

  drawScale(context, panel, width, height) {
    const perPixel = ((this.voxel === null || !this.unit ? 1 : this.voxel) * (panel.across === null ? 1 : this.aspect[panel.across])) / this.pixels(panel, "across");
    const wanted = perPixel * Math.min(width / 4, 140);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const length = power * (wanted / power >= 5 ? 5 : wanted / power >= 2 ? 2 : 1);
    const n = length / perPixel;
    const text = lengthText(length, this.unit || "px", 3);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "bottom";
    const label = context.measureText(text).width;
    const box = Math.max(n, label) + 10;
    context.fillStyle = "#000b";
    context.fillRect(width - box - 6, height - 30, box, 24);
    context.fillStyle = "#fff";
    context.fillRect(width - 11 - n, height - 11, n, 3);
    context.fillText(text, width - 11 - label, height - 12);
  }
}

const patterns = new WeakMap();

// Grey lines, which no image has.
function unread(context) {
  if (!patterns.has(context)) {
    const square = new OffscreenCanvas(12, 12), own = square.getContext("2d");
    own.fillStyle = "#3c434d";
    own.fillRect(0, 0, 12, 12);
    own.strokeStyle = "#4a525e";
    own.lineWidth = 3;
    for (const at of [-12, 0, 12]) line(own, at - 2, 14, at + 14, -2);
    patterns.set(context, context.createPattern(square, "repeat"));
  }
  return patterns.get(context);
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.stroke();
}
