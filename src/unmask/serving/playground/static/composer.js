// What is asked: a system text, the turns so far, the prompt.

import { html } from "./vendor/htm-preact-standalone.js";

// Only what the embedded model has learned; of other models nobody here knows what they know.
const EXAMPLES = [
  "Start with 9, add 12, subtract 5. What is the result?",
  "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?",
  "Count from 1 to 15.",
  "Sort in ascending order: 31 4 17 8",
  "Write a Python function add(x) that returns x plus 7.",
];

export const messagesOf = ({ system, turns, prompt }) => [
  ...(system.trim() ? [{ role: "system", content: system }] : []),
  ...turns,
  { role: "user", content: prompt },
];

function Turns({ turns, onClear }) {
  return html`
    <ol class="turns" aria-label="Conversation so far">
      ${turns.map((turn, at) => html`<li key=${at} class=${turn.role}><span>${turn.role}</span>${turn.content}</li>`)}
    </ol>
    <button type="button" class="quiet small" onClick=${onClear}>Begin anew</button>`;
}

export function Composer({ asked, embedded, onChange, onSubmit }) {
  const set = (name) => (event) => onChange({ ...asked, [name]: event.currentTarget.value });
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSubmit();
    }
  };
  return html`
    <div class="composer">
      <details open=${asked.system !== ""}>
        <summary>System text</summary>
        <textarea aria-label="System text" rows="2" value=${asked.system} onInput=${set("system")} onKeyDown=${keys}></textarea>
      </details>
      ${asked.turns.length > 0 && html`<${Turns} turns=${asked.turns} onClear=${() => onChange({ ...asked, turns: [] })} />`}
      <label for="prompt">Prompt</label>
      <textarea id="prompt" rows="4" value=${asked.prompt} onInput=${set("prompt")} onKeyDown=${keys}
        placeholder="Ask something"></textarea>
      ${embedded && html`
        <div class="examples" role="group" aria-label="Examples">
          ${EXAMPLES.map((prompt) => html`
            <button type="button" title=${prompt} onClick=${() => onChange({ ...asked, prompt })}>${prompt}</button>`)}
        </div>`}
    </div>`;
}
