// Connects the buttons and sliders of the page with the actions that they stand for.

import { Menu } from "./parts.js";

const $ = (id) => document.getElementById(id);
const CLICKS = {
  choose: "open", add: "open", close: "close", example: "example", all: "saveAll", keys: "help", zoom: "fit",
  undo: "undo", redo: "redo", another: "another", save: "save",
};

export function wire(actions) {
  for (const [id, name] of Object.entries(CLICKS)) $(id).onclick = () => actions[name]();
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => actions[button.dataset.do]());
  $("remove").onclick = ({ currentTarget, detail }) => {
    if (!currentTarget.classList.contains("working")) actions.remove();
    else if (detail < 2) actions.cancel(); // a double click means the first
  };
  $("size").oninput = () => actions.brushSize(Number($("size").value));
  $("strength").oninput = $("edge").oninput = () => actions.adjust($("strength").value / 100, $("edge").value / 100);
  const listed = (id, act) => { $(id).onclick = (event) => { const item = event.target.closest("button"); if (item) act(Number(item.value)); }; };
  listed("found", actions.toggle);
  listed("strip", actions.show);
  tools(actions.tool);
  hold(actions.hold);
  new Menu($("mask"), $("mask-menu"));
  new Menu($("save-as"), $("save-menu"));
}

/** A group of radio buttons: one of them in the order of tabs, arrows choose. */
function tools(choose) {
  const buttons = [...document.querySelectorAll("[data-tool]")];
  buttons.forEach((button, i) => {
    button.onclick = () => choose(button.dataset.tool);
    button.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = buttons[(i + step + buttons.length) % buttons.length];
      choose(next.dataset.tool);
      next.focus();
    };
  });
}

/** Held by a pointer, or by Space or Enter. */
function hold(act) {
  const button = $("hold"), isKey = (event) => [" ", "Enter"].includes(event.key);
  button.onpointerdown = (event) => { button.setPointerCapture(event.pointerId); act(true); };
  button.onpointerup = button.onpointercancel = button.onblur = () => act(false);
  button.onkeydown = (event) => { if (isKey(event) && !event.repeat) act(true); };
  button.onkeyup = (event) => { if (isKey(event)) act(false); };
  button.oncontextmenu = (event) => event.preventDefault(); // a long press is no question for a menu
}
