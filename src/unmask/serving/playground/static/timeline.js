// The steps of the runs as bars, one per forward, and what moves among them: a slider, and playback.

import { html } from "./vendor/htm-preact-standalone.js";
import { First, Last, Pause, Play } from "./icons.js";
import { PACES } from "./player.js";

const HEIGHT = 36;

// The bars of one run: how many tokens each forward decided, those behind the answer's end on top.
function Bars({ run, last, step, name }) {
  const counts = run.film.counts();
  const most = Math.max(1, ...counts.map(([within, behind]) => within + behind));
  const tall = (count) => (count / most) * HEIGHT;
  const bar = (x, y, height) => (height > 0 ? `M${x + 0.1} ${y}v${-height}h.8v${height}z` : "");
  const path = (chosen, layer) =>
    counts
      .map((count, at) => (chosen(at + 1) ? bar(at, HEIGHT - (layer ? tall(count[0]) : 0), tall(count[layer])) : ""))
      .join("");
  const past = (at) => at <= step;
  const coming = (at) => at > step;
  return html`
    <div class="track">
      ${name && html`<span aria-hidden="true">${name}</span>`}
      <svg class="bars" viewBox="0 0 ${Math.max(last, 1)} ${HEIGHT}" preserveAspectRatio="none" role="img"
        aria-label="${name ?? "Bars"}: tokens decided by each forward, at most ${most}">
        <path class="past" d=${path(past, 0)} /><path class="past behind" d=${path(past, 1)} />
        <path class="coming" d=${path(coming, 0)} /><path class="coming behind" d=${path(coming, 1)} />
      </svg>
    </div>`;
}

export function Timeline({ runs, last, player, pace, onPace }) {
  const { step, playing } = player;
  const move = (event) => player.show(Number(event.currentTarget.value));
  return html`
    <section class="timeline" aria-label="Timeline">
      <div class="tracks">
        ${runs.map((run, lane) => html`<${Bars} key=${lane} run=${run} last=${last} step=${step} name=${runs.length > 1 ? "AB"[lane] : null} />`)}
        <input type="range" min="0" max=${last} step="1" value=${step} onInput=${move} aria-label="Step"
          aria-valuetext="forward ${step} of ${last}" />
      </div>
      <div class="controls">
        <button type="button" class="quiet" onClick=${() => player.show(0)} aria-label="First step"><${First} /></button>
        <button type="button" class="play" onClick=${player.toggle} aria-label=${playing ? "Pause" : "Play"}>
          ${playing ? html`<${Pause} />` : html`<${Play} />`}
        </button>
        <button type="button" class="quiet" onClick=${() => player.show(last)} aria-label="Last step"><${Last} /></button>
        <span class="step">forward <b>${step}</b> of ${last}</span>
        <label class="pace"><span>Pace</span>
          <select aria-label="Pace" value=${pace} onChange=${(event) => onPace(event.currentTarget.value)}>
            ${Object.entries(PACES).map(([value, words]) => html`<option value=${value}>${words}</option>`)}
          </select>
        </label>
      </div>
    </section>`;
}
