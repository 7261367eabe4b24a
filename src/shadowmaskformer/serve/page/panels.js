// What surrounds the stage: the bar, the shadows that were found, the progress, the filmstrip. They show, and change nothing.

const $ = (id) => document.getElementById(id);
const make = (values) => Object.assign(document.createElement("button"), { type: "button", ...values });

// With nothing selected, several shadows mean all of them; one alone was deselected.
export const canRemove = (work) => !work.busy && (!work.isEmpty || work.scene.regions?.list.length > 1);

export function bar(work, { tool, brush }) {
  const { done, history, result } = work;
  for (const button of document.querySelectorAll("[data-tool]")) {
    const on = !done && button.dataset.tool === tool;
    button.setAttribute("aria-checked", on);
    button.tabIndex = on || (done && button.dataset.tool === "point") ? 0 : -1; // arrows reach the others
  }
  $("size").value = brush;
  $("undo").disabled = !history.canUndo;
  $("redo").disabled = !history.canRedo;
  removeButton(work);
  if (!done) return;
  $("strength").value = 100 * result.live.strength;
  $("edge").value = 100 * result.live.edge;
  // Which format the server writes is known once it did.
  $("save-own").textContent = result.ending ? `Save as ${result.ending.slice(1).toUpperCase().replace("JPG", "JPEG")}` : "Save";
  $("save-own").hidden = result.ending === ".png";
}

function removeButton(work) {
  const button = $("remove"), { regions } = work.scene, removing = work.busy === "removing";
  let label = "Remove shadow";
  if (removing) label = "Cancel";
  else if (regions?.list.length > 1 && !work.drawn) {
    const taken = regions.list.filter(({ number }) => work.taken(number)).length;
    if (work.isEmpty) label = "Remove all";
    else if (taken > 1) label = `Remove ${taken} shadows`;
  }
  button.firstElementChild.textContent = label;
  button.disabled = !removing && !canRemove(work);
  button.style.setProperty("--progress", removing ? work.progress : 0);
  button.classList.toggle("working", removing);
}

/** The line at the top: how far the full size is; while that cannot be known, only that something is under way. */
export function progress({ busy, progress: done }) {
  const line = $("line"), share = busy === "removing" || busy === "following" ? done : 0;
  line.hidden = !busy;
  line.classList.toggle("unsure", !share);
  line.firstElementChild.style.scale = `${share || 0.3} 1`;
  share ? line.setAttribute("aria-valuenow", Math.round(100 * share)) : line.removeAttribute("aria-valuenow");
}

/** One button for each shadow that was found; `point(number)` is told which one the pointer is on. */
export function chips(work, point) {
  const list = work.done || work.busy === "removing" ? [] : (work.scene.regions?.list ?? []).slice(0, 8), box = $("found");
  while (box.children.length > list.length) box.lastElementChild.remove();
  list.forEach(({ number, share }, i) => {
    const chip = box.children[i] ?? box.appendChild(make({ className: "pill" }));
    chip.value = number;
    chip.textContent = `Shadow ${number}`;
    chip.title = `${(100 * share).toFixed(share < 0.01 ? 1 : 0)} % of the photo`;
    chip.setAttribute("aria-pressed", work.taken(number));
    chip.onpointerenter = chip.onfocus = () => point(number);
    chip.onpointerleave = chip.onblur = () => point(0);
  });
}

export function strip({ works, at }) {
  const list = $("strip");
  list.hidden = works.length < 2;
  $("all").hidden = works.filter((work) => work.done).length < 2;
  while (list.children.length > works.length) list.lastElementChild.remove();
  works.forEach((work, i) => {
    const item = list.children[i] ?? list.appendChild(make({ value: i }));
    if (!item.firstChild) item.append(Object.assign(new Image(), { alt: "" }));
    if (item.firstChild.src !== work.thumbnail) item.firstChild.src = work.thumbnail;
    item.setAttribute("aria-label", `${work.name}${work.done ? ", shadow removed" : ""}`);
    if (i === at && item.getAttribute("aria-current") !== "true") item.scrollIntoView({ inline: "nearest", block: "nearest" });
    item.setAttribute("aria-current", i === at);
    item.classList.toggle("has-result", work.done);
  });
}
