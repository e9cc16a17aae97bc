// Positions as people write them: "3, 40, 12", "z=3", "x = 12.5 µm, y = 4 um".

const METRES = { m: 1, cm: 1e-2, mm: 1e-3, um: 1e-6, µm: 1e-6, μm: 1e-6, micrometer: 1e-6, nm: 1e-9, nanometer: 1e-9, pm: 1e-12, Å: 1e-10, angstrom: 1e-10 };
const SECONDS = { s: 1, sec: 1, second: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, μs: 1e-6, ns: 1e-9, min: 60, h: 3600, hour: 3600 };

// How many units of an axis one unit is.
function factor(unit, own) {
  if (unit === own) return 1;
  for (const table of [METRES, SECONDS]) if (table[unit] && table[own]) return table[unit] / table[own];
  return NaN;
}

// The elements that a text names, by dimension.  Numbers without a unit are elements; without names of axes there
// is one for each axis, in their order.  Throws an error that says what is wrong.
export function positions(text, { axes, levels: [{ shape, scale, translation }] }) {
  const parts = text.split(/[,;]/).map((part) => part.trim()).filter(Boolean), found = new Map();
  const names = axes.map(({ name }) => name);
  parts.forEach((part, i) => {
    const [, name, number, unit] = /^(?:([^=]*?)\s*=\s*)?([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(\D*)$/i.exec(part) || [];
    if (number === undefined || !Number.isFinite(Number(number))) throw new Error(`"${part}": expected a number, with a unit if you like`);
    if (name === undefined && parts.length !== names.length) throw new Error(`expected ${names.length} numbers, for ${names.join(", ")}, or names such as ${names[0]}=3`);
    const dim = name === undefined ? i : names.indexOf(name);
    if (dim < 0) throw new Error(`there is no axis ${name}; there are ${names.join(", ")}`);
    let at = Math.floor(Number(number));
    if (unit.trim()) {
      const times = factor(unit.trim(), axes[dim].unit);
      if (Number.isNaN(times)) throw new Error(`${names[dim]} has ${axes[dim].unit ? `the unit ${axes[dim].unit}` : "no unit"}, not ${unit.trim()}`);
      at = Math.round((Number(number) * times - translation[dim]) / scale[dim]);
    }
    if (at < 0 || at >= shape[dim]) throw new Error(`${names[dim]} goes from 0 to ${shape[dim] - 1}, so ${at} is outside`);
    found.set(dim, at);
  });
  if (!found.size) throw new Error("expected a position");
  return found;
}
