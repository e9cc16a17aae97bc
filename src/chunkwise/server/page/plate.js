// A plate: its wells as a grid of small pictures, each asked for when it comes into sight.

import { View, rgb } from "./view.js";
import { paint, parse } from "./tiles.js";

const LARGEST = 512; // pixels of a picture, as the server has it
const AT_A_TIME = 4;
const TRIED = 8; // wells that are looked at for one that tells of channels

export class PlateView {
  // `ask` is for answers in JSON; `open` shows a field; `changed` is called when there is something to draw.
  constructor(plate, path, { ask, open, changed }) {
    Object.assign(this, { plate, path, ask, open, changed });
    this.lead = null; // a view of the first field that can be read; its channels are those of all wells
    this.field = ""; // the first of each well
    this.fields = new Set();
    this.wells = new Map(); // by path: {cell, canvas, tiles, channels, size, controller, error, damaged}
    this.asked = new Set();
    this.cell = 0; // pixels of a well; 0 to fit
    this.looked = false; // whether it is known which wells are in sight
    this.seen = new IntersectionObserver((entries) => {
      this.looked = true;
      for (const { target, isIntersecting } of entries) {
        const well = this.wells.get(target.dataset.well);
        if (well) well.visible = isIntersecting;
      }
      this.changed();
    });
  }

  get idle() { return this.lead !== null && this.looked && this.asked.size === 0 && !this.waiting.length; }
  get channels() { return this.lead ? this.lead.channels : []; }
  get active() { return this.lead.image.labels ? [] : this.channels.filter((c) => c.active).map((c) => c.index); }
  get problems() { return [...this.wells].flatMap(([path, w]) => (w.error || w.damaged || []).map((text) => `${path}: ${text}`)); }

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
      return Object.assign(document.createElement("span"), { className: "none" });
    }))));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    return this.grid;
  }

  well(path) {
    const cell = document.createElement("button"), canvas = document.createElement("canvas");
    cell.dataset.well = path;
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-label", `well ${path}`);
    cell.tabIndex = this.wells.size ? -1 : 0;
    cell.append(canvas);
    cell.addEventListener("click", () => this.open(this.fieldOf(path)));
    cell.addEventListener("focus", () => {
      for (const { cell: other } of this.wells.values()) other.tabIndex = -1;
      cell.tabIndex = 0;
    });
    this.wells.set(path, { cell, canvas, visible: false });
    this.seen.observe(cell);
    return cell;
  }

  fieldOf(path) {
    const { field } = this.wells.get(path);
    return `${this.path}/${path}${field === undefined ? "" : `/${field}`}`;
  }

  key(event) {
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
    return Math.min(Math.max(Math.floor(most), 28), 260);
  }

  show(field) {
    this.field = field;
    this.changed();
  }

  // Ask for what is seen and isn't there, give up what isn't seen any more, draw.
  draw() {
    const cell = this.cell || this.fitting(), ratio = window.devicePixelRatio || 1;
    this.grid.style.setProperty("--cell", `${Math.round(cell)}px`);
    const size = Math.min(LARGEST, 2 ** Math.ceil(Math.log2(Math.max(cell * ratio, 32))));
    for (const well of this.wells.values()) {
      if (well.controller && (!well.visible || this.differs(well.asks, size))) this.giveUp(well);
      if (well.tiles) this.paint(well);
    }
    this.waiting = [...this.wells].filter(([, well]) => well.visible && !well.controller && this.differs(well.has, size));
    for (const [path, well] of this.waiting.splice(0, Math.max(0, AT_A_TIME - this.asked.size))) this.fetch(path, well, size);
  }

  // Whether what a picture was asked for with is less than what is shown now.
  differs(asked, size) {
    return !asked || asked.field !== this.field || asked.size < size || this.active.some((i) => !asked.channels.includes(i));
  }

  giveUp(well) {
    well.controller.abort();
    well.controller = null;
    this.asked.delete(well);
  }

  clear() {
    this.seen.disconnect();
    for (const well of this.asked) this.giveUp(well);
  }

  waiting = [];

  async fetch(path, well, size) {
    const controller = new AbortController(), channels = this.active;
    const asks = { field: this.field, size, channels };
    Object.assign(well, { controller, asks });
    this.asked.add(well);
    const query = new URLSearchParams({ path: `${this.path}/${path}`, field: this.field, channels: channels.join(","), size });
    let found = { error: null, damaged: [] };
    try {
      const response = await fetch(`api/thumbnail?${query}`, { signal: controller.signal });
      if (!response.ok) throw new Error((await response.json()).error);
      const { head, values } = parse(await response.arrayBuffer());
      const [n, height, width] = head.shape, each = height * width;
      const tiles = Array.from({ length: n }, (_, i) => ({ values: values.subarray(i * each, (i + 1) * each), height, width, drawn: null, version: "" }));
      found = { ...found, tiles, labels: head.labels, damaged: [...new Set(head.damaged.map((d) => d.message))] };
      found.field = head.path.slice(this.path.length + path.length + 2);
      head.fields.forEach((name) => this.fields.add(name));
      well.cell.title = `${path}, fields ${head.fields.join(", ")}`;
    } catch (error) {
      if (controller.signal.aborted) return;
      found = { ...found, error: [String(error.message || error)], tiles: null };
    }
    if (well.controller !== controller) return;
    this.asked.delete(well);
    Object.assign(well, found, { controller: null, has: asks });
    const wrong = well.error || well.damaged;
    well.cell.classList.toggle("damaged", wrong.length > 0);
    if (wrong.length) well.cell.title = `${path}: ${wrong.join("; ")}`;
    if (well.error) well.canvas.width = well.canvas.height = 0;
    this.changed();
  }

  paint(well) {
    const shown = this.channels.filter((c) => well.labels || this.active.includes(c.index));
    const version = shown.map((c) => `${c.index}${c.color}${c.window}`).join(";");
    if (well.painted === version && well.drawn === well.tiles) return;
    Object.assign(well, { painted: version, drawn: well.tiles });
    const parts = shown.map((c) => {
      const [low, high] = c.window || [0, 1];
      return { tile: well.tiles[Math.max(well.has.channels.indexOf(c.index), 0)], low, high, color: rgb(c.color) };
    });
    well.canvas.width = well.tiles[0].width; // and it is empty again
    well.canvas.height = well.tiles[0].height;
    if (parts.length) well.canvas.getContext("2d").drawImage(paint(parts, well.labels && this.lead.image.labelColors, version, 255), 0, 0);
  }
}
