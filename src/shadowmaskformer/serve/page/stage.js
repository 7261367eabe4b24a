// The stage: where the photo lies, and what pointers and wheels do to it. It calls back with places on the photo.

const CLICK_PX = 5;

export class Stage {
  /** `on` has: draw(), mode() → "point" | "paint" | "compare", point(place, away), hover(place), brush(), wheelBrush(sign),
      stroke(place, away), move(place), end(), drop(), slide(share). Places are [x, y] in 0 … 1. */
  constructor(element, on) {
    Object.assign(this, { element, on, zoom: 1, centre: [0.5, 0.5], pointers: new Map(), panning: false });
    const listen = (name, action, options) => element.addEventListener(name, action, options);
    listen("pointerdown", (event) => this.down(event));
    listen("pointermove", (event) => this.moved(event));
    listen("pointerup", (event) => this.up(event));
    listen("pointercancel", (event) => this.up(event, true));
    listen("pointerleave", () => this.on.hover(null));
    listen("wheel", (event) => this.wheel(event), { passive: false });
    listen("contextmenu", (event) => event.preventDefault());
    const space = (pressed) => (event) => {
      if (event.key !== " " || event.target.closest("button, input, dialog")) return;
      event.preventDefault();
      element.classList.toggle("panning", this.panning = pressed);
    };
    addEventListener("keydown", space(true));
    addEventListener("keyup", space(false));
    new ResizeObserver(() => this.on.draw()).observe(element);
  }

  /** Lay out a photo of this size; the view fits it. */
  show(width, height) { this.ratio = [width, height]; this.fit(); }
  fit() { this.zoom = 1; this.centre = [0.5, 0.5]; this.on.draw(); }

  get room() {
    const { clientWidth: width, clientHeight: height } = this.element, edge = width < 700 ? 12 : 28;
    return { width, height, edge };
  }

  /** Pixels of the screen for each of the photo's when it fits. */
  get fitting() {
    const { width, height, edge } = this.room, [w, h] = this.ratio;
    return Math.min((width - 2 * edge) / w, (height - 2 * edge) / h, Math.max(1, 900 / Math.max(w, h)));
  }

  get scale() { return this.fitting * this.zoom; }

  get frame() {
    const { width: W, height: H } = this.room, [w, h] = this.ratio.map((side) => side * this.scale);
    return { x: W / 2 - this.centre[0] * w, y: H / 2 - this.centre[1] * h, width: w, height: h };
  }

  place(event) {
    const box = this.element.getBoundingClientRect(), frame = this.frame;
    return [(event.clientX - box.left - frame.x) / frame.width, (event.clientY - box.top - frame.y) / frame.height];
  }

  /** Zoom by a factor, keeping what lies under a point of the screen where it is. */
  zoomBy(factor, event) {
    const most = Math.max(8, 4 / this.fitting), zoom = Math.min(most, Math.max(1, this.zoom * factor));
    const under = event ? this.place(event) : this.centre, kept = this.zoom / zoom;
    this.centre = this.centre.map((c, i) => under[i] + (c - under[i]) * kept);
    this.zoom = zoom;
    this.hold();
  }

  pan(dx, dy) {
    const { width, height } = this.frame;
    this.centre = [this.centre[0] - dx / width, this.centre[1] - dy / height];
    this.hold();
  }

  /** Keep the photo on the stage. */
  hold() {
    const { width: W, height: H } = this.room, { width, height } = this.frame;
    const limit = (c, room, side) => {
      const reach = Math.max(0, (side - room * 0.8) / 2 / side);
      return Math.min(0.5 + reach, Math.max(0.5 - reach, c));
    };
    this.centre = [limit(this.centre[0], W, width), limit(this.centre[1], H, height)];
    this.on.draw();
  }

  down(event) {
    if (!this.ratio || event.target.closest("button, #handle")) return;
    this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event);
    if (this.pointers.size === 2) {
      if (this.doing === "stroke") this.on.drop();
      this.doing = "pinch";
      return;
    }
    if (this.pointers.size > 2) return;
    this.start = event;
    const mode = this.on.mode();
    const moving = this.panning || event.button === 1 || (event.button === 0 && event.buttons === 4);
    if (moving) this.doing = "pan";
    else if (mode === "paint" && event.button !== 1) {
      this.doing = "stroke";
      this.on.stroke(this.place(event), event.altKey || event.button === 2 || event.buttons === 32);
    } else if (mode === "compare" && this.zoom === 1) this.doing = "slide";
    else this.doing = "press";
    // A first finger may be half of a pinch.
    if (this.doing === "slide" && event.pointerType !== "touch") this.on.slide(this.place(event)[0]);
  }

  moved(event) {
    if (!this.ratio) return;
    if (!this.pointers.has(event.pointerId)) {
      // Over a button on the stage, that button says what is lit up.
      if (event.pointerType !== "touch" && !event.target.closest("button")) this.on.hover(this.place(event), event);
      return;
    }
    const before = this.pointers.get(event.pointerId);
    if (this.doing === "pinch") this.pinch(event);
    this.pointers.set(event.pointerId, event);
    const far = Math.hypot(event.clientX - this.start.clientX, event.clientY - this.start.clientY);
    if (this.doing === "press" && far > CLICK_PX) this.doing = "pan";
    if (this.doing === "pan") this.pan(event.clientX - before.clientX, event.clientY - before.clientY);
    if (this.doing === "slide" && (far > CLICK_PX || event.pointerType !== "touch")) this.on.slide(this.place(event)[0]);
    if (this.doing === "stroke") {
      for (const each of event.getCoalescedEvents?.() ?? [event]) this.on.move(this.place(each));
      this.on.hover(this.place(event), event);
    }
  }

  pinch(event) {
    const [one, other] = [...this.pointers.values()], fixed = one.pointerId === event.pointerId ? other : one;
    const before = this.pointers.get(event.pointerId);
    const distance = (a) => Math.hypot(a.clientX - fixed.clientX, a.clientY - fixed.clientY) || 1;
    const middle = { clientX: (event.clientX + fixed.clientX) / 2, clientY: (event.clientY + fixed.clientY) / 2 };
    this.pan((event.clientX - before.clientX) / 2, (event.clientY - before.clientY) / 2);
    this.zoomBy(distance(event) / distance(before), middle);
  }

  up(event, lost = false) {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.doing === "stroke") lost ? this.on.drop() : this.on.end();
    else if (this.doing === "slide" && !lost) this.on.slide(this.place(event)[0]);
    else if (this.doing === "press" && !lost) this.on.point(this.place(event), event.altKey || event.button === 2);
    if (this.pointers.size === 0) this.doing = null;
    else if (this.doing === "pinch") this.doing = "rest"; // the finger that stays must not paint
  }

  wheel(event) {
    if (!this.ratio) return;
    event.preventDefault();
    if (event.shiftKey) {
      this.on.wheelBrush(-Math.sign(event.deltaY || event.deltaX));
      return;
    }
    // A wheel turns in notches of 120; two fingers on a trackpad glide, and pinching arrives with Ctrl.
    const notched = event.deltaMode !== 0 || (event.deltaX === 0 && Math.abs(event.wheelDeltaY) % 120 === 0);
    if (event.ctrlKey || event.metaKey || notched) {
      const amount = event.deltaMode === 1 ? 30 * event.deltaY : event.deltaY;
      this.zoomBy(Math.exp(-amount * (notched ? 0.0022 : 0.01)), event);
    } else this.pan(-event.deltaX, -event.deltaY);
  }
}
