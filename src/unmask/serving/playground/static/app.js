// The page: what is asked on one side, what comes of it on the other.

import { html, render, useEffect, useReducer, useRef, useState } from "./vendor/htm-preact-standalone.js";
import { models } from "./api.js";
import { Blank, Legend } from "./canvas.js";
import { Code } from "./code.js";
import { Composer, messagesOf } from "./composer.js";
import { Header } from "./header.js";
import { KeyForm } from "./keyform.js";
import { Lane, Problem } from "./lane.js";
import { recall, remember } from "./memory.js";
import { request, summary, watched } from "./options.js";
import { usePlayer } from "./player.js";
import { Run } from "./run.js";
import { Settings } from "./settings.js";
import { applyTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

const UNAUTHORIZED = 401;
const NARROW = "(max-width: 860px)"; // as in the style sheets

// A state that outlives a reload.
function useRemembered(name, otherwise) {
  const [value, setValue] = useState(() => recall(name, otherwise));
  return [value, (next) => (remember(name, next), setValue(next))];
}

// Draws again at most once per frame of the screen, however often it is asked.
function useRepaint() {
  const [, draw] = useReducer((count) => count + 1, 0);
  const asked = useRef(false);
  return () => {
    if (asked.current) return;
    asked.current = true;
    requestAnimationFrame(() => {
      asked.current = false;
      draw();
    });
  };
}

function useModels() {
  const [known, setKnown] = useState({ cards: [], error: null });
  const load = () => models().then((cards) => setKnown({ cards, error: null }), (error) => setKnown({ cards: [], error }));
  useEffect(() => void load(), []);
  return { ...known, load };
}

function said(runs) {
  if (!runs.length) return "";
  if (runs.some((run) => run.state === "running")) return "Denoising";
  return runs
    .map((run) => (run.report ? `Done: ${run.usage?.completion_tokens} tokens in ${run.report.forwards} forwards` : run.state))
    .join("; ");
}

function App() {
  const { cards, error, load } = useModels();
  const [model, setModel] = useRemembered("model", "");
  const [asked, setAsked] = useRemembered("asked", { system: "", turns: [], prompt: "" });
  const [settings, setSettings] = useRemembered("settings", [{}, { rule: "low_confidence" }]);
  const [compare, setCompare] = useRemembered("compare", false);
  const [pace, setPace] = useRemembered("pace", "gentle");
  const [open, setOpen] = useRemembered("open", !window.matchMedia(NARROW).matches);
  const [shown, setShown] = useState([]); // runs, with the settings and messages they were made of
  const repaint = useRepaint();
  const stage = useRef(null);

  const runs = shown.map(({ run }) => run);
  const running = runs.some((run) => run.state === "running");
  const last = Math.max(0, ...runs.map((run) => run.film.steps));
  const player = usePlayer(last, running, pace);
  const card = cards.find(({ id }) => id === model) ?? cards[0];
  const lanes = compare ? [0, 1] : [0];
  const name = (lane) => (compare ? "AB"[lane] : null);
  const bodies = card ? lanes.map((lane) => request(card, messagesOf(asked), settings[lane])) : [];

  const ready = card !== undefined && asked.prompt.trim() !== "";

  const stop = () => runs.forEach((run) => run.stop());
  const generate = () => {
    if (running || !ready) return;
    const begun = lanes.map((lane) => ({
      run: new Run(watched(bodies[lane]), repaint),
      summary: summary(card, bodies[lane]),
      messages: bodies[lane].messages,
    }));
    setShown(begun);
    player.begin();
    begun.forEach(({ run }) => run.go());
    if (window.matchMedia(NARROW).matches) stage.current.scrollIntoView();
  };
  const change = (lane) => (next) => setSettings(settings.map((old, at) => (at === lane ? next : old)));
  const followUp = () => {
    const [{ run, messages }] = shown;
    const turns = [...messages.filter(({ role }) => role !== "system"), { role: "assistant", content: run.text }];
    setAsked({ ...asked, turns, prompt: "" });
    document.getElementById("prompt").focus();
  };

  useEffect(() => {
    const escape = (event) => event.key === "Escape" && stop();
    document.addEventListener("keydown", escape);
    return () => document.removeEventListener("keydown", escape);
  });

  const locked = [error, ...runs.map((run) => run.error)].find((each) => each?.status === UNAUTHORIZED);
  return html`
    <${Header} cards=${cards} card=${card} onModel=${setModel} />
    <main>
      <form class="desk" aria-label="Request" noValidate onSubmit=${(event) => (event.preventDefault(), generate())}>
        <${Composer} asked=${asked} embedded=${card?.id.startsWith("unmask-tiny")} onChange=${setAsked}
          onSubmit=${generate} />
        <div class="actions">
          <button type=${running ? "button" : "submit"} class="primary" onClick=${running ? stop : null}
            disabled=${!running && !ready}>${running ? "Stop" : "Generate"}</button>
          <label class="switch">
            <input type="checkbox" checked=${compare} onChange=${(event) => setCompare(event.currentTarget.checked)} />
            Compare two settings
          </label>
        </div>
        <details class="panel" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
          <summary>Settings</summary>
          ${card && lanes.map((lane) => html`
            <${Settings} key=${lane} lane=${name(lane)} card=${card} settings=${settings[lane]} error=${runs[lane]?.error}
              onChange=${change(lane)} />`)}
        </details>
        ${bodies.map((body, lane) => html`<${Code} key=${lane} body=${body} name=${name(lane)} />`)}
      </form>
      <section class="stage" aria-label="Canvas" ref=${stage}>
        <p class="visually-hidden" role="status">${said(runs)}</p>
        ${locked && html`<${KeyForm} message=${locked.message} onKey=${load} />`}
        ${error && !locked && html`<${Problem} error=${error} /><button type="button" onClick=${load}>Try again</button>`}
        ${shown.length === 0 && !error && html`<${Blank} />`}
        <div class="lanes" data-count=${shown.length}>
          ${shown.map((each, lane) => html`
            <${Lane} key=${lane} name=${shown.length > 1 ? "AB"[lane] : null} run=${each.run} player=${player}
              summary=${each.summary} rival=${shown.length > 1 ? shown[1 - lane].run.report : null} />`)}
        </div>
        ${!running && runs[0]?.text && html`
          <button type="button" class="small follow" onClick=${followUp}>Follow up on this answer</button>`}
        ${shown.length > 0 && html`<${Legend} />`}
        ${last > 0 && html`<${Timeline} runs=${runs} last=${last} player=${player} pace=${pace} onPace=${setPace} />`}
      </section>
    </main>`;
}

applyTheme();
render(html`<${App} />`, document.getElementById("app"));
