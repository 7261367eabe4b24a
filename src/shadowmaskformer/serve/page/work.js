// The work on one photo: what makes its scenes, and what of it is under way.

import * as engine from "./engine.js";
import { Live } from "./live.js";
import * as masks from "./mask.js";
import { Photo } from "./photo.js";
import { Result } from "./result.js";
import { Scenes } from "./scenes.js";

const BRIEF_MS = 450; // sliders rest this long before the full size follows

export class Work extends Scenes {
  /** `changed()` is called whenever there is something new to show; `attempt(action)` runs what nobody waits for. */
  constructor(file, { changed, attempt }) {
    super();
    Object.assign(this, { file, name: file.name || "photo.png", changed, attempt, busy: "reading", progress: 0, note: "" });
  }

  /** Read the file; throws what is wrong with it. */
  async read() {
    const photo = await Photo.read(this.file, this.name);
    this.begin(photo, await photo.thumbnail());
    this.busy = null;
  }

  /** Run `action(signal)`, of which there is one at a time; a new one or `cancel` ends it. */
  async run(busy, action) {
    this.cancel();
    const controller = this.controller = new AbortController();
    Object.assign(this, { busy, progress: 0 });
    this.changed();
    try {
      return await action(controller.signal);
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      throw error;
    } finally {
      if (this.controller === controller) {
        this.controller = this.busy = this.looking = null;
        this.changed();
      }
    }
  }

  cancel() { this.controller?.abort(); this.controller = this.busy = this.looking = null; this.changed(); }
  /** The photo is closed. */
  leave() { clearTimeout(this.timer); this.cancel(); }
  /** The user wants no more of it. */
  stop() { if (this.looking) this.left = this.scene.photo; this.cancel(); }

  /** Look for shadows, unless that was done, something else is under way, or it cannot be done or was not wanted. */
  async look() {
    const { photo, found } = this.scene;
    if (this.busy || this.done || found || this.left === photo) return;
    try { await this.find(photo); } catch (error) {
      if (!(error instanceof engine.Offline)) this.left = photo;
      throw error;
    }
  }

  /** What is found belongs to all scenes of the photo. One shadow alone is taken at once where nothing is marked. */
  find(photo) {
    return this.looking = this.run("finding", async (signal) => {
      const { mask: picture } = await engine.findShadows(photo.small, { signal });
      const found = await masks.fromPicture(picture, photo.workWidth, photo.workHeight);
      const regions = masks.regions(found), count = regions.list.length;
      const known = (scene) => {
        const taken = count === 1 && scene.mask === scene.blank;
        return { ...scene, found, regions, mask: taken ? masks.toggle(scene.blank, found, regions.labels, 1, true) : scene.mask };
      };
      this.history.amend((scene) => (scene.photo === photo ? known(scene) : scene));
      this.note = count ? `${count === 1 ? "One shadow" : `${count} shadows`} found` : "No shadow found: click on it, or paint over it";
    });
  }

  /** A click: takes or leaves what was found there; elsewhere it is a hint for another look. */
  async point(place, away) {
    if (place.some((share) => share < 0 || share >= 1)) return undefined;
    if (!this.scene.found) await this.looking?.catch(() => {}); // a click before there are outlines waits for them
    if (this.done || this.busy === "removing") return undefined;
    const number = this.labelAt(place);
    if (number && (!away || this.taken(number))) return this.toggle(number);
    return this.run("finding", async (signal) => {
      const { photo, mask } = this.scene, spot = [place[0] * mask.width, place[1] * mask.height];
      const hints = [...this.scene.hints, { points: [spot], shadow: !away }];
      const soFar = this.isEmpty ? null : await masks.toPng(mask);
      const { mask: picture } = await engine.findShadows(photo.small, { hints, mask: soFar, signal });
      const seen = await masks.fromPicture(picture, mask.width, mask.height);
      const next = masks.around(this.scene.mask, seen, spot, away);
      this.note = next ? "" : away ? "Nothing was taken away there" : "No shadow was found there: paint over it";
      if (next) this.push({ mask: next, rough: this.rough, hints });
    });
  }

  async openMask(file) {
    const { width, height } = this.scene.mask, mask = await masks.fromPicture(file, width, height);
    if (!this.looking) this.cancel();
    this.push({ mask, rough: true, result: null });
  }
  /** Remove what is marked, or all that was found: first a live picture, then the full size. */
  remove() {
    if (this.done) return this.follow(); // interrupted after the live picture
    const { photo, found } = this.scene, { rough } = this, mask = this.isEmpty && found ? found : this.scene.mask;
    return this.run("removing", async (signal) => {
      const png = await masks.toPng(mask), options = rough ? {} : { exact_mask: true };
      const live = new Live(await engine.correction(photo.small, png, options, { signal }), photo, options);
      const result = new Result(photo, png, live);
      this.push({ mask, rough, result });
      await this.make(result, signal);
    });
  }

  async make(result, signal) {
    const warnings = await result.make(this.report(signal));
    // What to do about it is said in the words of the API.
    if (warnings.length) this.note = warnings.map((line) => line.split("; ")[0].replace(/^photo: /, "")).join(" · ");
  }

  report(signal) { return { signal, progress: (share) => { this.progress = share; this.changed(); } }; }

  /** The sliders moved: the picture follows at once, the full size after them. */
  adjust(strength, edge) {
    this.result.live.set(strength, edge);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.attempt(() => this.follow()), BRIEF_MS);
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
    return this.look();
  }

  /** Go to the scene before, "undo", or the one after, "redo". */
  go(way) {
    const { photo } = this.scene;
    clearTimeout(this.timer);
    this.history[way]();
    if (this.looking && !this.done && this.scene.photo === photo) this.changed(); // the search goes on
    else this.cancel();
  }
}
