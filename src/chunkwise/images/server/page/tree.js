// The tree of the container: members are asked for when a group is opened; the search asks the server.

const SEARCH_WAITS = 250; // milliseconds after the last letter

export class Tree {
  // `ask` is for answers in JSON; `choose` is called with the path of what is to be shown.
  constructor(root, { ask, choose }) {
    Object.assign(this, { root, ask, choose });
    this.lists = new Map(); // by path: the promise of the list of its members
    this.current = "";
    this.wanted = ""; // what is searched for, in lower case
    this.found = document.createElement("ul");
    this.found.id = "found";
    this.found.setAttribute("aria-label", "Found");
    root.after(this.found);
    root.parentElement.addEventListener("keydown", (event) => this.key(event));
  }

  // Show the sources, and what is in them if they are few.
  async fill() {
    const top = await this.members(this.root, "");
    if (top.length <= 4) await Promise.all([...this.root.children].filter((li) => li.hasAttribute("aria-expanded")).map((li) => this.expand(li, true)));
  }

  // The path of the first source, null if there is none.
  get top() { return this.root.firstElementChild && this.root.firstElementChild.dataset.path; }

  // Mark what is shown, and open the groups that it is in.
  async show(path) {
    this.current = path;
    this.mark();
    const names = path.split("/");
    for (let n = 1; n < names.length && this.current === path; n++) {
      const li = this.item(names.slice(0, n).join("/"));
      if (!li || !li.hasAttribute("aria-expanded")) break;
      await this.expand(li, true);
    }
    const li = this.item(path);
    if (li && this.current === path) li.firstChild.scrollIntoView({ block: "nearest" });
  }

  mark() {
    for (const li of this.root.querySelectorAll("li")) li.firstChild.setAttribute("aria-current", String(li.dataset.path === this.current));
  }

  item(path) { return [...this.root.querySelectorAll("li")].find((li) => li.dataset.path === path); }

  async members(list, path) {
    const { members } = await this.ask("tree", { path });
    list.replaceChildren(...members.map((m) => this.row(path ? `${path}/${m.name}` : m.name, m)));
    this.mark();
    this.filter();
    return members;
  }

  row(path, member) {
    const li = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
    li.setAttribute("role", "treeitem");
    li.dataset.path = path;
    button.append(`${member.kind === "group" ? "▸ " : ""}${member.name} `, small);
    small.textContent = member.error || (member.shape ? `${member.shape.join("×")} ${member.dtype || ""}` : "");
    if (member.error) button.className = "damaged";
    button.title = path + (member.error ? `: ${member.error}` : "");
    li.append(button);
    if (member.kind === "group") li.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => { this.choose(path); if (member.kind === "group") this.expand(li); });
    return li;
  }

  async expand(li, shown) {
    const path = li.dataset.path;
    if (!this.lists.has(path)) {
      const list = document.createElement("ul");
      list.setAttribute("role", "group");
      list.hidden = true;
      li.append(list);
      this.lists.set(path, this.members(list, path).catch(() => []).then(() => list));
    }
    const list = await this.lists.get(path);
    list.hidden = shown === undefined ? !list.hidden : !shown;
    li.setAttribute("aria-expanded", String(!list.hidden));
    const text = li.firstChild.firstChild;
    text.textContent = text.textContent.replace(/^[▸▾]/, list.hidden ? "▸" : "▾");
  }

  // Show what has the text in its path: of the tree as far as it is open, and below it what the server finds.
  search(text) {
    const wanted = this.wanted = text.trim().toLowerCase();
    this.filter();
    this.found.replaceChildren();
    clearTimeout(this.timer);
    if (wanted) this.timer = setTimeout(() => this.searchServer(wanted), SEARCH_WAITS);
  }

  filter() {
    const match = (li) => {
      const inside = [...li.querySelectorAll(":scope > ul > li")].map(match).some(Boolean);
      const found = !this.wanted || inside || li.dataset.path.toLowerCase().includes(this.wanted);
      li.hidden = !found;
      return found;
    };
    for (const li of this.root.children) match(li);
  }

  async searchServer(wanted) {
    const { members, more } = await this.ask("search", { text: wanted }).catch((error) => ({ members: [], more: error.message }));
    if (this.wanted !== wanted) return;
    const rows = members.filter((m) => !this.item(m.path)).map((m) => this.row(m.path, { ...m, name: m.path }));
    for (const li of rows) li.removeAttribute("aria-expanded");
    if (more) rows.push(Object.assign(document.createElement("li"), { className: "note", textContent: more }));
    this.found.replaceChildren(...rows);
  }

  key(event) {
    const buttons = [...this.root.parentElement.querySelectorAll("li > button")].filter((b) => b.offsetParent);
    const at = buttons.indexOf(document.activeElement), li = document.activeElement.closest("li");
    if (event.key === "ArrowDown" && buttons[at + 1]) buttons[at + 1].focus();
    else if (event.key === "ArrowUp" && buttons[at - 1]) buttons[at - 1].focus();
    else if (event.key === "ArrowRight" && li && li.hasAttribute("aria-expanded")) this.expand(li, true);
    else if (event.key === "ArrowLeft" && li && li.hasAttribute("aria-expanded")) this.expand(li, false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
