// The fourth pane: a projection through a volume, how values are spread, or values along a line.

import { drawProfile, drawSpread, valueIn } from "./chart.js";
import { Projection, rotation } from "./projection.js";
import { Tiles } from "./tiles.js";
import { AXIS_COLORS } from "./view.js";

const NAMES = { projection: "Projection", spread: "Histogram", profile: "Line" };
const KEPT = 8; // volumes
let projection = null; // one for all images: a browser has few places for such drawings

export class Fourth {
  // `ask` is for answers in JSON, `changed` is called when there is something to draw, `saved` when what the URL
  // holds has changed, `limited` when a window has been dragged.
  constructor(view, { ask, changed, saved, limited }) {
    Object.assign(this, { view, ask, changed, saved, limited });
    this.tiles = new Tiles(changed, KEPT);
    this.chosen = "";
    this.yaw = 30;
    this.pitch = -20;
    this.zoom = 1;
    this.measuring = false;
    this.line = null; // {panel, ends: [row, column, row, column]} of full resolution
    this.profile = null; // {key, lines, length, unit, error}
    this.pointer = null;
    this.drawn = "";
  }

  get kinds() {
    const { image, panels, form } = this.view;
    return form === "table" ? [] : [...(panels.length > 1 ? ["projection"] : []), ...(image.labels ? [] : ["spread"]), ...(this.line ? ["profile"] : [])];
  }
  get kind() { return this.kinds.includes(this.chosen) ? this.chosen : this.kinds[0] || ""; }
  get idle() { return this.tiles.idle && !this.measuring; }

  build() {
    this.canvas = document.createElement("canvas");
    Object.assign(this.canvas, { id: "fourth", tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.choice = document.createElement("select");
    this.choice.setAttribute("aria-label", "what the fourth pane shows");
    this.choice.addEventListener("change", () => this.choose(this.choice.value));
    this.note = document.createElement("p");
    this.note.className = "note";
    const figure = document.createElement("figure");
    figure.className = "fourth";
    figure.append(this.canvas, this.choice, this.note);
    this.listen();
    return figure;
  }

  choose(kind) {
    this.chosen = kind;
    this.saved();
    this.changed();
  }

  listen() {
    const { canvas } = this, turn = (dx, dy) => {
      this.yaw = (((this.yaw + dx + 180) % 360) + 360) % 360 - 180;
      this.pitch = Math.min(Math.max(this.pitch + dy, -90), 90);
    };
    const enlarge = (factor) => { this.zoom = Math.min(Math.max(this.zoom * factor, 0.2), 20); };
    const done = () => { this.saved(); this.changed(); };
    let held = null, edge = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      canvas.focus({ preventScroll: true });
      held = [event.offsetX, event.offsetY];
      if (this.kind === "spread") { edge = this.nearest(event.offsetX); this.drag(edge, event.offsetX); }
    });
    canvas.addEventListener("pointermove", (event) => {
      this.pointer = event.offsetX;
      if (held && this.kind === "projection") {
        turn((event.offsetX - held[0]) * 0.5, -(event.offsetY - held[1]) * 0.5); // the near side follows
        held = [event.offsetX, event.offsetY];
        done();
      } else if (held && this.kind === "spread") this.drag(edge, event.offsetX);
      else if (this.kind === "profile") this.changed();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
    canvas.addEventListener("pointerleave", () => { this.pointer = null; if (this.kind === "profile") this.changed(); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (this.kind !== "projection") return;
      enlarge(Math.exp(-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) / 400));
      done();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (this.kind !== "projection" || event.ctrlKey || event.metaKey || event.altKey) return;
      const n = event.shiftKey ? 45 : 5, turns = { ArrowLeft: [-n, 0], ArrowRight: [n, 0], ArrowUp: [0, n], ArrowDown: [0, -n] };
      if (turns[event.key]) turn(...turns[event.key]);
      else if (event.key === "+" || event.key === "=") enlarge(1.25);
      else if (event.key === "-") enlarge(0.8);
      else return;
      event.preventDefault();
      event.stopPropagation();
      done();
    });
  }

  // The end of a window that is nearest to a place of the histogram.
  nearest(x) {
    const { channels } = this.view, value = valueIn(channels, x, this.canvas.clientWidth);
    const ends = channels.filter((c) => c.active && c.window && c.histogram).flatMap((channel) => [0, 1].map((side) => ({ channel, side })));
    const far = ({ channel, side }) => Math.abs(channel.window[side] - value);
    return ends.reduce((best, one) => (best && far(best) <= far(one) ? best : one), null);
  }

  drag(edge, x) {
    if (edge) this.limited(edge.channel, edge.side, valueIn(this.view.channels, x, this.canvas.clientWidth));
  }

  draw() {
    const { canvas, kinds, kind, view } = this, ratio = window.devicePixelRatio || 1;
    if ([...this.choice.options].map((o) => o.value).join() !== kinds.join()) {
      this.choice.replaceChildren(...kinds.map((value) => Object.assign(document.createElement("option"), { value, textContent: NAMES[value] })));
    }
    this.choice.value = kind;
    canvas.parentElement.dataset.kind = kind;
    this.choice.hidden = kinds.length < 2;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height || !kind) return;
    canvas.setAttribute("aria-label", kind === "projection" ? "Projection: arrows turn, plus and minus zoom" : NAMES[kind]);
    const volume = kind === "projection" ? this.volume() : null, profile = this.line ? this.measure() : null;
    const failed = kind === "projection" ? volume.error : kind === "profile" ? profile.error : "";
    this.note.textContent = failed || "";
    const drawn = [kind, width, height, ratio, document.documentElement.dataset.theme, view.version(), this.yaw, this.pitch, this.zoom,
      view.cross, failed, kind === "profile" && this.pointer, profile && profile.key, profile && profile.lines.length,
      kind === "spread" && [view.log, view.channels.map((c) => c.histogram)]].join(" ");
    if (this.drawn === drawn && (!volume || volume.tiles === this.drawnTiles)) return;
    if (kind === "projection" && !failed && !volume.parts) return; // what was there stays until the volume has come
    this.drawn = drawn;
    this.drawnTiles = volume && volume.tiles;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (failed) return;
    if (kind === "projection") this.drawVolume(context, width, height, ratio, volume.parts);
    else if (kind === "spread") drawSpread(context, width, height, view.channels, view.log);
    else drawProfile(context, width, height, profile.lines, profile.length, profile.unit, this.pointer);
  }

