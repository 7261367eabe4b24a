// Every shortcut, once: what it is called, what it matches, what it does. The help dialog shows this table.

export const KEYS = [
  { keys: "Click", does: "take or leave a shadow; elsewhere, look for one there" },
  { keys: "Alt+Click", does: "take away what is there" },
  { keys: "V", does: "pick shadows", code: "v", run: "point" },
  { keys: "B", does: "brush", code: "b", run: "brush" },
  { keys: "E", does: "eraser; with either, Alt does the opposite", code: "e", run: "erase" },
  { keys: "[  ]", does: "smaller, larger brush", code: "[", run: "smaller" },
  { code: "]", run: "larger" },
  { keys: "Shift+Wheel", does: "brush size" },
  { keys: "G", does: "grow the mask", code: "g", run: "grow" },
  { keys: "Shift+G", does: "shrink the mask", code: "G", run: "shrink" },
  { keys: "I", does: "invert the mask", code: "i", run: "invert" },
  { keys: "Del", does: "clear the mask", code: "Delete", run: "clear" },
  { code: "Backspace", run: "clear" },
  { keys: "Ctrl+Z", does: "undo", code: "z", ctrl: true, run: "undo" },
  { keys: "Ctrl+Shift+Z", does: "redo", code: "Z", ctrl: true, run: "redo" },
  { code: "y", ctrl: true, run: "redo" },
  { keys: "R", does: "remove the shadow", code: "r", run: "remove" },
  { keys: "Esc", does: "cancel", code: "Escape", run: "cancel" },
  { keys: "\\", does: "hold to see the photo before", code: "\\", run: "hold", held: true },
  { keys: "N", does: "another shadow, starting from the result", code: "n", run: "another" },
  { keys: "Ctrl+S", does: "save the result", code: "s", ctrl: true, run: "save" },
  { keys: "←  →", does: "previous, next photo", code: "ArrowLeft", run: "previous" },
  { code: "ArrowRight", run: "next" },
  { keys: "Wheel, pinch", does: "zoom; two fingers or Space and drag to move" },
  { keys: "0  1", does: "fit the photo, 100 %", code: "0", run: "fit" },
  { code: "1", run: "actual" },
  { keys: "+  −", does: "zoom", code: "+", run: "zoomIn" },
  { code: "-", run: "zoomOut" },
  { keys: "O", does: "add photos", code: "o", run: "open" },
  { keys: "W", does: "close the photo", code: "w", run: "close" },
  { keys: "?", does: "this list", code: "?", run: "help" },
];

const TOUCH = [
  { keys: "Tap", does: "take or leave a shadow; elsewhere, look for one there" },
  { keys: "Drag", does: "move the photo; with brush and eraser, paint" },
  { keys: "Two fingers", does: "zoom and move" },
];
const touches = matchMedia("(pointer: coarse)").matches;
const typing = (target) => target.matches?.("input:not([type=range]), textarea") || target.closest?.("dialog[open]");

/** Call `run(name, pressed)` for shortcuts; it returns false for one that does not apply. */
export function listen(run) {
  const handle = (event, pressed) => {
    if (typing(event.target)) return;
    const ctrl = event.ctrlKey || event.metaKey;
    const row = KEYS.find(({ code, ctrl: wanted = false }) => code === event.key && wanted === ctrl);
    const sliding = event.key.startsWith("Arrow") && event.target.closest("input, #handle, [role=menu], [role=radiogroup], #stage:focus-visible");
    if (!row || sliding || (!pressed && !row.held) || (event.repeat && row.held)) return;
    if (run(row.run, pressed) !== false) event.preventDefault();
  };
  addEventListener("keydown", (event) => handle(event, true));
  addEventListener("keyup", (event) => handle(event, false));
}

export function describe(list) {
  for (const { keys, does } of touches ? [...TOUCH, ...KEYS.slice(2)] : KEYS) {
    if (!keys) continue;
    const term = document.createElement("dt"), text = document.createElement("dd");
    for (const key of keys.split("  ")) term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    text.textContent = does;
    list.append(term, text);
  }
}
