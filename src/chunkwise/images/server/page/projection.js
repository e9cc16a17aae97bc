// A volume as it looks from outside: the largest value on each ray, of labels the first one; turned by WebGL2,
// or straight along z where there is none.

import { STOPS, ramp, stops } from "./maps.js";
import { rgb } from "./texts.js";
import { labelColor } from "./tiles.js";

const VERTEX = `#version 300 es
in vec2 corner; out vec2 at;
void main() { at = corner * vec2(1.0, -1.0); gl_Position = vec4(corner, 0.0, 1.0); }`;

// Texture coordinates go from 0 to 1 through the box, whose middle is 0 in coordinates of the view.
const FRAGMENT = `#version 300 es
precision highp float; precision highp sampler3D;
uniform sampler3D volume; uniform mat3 turn; uniform vec3 size; uniform vec3 counts; uniform vec2 reach;
uniform vec3 colors[4]; uniform bool labels; uniform bool mapped; uniform vec3 stops[${STOPS}];
in vec2 at; out vec4 picture;
void main() {
  vec3 origin = turn * vec3(at * reach, 0.0) / size, ray = turn * vec3(0.0, 0.0, 1.0) / size;
  ray = mix(ray, vec3(1e-7), lessThan(abs(ray), vec3(1e-7)));
  vec3 a = (-0.5 - origin) / ray, b = (0.5 - origin) / ray, low = min(a, b), high = max(a, b);
  float near = max(max(low.x, low.y), low.z), far = min(min(high.x, high.y), high.z);
  picture = vec4(0.0);
  if (far <= near) return;
  int n = clamp(int(ceil(dot(abs(ray), counts) * (far - near) - 0.01)), 1, 4096); // one for each voxel, at least
  vec4 most = vec4(0.0);
  for (int i = 0; i < n; i++) {
    vec4 here = texture(volume, origin + ray * mix(near, far, (float(i) + 0.5) / float(n)) + 0.5);
    if (labels && here.a > 0.5) { picture = here; return; }
    most = max(most, here);
  }
  vec3 sum = most.r * colors[0] + most.g * colors[1] + most.b * colors[2] + most.a * colors[3];
  float place = most.r * ${STOPS - 1}.0; int stop = min(int(place), ${STOPS - 2});
  if (mapped) sum = mix(stops[stop], stops[stop + 1], place - float(stop));
  picture = vec4(labels ? vec3(0.0) : min(sum, 1.0), 1.0);
}`;

// View to box: first the pitch, then the yaw, in degrees.
export function rotation(yaw, pitch) {
  const [a, b] = [yaw, pitch].map((angle) => (angle * Math.PI) / 180);
  const [ca, sa, cb, sb] = [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)];
  return [[ca, sa * sb, sa * cb], [0, cb, -sb], [-sa, ca * sb, ca * cb]];
}

// Voxels in four bytes: a level for each of four channels, or the colour of a label; of one only, if it is `picked`.
export function voxels(parts, own, picked = "") {
  const first = parts[0].tile, n = first.values.length, out = new Uint8Array(4 * n);
  if (own) {
    let last, color = null; // neighbours often have the same
    for (let i = 0, at = 0; i < n; i++, at += 4) {
      const value = first.values[i];
      if (value !== last) color = Number((last = value)) === 0 || (picked && String(value) !== picked) ? null : own[value] ?? labelColor(value);
      if (color) { [out[at], out[at + 1], out[at + 2]] = color; out[at + 3] = 255; }
    }
    return out;
  }
  parts.forEach(({ tile: { values }, window: [low, high] }, k) => {
    const scale = 255 / (high - low || 1);
    for (let i = 0, at = k; i < n; i++, at += 4) {
      const level = (Number(values[i]) - low) * scale;
      out[at] = level > 0 ? Math.min(255, level + 0.5) : 0; // also of what is no number
    }
  });
  return out;
}

export class Projection {
  constructor() {
    this.gl = this.open();
    this.kept = {};
  }

  get turns() { return this.gl !== null; }

