// Elements of the page.

export const $ = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(properties)) if (key.includes("-")) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function table(rows) {
  return make("table", {}, ...rows.map(([name, value]) => make("tr", {}, make("th", { textContent: name }), make("td", { textContent: value }))));
}

export function say(text) {
  $("message").textContent = text;
  clearTimeout(say.timer);
  if (text) say.timer = setTimeout(() => say(""), 6000);
}
