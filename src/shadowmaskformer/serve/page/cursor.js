// What marks a place on the stage: the brush's ring under the pointer, and the cursor that the arrow keys move.

const $ = (id) => document.getElementById(id);

export class Cursor {
  /** `about()` returns {tool, brush}, or null while there is nothing to mark. */
  constructor(about) { Object.assign(this, { about, pointer: null, keyed: null }); }

  /** The pointer is here, or has left. */
  hover(event) {
    this.pointer = event;
    if (event) this.keyed = null;
    this.draw();
  }

  /** Arrow keys move the cursor, Enter calls `act(at, alt)`. Returns whether the key was for it. */
  key(event, act) {
    const stage = $("stage");
    if (document.activeElement !== stage || !stage.matches(":focus-visible")) return false;
    const box = stage.getBoundingClientRect(), step = event.shiftKey ? 48 : 12;
    this.keyed ??= { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (move) {
      this.pointer = null;
      const inside = (value, low, size) => Math.min(low + size - 1, Math.max(low, value));
      this.keyed = {
        clientX: inside(this.keyed.clientX + move[0], box.left, box.width),
        clientY: inside(this.keyed.clientY + move[1], box.top, box.height),
      };
    } else if (event.key === "Enter") act(this.keyed, event.altKey);
    else return false;
    event.preventDefault();
    this.draw();
    return true;
  }

  draw() {
    const ring = $("ring"), about = this.about(), at = this.pointer ?? this.keyed;
    ring.hidden = !at || !about || (about.tool === "point" && !this.keyed);
    if (ring.hidden) return;
    const box = $("stage").getBoundingClientRect(), size = about.tool === "point" ? 18 : about.brush;
    ring.classList.toggle("cross", about.tool === "point");
    ring.style.width = ring.style.height = `${size}px`;
    ring.style.translate = `${at.clientX - box.left - size / 2}px ${at.clientY - box.top - size / 2}px`;
  }
}