  open() {
    const canvas = document.createElement("canvas"), gl = canvas.getContext("webgl2", { alpha: true, premultipliedAlpha: false });
    if (!gl) return null;
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "corner");
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
    gl.useProgram(program);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 3, -1, -1, 3]), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.bindTexture(gl.TEXTURE_3D, gl.createTexture());
    for (const side of ["S", "T", "R"]) gl.texParameteri(gl.TEXTURE_3D, gl[`TEXTURE_WRAP_${side}`], gl.CLAMP_TO_EDGE);
    this.uniform = (name) => gl.getUniformLocation(program, name);
    canvas.addEventListener("webglcontextlost", () => { this.gl = null; });
    return gl;
  }

  // Return a picture of `width` by `height` pixels.  `reach` is what half of it shows, in units of the box, whose
  // sides are `size`; `parts` are up to four channels, or labels with their `own` colours.
  draw(parts, own, { version, picked = "", size, yaw, pitch, reach, width, height }) {
    const data = this.data(parts, own, version, picked), shape = parts[0].tile.shape;
    if (!this.gl) return this.plain(data, shape, parts, own, version);
    const { gl, uniform } = this, most = gl.getParameter(gl.MAX_3D_TEXTURE_SIZE);
    if (Math.max(...shape) > most) return this.plain(data, shape, parts, own, version);
    if (this.kept.uploaded !== data) {
      gl.texImage3D(gl.TEXTURE_3D, 0, gl.RGBA8, shape[2], shape[1], shape[0], 0, gl.RGBA, gl.UNSIGNED_BYTE, data);
      for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_3D, filter, own ? gl.NEAREST : gl.LINEAR);
      this.kept.uploaded = data;
    }
    Object.assign(gl.canvas, { width, height });
    gl.viewport(0, 0, width, height);
    const turn = rotation(yaw, pitch);
    gl.uniformMatrix3fv(uniform("turn"), true, turn.flat());
    gl.uniform3fv(uniform("size"), size);
    gl.uniform3f(uniform("counts"), shape[2], shape[1], shape[0]);
    gl.uniform2fv(uniform("reach"), reach);
    gl.uniform1i(uniform("labels"), own ? 1 : 0);
    gl.uniform3fv(uniform("colors"), [0, 1, 2, 3].flatMap((k) => (parts[k] && !own ? rgb(parts[k].color).map((c) => c / 255) : [0, 0, 0])));
    const map = !own && stops(parts[0].map);
    gl.uniform1i(uniform("mapped"), map ? 1 : 0);
    if (map) gl.uniform3fv(uniform("stops"), map.flat().map((c) => c / 255));
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    return gl.canvas;
  }

  data(parts, own, version, picked) {
    const { kept } = this, tiles = parts.map(({ tile }) => tile);
    if (kept.version !== version || !kept.tiles || kept.tiles.some((tile, i) => tile !== tiles[i]) || kept.tiles.length !== tiles.length) {
      Object.assign(kept, { version, tiles, data: voxels(parts, own, picked), flat: null });
    }
    return kept.data;
  }

  // The same along z, voxel by voxel; it is the size of the volume.
  plain(data, [depth, height, width], parts, own) {
    const colors = parts.map(({ color }) => rgb(color || "ffffff")), table = !own && parts[0].map && ramp(parts[0].map), key = `${colors} ${parts[0].map}`;
    if (this.kept.flat && this.kept.flat.key === key) return this.kept.flat.canvas;
    const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
    const image = context.createImageData(width, height), plane = 4 * width * height, most = [0, 0, 0, 0];
    for (let at = 0; at < plane; at += 4) {
      most.fill(0);
      for (let z = 0, i = at; z < depth; z++, i += plane) {
        if (own && data[i + 3]) { for (let k = 0; k < 4; k++) most[k] = data[i + k]; break; }
        for (let k = 0; k < 4; k++) if (data[i + k] > most[k]) most[k] = data[i + k];
      }
      for (let c = 0; c < 3; c++) {
        image.data[at + c] = own ? most[c] : table ? table[most[0]][c] : Math.min(255, colors.reduce((sum, color, k) => sum + (most[k] * color[c]) / 255, 0) + 0.5);
      }
      image.data[at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    this.kept.flat = { canvas, key };
    return canvas;
  }
}
