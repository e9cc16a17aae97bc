// The front end of a slice in a notebook: what is looked at is sent to the kernel, which answers with a picture.

const BUTTON = "font:inherit;color:inherit;background:transparent;border:1px solid currentColor;" +
  "border-radius:3px;min-width:2.2em;padding:.2em .5em;cursor:pointer";
const KEYS = {
  ArrowLeft: [0, -0.1], ArrowRight: [0, 0.1], ArrowUp: [-0.1, 0], ArrowDown: [0.1, 0],
};

function render({ model, el }) {
  let { position, center, zoom, channels } = model.get("shown");
  let waiting = false, again = false, url = null;

  const whole = document.createElement("div");
  const controls = document.createElement("div");
  const frame = document.createElement("div");
  const picture = document.createElement("img");
  const buttons = document.createElement("div");
  const caption = document.createElement("span");
  const problem = document.createElement("div");
  whole.className = "chunkwise-slice";
  whole.style.cssText = "font:12px monospace;color:inherit;max-width:512px";
  const aspect = model.get("aspect");
  frame.style.cssText =
    `position:relative;overflow:hidden;touch-action:none;cursor:grab;background:#8882;` +
    `width:${Math.min(1, aspect) * 100}%;aspect-ratio:${aspect};margin:.3em 0`;
  frame.tabIndex = 0;
  frame.setAttribute("role", "application");
  frame.setAttribute("aria-label", "slice: arrows move, plus and minus zoom, 0 shows all");
  picture.alt = "slice";
  picture.draggable = false;
  picture.style.cssText =
    "position:absolute;max-width:none;margin:0;image-rendering:pixelated;user-select:none;pointer-events:none";
  buttons.style.cssText = "display:flex;gap:.4em;align-items:center;flex-wrap:wrap";
  problem.style.cssText = "white-space:pre-wrap;overflow-wrap:anywhere";
  problem.setAttribute("role", "status");

  // One request at a time: what is wanted meanwhile is asked for afterwards.
  function ask() {
    place();
    if (waiting) {
      again = true;
      return;
    }
    waiting = true;
    again = false;
    model.set({ wanted: { position, center, zoom, channels, number: model.get("wanted").number + 1 } });
    model.save_changes();
    state();
  }

  function state() {
    frame.dataset.idle = String(!waiting && !again);
  }

  function limit() {
    zoom = Math.min(Math.max(zoom, 1), model.get("most"));
    const half = 0.5 / zoom;
    center = center.map((at) => Math.min(Math.max(at, half), 1 - half));
  }

  // The last picture stands where it belongs in what is looked at now.
  function place() {
    limit();
    const [top, left, bottom, right] = model.get("shown").box;
    const y = (at) => `${((at - center[0]) * zoom + 0.5) * 100}%`;
    const x = (at) => `${((at - center[1]) * zoom + 0.5) * 100}%`;
    Object.assign(picture.style, {
      top: y(top), left: x(left), width: `${(right - left) * zoom * 100}%`, height: `${(bottom - top) * zoom * 100}%`,
    });
  }

  function show() {
    const shown = model.get("shown");
    const levels = model.get("n_levels");
    waiting = shown.number !== model.get("wanted").number;
    if (!again && !waiting) ({ position, center, zoom, channels } = shown);
    const before = url;
    url = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    picture.src = url;
    if (before) URL.revokeObjectURL(before);
    caption.textContent = levels > 1 ? `level ${shown.level} of ${levels}` : "";
    problem.textContent = shown.problem;
    rows.forEach((row, i) => row.set(position[i]));
    for (const [index, low, high] of shown.windows) if (ends[index]) ends[index].set(low, high);
    picture.decode().catch(() => {}).then(() => {
      place();
      state();
      if (again && !waiting) ask();
    });
  }

  const rows = model.get("sliders").map((one, i) => {
    const label = document.createElement("label");
    const slider = document.createElement("input");
    const value = document.createElement("output");
    label.style.cssText = "display:flex;gap:.5em;align-items:center";
    Object.assign(slider, { type: "range", min: one.start, max: one.stop - 1 });
    slider.style.flex = "1";
    slider.style.minWidth = "0";
    const set = (n) => {
      if (document.activeElement !== slider || !again) slider.value = n;
      value.textContent = n;
    };
    set(position[i]);
    slider.addEventListener("input", () => {
      position = position.map((at, n) => (n === i ? Number(slider.value) : at));
      value.textContent = slider.value;
      ask();
    });
    value.style.minWidth = `${String(one.stop - 1).length}ch`;
    label.append(one.name, slider, value);
    controls.append(label);
    return { set };
  });

  // A row for each channel: whether it is in the picture, its colour, black and white.  Without channels in the
  // picture, the one at the position is shown in grey.
  const ends = model.get("channels").map((one, index) => {
    const row = document.createElement("div");
    row.style.cssText = "display:flex;gap:.5em;align-items:center";
    const make = (type, name, value) => {
      const input = document.createElement("input");
      Object.assign(input, { type, value });
      input.setAttribute("aria-label", `${name} ${one.label}`.trim());
      input.addEventListener("change", () => change(input));
      return input;
    };
    const several = model.get("channels").length > 1;
    const on = make("checkbox", "show", ""), color = make("color", "colour of", `#${one.color.replace("#", "")}`);
    const low = make("number", "black in", ""), high = make("number", "white in", "");
    for (const end of [low, high]) Object.assign(end, { step: "any" }).style.cssText = "width:7em;min-width:0";
    const auto = document.createElement("button");
    auto.textContent = "auto";
    auto.style.cssText = BUTTON;
    auto.addEventListener("click", () => { low.value = high.value = ""; change(auto); });
    on.checked = channels.some(([n]) => n === index);
    function change(by) {
      if (by !== on) on.checked = true;
      const number = (input) => (input.value === "" ? null : Number(input.value));
      const mine = [index, color.value.slice(1), number(low), number(high)];
      channels = [...channels.filter(([n]) => n !== index), ...(on.checked ? [mine] : [])].sort(([a], [b]) => a - b);
      ask();
    }
    row.append(...(several ? [on, one.label] : ["contrast"]), color, low, high, auto);
    controls.append(row);
    return { set(a, b) { if (![low, high].includes(document.activeElement)) [low.value, high.value] = [a, b].map((n) => Number(n.toPrecision(6))); } };
  });

  function move(down, across) {
    center = [center[0] + down / zoom, center[1] + across / zoom];
    ask();
  }

  // What is at a place of the frame, in parts of it, stays there.
  function enlarge(factor, down = 0.5, across = 0.5) {
    const before = zoom;
    zoom *= factor;
    limit();
    const gain = 1 / before - 1 / zoom;
    center = [center[0] + (down - 0.5) * gain, center[1] + (across - 0.5) * gain];
    ask();
  }

  function all() {
    zoom = 1;
    ask();
  }

  for (const [text, name, act] of [
    ["+", "zoom in", () => enlarge(1.5)], ["−", "zoom out", () => enlarge(1 / 1.5)], ["all", "show all", all],
  ]) {
    const button = document.createElement("button");
    button.textContent = text;
    button.setAttribute("aria-label", name);
    button.style.cssText = BUTTON;
    button.addEventListener("click", act);
    buttons.append(button);
  }
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in KEYS) move(...KEYS[event.key]);
    else if (event.key === "+" || event.key === "=") enlarge(1.5);
    else if (event.key === "-") enlarge(1 / 1.5);
    else if (event.key === "0") all();
    else return;
    event.preventDefault();
  });
  frame.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    const at = [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
    enlarge(Math.exp(-event.deltaY / 400), ...at);
  }, { passive: false });
  let held = null;
  frame.addEventListener("pointerdown", (event) => {
    held = [event.clientY, event.clientX];
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    if (!held) return;
    const box = frame.getBoundingClientRect();
    const moved = [(held[0] - event.clientY) / box.height, (held[1] - event.clientX) / box.width];
    held = [event.clientY, event.clientX];
    move(...moved);
  });
  for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, () => (held = null));

  model.on("change:shown", show);
  frame.append(picture);
  buttons.append(caption);
  whole.append(controls, frame, buttons, problem);
  for (const one of whole.querySelectorAll("input, button, [tabindex]"))
    one.dataset.lmSuppressShortcuts = "true"; // JupyterLab's: arrows are not those of the notebook here
  el.append(whole);
  show();
  return () => {
    model.off("change:shown", show);
    if (url) URL.revokeObjectURL(url);
  };
}

export default { render };
