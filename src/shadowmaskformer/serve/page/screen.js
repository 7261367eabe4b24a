// Shows the state: the stage with its pictures, and what is said. It changes nothing of it.

import { Compare } from "./compare.js";
import { Cursor } from "./cursor.js";
import * as panels from "./panels.js";
import { Stage } from "./stage.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const SAID_MS = 4000, COMPLAINED_MS = 15_000;
const WORDS = { finding: "Looking for shadows…", removing: "Removing the shadow…", following: "Making the full size…" };

export class Screen {
  constructor(handlers, state, current) {
    Object.assign(this, { state, current, pointed: 0 });
    this.view = new View($("canvas"));
    this.view.onrestored = () => { this.marked = this.weighed = null; this.update(state); };
    this.view.accent = [1, 0.655, 0.05];
    this.stage = new Stage($("stage"), {
      ...handlers,
      draw: () => this.draw(),
      hover: (place, event) => this.hover(place, event),
      slide: (share) => this.compare.slide(share),
    });
    this.compare = new Compare(this.view.values, () => this.draw(), (event) => this.stage.place(event));
    this.cursor = new Cursor(() => (current()?.history && !current().done ? state : null));
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
    $("stage").hidden = $("bar").hidden = $("close").hidden = false;
    this.compare.show(false);
    this.pointed = 0;
    this.stage.show(photo.width, photo.height);
    this.update(state);
  }

  /** The last photo was closed. */
  empty(state) {
    $("welcome").hidden = false;
    $("stage").hidden = $("bar").hidden = $("close").hidden = true;
    $("name").textContent = $("dimensions").textContent = "";
    this.marked = this.weighed = null;
    this.update(state);
    $("choose").focus();
  }

  update(state) {
    const work = this.current();
    $("offline").hidden = !state.offline;
    panels.strip(state);
    if (!work?.history) {
      document.body.dataset.state = "empty";
      return;
    }
    const { busy, done, scene } = work, focused = document.activeElement;
    const leaves = done && focused.id === "remove" && focused.matches(":focus-visible");
    document.body.dataset.state = done ? "done" : busy ?? "edit";
    document.body.dataset.mode = done ? "compare" : state.tool;
    $("name").textContent = work.name;
    $("dimensions").textContent = `${scene.photo.width} × ${scene.photo.height}`;
    panels.bar(work, state);
    panels.chips(work, (number) => this.point(number));
    panels.progress(work);
    const words = done && busy ? WORDS.following : WORDS[busy] ?? "";
    if (work.note || words !== this.words) this.say(work.note || words);
    [this.words, work.note] = [words, ""];
    this.pictures(work);
    if (leaves) $("handle").focus(); // its button is gone, and the keyboard's place would be too
    this.draw();
  }

  /** Bring the pictures to the graphics card that it does not have yet. */
  pictures(work) {
    const { view } = this, { photo, found, regions } = work.scene, { result } = work;
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
    this.compare.show(Boolean(result));
  }

  painted() { this.fresh = true; this.draw(); }

  actual() { this.stage.zoomBy(1 / (this.stage.scale * devicePixelRatio)); }

  hover(place, event) {
    const work = this.current(), picking = work?.history && !work.done && !work.drawn && this.state.tool === "point";
    this.point(picking && place ? work.labelAt(place) : 0);
    this.cursor.hover(place && event ? event : null);
  }

  /** Light up the numbered shadow, or none. */
  point(number) {
    if (number === this.pointed) return;
    this.pointed = number;
    $("stage").classList.toggle("over", Boolean(number));
    if (this.current()?.history) { this.pictures(this.current()); this.draw(); }
  }

  draw() {
    if (this.queued || !this.stage?.ratio) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      if (this.fresh) this.pictures(this.current());
      this.fresh = false;
      const { view, stage } = this, { frame } = stage;
      view.values.split = this.compare.split;
      view.draw(frame);
      this.compare.lay(frame, stage.room);
      $("zoom").textContent = `${Math.round(100 * stage.scale * devicePixelRatio)} %`;
      this.cursor.draw();
    });
  }

  say(text) {
    clearTimeout(this.quiet);
    $("status").textContent = text;
    if (!this.current()?.busy) this.quiet = setTimeout(() => { $("status").textContent = ""; }, SAID_MS);
  }

  /** Say what went wrong, for a while; what is still shown stays. */
  complain(text) {
    const said = $("toast").firstElementChild, lines = $("toast").hidden ? [] : said.innerText.split("\n");
    said.innerText = [...lines.filter((line) => line && line !== text), text].slice(-3).join("\n");
    $("toast").hidden = false;
    clearTimeout(this.complaint);
    this.complaint = setTimeout(() => { $("toast").hidden = true; }, COMPLAINED_MS);
    if (document.body.dataset.state === "reading") document.body.dataset.state = "empty";
  }
}
