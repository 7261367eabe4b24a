// Undo and redo over whole states. A state is never changed after it was pushed.

const MOST = 60;

export class History {
  constructor(first) { this.states = [first]; this.at = 0; }
  get now() { return this.states[this.at]; }
  /** The states that led to the present one, and it. */
  get past() { return this.states.slice(0, this.at + 1); }
  get canUndo() { return this.at > 0; }
  get canRedo() { return this.at < this.states.length - 1; }

  push(state) {
    this.states.splice(this.at + 1, Infinity, state);
    if (this.states.length > MOST) this.states.shift();
    this.at = this.states.length - 1;
  }

  /** Replace the states: something arrived that belongs to them. */
  amend(change) { this.states = this.states.map(change); }
  undo() { if (this.canUndo) this.at -= 1; return this.now; }
  redo() { if (this.canRedo) this.at += 1; return this.now; }
}
