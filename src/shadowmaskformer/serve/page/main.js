// Wiring: the photos, the one that is shown, and what each button and key does to it.

import * as controls from "./controls.js";
import * as engine from "./engine.js";
import * as keys from "./keys.js";
import * as masks from "./mask.js";
import { canRemove } from "./panels.js";
import { download, pickFiles, watchDrops } from "./parts.js";
import * as saving from "./saving.js";
import { Screen } from "./screen.js";
import { grow, shrink } from "./shape.js";
import { Trouble } from "./trouble.js";
import { Work } from "./work.js";

const $ = (id) => document.getElementById(id);
const state = { works: [], at: -1, wanted: null, tool: "point", brush: 60, offline: false, info: null };
const current = () => state.works[state.at];
let screen, trouble;

// Photos
/** Open files; the first that can be read is shown. */
async function add(files) {
  const most = state.info?.body_bytes ?? Infinity;
  let first = true;
  for (const file of files) {
    const work = new Work(file, { changed: () => screen.update(state), attempt: (action) => attempt(work, action) });
    await attempt(work, async () => {
      if (file.size > most) throw new Error(`has ${Math.round(file.size / 2 ** 20)} MB; the server takes ${Math.round(most / 2 ** 20)}`);
      state.at < 0 ? screen.reading(work) : screen.say(`Opening ${work.name}`);
      await work.read();
      state.works.push(work);
      if (first) await show(state.works.length - 1);
      else work.scene.photo.close();
      first = false;
      screen.update(state);
    });
  }
}

const decode = (work) => Promise.all([work.scene.photo.open(), work.result?.shown?.open()]);
const close = (work) => { for (const scene of work.history.states) { scene.photo.close(); scene.result?.shown?.close(); } };

/** Go to a photo. The one before stays until this one is decoded, which the server may have to do. */
async function show(index) {
  const work = state.wanted = state.works[index];
  await attempt(work, async () => {
    if (state.wanted === work) await decode(work);
    const before = current(), comes = state.wanted === work; // unless another was wanted meanwhile
    if (comes && before && before !== work) close(before);
    if (!comes && before !== work) close(work);
    if (!comes) return;
    state.at = index;
    screen.show(state);
    look(work);
  });
}

/** Close a photo. Its neighbour is shown instead; if that cannot be opened, the photo stays. */
async function leave(work) {
  const { works } = state, at = works.indexOf(work), next = works[at + 1] ?? works[at - 1];
  if (next) await show(works.indexOf(next));
  const shown = next && current();
  if (shown === work) return;
  work.leave();
  trouble.forget(work);
  if (!shown) close(work);
  works.splice(works.indexOf(work), 1);
  state.at = works.indexOf(shown);
  shown ? screen.update(state) : screen.empty(state);
}

const attempt = (work, action) => trouble.attempt(work, action);
const look = (work) => attempt(work, () => work.look());

async function openMask(file) {
  const work = current();
  await attempt(work, () => work.openMask(file));
  look(work);
}

// What can be done; false means "not now".
const editing = (action) => () => (current() && !current().done && current().busy !== "removing" ? action(current()) : false);
const finished = (action) => () => (current()?.done ? action(current()) : false);
const reach = () => Math.max(1, Math.round(0.004 * Math.hypot(current().scene.mask.width, current().scene.mask.height)));

function choose(tool) {
  state.tool = tool;
  const work = current();
  if (work?.done) { work.cancel(); work.push({ result: null }); look(work); }
  screen.update(state);
}

const save = single(async (work, format) => screen.say(await saving.save(work, format)));

