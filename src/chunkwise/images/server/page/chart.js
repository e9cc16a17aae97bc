// Charts of the fourth pane: how values are spread, and values along a line.

const MARGIN = { left: 46, right: 10, top: 26, bottom: 20 };

export function style(context) {
  const colors = getComputedStyle(context.canvas);
  const of = (name) => colors.getPropertyValue(name).trim();
  context.font = "11px system-ui, sans-serif";
  return { text: of("--text"), faint: of("--faint"), line: of("--line"), accent: of("--accent") };
}

// White lines would not be seen on a light page.
export function shown(color, colors) { return /^#?ffffff$/i.test(color) ? colors.faint : `#${color.replace("#", "")}`; }

export function short(value) { return String(Number(value.toPrecision(4))); }

// A value between others, with no more digits than their distance allows.
function tick(value, span) { return String(Number(value.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(span)), 0), 20)))); }

function frame(width, height) {
  return { x0: MARGIN.left, x1: width - MARGIN.right, y0: MARGIN.top, y1: height - MARGIN.bottom };
}

function axes(context, box, colors, bottom, left) {
  context.strokeStyle = colors.line;
  context.lineWidth = 1;
  context.strokeRect(box.x0 + 0.5, box.y0 + 0.5, box.x1 - box.x0 - 1, box.y1 - box.y0 - 1);
  context.fillStyle = colors.faint;
  context.textBaseline = "top";
  for (const [text, at, align] of [[bottom[0], box.x0, "left"], [bottom[1], (box.x0 + box.x1) / 2, "center"], [bottom[2], box.x1, "right"]]) {
    context.textAlign = align;
    context.fillText(text, at, box.y1 + 4);
  }
  context.textAlign = "right";
  context.fillText(left[1], box.x0 - 4, box.y0);
  context.textBaseline = "bottom";
  context.fillText(left[0], box.x0 - 4, box.y1);
}

// The values that a histogram's sides stand for, and which ends of a window can be dragged.
export function spread(channels) {
  const known = channels.filter((c) => c.active && c.histogram && c.range && c.window);
  const range = known.length ? [Math.min(...known.map((c) => c.span[0])), Math.max(...known.map((c) => c.span[1]))] : [0, 1];
  return { known, range: range[0] === range[1] ? [range[0], range[0] + 1] : range };
}

// `log` draws the logarithms of counts.
export function drawSpread(context, width, height, channels, log) {
  const colors = style(context), box = frame(width, height), { known, range } = spread(channels);
  if (!known.length) return;
  const x = (value) => box.x0 + ((value - range[0]) / (range[1] - range[0])) * (box.x1 - box.x0);
  const most = Math.max(...known.map((c) => Math.max(...c.histogram)));
  const tall = log ? Math.log1p : Number, y = (n) => box.y1 - (tall(n) / (tall(most) || 1)) * (box.y1 - box.y0);
  axes(context, box, colors, [short(range[0]), tick((range[0] + range[1]) / 2, range[1] - range[0]), short(range[1])], ["0", short(most)]);
  context.globalAlpha = known.length > 1 ? 0.5 : 1;
  for (const { histogram, span: [low, high], color } of known) {
    context.fillStyle = shown(color, colors);
    const bin = ((high > low ? high : low + 1) - low) / histogram.length;
    histogram.forEach((n, i) => {
      const left = x(low + i * bin), right = x(low + (i + 1) * bin);
      context.fillRect(left, y(n), Math.max(right - left - 0.5, 0.5), box.y1 - y(n));
    });
  }
  context.globalAlpha = 1;
  for (const { window, color } of known) {
    context.fillStyle = known.length > 1 ? shown(color, colors) : colors.accent;
    for (const value of window) context.fillRect(Math.min(Math.max(x(value) - 1, box.x0), box.x1 - 2), box.y0, 2, box.y1 - box.y0);
  }
}

// Which value is at a place of the histogram.
export function valueIn(channels, at, width) {
  const box = frame(width, 0), { range } = spread(channels);
  return range[0] + ((at - box.x0) / (box.x1 - box.x0)) * (range[1] - range[0]);
}

// `lines` have a colour and values, null where there is none; `length` and `unit` are those of the line.
export function drawProfile(context, width, height, lines, length, unit, at) {
  const colors = style(context), box = frame(width, height);
  const all = lines.flatMap(({ values }) => values.filter((v) => v !== null));
  let [low, high] = [0, 1];
  if (all.length) [low, high] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  if (low === high) high = low + 1;
  axes(context, box, colors, ["0", "", `${short(length)} ${unit}`], [short(low), short(high)]);
  const y = (value) => box.y1 - 2 - ((value - low) / (high - low)) * (box.y1 - box.y0 - 4);
  let told = "";
  for (const { color, values } of lines) {
    const x = (i) => box.x0 + (values.length > 1 ? i / (values.length - 1) : 0.5) * (box.x1 - box.x0);
    context.strokeStyle = context.fillStyle = shown(color, colors);
    context.lineWidth = 1.5;
    context.beginPath();
    values.forEach((value, i) => {
      if (value === null) return;
      if (i && values[i - 1] !== null) context.lineTo(x(i), y(value));
      else { context.moveTo(x(i), y(value)); context.lineTo(x(i) + 1, y(value)); }
    });
    context.stroke();
    if (at !== null && at >= box.x0 && at <= box.x1) {
      const i = Math.round(((at - box.x0) / (box.x1 - box.x0)) * (values.length - 1)), value = values[i];
      if (value !== null) context.fillRect(x(i) - 2.5, y(value) - 2.5, 5, 5);
      told = `${told ? `${told}, ` : `${short((length * i) / Math.max(values.length - 1, 1))} ${unit} = `}${value === null ? "NaN" : short(value)}`;
    }
  }
  context.textAlign = "right";
  context.textBaseline = "top";
  context.fillStyle = colors.text;
  context.fillText(told, box.x1, 7);
}
