// A picture of all panes as they are on the screen, to save.

const CAPTION = 18; // pixels of a line of text

// Return a canvas with what the panes show, with their captions, and the title below; null if no pane has a picture.
export function compose(panels, background, ink) {
  const outer = panels.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const panes = [...panels.querySelectorAll("canvas")].filter((canvas) => canvas.width && canvas.clientWidth && canvas.checkVisibility());
  if (!panes.length) return null;
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  Object.assign(canvas, { width: Math.round(outer.width * ratio), height: Math.round((outer.height + CAPTION) * ratio) });
  context.scale(ratio, ratio);
  context.fillStyle = background;
  context.fillRect(0, 0, outer.width, outer.height + CAPTION);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "top";
  for (const pane of panes) {
    const { left, top, width, height } = pane.getBoundingClientRect(), [x, y] = [left - outer.left, top - outer.top];
    context.drawImage(pane, x, y, width, height);
    const text = pane.parentElement.querySelector("figcaption")?.textContent;
    if (!text) continue;
    context.fillStyle = "#000a";
    context.fillRect(x + 4, y + 3, context.measureText(text).width + 8, CAPTION);
    context.fillStyle = "#fff";
    context.fillText(text, x + 8, y + 6);
  }
  context.fillStyle = ink;
  context.fillText(document.title, 6, outer.height + 2);
  return canvas;
}

// Have the browser save a canvas as a PNG file.
export async function save(canvas, name) {
  const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${name}.png` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