const actions = {
  tool: choose,
  point: () => choose("point"),
  brush: () => choose("brush"),
  erase: () => choose("erase"),
  smaller: () => resize(1 / 1.2),
  larger: () => resize(1.2),
  grow: editing((work) => work.edit((mask) => grow(mask, reach()))),
  shrink: editing((work) => work.edit((mask) => shrink(mask, reach()))),
  invert: editing((work) => work.edit(masks.invert)),
  clear: editing((work) => work.edit((mask) => masks.empty(mask.width, mask.height))),
  undo: () => (current()?.history.canUndo ? go("undo") : false),
  redo: () => (current()?.history.canRedo ? go("redo") : false),
  toggle: (number) => editing((work) => work.toggle(number))(),
  adjust: (strength, edge) => finished((work) => work.adjust(strength, edge))(),
  remove: editing((work) => (canRemove(work) ? attempt(work, () => work.remove()) : false)),
  cancel: () => {
    const work = current();
    if (!work?.busy || work.busy === "reading") return false;
    work.busy === "removing" && work.done ? work.go("undo") : work.stop();
    screen.say("Cancelled");
    return look(work);
  },
  hold: (pressed) => (current()?.done ? screen.compare.hold(pressed) : false),
  another: finished(single((work) => work.another())),
  save: finished((work) => save(work)),
  savePng: finished((work) => save(work, "png")),
  saveMask: () => attempt(current(), async () => download(await current().saveMask(), current().named(".png", "mask"))),
  loadMask: async () => { const [file] = await pickFiles($("mask-file")); if (file) openMask(file); },
  close: single(async () => {
    const work = current();
    if (!work || (saving.isUnsaved(work) && !confirm(`The result of ${work.name} is not saved. Close it?`))) return;
    await leave(work);
  }),
  previous: () => turn(-1),
  next: () => turn(1),
  fit: () => screen.stage.fit(),
  actual: () => screen.actual(),
  zoomIn: () => screen.stage.zoomBy(1.3),
  zoomOut: () => screen.stage.zoomBy(1 / 1.3),
  brushSize: (size) => resize(size / state.brush),
  show,
  example: single(async () => add([await engine.example()])),
  saveAll: single(async () => screen.say(await saving.saveAll(state.works))),
  open: async () => add([...(await pickFiles($("files")))]),
  help: () => $("help").showModal(),
};

function go(way) {
  const work = current();
  work.go(way);
  return attempt(work, async () => {
    await decode(work);
    screen.update(state);
    look(work);
  });
}

function turn(step) {
  if (state.works.length < 2) return false;
  return show((state.works.indexOf(state.wanted) + step + state.works.length) % state.works.length);
}

function resize(factor) {
  if (current()?.done) return;
  if (state.tool === "point") state.tool = "brush";
  state.brush = Math.min(300, Math.max(2, state.brush * factor));
  screen.update(state);
}

/** Something that a photo does once at a time: called again meanwhile, nothing happens. */
function single(action) {
  const underway = new Set();
  return async (work, ...rest) => {
    if (underway.has(work)) return;
    underway.add(work);
    try { await attempt(work, () => action(work, ...rest)); } finally { underway.delete(work); }
  };
}

// The stage
const handlers = {
  mode: () => (current()?.done ? "compare" : state.tool === "point" ? "point" : "paint"),
  point: (place, away) => editing((work) => attempt(work, () => work.point(place, away)))(),
  stroke: (place, away) => editing((work) => { work.stroke(place, radius(), (state.tool === "erase") !== away); screen.painted(work); })(),
  move: (place) => { const work = current(); if (work?.drawn) { work.draw(place); screen.painted(work); } },
  end: () => current()?.finish(),
  drop: () => current()?.drop(),
  wheelBrush: (sign) => resize(1.15 ** sign),
};
/** The brush is as large on the screen as its ring, whatever the zoom; on the mask that is this many pixels. */
const radius = () => (state.brush / 2) * current().scene.mask.width / screen.stage.frame.width;

try {
  screen = new Screen(handlers, state, current);
  trouble = new Trouble(state, screen, () => { if (current()) look(current()); });
  controls.wire(actions);
  keys.describe($("help").querySelector("dl"));
  keys.listen((name, pressed) => actions[name](pressed));
  watchDrops((files, onMask) => (onMask ? openMask(files[0]) : add(files)), current);
  addEventListener("keydown", (event) => screen.cursor.key(event, (at, away) => {
    const place = screen.stage.place(at);
    if (handlers.mode() === "point") handlers.point(place, away);
    else if (handlers.mode() === "paint") { handlers.stroke(place, away); handlers.end(); }
  }));
  addEventListener("beforeunload", (event) => { if (state.works.some(saving.isUnsaved)) event.preventDefault(); });
  attempt(null, async () => { state.info = await engine.info(); });
} catch (error) {
  $("status").textContent = error.message;
  throw error;
}
