// A stroke changes a copy of the mask, which becomes a scene when the pointer is lifted.

import * as masks from "./mask.js";

export class Stroke {
  /** Places are [x, y] in 0 … 1; the radius is in pixels of the mask. */
  constructor(mask, place, radius, erase) {
    Object.assign(this, { mask: masks.copy(mask), radius, erase });
    this.to(place);
  }

  to([x, y]) {
    const spot = [x * this.mask.width, y * this.mask.height];
    masks.paint(this.mask, this.last ?? spot, spot, this.radius, this.erase);
    this.last = spot;
  }
}
