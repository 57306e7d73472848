// Any step of a run, from the frames that came. Frames are fewer than steps, but each tells of every cell in which
// forward it was decided: so the steps between two frames can be drawn too.

export const MASKED = "masked"; // nothing is known
export const TENTATIVE = "tentative"; // a guess, or noise
export const DECIDED = "decided"; // has its token, which may still change
export const FINAL = "final"; // can no longer change

export class Film {
  frames = [];

  add(frame) {
    this.frames.push(frame);
  }

  get latest() {
    return this.frames.at(-1);
  }

  get steps() {
    return this.latest?.step ?? 0;
  }

  // How many cells each step decided, from step 1 on: [within the answer, behind its end].
  counts() {
    const counts = Array.from({ length: this.steps }, () => [0, 0]);
    this.latest?.decided.forEach((forward, cell) => {
      if (forward) counts[forward - 1][cell >= this.latest.end ? 1 : 0] += 1;
    });
    return counts;
  }

  // The canvas after `step` forwards; null before the first frame.
  at(step) {
    if (!this.frames.length) return null;
    const after = this.frames.find((frame) => frame.step >= step) ?? this.latest;
    const before = this.frames.findLast((frame) => frame.step <= step) ?? null;
    const upTo = (frame) => frame.decided.findLastIndex((forward) => forward && forward <= step) + 1;
    const shown = before === null ? after.cells.length : Math.max(before.cells.length, upTo(after));
    const cells = Array.from({ length: shown }, (_, index) => cellAt(index, step, before, after));
    const length = after.cells.length + after.tail;
    const leading = cells.findIndex((cell) => cell.state !== DECIDED);
    const final = Math.min(after.committed, leading < 0 ? shown : leading);
    for (const cell of cells.slice(0, final)) cell.state = FINAL;
    return {
      step,
      cells,
      tail: length - shown,
      end: cells.some((cell) => cell.state === DECIDED || cell.state === FINAL) ? after.end : length,
      decided: cells.filter((cell) => cell.state === DECIDED || cell.state === FINAL).length,
      blockLength: after.block_length,
      firstBlock: after.first_block,
    };
  }
}

function cellAt(index, step, before, after) {
  const sure = (frame) => frame?.confidence[index] ?? null;
  const edited = (frame) => frame?.edited.includes(index) ?? false;
  const then = after.decided[index] ?? 0;
  const was = before?.decided[index] ?? 0;
  if (then && then <= step) {
    const changed = was > 0 && was !== then;
    const text = was && !changed ? before.cells[index] : after.cells[index];
    return { text, state: DECIDED, confidence: sure(after), age: step - then, edited: edited(before) || changed };
  }
  if (was) {
    return { text: before.cells[index], state: DECIDED, confidence: sure(before), age: step - was, edited: edited(before) };
  }
  const guess = before?.cells[index] ?? before?.guesses[index] ?? null;
  const state = guess === null ? MASKED : TENTATIVE;
  return { text: guess, state, confidence: guess === null ? null : sure(before), age: 0, edited: edited(before) };
}

// The cells of each block, with the block's number from 1 on.
export function blocksOf({ cells, blockLength, firstBlock }) {
  const blocks = [];
  for (let start = 0; start < cells.length; ) {
    const end = start + (blocks.length || !firstBlock ? blockLength || cells.length : firstBlock);
    blocks.push({ number: blocks.length + 1, start, cells: cells.slice(start, end) });
    start = end;
  }
  return blocks;
}
