// Before and after: the line between them, the sweep that brings the result in, and holding to see the photo before.

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const SWEEP_MS = 900;
const ZOOM = { width: 96, height: 46 }; // what the zoom button takes of the stage's corner
const NARROW = 150; // both labels side by side

export class Compare {
  /** `values` are the view's; `draw()` shows them, `place(event)` says where on the photo a pointer is. */
  constructor(values, draw, place) {
    Object.assign(this, { values, draw, split: 0.5, on: false, held: false });
    const handle = $("handle");
    handle.onpointerdown = (event) => { handle.setPointerCapture(event.pointerId); event.stopPropagation(); };
    handle.onpointermove = (event) => { if (handle.hasPointerCapture(event.pointerId)) this.slide(place(event)[0]); };
    handle.onkeydown = (event) => {
      const to = { ArrowLeft: this.split - 0.05, ArrowRight: this.split + 0.05, Home: 0, End: 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.slide(to);
    };
  }

  /** Begin or end comparing. */
  show(on) {
    $("before").hidden = !on;
    $("handle").hidden = $("after").hidden = !on || this.held;
    if (on === this.on) return;
    [this.on, this.held] = [on, false];
    if (on) this.sweep();
    else Object.assign(this.values, { reveal: 0, overlay: 1 });
  }

  /** The result sweeps in from the right, up to the middle; the outlines fade. */
  sweep() {
    const began = performance.now(), time = calm.matches ? 1 : SWEEP_MS;
    this.values.reveal = 1;
    this.touched = false;
    const step = (now) => {
      if (!this.on || this.touched) {
        if (this.on) this.values.overlay = 0;
        return;
      }
      const share = Math.min(1, Math.max(0, (now - began) / time)), eased = 1 - (1 - share) ** 3;
      this.values.overlay = Math.max(0, 1 - 3 * share);
      this.move(1 - 0.5 * eased);
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /** The user moves the line; a sweep that is under way leaves it to him. */
  slide(share) {
    this.touched = true;
    this.values.overlay = 0;
    this.move(share);
  }

  move(share) {
    this.split = Math.min(1, Math.max(0, share));
    $("handle").setAttribute("aria-valuenow", Math.round(100 * this.split));
    this.draw();
  }

  hold(pressed) {
    if (!this.on) return;
    this.held = pressed;
    this.values.reveal = pressed ? 0 : 1;
    this.show(true);
    this.draw();
  }

  /** Lay the line and its labels over a photo that lies in `frame`. */
  lay(frame, room) {
    const x = Math.min(room.width, Math.max(0, frame.x + this.split * frame.width));
    const top = Math.max(0, frame.y), bottom = Math.min(room.height, frame.y + frame.height);
    Object.assign($("handle").style, { translate: `${x}px ${top}px`, height: `${bottom - top}px` });
    // The labels keep clear of the zoom in the corner, and of each other on a narrow photo.
    const left = Math.max(12, frame.x + 12), right = Math.min(room.width - 12, frame.x + frame.width - 12);
    const under = right > room.width - ZOOM.width ? Math.min(bottom, room.height - ZOOM.height) : bottom;
    $("before").style.translate = `${left}px ${bottom - 38}px`;
    $("after").style.translate = `calc(${right}px - 100%) ${(right - left < NARROW ? Math.min(under, bottom - 32) : under) - 38}px`;
  }
}
