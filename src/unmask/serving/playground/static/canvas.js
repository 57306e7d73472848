// A canvas at one step: its cells, block by block.

import { html } from "./vendor/htm-preact-standalone.js";
import { DECIDED, FINAL, MASKED, TENTATIVE, blocksOf } from "./film.js";

const FRESH_STEPS = 3; // for so long a new token stands out

const MARKS = { "\n": "\u23ce", "\t": "\u21e5", " ": "\u2423", "": "\u2205" };
const SPECIAL = /^<[|\uff5c]?.+[|\uff5c]?>$|^\[[A-Z]+\]$/u; // an end token, most likely

// A token as a cell has it: most begin with a space, which would push them off the middle.
const shown = (text) => MARKS[text] ?? (SPECIAL.test(text) ? "\u220e" : text.replace(/^ /, "").replaceAll("\n", "\u23ce"));

const percent = (confidence) => `${Math.round(confidence * 100)}%`;

function describe(cell, index) {
  const sure = cell.confidence === null ? "" : `, ${percent(cell.confidence)} sure`;
  if (cell.state === MASKED) return `Cell ${index + 1}: masked`;
  if (cell.state === TENTATIVE) return `Cell ${index + 1}: perhaps ${JSON.stringify(cell.text)}${sure}`;
  const edited = cell.edited ? ", changed on the way" : "";
  return `Cell ${index + 1}: ${JSON.stringify(cell.text)}${sure}, ${cell.age} forwards ago${edited}`;
}

function Cell({ cell, index, end }) {
  const classes = ["cell", cell.state];
  if ((cell.state === DECIDED || cell.state === FINAL) && cell.age < FRESH_STEPS) classes.push(`fresh-${cell.age}`);
  if (cell.edited) classes.push("edited");
  if (index >= end) classes.push("beyond");
  const text = cell.text === null ? "" : shown(cell.text);
  if (text.length > 6) classes.push("long");
  const style = { "--sure": cell.confidence ?? (cell.state === TENTATIVE ? 0.3 : 1) };
  return html`<span class=${classes.join(" ")} style=${style} title=${describe(cell, index)}><b>${text}</b></span>`;
}

// How many cells stand side by side where there is room, and where there is less.
const columns = (count) => ({ "--wide": Math.min(count, 16), "--half": Math.min(count, 8), "--few": Math.min(count, 4) });

function Block({ block, end }) {
  const open = block.cells.some((cell) => cell.state === MASKED || cell.state === TENTATIVE);
  return html`
    <div class="block ${open ? "open" : "closed"}" style=${columns(block.cells.length)}>
      <span class="number">${block.number}</span>
      ${block.cells.map((cell, at) => html`<${Cell} key=${at} cell=${cell} index=${block.start + at} end=${end} />`)}
    </div>`;
}

export function Canvas({ picture, name }) {
  const blocks = blocksOf(picture);
  const total = picture.cells.length + picture.tail;
  const label = `${name} after ${picture.step} forwards: ${picture.decided} of ${total} cells decided`;
  return html`
    <div class="canvas" role="img" aria-label=${label}>
      ${blocks.map((block) => html`<${Block} key=${block.number} block=${block} end=${picture.end} />`)}
      ${picture.tail > 0 && html`<div class="tail"><i></i>${picture.tail} more cells, not begun</div>`}
    </div>`;
}

// What stands there before anything was asked.
export function Blank() {
  const cell = { text: null, state: MASKED, confidence: null, age: 0, edited: false };
  const cells = Array.from({ length: 32 }, () => cell);
  const picture = { cells, step: 0, tail: 0, end: 32, decided: 0, blockLength: 16, firstBlock: 16 };
  return html`
    <div class="blank">
      <${Canvas} picture=${picture} name="An empty canvas" />
      <p>Ask something, and watch the answer come out of the masks.</p>
    </div>`;
}

export function Legend() {
  const entries = [
    ["masked", "masked"],
    ["tentative", "a guess, darker if surer"],
    ["decided fresh-0", "decided just now"],
    ["final", "final"],
    ["final edited", "changed on the way"],
    ["final beyond", "behind the end"],
  ];
  return html`
    <ul class="legend" aria-label="Legend">
      ${entries.map(([kind, what]) => {
        const text = kind === "masked" ? "" : "a";
        return html`<li><span class="cell ${kind}" style=${{ "--sure": 0.7 }} aria-hidden="true"><b>${text}</b></span>${what}</li>`;
      })}
    </ul>`;
}
