// Tiles: asked for when they are wanted, given up when they no longer are, kept while there is room.

import { ramp } from "./maps.js";

export const TILE = 256;
const KEPT = 600;
export const NAN_COLOR = [139, 61, 135]; // no grey level has it, nor a usual hue of a single channel

const TYPES = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
  u8: BigUint64Array, i8: BigInt64Array, f4: Float32Array, f8: Float64Array,
};

export class Tiles {
  constructor(changed, kept = KEPT) {
    this.changed = changed; // called when a tile has come, or has failed
    this.kept = kept;
    this.tiles = new Map(); // by URL: {values, height, width, damaged} or {error}
    this.asked = new Map(); // by URL: AbortController
    this.wanted = new Set();
    this.version = 0;
  }

  get idle() { return this.asked.size === 0; }

  clear() {
    for (const controller of this.asked.values()) controller.abort();
    this.asked.clear();
    this.tiles.clear();
  }

  begin() { this.wanted.clear(); }

  // Return the tile if it is there, and have it fetched if it isn't.
  get(url) {
    this.wanted.add(url);
    const found = this.tiles.get(url);
    if (found) { // the one that was used last is the last to go
      this.tiles.delete(url);
      this.tiles.set(url, found);
      return found;
    }
    if (!this.asked.has(url)) this.fetch(url);
    return null;
  }

  // Give up what was asked for and is no longer wanted.
  end() {
    for (const [url, controller] of this.asked) {
      if (!this.wanted.has(url)) { controller.abort(); this.asked.delete(url); }
    }
    for (const url of this.tiles.keys()) {
      if (this.tiles.size <= this.kept) break;
      if (!this.wanted.has(url)) this.tiles.delete(url);
    }
  }

  async fetch(url) {
    const controller = new AbortController();
    this.asked.set(url, controller);
    let tile;
    try {
      const response = await fetch(url, { signal: controller.signal });
      tile = response.ok ? tileOf(parse(await response.arrayBuffer())) : { error: (await response.json()).error };
    } catch (error) {
      if (controller.signal.aborted) return;
      tile = { error: String(error.message || error) };
    }
    if (this.asked.get(url) !== controller) return;
    this.asked.delete(url);
    this.tiles.set(url, Object.assign(tile, { number: ++this.version }));
    this.changed();
  }
}

// Return what the first line tells, and the values behind it.
export function parse(buffer) {
  const bytes = new Uint8Array(buffer);
  const end = bytes.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  return { head, values: new TYPES[head.dtype](buffer, end + 1) };
}

function tileOf({ head, values }) {
  return { values, head, shape: head.shape, height: head.shape[0], width: head.shape[1], damaged: head.damaged, drawn: null, version: "" };
}

// Return a canvas with the sum of channels, each a tile with a window and a colour.  For labels `own` has the
// colours that the metadata give them, by number; the others have their own.  0 is black, and as opaque as
// `background` says; labels but the one that is `picked` are dim.
export function paint(parts, own, version, background, picked = "") {
  const first = parts[0].tile;
  if (first.drawn && first.version === version) return first.drawn;
  const { width, height } = first;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  if (own) paintLabels(image.data, first.values, own, background, picked);
  else paintSum(image.data, parts);
  context.putImageData(image, 0, 0);
  first.drawn = canvas;
  first.version = version;
  return canvas;
}

function paintSum(pixels, parts) {
  const n = pixels.length / 4;
  let missing = null; // where a channel has no number
  for (const { tile, window: [low, high], color, map } of parts) {
    const values = tile.values, scale = 1 / (high - low || 1);
    const big = values instanceof BigInt64Array || values instanceof BigUint64Array;
    const [red, green, blue] = color, table = map && ramp(map);
    for (let i = 0, at = 0; i < n; i++, at += 4) {
      if (values[i] !== values[i]) { (missing ||= new Uint8Array(n))[i] = 1; continue; }
      let level = ((big ? Number(values[i]) : values[i]) - low) * scale;
      level = level > 0 ? (level < 1 ? level : 1) : 0;
      if (table) { pixels.set(table[Math.round(255 * level)], at); continue; }
      pixels[at] = Math.min(255, pixels[at] + Math.round(level * red)); // 255 at most: channels add up
      pixels[at + 1] = Math.min(255, pixels[at + 1] + Math.round(level * green));
      pixels[at + 2] = Math.min(255, pixels[at + 2] + Math.round(level * blue));
    }
  }
  for (let at = 3; at < pixels.length; at += 4) pixels[at] = 255;
  if (missing) missing.forEach((is, i) => { if (is) pixels.set(NAN_COLOR, 4 * i); });
}

const colors = new Map();

// The colour of a label that has none in the metadata is a function of its number alone, the same in every view.
export function labelColor(label) {
  const key = String(label);
  let found = colors.get(key);
  if (!found) {
    let hash = 2166136261;
    for (const char of key) hash = Math.imul(hash ^ char.charCodeAt(0), 16777619);
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x2c1b3c6d);
    hash ^= hash >>> 12;
    found = hsl((hash >>> 0) % 360, 0.55 + ((hash >>> 9) & 63) / 160, 0.45 + ((hash >>> 16) & 63) / 256);
    colors.set(key, found);
  }
  return found;
}

function hsl(hue, saturation, light) {
  const a = saturation * Math.min(light, 1 - light);
  return [0, 8, 4].map((n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  });
}

function paintLabels(pixels, values, own, background, picked) {
  let last, color = [0, 0, 0], opaque = background;
  for (let i = 0, at = 0; i < values.length; i++, at += 4) {
    const value = values[i];
    if (value !== last) {
      last = value;
      const none = Number(value) === 0;
      color = own[value] ?? (none ? [0, 0, 0] : labelColor(value));
      opaque = none ? background : 255;
      if (picked && String(value) !== picked) {
        color = color.map((c) => c >> 2);
        opaque = Math.max(opaque >> 2, background);
      }
    }
    pixels[at] = color[0];
    pixels[at + 1] = color[1];
    pixels[at + 2] = color[2];
    pixels[at + 3] = opaque;
  }
}
