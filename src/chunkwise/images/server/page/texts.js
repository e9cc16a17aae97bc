// What texts say: colours, and sizes as people read them.

const WHITE = [255, 255, 255];

export function rgb(text) {
  const number = parseInt(text.replace("#", ""), 16);
  return Number.isNaN(number) ? WHITE : [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

export function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (n < 1000 || unit === "TB") return `${unit === "B" ? n : n.toPrecision(3)} ${unit}`;
    n /= 1000;
  }
  return "";
}

const LARGER = { pm: "nm", nm: "µm", nanometer: "µm", "µm": "mm", um: "mm", micrometer: "mm", mm: "m", millimeter: "m" };

// A length in its unit, or in a larger one from 1000 on.
export function lengthText(length, unit, digits) {
  while (length >= 1000 && LARGER[unit]) [length, unit] = [length / 1000, LARGER[unit]];
  return `${Number(length.toPrecision(digits))} ${unit}`;
}
