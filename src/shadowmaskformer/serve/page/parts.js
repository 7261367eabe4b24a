// Small parts of a page that are not special to this one: menus, files that come and go.

/** A button that opens a menu; arrows move in it, Escape closes it. */
export class Menu {
  constructor(button, list) {
    Object.assign(this, { button, list });
    button.onclick = () => this.toggle(list.hidden);
    button.onkeydown = (event) => { if (!list.hidden && event.key === "Escape") this.key(event); };
    list.addEventListener("click", () => { this.toggle(false); button.focus({ preventScroll: true }); });
    // Tab leaves it; a click in it may leave the focus nowhere, and must still arrive.
    list.addEventListener("focusout", ({ relatedTarget: to }) => { if (to && to !== button && !list.contains(to)) this.toggle(false); });
    list.addEventListener("keydown", (event) => this.key(event));
    addEventListener("pointerdown", (event) => {
      if (!list.hidden && !list.contains(event.target) && !button.contains(event.target)) this.toggle(false);
    });
  }

  get items() { return [...this.list.querySelectorAll("[role=menuitem]:not([disabled])")]; }

  toggle(open) {
    this.list.hidden = !open;
    this.button.setAttribute("aria-expanded", open);
    if (open) this.items[0]?.focus();
  }

  key(event) {
    const { items } = this, at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items[(to + items.length) % items.length].focus();
    else if (event.key === "Escape") { this.toggle(false); this.button.focus(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Let the user pick files; resolves to none when he does not. */
export function pickFiles(input) {
  return new Promise((resolve) => {
    input.value = "";
    input.onchange = () => resolve([...input.files]);
    input.oncancel = () => resolve([]);
    input.click();
  });
}

export function download(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Show a dialog with one form and resolve to what was entered. */
export function ask(dialog) {
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(new FormData(dialog.querySelector("form")).get("token"));
  });
}

/** Take files that are dropped or pasted. A file whose name says mask, while a photo is open, is its mask. */
export function watchDrops(take, isOpen) {
  const given = (list) => {
    const files = [...(list ?? [])].filter((file) => file instanceof File);
    if (!files.length) return;
    take(files, files.length === 1 && isOpen() && /(^|[^a-z])mask([^a-z]|$)/i.test(files[0].name));
  };
  let depth = 0;
  const over = (change) => { depth = Math.max(0, depth + change); document.body.classList.toggle("dropping", depth > 0); };
  addEventListener("dragenter", (event) => { event.preventDefault(); over(1); });
  addEventListener("dragleave", () => over(-1));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(-depth);
    given(event.dataTransfer?.files);
  });
  addEventListener("paste", (event) => given(event.clipboardData?.files));
}