  // The voxels of the channels that are shown, as far as they have come.
  volume() {
    const { view } = this, { image } = view, several = image.channel !== null && !image.labels;
    const active = image.labels ? view.channels.slice(0, 1) : view.channels.filter((c) => c.active).slice(0, 4);
    const parts = active.map((c) => {
      const at = view.cross.map((p, dim) => (image.dims.includes(dim) ? 0 : several && dim === image.channel ? c.index : p));
      return { tile: this.tiles.get(`api/volume?${new URLSearchParams({ path: view.path, at: at.join(",") })}`), window: c.window, color: c.color, map: c.map };
    });
    const failed = parts.find(({ tile }) => tile && tile.error);
    const ready = parts.length && parts.every(({ tile, window }) => tile && !tile.error && (window || image.labels));
    return { error: failed ? failed.tile.error : parts.length ? "" : "No channel is shown.", parts: ready ? parts : null, tiles: parts.map(({ tile }) => tile && tile.number).join() };
  }

  drawVolume(context, width, height, ratio, parts) {
    const { view } = this, { image } = view, dims = image.dims;
    projection ||= new Projection();
    const size = dims.map((dim) => view.shape[dim] * view.aspect[dim]);
    const { turns } = projection, [yaw, pitch] = turns ? [this.yaw, this.pitch] : [0, 0];
    // However it is turned, all of it is seen.
    const per = this.zoom * (turns ? (0.98 * Math.min(width, height)) / Math.hypot(...size) : 0.94 * Math.min(width / size[0], height / size[1]));
    const picture = projection.draw(parts, image.labels ? image.labelColors : null, {
      version: image.labels ? view.picked : parts.map((p) => p.window).join(";"), picked: view.picked, size, yaw, pitch,
      reach: [width / 2 / per, height / 2 / per], width: Math.round(width * ratio), height: Math.round(height * ratio),
    });
    if (turns) context.drawImage(picture, 0, 0, width, height);
    else context.drawImage(picture, (width - size[0] * per) / 2, (height - size[1] * per) / 2, size[0] * per, size[1] * per);
    this.drawBox(context, width, height, size, per, rotation(yaw, pitch));
    context.textBaseline = "bottom";
    context.textAlign = "left";
    context.font = "11px system-ui, sans-serif";
    const text = turns ? "" : "along z; turning needs WebGL2";
    context.fillStyle = "#000a";
    if (text) context.fillRect(4, height - 20, context.measureText(text).width + 8, 16);
    context.fillStyle = "#fff";
    context.fillText(text, 8, height - 6);
  }

