// The list of labels: the largest first, each with its colour; one can be picked, and the others are dimmed.

import { labelColor } from "./tiles.js";

const SHOWN = 200;

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Return the list of `view`, which has labels.  `ask` is for answers in JSON; `go` moves to an element of that view,
// `pick` shows one label, "" all of them.
export function labelList(view, { ask, go, pick }) {
  const search = make("input", { type: "search", placeholder: "Label", inputMode: "numeric" });
  search.setAttribute("aria-label", "number of a label");
  const list = make("ul", { className: "labels" }), note = make("p"), details = make("details", {}, make("summary", { textContent: "List of labels" }), search, list, note);
  let known = null;
  const request = (find) => ask("labels", { path: view.path, at: view.cross.map((p, d) => Math.min(Math.max(p, 0), view.shape[d] - 1)).join(","), find });
  const fill = (rows, more) => {
    list.replaceChildren(...rows.slice(0, SHOWN).map(([label, part, at]) => {
      const swatch = make("i"), button = make("button", { title: "Show it alone, and go there; again: all" }, swatch, make("span", { textContent: label }), make("small", { textContent: ` ${Number((100 * part).toPrecision(2))} %` }));
      swatch.style.background = `rgb(${view.image.labelColors[label] ?? labelColor(label)})`;
      button.dataset.label = label;
      button.addEventListener("click", () => {
        const again = view.picked === label;
        pick(again ? "" : label);
        if (!again) go(at);
      });
      return make("li", {}, button);
    }));
    note.textContent = more;
    mark();
  };
  const mark = () => {
    for (const button of list.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.label === view.picked));
  };
  const all = () => fill(known.labels, [known.count > SHOWN ? `The largest ${Math.min(SHOWN, known.labels.length)} of ${known.count.toLocaleString("en")}.` : "", known.sampled ? "From a part of the elements, so the smallest may be missing." : ""].filter(Boolean).join(" "));
  const refuse = (error) => { note.textContent = error.message; };
  details.addEventListener("toggle", () => {
    if (details.open && !known) request("").then((found) => { known = found; all(); }, refuse);
  });
  search.addEventListener("input", () => {
    const text = search.value.trim();
    if (!known) return;
    if (!text) { all(); return; }
    const rows = known.labels.filter(([label]) => label.startsWith(text));
    if (rows.length) fill(rows, "");
    else request(text).then(({ labels }) => { if (search.value.trim() === text) fill(labels, labels.length ? "" : `There is no label ${text}.`); }, refuse);
  });
  view.marked = mark;
  return details;
}
