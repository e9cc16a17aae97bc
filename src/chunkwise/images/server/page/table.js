// A table of values: of the page of rows and columns that the crosshair is in.

const ROWS = 100;
const COLUMNS = 20;

function make(name, text = "", className = "") {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

// From and to of the page that an element is in.
function page(view, panel, axis, most) {
  const n = view.count(panel, axis), start = panel[axis] === null ? 0 : Math.floor(view.cross[panel[axis]] / most) * most;
  return [start, Math.min(start + most, n)];
}

export function drawTable(view, panel) {
  const { image, field } = view, { canvas } = panel;
  if (view.shape.includes(0)) { canvas.replaceChildren(make("p", "This array has no elements.", "note")); return; }
  const rows = page(view, panel, "down", ROWS), columns = page(view, panel, "across", COLUMNS);
  const url = `${view.url("cells", panel, 0, [...rows, ...columns], 1, null)}&${new URLSearchParams({ field })}`;
  const at = [panel.down, panel.across].map((dim) => (dim === null ? 0 : view.cross[dim]));
  const key = `${url} ${at}`, answer = view.answer(url);
  panel.problems = answer.error ? [answer.error] : answer.damaged || [];
  if (answer.pending || panel.drawn === key) return; // what was there stays until the values have come
  panel.drawn = key;
  const fields = panel.across === null && !field ? image.fields : [], name = (dim) => (dim === null ? "" : image.axes[dim].name);
  const head = fields.length ? fields : panel.across === null ? [field || "value"] : Array.from({ length: columns[1] - columns[0] }, (_, i) => `${name(panel.across)} ${columns[0] + i}`);
  const table = make("table", "", "cells"), first = make("tr");
  first.append(make("th", name(panel.down)), ...head.map((text) => make("th", text)));
  table.append(first, ...(answer.cells || []).map((texts, r) => {
    const row = make("tr");
    row.append(make("th", panel.down === null ? "" : String(rows[0] + r)), ...texts.map((text, c) => {
      const cell = make("td", text === null ? "can't be read" : text, text === null ? "damaged" : "");
      if (rows[0] + r === at[0] && (fields.length || columns[0] + c === at[1])) cell.setAttribute("aria-current", "true");
      Object.assign(cell.dataset, { row: rows[0] + r, column: fields.length ? 0 : columns[0] + c });
      return cell;
    }));
    return row;
  }));
  canvas.replaceChildren(table);
  const current = table.querySelector("[aria-current]");
  if (current && document.activeElement === canvas) current.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// The element of a cell, null if it is none.
export function cellAt(view, panel, target) {
  const cell = target.closest("td");
  if (!cell) return null;
  const at = [...view.cross];
  for (const [dim, text] of [[panel.down, cell.dataset.row], [panel.across, cell.dataset.column]]) if (dim !== null) at[dim] = Number(text);
  return at;
}
