// A plate: its wells as a grid of small pictures, each asked for when it comes into sight.

import { rgb } from "./texts.js";
import { View } from "./view.js";
import { paint, parse } from "./tiles.js";

const LARGEST = 512; // pixels of a picture, as the server has it
const AT_A_TIME = 4;
const TRIED = 8; // wells that are looked at for one that tells of channels

export class PlateView {
  // `ask` is for answers in JSON; `open` shows a field; `changed` is called when there is something to draw,
  // `point` when the pointer is at a place of a well, or no longer, `labelled` when wells have labels of another name.
  constructor(plate, path, { ask, open, changed, point, labelled }) {
    Object.assign(this, { plate, path, ask, open, changed, point, labelled });
    this.lead = null; // a view of the first field that can be read; its channels are those of all wells
    this.field = ""; // the first of each well
    this.fields = new Set();
    this.wells = new Map(); // by path: {path, cell, canvas, visible, pictures, drawn}
    this.overlays = []; // labels that are drawn above: {label}
    this.labels = new Set(); // names of all that the wells have, as far as they were seen
    this.opacity = 0.5; // of those
    this.asked = new Set(); // pictures
    this.waiting = [];
    this.failure = ""; // why there is nothing to show
    this.cell = 0; // pixels of a well; 0 to fit
    this.looked = 0; // the size of wells with which it is known which of them are in sight
    this.seen = new IntersectionObserver((entries) => { this.look(entries); this.changed(); });
  }

  get idle() {
    return this.failure !== "" || (this.lead !== null && this.looked === this.side && this.asked.size === 0 && !this.waiting.length);
  }
  get side() { return this.cell || this.fitting(); }
  get channels() { return this.lead ? this.lead.channels : []; }
  get active() { return this.lead.image.labels ? [] : this.channels.filter((c) => c.active).map((c) => c.index); }
  get problems() {
    if (this.failure) return [this.failure];
    return [...this.wells.values()].flatMap(({ path, pictures }) => [...pictures.values()]
      .filter(({ labels, has, missing }) => !(missing && !labels) && this.kinds.includes(labels) && has && has.field === this.field).flatMap((p) => (p.error || p.damaged).map((text) => `${path}: ${text}`)));
  }
  // What is shown of each well: "" is the image itself, the others are labels.
  get kinds() { return ["", ...this.overlays.map(({ label }) => label)]; }

  look(entries) {
    for (const { target, isIntersecting } of entries) this.wells.get(target.dataset.well).visible = isIntersecting;
  }

  // Find out about channels, from the first well that has an image.
  async start() {
    let failure = new Error("the plate has no wells");
    for (const well of this.plate.wells.slice(0, TRIED)) {
      try {
        const { well: found } = await this.ask("image", { path: `${this.path}/${well}` });
        if (!found) throw new Error(`${well} is no well`);
        found.fields.forEach((name) => this.fields.add(name));
        const path = `${this.path}/${well}/${found.fields[0]}`;
        const { image } = await this.ask("image", { path });
        if (!image) throw new Error(`there is no image at ${path}`);
        this.lead = new View(image, path, this.changed);
        return;
      } catch (error) {
        failure = error;
      }
    }
    this.failure = failure.message;
    throw failure;
  }

  // Return the grid as an element.
  build() {
    const { rows, columns, wells } = this.plate;
    this.grid = document.createElement("div");
    Object.assign(this.grid, { className: "plate" });
    this.grid.setAttribute("role", "grid");
    this.grid.setAttribute("aria-label", `Plate ${this.plate.name}: arrows move, Enter opens a well`);
    const there = new Set(wells);
    const line = (name, children) => {
      const row = document.createElement("div");
      const head = document.createElement("span");
      row.setAttribute("role", "row");
      head.setAttribute("role", "rowheader");
      head.textContent = name;
      row.append(head, ...children);
      return row;
    };
    const head = line("", columns.map((name) => Object.assign(document.createElement("span"), { textContent: name })));
    head.className = "head";
    this.grid.append(head, ...rows.map((row) => line(row, columns.map((column) => {
      const path = `${row}/${column}`;
      if (there.has(path)) return this.well(path);
      return Object.assign(document.createElement("span"), { className: "none", title: `${path} is not in the plate`, textContent: "–" });
    }))));
    this.grid.addEventListener("keydown", (event) => this.move(event));
    return this.grid;
  }