  // The edges of the box, and lines through the crosshair; those along an axis have its colour.
  drawBox(context, width, height, size, per, turn) {
    const place = (point) => [0, 1].map((k) => [width, height][k] / 2 + per * point.reduce((sum, v, i) => sum + turn[i][k] * v, 0));
    const stroke = (a, b, color, alpha) => {
      context.globalAlpha = alpha;
      context.strokeStyle = color;
      context.beginPath();
      context.moveTo(...place(a));
      context.lineTo(...place(b));
      context.stroke();
    };
    context.lineWidth = 1;
    const cross = this.view.image.dims.map((dim, i) => ((this.view.cross[dim] + 0.5) / this.view.shape[dim] - 0.5) * size[i]);
    for (let i = 0; i < 3; i++) {
      const [j, k] = [(i + 1) % 3, (i + 2) % 3];
      for (const a of [-0.5, 0.5]) {
        for (const b of [-0.5, 0.5]) {
          const point = [];
          [point[j], point[k]] = [a * size[j], b * size[k]];
          stroke(Object.assign([...point], { [i]: -0.5 * size[i] }), Object.assign([...point], { [i]: 0.5 * size[i] }), a < 0 && b < 0 ? AXIS_COLORS[i] : "#8b949e", 0.8);
        }
      }
      stroke(Object.assign([...cross], { [i]: -0.5 * size[i] }), Object.assign([...cross], { [i]: 0.5 * size[i] }), AXIS_COLORS[i], 0.5);
    }
    context.globalAlpha = 1;
  }

  // Values along the line, at the level that its pane shows; what was there stays until they have come.
  measure() {
    const { view, line } = this, panel = view.panels[line.panel], { image } = view, level = panel.level || 0;
    const dims = [panel.down, panel.across], ends = line.ends.map((p, i) => (dims[i % 2] === null ? 0 : view.index(level, dims[i % 2], p)));
    const active = image.channel !== null && !image.labels ? view.channels.filter((c) => c.active).slice(0, 4) : view.channels.slice(0, 1);
    const urls = active.map((c) => {
      const at = view.shape.map((_, dim) => (dims.includes(dim) ? 0 : dim === image.channel && !image.labels ? c.index : view.index(level, dim, view.cross[dim])));
      return { path: view.path, level, dims: dims.map((d) => (d === null ? "" : d)).join(","), at: at.join(","), line: ends.join(",") };
    });
    const key = JSON.stringify(urls), before = this.profile || { lines: [], length: 0, unit: "" };
    if (before.key === key) return Object.assign(before, { lines: before.lines.map((l, i) => ({ ...l, color: active[i] ? active[i].color : l.color })) });
    const mine = this.profile = { key, lines: before.lines, length: before.length, unit: before.unit, error: "" };
    this.measuring = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const found = await Promise.all(urls.map((query) => this.ask("line", query)));
        const [length, unit] = view.length(panel, line.ends);
        Object.assign(mine, { lines: found.map(({ values }, i) => ({ values, color: active[i].color })), length, unit });
      } catch (error) {
        mine.error = error.message;
      }
      if (mine === this.profile) this.measuring = false;
      this.drawn = "";
      this.changed();
    }, 60);
    return mine;
  }
}
