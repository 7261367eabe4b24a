// Shows the state: the stage, the bar, the filmstrip and what is said. It changes nothing of it.

import { Stage } from "./stage.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Screen {
  constructor(handlers, state, current) {
    Object.assign(this, { state, current, split: 0.5, cursor: null, pointed: 0 });
    this.view = new View($("canvas"));
    this.view.onrestored = () => this.update(state);
    this.view.accent = [1, 0.655, 0.05];
    this.stage = new Stage($("stage"), {
      ...handlers,
      draw: () => this.draw(),
      hover: (place, event) => this.hover(place, event),
      slide: (share) => this.slide(share),
    });
    this.wireHandle();
    $("toast").querySelector("button").onclick = () => { $("toast").hidden = true; };
  }

  /** A photo is being read, the first one. */
  reading(work) {
    document.body.dataset.state = "reading";
    this.say(`Opening ${work.name}`);
  }

  /** Another photo, or another source of the same one. */
  show(state) {
    const { photo } = this.current().scene;
    $("welcome").hidden = true;
    $("stage").hidden = $("bar").hidden = false;
    this.shown = null;
    this.pointed = 0;
    this.stage.show(photo.width, photo.height);
    this.update(state);
  }

  update(state) {
    const work = this.current();
    $("offline").hidden = !state.offline;
    this.strip(state);
    if (!work?.history) {
      document.body.dataset.state = "empty";
      return;
    }
    const { busy, done, scene, history, result } = work;
    document.body.dataset.state = done ? "done" : busy ?? "edit";
    document.body.dataset.mode = done ? "compare" : state.tool;
    $("about").textContent = `${work.name}  ${scene.photo.width} × ${scene.photo.height}`;
    for (const button of document.querySelectorAll("[data-tool]")) button.setAttribute("aria-checked", !done && button.dataset.tool === state.tool);
    $("size").value = state.brush;
    $("undo").disabled = !history.canUndo;
    $("redo").disabled = !history.canRedo;
    this.button(work);
    this.chips(work);
    $("line").hidden = !busy;
    const share = busy === "removing" || busy === "following" ? work.progress : null;
    $("line").classList.toggle("unsure", share === null);
    $("line").firstElementChild.style.scale = `${share ?? 0.3} 1`;
    share === null ? $("line").removeAttribute("aria-valuenow") : $("line").setAttribute("aria-valuenow", Math.round(100 * share));
    const words = { finding: "Looking for shadows…", removing: done ? "Making the full size…" : "Removing the shadow…", following: "Making the full size…" };
    if (busy !== this.busy || work.note) this.say(work.note || words[busy] || "");
    [this.busy, work.note] = [busy, ""];
    if (done) {
      $("strength").value = 100 * result.live.strength;
      $("edge").value = 100 * result.live.edge;
      $("save-own").textContent = `Save as ${(result.ending ?? ".jpg").slice(1).toUpperCase().replace("JPG", "JPEG")}`;
      $("save-own").hidden = result.ending === ".png";
    }
    $("ring").hidden = done || state.tool === "point" || !this.ringAt;
    this.pictures(work);
    this.draw();
  }

  canRemove(work) {
    return !work.busy && (!work.isEmpty || Boolean(work.scene.regions?.list.length));
  }

  button(work) {
    const button = $("remove"), { regions } = work.scene, removing = work.busy === "removing";
    let label = "Remove shadow";
    if (removing) label = "Cancel";
    else if (regions?.list.length > 1 && !work.drawn) {
      const taken = regions.list.filter(({ number }) => work.taken(number)).length;
      if (work.isEmpty) label = "Remove all";
      else if (taken > 1) label = `Remove ${taken} shadows`;
    }
    button.firstElementChild.textContent = label;
    button.disabled = !removing && !this.canRemove(work);
    button.style.setProperty("--progress", removing ? work.progress : 0);
    button.classList.toggle("working", removing);
  }

  chips(work) {
    const list = work.done || work.busy === "removing" ? [] : (work.scene.regions?.list ?? []).slice(0, 8);
    const box = $("found");
    while (box.children.length > list.length) box.lastElementChild.remove();
    list.forEach(({ number, share }, i) => {
      const chip = box.children[i] ?? box.appendChild(Object.assign(document.createElement("button"), { type: "button", className: "pill" }));
      chip.value = number;
      chip.textContent = `Shadow ${number}`;
      chip.title = `${(100 * share).toFixed(share < 0.01 ? 1 : 0)} % of the photo`;
      chip.setAttribute("aria-pressed", work.taken(number));
      chip.onpointerenter = () => this.point(number);
      chip.onpointerleave = () => this.point(0);
    });
  }

  strip({ works, at }) {
    const strip = $("strip");
    strip.hidden = works.length < 2;
    $("all").hidden = works.filter((work) => work.done).length < 2;
    while (strip.children.length > works.length) strip.lastElementChild.remove();
    works.forEach((work, i) => {
      const item = strip.children[i] ?? strip.appendChild(Object.assign(document.createElement("button"), { type: "button", value: i }));
      if (!item.firstChild) item.append(new Image());
      if (item.firstChild.src !== work.thumbnail) item.firstChild.src = work.thumbnail;
      item.firstChild.alt = "";
      item.setAttribute("aria-label", `${work.name}${work.done ? ", shadow removed" : ""}`);
      item.setAttribute("aria-current", i === at);
      item.classList.toggle("has-result", work.done);
    });
  }

  /** Bring the pictures to the graphics card that it does not have yet. */
  pictures(work) {
    const { view } = this, { photo, mask, found, regions } = work.scene, { result } = work;
    if (!photo.bitmap) return; // it is being decoded again
    view.picture("photo", photo.bitmap);
    const marks = [work.shownMask, found, this.pointed];
    if (!this.marked || marks.some((each, i) => each !== this.marked[i]) || work.drawn) {
      view.marks(work.shownMask, found, regions?.labels, this.pointed);
      this.marked = marks;
    }
    if (result) {
      view.correction(result.live.correction);
      if (this.weighed !== result.live.weight) {
        this.weighed = result.live.weight;
        view.weight(result.live.weight, result.live.width, result.live.height);
      }
      view.values.strength = result.live.strength;
      const full = work.isFull && result.shown?.bitmap;
      if (full) view.picture("result", result.shown.bitmap);
      view.values.full = full ? 1 : 0;
    }
    if (this.shown !== Boolean(result)) {
      this.shown = Boolean(result);
      if (result) this.reveal();
      else Object.assign(view.values, { reveal: 0, overlay: 1 });
    }
    $("handle").hidden = $("before").hidden = $("after").hidden = !result;
  }

  painted() { this.fresh = true; this.draw(); }

  /** The result sweeps in from the right, up to the middle. */
  reveal() {
    const { view } = this, began = performance.now(), time = calm.matches ? 1 : 900;
    view.values.reveal = 1;
    const step = (now) => {
      const share = Math.min(1, (now - began) / time), eased = 1 - (1 - share) ** 3;
      if (!this.shown) return;
      view.values.overlay = Math.max(0, 1 - 3 * share);
      this.slide(1 - 0.5 * eased);
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  slide(share) {
    this.split = Math.min(1, Math.max(0, share));
    $("handle").setAttribute("aria-valuenow", Math.round(100 * this.split));
    this.draw();
  }

  hold(pressed) {
    this.view.values.reveal = pressed ? 0 : 1;
    $("after").hidden = pressed;
    this.draw();
  }

  wireHandle() {
    const handle = $("handle"), move = (event) => this.slide(this.stage.place(event)[0]);
    handle.onpointerdown = (event) => { handle.setPointerCapture(event.pointerId); event.stopPropagation(); };
    handle.onpointermove = (event) => { if (handle.hasPointerCapture(event.pointerId)) move(event); };
    handle.onkeydown = (event) => {
      const to = { ArrowLeft: this.split - 0.05, ArrowRight: this.split + 0.05, Home: 0, End: 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.slide(to);
    };
  }

  actual() {
    const { stage } = this;
    stage.zoomBy(1 / (stage.scale * devicePixelRatio));
  }

  hover(place, event) {
    const work = this.current();
    this.ringAt = place && event ? event : null;
    this.point(work && !work.done && !work.drawn && place && this.state.tool === "point" ? work.labelAt(place) : 0);
    this.ring();
  }

  point(number) {
    if (number === this.pointed) return;
    this.pointed = number;
    $("stage").classList.toggle("over", Boolean(number));
    if (this.current()?.history) { this.pictures(this.current()); this.draw(); }
  }

  ring() {
    const ring = $("ring"), box = $("stage").getBoundingClientRect(), work = this.current();
    const at = this.ringAt ?? this.cursor;
    ring.hidden = !at || !work?.history || work.done || (this.state.tool === "point" && !this.cursor);
    if (ring.hidden) return;
    const size = this.state.tool === "point" ? 18 : this.state.brush;
    ring.classList.toggle("cross", this.state.tool === "point");
    ring.style.width = ring.style.height = `${size}px`;
    ring.style.translate = `${at.clientX - box.left - size / 2}px ${at.clientY - box.top - size / 2}px`;
  }

  /** The keyboard's cursor on the stage. */
  key(event, act) {
    if (document.activeElement !== $("stage") || !$("stage").matches(":focus-visible")) return;
    const box = $("stage").getBoundingClientRect(), step = event.shiftKey ? 48 : 12;
    this.cursor ??= { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (move) {
      this.ringAt = null;
      this.cursor = { clientX: this.cursor.clientX + move[0], clientY: this.cursor.clientY + move[1] };
    } else if (event.key === "Enter") act(this.stage.place(this.cursor), event.altKey);
    else return;
    event.preventDefault();
    this.ring();
  }

  draw() {
    if (this.queued || !this.stage?.ratio) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      if (this.fresh) this.pictures(this.current());
      this.fresh = false;
      const { view, stage } = this, frame = stage.frame;
      view.values.split = this.split;
      view.draw(frame);
      const x = Math.min(stage.room.width, Math.max(0, frame.x + this.split * frame.width));
      const top = Math.max(0, frame.y), bottom = Math.min(stage.room.height, frame.y + frame.height);
      Object.assign($("handle").style, { translate: `${x}px ${top}px`, height: `${bottom - top}px` });
      $("before").style.translate = `${Math.max(12, frame.x + 12)}px ${bottom - 38}px`;
      $("after").style.translate = `calc(${Math.min(stage.room.width - 12, frame.x + frame.width - 12)}px - 100%) ${bottom - 38}px`;
      $("zoom").textContent = `${Math.round(100 * stage.scale * devicePixelRatio)} %`;
      this.ring();
    });
  }

  say(text) {
    clearTimeout(this.quiet);
    $("status").textContent = text;
    if (!this.current()?.busy) this.quiet = setTimeout(() => { $("status").textContent = ""; }, 4000);
  }

  complain(text) {
    const toast = $("toast");
    toast.firstElementChild.textContent = text;
    toast.hidden = false;
    if (document.body.dataset.state === "reading") document.body.dataset.state = "empty";
  }
}
