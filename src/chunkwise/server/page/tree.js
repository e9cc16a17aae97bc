// The tree of the container: members are asked for when a group is opened; the search looks at names.

function item(path, member, choose, expand) {
  const li = document.createElement("li");
  li.setAttribute("role", "treeitem");
  li.dataset.path = path;
  const button = document.createElement("button");
  const small = document.createElement("small");
  button.append(`${member.kind === "group" ? "▸ " : ""}${member.name} `, small);
  small.textContent = member.error || (member.shape ? `${member.shape.join("×")} ${member.dtype || ""}` : "");
  if (member.error) button.className = "damaged";
  button.title = path + (member.error ? `: ${member.error}` : "");
  li.append(button);
  if (member.kind === "group") li.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => { choose(path); if (member.kind === "group") expand(li); });
  return li;
}

export async function fillTree(root, ask, choose, wanted) {
  const open = new Map();

  async function members(list, path) {
    const found = await ask("tree", { path });
    list.replaceChildren(...found.members.map((m) => item(path ? `${path}/${m.name}` : m.name, m, choose, (li) => expand(li))));
    return found.members;
  }

  async function expand(li, shown) {
    const path = li.dataset.path;
    if (!open.has(path)) {
      const list = document.createElement("ul");
      list.setAttribute("role", "group");
      open.set(path, list);
      li.append(list);
      list.hidden = true;
      await members(list, path).catch(() => []);
    }
    const list = open.get(path);
    list.hidden = shown === undefined ? !list.hidden : !shown;
    li.setAttribute("aria-expanded", String(!list.hidden));
    li.firstChild.firstChild.textContent = li.firstChild.firstChild.textContent.replace(/^[▸▾]/, list.hidden ? "▸" : "▾");
    return list;
  }

  const top = await members(root, "");
  for (const li of [...root.children]) {
    if (li.hasAttribute("aria-expanded") && (top.length <= 4 || (wanted || "").startsWith(`${li.dataset.path}/`))) await expand(li, true);
  }
  root.addEventListener("keydown", (event) => {
    const buttons = [...root.querySelectorAll("button")].filter((b) => b.offsetParent);
    const at = buttons.indexOf(document.activeElement);
    const li = document.activeElement.closest("li");
    if (event.key === "ArrowDown" && buttons[at + 1]) buttons[at + 1].focus();
    else if (event.key === "ArrowUp" && buttons[at - 1]) buttons[at - 1].focus();
    else if (event.key === "ArrowRight" && li && li.hasAttribute("aria-expanded")) expand(li, true);
    else if (event.key === "ArrowLeft" && li && li.hasAttribute("aria-expanded")) expand(li, false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return top.length ? firstImage(root, ask) : null;
}

// The first image: a source itself, or what is in it, as far as the tree is open.
async function firstImage(root, ask) {
  const items = [...root.querySelectorAll("li")].slice(0, 24);
  for (const li of items) {
    const { image } = await ask("image", { path: li.dataset.path }).catch(() => ({ image: null }));
    if (image) return li.dataset.path;
  }
  return items.length ? items[0].dataset.path : null;
}

export function markCurrent(root, path) {
  for (const li of root.querySelectorAll("li")) {
    li.firstChild.setAttribute("aria-current", String(li.dataset.path === path));
  }
}

export function filterTree(root, text) {
  const wanted = text.trim().toLowerCase();
  const match = (li) => {
    const inside = [...li.querySelectorAll(":scope > ul > li")].map(match).some(Boolean);
    const found = !wanted || inside || li.dataset.path.toLowerCase().includes(wanted);
    li.hidden = !found;
    return found;
  };
  for (const li of root.children) match(li);
}
