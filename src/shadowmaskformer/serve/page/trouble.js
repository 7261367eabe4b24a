// What goes wrong: it is said, and what a stopped server interrupted is taken up again when it is back.

import * as engine from "./engine.js";
import { ask } from "./parts.js";

const login = document.getElementById("login");

export class Trouble {
  /** `resumed()` is called after what had to wait was taken up again. */
  constructor(state, screen, resumed) { Object.assign(this, { state, screen, resumed, waiting: new Map() }); }

  /** Run something on a photo, or on none, and say what went wrong. */
  async attempt(work, action) {
    try { return await action(); } catch (error) {
      const waits = error instanceof engine.Offline || error.status === 401;
      if (waits) this.waiting.set(work, { action, scene: work?.scene }); // the last of each photo
      return this.failed(error, work);
    }
  }

  failed(error, work) {
    if (error instanceof engine.Offline) this.lost();
    else if (error.status === 401) this.logIn();
    else this.screen.complain(work ? `${work.name}: ${error.message.replace(/^photo: /, "")}` : error.message);
    this.screen.update(this.state);
  }

  /** Nobody waits for what was to be done to a photo. */
  forget(work) { this.waiting.delete(work); }

  async logIn() {
    if (login.open) return;
    engine.logIn(await ask(login));
    this.again();
  }

  /** The server is gone: say so and wait for it. */
  async lost() {
    if (this.state.offline) return;
    this.state.offline = true;
    this.screen.update(this.state);
    await engine.back();
    this.state.offline = false;
    this.screen.say("The server is back");
    this.again();
    this.screen.update(this.state);
  }

  again() {
    const waiting = [...this.waiting];
    this.waiting.clear();
    for (const [work, { action, scene }] of waiting) {
      if (work?.scene === scene) this.attempt(work, action); // else the user went on with something else
    }
    this.resumed();
  }
}
