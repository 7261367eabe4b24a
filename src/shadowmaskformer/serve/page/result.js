// A result: a picture that follows the sliders at once, and the file at full size, which is made after it.

import * as engine from "./engine.js";
import { Photo } from "./photo.js";

export class Result {
  constructor(photo, png, live) { Object.assign(this, { photo, png, live, file: null, shown: null, made: null, saved: null }); }

  /** What the sliders ask for. */
  get wanted() { return JSON.stringify(this.live.options); }
  /** Whether the file is the one that the sliders ask for. */
  get isFull() { return Boolean(this.file) && this.made === this.wanted; }
  get isSaved() { return this.saved === this.wanted; }

  /** The file at full size, with these options instead of some that the sliders ask for. */
  fullSize(instead, report) { return engine.remove(this.photo.file, this.png, { ...this.live.options, ...instead }, report); }

  /** Make the file at full size and keep it; returns the warnings about it. */
  async make(report) {
    const made = this.wanted, { file, ending, warnings } = await this.fullSize({}, report);
    const shown = await Photo.read(file, this.photo.name), thumbnail = await shown.thumbnail();
    report.signal.throwIfAborted();
    Object.assign(this, { made, file, ending, shown, thumbnail });
    return warnings;
  }
}
