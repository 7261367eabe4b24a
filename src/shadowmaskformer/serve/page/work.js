// The work on one photo: its scenes, one after the other, and what is under way.
// A scene is {photo, thumbnail, mask, rough, found, regions, hints, result}; it is replaced, never changed. A mask is rough when
// a hand drew it: its edge may then be moved to the shadow's.

import * as engine from "./engine.js";
import { History } from "./history.js";
import { Live } from "./live.js";
import * as masks from "./mask.js";
import { Photo } from "./photo.js";
import { Result } from "./result.js";
import { Stroke } from "./stroke.js";

const BRIEF_MS = 450; // sliders rest this long before the full size follows
const known = new WeakMap();

export class Work {
  /** `changed()` is called whenever there is something new to show. */
  constructor(file, changed) {
    Object.assign(this, { file, name: file.name || "photo.png", changed, busy: "reading", progress: 0, note: "" });
  }

  get scene() { return this.history?.now; }
  get result() { return this.scene?.result; }
  get done() { return Boolean(this.result); }
  get thumbnail() { return this.result?.thumbnail ?? this.scene.thumbnail; }

  /** Read the file; throws what is wrong with it. */
  async read() {
    const photo = await Photo.read(this.file, this.name);
    this.history = new History(this.fresh(photo, await photo.thumbnail()));
    this.busy = null;
  }

  fresh(photo, thumbnail) {
    const mask = masks.empty(photo.workWidth, photo.workHeight);
    return { photo, thumbnail, mask, rough: false, found: null, regions: null, hints: [], result: null };
  }

  push(change) { this.history.push({ ...this.scene, ...change }); this.changed(); }

  /** Run `action(signal)`, of which there is one at a time; a new one or `cancel` ends it. */
  async run(busy, action) {
    this.cancel();
    const controller = this.controller = new AbortController();
    Object.assign(this, { busy, progress: 0, again: null });
    this.changed();
    try {
      return await action(controller.signal);
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      if (error instanceof engine.Offline) this.again = () => this.run(busy, action);
      throw error;
    } finally {
      if (this.controller === controller) {
        this.controller = this.busy = null;
        this.changed();
      }
    }
  }

  cancel() { this.controller?.abort(); this.controller = this.busy = null; this.changed(); }

  /** Find the shadows. One alone is taken at once. */
  find() {
    return this.looking = this.run("finding", async (signal) => {
      const { photo } = this.scene;
      const { mask: picture } = await engine.findShadows(photo.small, { signal });
      const found = await masks.fromPicture(picture, photo.workWidth, photo.workHeight);
      const regions = masks.regions(found), count = regions.list.length;
      const mask = count === 1 ? masks.toggle(this.scene.mask, found, regions.labels, 1, true) : this.scene.mask;
      this.history.amend({ ...this.scene, found, regions, mask });
      this.note = count ? `${count === 1 ? "One shadow" : `${count} shadows`} found` : "No shadow found: click on it, or paint over it";
    });
  }

  labelAt([x, y]) {
    const { mask, regions } = this.scene;
    if (!regions || x < 0 || y < 0 || x >= 1 || y >= 1) return 0;
    return regions.labels[Math.floor(y * mask.height) * mask.width + Math.floor(x * mask.width)];
  }

  // Asked again and again, so remembered for each scene.
  get facts() {
    const { scene } = this, { mask, found, regions } = scene;
    if (!known.has(scene)) known.set(scene, { empty: masks.isEmpty(mask), taken: regions && masks.taken(mask, found, regions) });
    return known.get(scene);
  }
  taken(number) { return this.facts.taken[number]; }
  get isEmpty() { return this.facts.empty; }

  toggle(number) {
    const { mask, found, regions } = this.scene, on = !this.taken(number);
    this.note = `Shadow ${number} ${on ? "taken" : "left"}`;
    this.push({ mask: masks.toggle(mask, found, regions.labels, number, on) });
  }

