// Colour maps: colours at equal distances from black to white, between which others are mixed.

const MAPS = {
  viridis: "440154 482878 3e4a89 31688e 26828e 1f9e89 35b779 6dcd59 b4de2c fde725",
  magma: "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
  inferno: "000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4",
  turbo: "30123b 4662d7 36aaf9 1ae4b6 72fe5e c8ef34 faba39 f66b19 ca2a04 7a0403",
  "blue-red": "2166ac 4393c3 92c5de d1e5f0 f7f7f7 f7f7f7 fddbc7 f4a582 d6604d b2182b",
  inverted: "ffffff e3e3e3 c6c6c6 aaaaaa 8e8e8e 717171 555555 393939 1c1c1c 000000",
};

export const MAP_NAMES = Object.keys(MAPS);
export const STOPS = 10;
const tables = new Map();

// The colours of a map as numbers, null if there is none of this name.
export function stops(name) {
  return MAPS[name] ? MAPS[name].split(" ").map((text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16))) : null;
}

// The colour of each of 256 levels.
export function ramp(name) {
  if (!tables.has(name)) {
    const all = stops(name);
    tables.set(name, all && Array.from({ length: 256 }, (_, level) => {
      const at = (level / 255) * (STOPS - 1), i = Math.min(Math.floor(at), STOPS - 2);
      return all[i].map((c, k) => Math.round(c + (all[i + 1][k] - c) * (at - i)));
    }));
  }
  return tables.get(name);
}
