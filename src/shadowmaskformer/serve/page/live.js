// A result that follows the sliders: gain and offset stay, strength and the border's weight change.

import { blendWeight } from "./shape.js";

/** A half float in 0 … 1 as a level. */
function level(half) {
  const exponent = half >> 10, fraction = half & 1023;
  if (half & 0x8000) return 0;
  return Math.min(255, Math.round(255 * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24)));
}

export class Live {
  constructor(correction, photo, options) {
    const { width, height, planes } = correction, count = width * height;
    Object.assign(this, { correction, width, height, given: options, strength: 1, edge: 1 });
    const plane = (n) => Uint8Array.from({ length: count }, (_, i) => level(planes[8 * i + n]));
    this.mask = { width, height, data: plane(3) };
    this.weight = this.usual = plane(7);
    // How wide the border is unless somebody says otherwise, in pixels of the photo (removal/remover.py).
    this.feather = Math.max(4, 0.012 * Math.max(photo.width, photo.height));
    this.reduced = Math.max(width, height) / Math.max(photo.width, photo.height);
  }

  /** Strength in 0 … 1; edge as a multiple of the usual border. */
  set(strength, edge) {
    if (edge !== this.edge) {
      this.weight = edge === 1 ? this.usual : blendWeight(this.mask, this.feather * edge * this.reduced);
    }
    Object.assign(this, { strength, edge });
  }

  /** What the library must be told to do the same. */
  get options() {
    const options = { ...this.given };
    if (this.strength !== 1) options.strength = this.strength;
    if (this.edge !== 1) options.feather_px = Math.round(10 * this.feather * this.edge) / 10;
    return options;
  }
}