  /** A click: takes or leaves what was found there; elsewhere it is a hint for another look. */
  async point(place, away) {
    if (place.some((share) => share < 0 || share >= 1)) return undefined;
    if (!this.scene.found) await this.looking?.catch(() => {}); // a click before there are outlines waits for them
    const number = this.labelAt(place);
    if (number && (!away || this.taken(number))) return this.toggle(number);
    return this.run("finding", async (signal) => {
      const { photo, mask } = this.scene, spot = [place[0] * mask.width, place[1] * mask.height];
      const hints = [...this.scene.hints, { points: [spot], shadow: !away }];
      const soFar = this.isEmpty ? null : await masks.toPng(mask);
      const { mask: picture } = await engine.findShadows(photo.small, { hints, mask: soFar, signal });
      const seen = await masks.fromPicture(picture, mask.width, mask.height);
      const next = masks.around(mask, seen, spot, away);
      this.note = next ? "" : away ? "Nothing was taken away there" : "No shadow was found there: paint over it";
      if (next) this.push({ mask: next, hints });
    });
  }

  stroke(place, radius, erase) { this.drawn = new Stroke(this.scene.mask, place, radius, erase); }
  draw(place) { this.drawn?.to(place); }
  finish() { const mask = this.drawn?.mask; this.drawn = null; if (mask) this.push({ mask, rough: true }); }
  drop() { this.drawn = null; this.changed(); }
  get shownMask() { return this.drawn?.mask ?? this.scene.mask; }

  edit(change) { this.push({ mask: change(this.scene.mask) }); }
  async openMask(file) {
    const { width, height } = this.scene.mask;
    this.push({ mask: await masks.fromPicture(file, width, height), rough: true });
  }
  saveMask() { const { mask, photo } = this.scene; return masks.toPng(mask, photo.width, photo.height); }

  /** Remove what is marked, or all that was found: first a live picture, then the full size. */
  remove() {
    const { photo, found } = this.scene, mask = this.isEmpty && found ? found : this.scene.mask;
    return this.run("removing", async (signal) => {
      const png = await masks.toPng(mask), options = this.scene.rough ? {} : { exact_mask: true };
      const live = new Live(await engine.correction(photo.small, png, options, { signal }), photo, options);
      const result = new Result(photo, png, live);
      this.push({ mask, result });
      await this.make(result, signal);
    });
  }

  async make(result, signal) {
    const warnings = await result.make(this.report(signal));
    // What to do about it is said in the words of the API.
    if (warnings.length) this.note = warnings.map((line) => line.split("; ")[0].replace(/^photo: /, "")).join(" · ");
  }

  report(signal) { return { signal, progress: (share) => { this.progress = share; this.changed(); } }; }

  get isFull() { return this.result?.isFull; }

  /** The sliders moved: the picture follows at once, the full size after them. */
  adjust(strength, edge) {
    this.result.live.set(strength, edge);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.follow().catch((error) => this.failed?.(error)), BRIEF_MS);
    this.cancel(); // what is being made is no longer what is asked for
  }

  async follow() {
    const { result } = this;
    if (result && !result.isFull) await this.run("following", (signal) => this.make(result, signal));
  }

  /** The result once its full size is there; null when that was cancelled, or the work went elsewhere meanwhile. */
  async settled() {
    const { result } = this;
    clearTimeout(this.timer);
    await this.follow();
    return this.result === result && result.isFull ? result : null;
  }

  /** The finished file, in the photo's own format or another; null when it was cancelled. */
  async finished(format) {
    const result = await this.settled();
    if (!result) return null;
    if (!format || result.ending === `.${format}`) return { file: result.file, name: this.named(result.ending) };
    const made = await this.run("following", (signal) => result.fullSize({ format }, this.report(signal)));
    return made ? { file: made.file, name: this.named(made.ending) } : null;
  }

  named(ending, what = "no-shadow") { return `${this.name.replace(/\.[^.]*$/, "")}-${what}${ending}`; }

  /** Go on with the result as the photo. */
  async another() {
    const result = await this.settled();
    if (!result) return undefined;
    this.push(this.fresh(result.shown, result.thumbnail));
    return this.find();
  }

  /** Go to the scene before, "undo", or the one after, "redo". */
  go(way) { clearTimeout(this.timer); this.cancel(); this.history[way](); this.changed(); }
}