  well(path) {
    const cell = document.createElement("button"), canvas = document.createElement("canvas");
    cell.dataset.well = path;
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-label", `well ${path}`);
    cell.tabIndex = this.wells.size ? -1 : 0;
    cell.className = "unread";
    cell.append(canvas);
    cell.addEventListener("click", () => this.open(this.fieldOf(path)));
    cell.addEventListener("focus", () => {
      for (const { cell: other } of this.wells.values()) other.tabIndex = -1;
      cell.tabIndex = 0;
    });
    canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => this.point(path, offsetX / canvas.clientWidth, offsetY / canvas.clientHeight));
    canvas.addEventListener("pointerleave", () => this.point(null));
    this.wells.set(path, { path, cell, canvas, visible: false, pictures: new Map(), drawn: "" });
    this.seen.observe(cell);
    return cell;
  }

  fieldOf(path) {
    const image = this.wells.get(path).pictures.get("");
    return image && image.tiles ? image.path : `${this.path}/${path}`;
  }

  move(event) {
    const at = event.target.dataset.well;
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!at || !steps[event.key]) return;
    const { rows, columns } = this.plate, [down, across] = steps[event.key];
    let [r, c] = [rows.findIndex((name) => at.startsWith(`${name}/`)), columns.indexOf(at.slice(at.indexOf("/") + 1))];
    for (r += down, c += across; rows[r] !== undefined && columns[c] !== undefined; r += down, c += across) {
      const next = this.wells.get(`${rows[r]}/${columns[c]}`);
      if (next) { next.cell.focus(); break; }
    }
    event.preventDefault();
    event.stopPropagation();
  }

  zoom(factor) {
    this.cell = factor === 0 ? 0 : Math.min(Math.max((this.cell || this.fitting()) * factor, 20), LARGEST);
    this.changed();
  }

  fitting() {
    const { rows, columns } = this.plate, { clientWidth, clientHeight } = this.grid.parentElement;
    const most = Math.min((clientWidth - 40) / columns.length, (clientHeight - 40) / rows.length) - 2;
    return Math.min(Math.max(Math.floor(most), 20), 260);
  }

  show(field) {
    this.field = field;
    this.changed();
  }

  // Ask for what is seen and isn't there, give up what isn't seen any more, draw.
  draw() {
    const cell = this.side, ratio = window.devicePixelRatio || 1;
    this.grid.style.setProperty("--cell", `${Math.round(cell)}px`);
    if (this.looked !== cell) { // the browser tells in the next frame what is in sight then
      requestAnimationFrame(() => { this.look(this.seen.takeRecords()); this.looked = cell; this.changed(); });
    }
    const size = Math.min(LARGEST, 2 ** Math.ceil(Math.log2(Math.max(cell * ratio, 32))));
    this.waiting = [];
    for (const well of this.wells.values()) {
      for (const picture of well.pictures.values()) {
        if (picture.controller && (!well.visible || !this.kinds.includes(picture.labels) || this.differs(picture, picture.asks, size))) this.giveUp(picture);
      }
      if (well.pictures.has("")) this.paint(well);
      if (!well.visible) continue;
      const image = well.pictures.get(""), has = image && image.tiles && image.has.field === this.field ? image.labelNames : [];
      for (const labels of this.kinds.filter((kind) => kind === "" || has.includes(kind))) {
        const picture = well.pictures.get(labels) || { well, labels, controller: null, has: null, tiles: null, error: null, damaged: [] };
        if (!picture.controller && this.differs(picture, picture.has, size)) this.waiting.push(picture);
      }
    }
    for (const picture of this.waiting.splice(0, Math.max(0, AT_A_TIME - this.asked.size))) this.fetch(picture, size);
  }

  // Whether what a picture was asked for with is less than what is shown now.
  differs({ labels }, asked, size) {
    return !asked || asked.field !== this.field || asked.size < size || (!labels && this.active.some((i) => !asked.channels.includes(i)));
  }

  giveUp(picture) {
    picture.controller.abort();
    picture.controller = null;
    this.asked.delete(picture);
  }

  clear() {
    this.seen.disconnect();
    for (const picture of this.asked) this.giveUp(picture);
  }

  async fetch(picture, size) {
    const { well, labels } = picture, controller = new AbortController(), channels = this.active;
    const asks = { field: this.field, size, channels };
    Object.assign(picture, { controller, asks });
    well.pictures.set(labels, picture);
    this.asked.add(picture);
    const query = new URLSearchParams({ path: `${this.path}/${well.path}`, field: this.field, channels: channels.join(","), size, labels });
    let found = { error: null, damaged: [], tiles: null };
    try {
      const response = await fetch(`api/thumbnail?${query}`, { signal: controller.signal });
      if (!response.ok) throw new Error((await response.json()).error);
      const picture = parse(await response.arrayBuffer());
      found = picture.head.missing ? { ...found, missing: true, error: [picture.head.missing] } : { ...found, ...pictureOf(picture) };
    } catch (error) {
      if (controller.signal.aborted) return;
      found.error = [String(error.message || error)];
    }
    if (picture.controller !== controller) return;
    this.asked.delete(picture);
    Object.assign(picture, { missing: false }, found, { controller: null, has: asks });
    if (found.fields) found.fields.forEach((name) => this.fields.add(name));
    if (found.tiles && !labels) this.label(found.labelNames);
    if (!labels) {
      const wrong = picture.error || picture.damaged;
      well.cell.classList.remove("unread");
      well.state = picture.missing ? "missing" : wrong.length ? "damaged" : "";
      for (const state of ["missing", "damaged"]) well.cell.classList.toggle(state, well.state === state);
      well.cell.title = `${well.path}${wrong.length ? `: ${wrong.join("; ")}` : `, fields ${found.fields.join(", ")}`}`;
    }
    well.drawn = "";
    this.tell();
    this.changed();
  }

  // Return what the looks of wells without a picture mean, with their numbers, which `tell` keeps.
  key() {
    this.legend = document.createElement("div");
    this.legend.className = "wells";
    this.tell();
    return this.legend;
  }

  tell() {
    if (!this.legend) return;
    const { rows, columns } = this.plate, states = [...this.wells.values()].map(({ state }) => state);
    const all = [["none", "not in the plate", rows.length * columns.length - this.wells.size],
      ["missing", "in the plate, not stored", states.filter((s) => s === "missing").length],
      ["damaged", "can't be read whole", states.filter((s) => s === "damaged").length]];
    this.legend.replaceChildren(...all.filter(([, , n]) => n > 0).map(([name, text, n]) => {
      const line = document.createElement("p"), swatch = document.createElement("i");
      line.className = "legend";
      swatch.className = name;
      line.append(swatch, `${text}: ${n}`);
      return line;
    }));
  }

  label(names) {
    const before = this.labels.size;
    names.forEach((name) => this.labels.add(name));
    if (this.labels.size > before) this.labelled();
  }

  // Draw the image of a well, and above it the labels that are shown.
  paint(well) {
    const image = well.pictures.get("");
    const isLabels = image.tiles && image.isLabels;
    const shown = isLabels ? this.channels.slice(0, 1) : this.channels.filter((c) => c.active && c.window && image.has && image.has.channels.includes(c.index));
    const version = shown.map((c) => `${c.index}${c.color}${c.map}${c.window}`).join(";");
    const drawn = [version, this.opacity, ...this.kinds].join(" ");
    if (well.drawn === drawn || !image.has) return;
    well.drawn = drawn;
    const { canvas } = well, first = image.tiles && image.tiles[0];
    canvas.width = first ? first.width : 0; // and it is empty again
    canvas.height = first ? first.height : 0;
    if (!first) return;
    const context = canvas.getContext("2d");
    const parts = shown.map((c) => ({ tile: image.tiles[isLabels ? 0 : image.has.channels.indexOf(c.index)], window: c.window, color: rgb(c.color), map: c.map }));
    if (parts.length) context.drawImage(paint(parts, isLabels && image.labelColors, version, 255), 0, 0);
    context.globalAlpha = this.opacity;
    context.imageSmoothingEnabled = false;
    for (const { label } of this.overlays) {
      const above = well.pictures.get(label);
      if (!above || !above.tiles || above.has.field !== image.has.field) continue;
      const [top, left, bottom, right] = above.place;
      context.drawImage(paint([{ tile: above.tiles[0] }], above.labelColors, "", 0), left * canvas.width, top * canvas.height,
        (right - left) * canvas.width, (bottom - top) * canvas.height);
    }
  }

  // What is at a place of a well, in parts of its cell: where that is, and of each picture its path and element.
  elements(path, x, y) {
    const { canvas, pictures } = this.wells.get(path), image = pictures.get("");
    if (!image || !image.tiles) return null;
    const { width, height } = canvas, longest = Math.max(width, height); // the picture is in the middle of its cell
    const at = [0.5 + ((y - 0.5) * longest) / height, 0.5 + ((x - 0.5) * longest) / width];
    return this.kinds.map((label) => {
      const picture = pictures.get(label);
      if (!picture || !picture.tiles || picture.has.field !== image.has.field) return { label, path: null };
      const [top, left, bottom, right] = picture.place;
      const index = [...picture.at], inside = [(at[0] - top) / (bottom - top), (at[1] - left) / (right - left)];
      let there = true;
      picture.dims.forEach((dim, i) => {
        if (dim === null) return;
        index[dim] = Math.floor(inside[i] * picture.extent[i]);
        if (index[dim] < 0 || index[dim] >= picture.full[dim]) there = false;
      });
      return { label, path: there ? picture.path : null, at: index, channel: picture.channel };
    });
  }
}

function pictureOf({ head, values }) {
  const [n, height, width] = head.shape, each = height * width;
  const tiles = Array.from({ length: n }, (_, i) => ({ values: values.subarray(i * each, (i + 1) * each), height, width, drawn: null, version: "" }));
  return { ...head, tiles, damaged: [...new Set(head.damaged.map((d) => d.message))] };
}
