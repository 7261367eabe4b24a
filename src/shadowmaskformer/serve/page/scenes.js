// The scenes of one photo, one after the other: what was marked and found, and how a hand changes it.
// A scene is {photo, thumbnail, blank, mask, rough, found, regions, hints, result}; it is replaced, never changed. The mask
// is `blank` until something is marked, and rough when a hand drew it: its edge may then be moved to the shadow's.

import { History } from "./history.js";
import * as masks from "./mask.js";
import { Stroke } from "./stroke.js";

const known = new WeakMap();

export class Scenes {
  begin(photo, thumbnail) { this.history = new History(this.fresh(photo, thumbnail)); }

  get scene() { return this.history?.now; }
  get result() { return this.scene?.result; }
  get done() { return Boolean(this.result); }
  get thumbnail() { return this.result?.thumbnail ?? this.scene.thumbnail; }
  get isFull() { return this.result?.isFull; }

  fresh(photo, thumbnail) {
    const blank = masks.empty(photo.workWidth, photo.workHeight);
    return { photo, thumbnail, blank, mask: blank, rough: false, found: null, regions: null, hints: [], result: null };
  }

  push(change) { this.history.push({ ...this.scene, ...change }); this.changed(); }

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
  get rough() { return this.scene.rough && !this.isEmpty; }

  toggle(number) {
    const { mask, found, regions } = this.scene, on = !this.taken(number);
    this.note = `Shadow ${number} ${on ? "taken" : "left"}`;
    this.push({ mask: masks.toggle(mask, found, regions.labels, number, on), rough: this.rough });
  }

  stroke(place, radius, erase) { this.drawn = new Stroke(this.scene.mask, place, radius, erase); }
  draw(place) { this.drawn?.to(place); }
  finish() { const mask = this.drawn?.mask; this.drawn = null; if (mask) this.push({ mask, rough: true }); }
  drop() { this.drawn = null; this.changed(); }
  get shownMask() { return this.drawn?.mask ?? this.scene.mask; }

  edit(change) { this.push({ mask: change(this.scene.mask), rough: this.rough }); }
  saveMask() { const { mask, photo } = this.scene; return masks.toPng(mask, photo.width, photo.height); }
}
