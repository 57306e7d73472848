// One run beside its settings: the canvas, the answer, what it cost, or what went wrong.

import { html } from "./vendor/htm-preact-standalone.js";
import { Canvas } from "./canvas.js";
import { DECIDED, FINAL } from "./film.js";

const milliseconds = (value) => (value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`);

function Figure({ value, what, best }) {
  return html`<div class="figure ${best ? "best" : ""}"><dd>${value}</dd><dt>${what}</dt></div>`;
}

// `rival`: the other lane's report, if both are done.
function Report({ report, usage, rival }) {
  return html`
    <dl class="report">
      <${Figure} value=${report.tokens_per_forward.toFixed(2)} what="tokens per forward"
        best=${rival && report.tokens_per_forward > rival.tokens_per_forward} />
      <${Figure} value=${report.forwards} what="forwards" best=${rival && report.forwards < rival.forwards} />
      <${Figure} value=${report.ttfb_ms === null ? "\u2013" : milliseconds(report.ttfb_ms)} what="to the first block" />
      <${Figure} value=${milliseconds(report.total_ms)} what="in all" />
      <${Figure} value=${usage?.completion_tokens ?? "\u2013"} what="tokens" />
      <${Figure} value=${report.blocks} what=${report.blocks === 1 ? "block" : "blocks"} />
    </dl>
    <details class="applied">
      <summary>Parameters in force</summary>
      <dl>
        ${Object.entries(report.applied).map(([name, value]) => html`
          <div key=${name}><dt>${name}</dt><dd>${typeof value === "object" ? JSON.stringify(value) : String(value)}</dd></div>`)}
      </dl>
    </details>`;
}

// The text, and of it what is not decided yet at the step that is shown.
function Answer({ text, picture, playing }) {
  const undecided = picture.cells.findIndex(({ state }) => state !== DECIDED && state !== FINAL);
  const upTo = Math.min(picture.end, undecided < 0 ? picture.cells.length : undecided);
  const length = picture.cells.slice(0, upTo).reduce((sum, cell) => sum + cell.text.length, 0);
  const whole = picture.decided === picture.cells.length || length >= text.length;
  return html`
    <div class="answer">
      ${whole ? text : html`${text.slice(0, length)}<span class="coming ${playing ? "unseen" : ""}">${text.slice(length)}</span>`}
    </div>`;
}

export function Problem({ error }) {
  return html`
    <div class="problem" role="alert">
      <p>${error.message}</p>
      ${(error.code || error.param) && html`
        <p class="codes">${error.code && html`<code>${error.code}</code>`} ${error.param && html`<code>${error.param}</code>`}</p>`}
    </div>`;
}

const STATES = { running: "denoising", done: "done", stopped: "stopped", failed: "failed" };

export function Lane({ name, run, player, summary, rival }) {
  const picture = run.film.at(Math.min(player.step, run.film.steps));
  return html`
    <article class="lane" aria-label=${name === null ? "Answer" : `Answer ${name}`}>
      <header>
        ${name !== null && html`<span class="badge">${name}</span>`}
        <span class="summary">${summary}</span>
        <span class="state ${run.state}">${run.finish === "length" && run.state === "done" ? "cut by length" : STATES[run.state]}</span>
      </header>
      ${run.error && html`<${Problem} error=${run.error} />`}
      ${picture && html`<${Canvas} picture=${picture} name=${name === null ? "Canvas" : `Canvas ${name}`} />`}
      ${!picture && run.state === "running" && html`<p class="waiting">Waiting for the first forward</p>`}
      ${run.text !== "" && picture && html`<${Answer} text=${run.text} picture=${picture} playing=${player.playing} />`}
      ${run.report && html`<${Report} report=${run.report} usage=${run.usage} rival=${rival} />`}
    </article>`;
}
