// A plot of values along one dimension: for each pixel the least and the largest, so that no spike is lost.

import { shown, short, style } from "./chart.js";

export function drawPlot(view, panel, context, width, height) {
  const dim = panel.across, n = view.shape[dim];
  const from = Math.max(0, Math.floor(view.position(panel, "across", 0, width)));
  const to = Math.min(n, Math.ceil(view.position(panel, "across", width, width)));
  Object.assign(panel, { level: 0, step: 1 });
  if (to <= from) return;
  const parts = Math.min(to - from, Math.max(1, Math.round(width)));
  const query = { path: view.path, level: 0, dims: [dim, view.image.channel ?? ""].join(","), at: view.cross.join(","), range: `${from},${to}`, n: parts };
  if (view.image.channel !== null) query.at = view.cross.map((p, d) => (d === view.image.channel ? 0 : p)).join(",");
  query.at = query.at.split(",").map((p, d) => (d === dim ? 0 : p)).join(",");
  const tile = view.tiles.get(`api/extremes?${new URLSearchParams(query)}`);
  if (tile && tile.error) panel.problems.push(tile.error);
  if (tile && !tile.error) panel.plot = { from, to, ...tile };
  const colors = style(context);
  if (!panel.plot) return;
  const { values, shape: [, count, lines], from: first, to: last, head } = panel.plot; // the one before, until the next has come
  panel.problems.push(...head.messages);
  panel.note = head.exact ? "" : `, one of ${Math.round((last - first) / count).toLocaleString("en")} values`;
  const active = view.channels.filter((c) => c.active && c.index < lines), value = (k, i, line) => values[(k * count + i) * lines + line];
  let [low, high] = [Infinity, -Infinity];
  for (const { index } of active) {
    for (let i = 0; i < count; i++) {
      const [a, b] = [value(0, i, index), value(1, i, index)];
      if (a < low && a > -Infinity) low = a;
      if (b > high && b < Infinity) high = b;
    }
  }
  if (low > high) [low, high] = [0, 1];
  if (low === high) high = low + 1;
  const top = 28, bottom = height - 22, y = (v) => bottom - ((Math.min(Math.max(v, low), high) - low) / (high - low)) * (bottom - top);
  const x = (i) => view.screen(panel, "across", first + ((i + 0.5) * (last - first)) / count, width);
  for (const { index, color } of active) {
    context.strokeStyle = shown(color, colors);
    context.lineWidth = 1.2;
    context.beginPath();
    let open = false;
    for (let i = 0; i < count; i++) {
      const ends = [value(0, i, index), value(1, i, index)];
      if (ends[0] !== ends[0]) { open = false; continue; } // a gap
      for (const v of ends) {
        if (open) context.lineTo(x(i), y(v));
        else { context.moveTo(x(i), y(v)); context.lineTo(x(i) + 1, y(v)); open = true; }
      }
    }
    context.stroke();
  }
  context.fillStyle = context.strokeStyle = colors.faint;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  context.fillText(short(low), 6, bottom - 2);
  context.textBaseline = "top";
  context.fillText(short(high), 6, top);
  const axis = view.image.axes[dim], { scale, translation } = view.image.levels[0];
  const place = (i) => (axis.unit ? `${short(i * scale[dim] + translation[dim])} ${axis.unit}` : String(Math.round(i)));
  context.fillText(place(from), 6, height - 16);
  context.textAlign = "right";
  context.fillText(place(to - 1), width - 6, height - 16);
  context.textAlign = "left";
}
