// The name of the page, the model, and dark or light.

import { html, useState } from "./vendor/htm-preact-standalone.js";
import { nextTheme, theme } from "./theme.js";

const SIGNS = { auto: "\u25d0", light: "\u25cb", dark: "\u25cf" };

const millions = (count) => (count >= 1e9 ? `${(count / 1e9).toFixed(1)} B` : `${(count / 1e6).toFixed(1)} M`);

export function Header({ cards, card, onModel }) {
  const [name, setName] = useState(theme());
  return html`
    <header class="top">
      <h1 aria-label="Unmask playground">${[..."unmask"].map((letter, at) => html`<i class=${at === 2 ? "hidden" : ""} aria-hidden="true">${letter}</i>`)}</h1>
      ${cards.length > 1 && html`
        <label class="model">Model
          <select value=${card.id} onChange=${(event) => onModel(event.currentTarget.value)}>
            ${cards.map(({ id }) => html`<option value=${id}>${id}</option>`)}
          </select>
        </label>`}
      ${card && html`
        <p class="card"><b>${card.id}</b> ${card.unmask.family}, ${card.unmask.attention.replaceAll("_", " ")} attention,
          ${" "}${millions(card.unmask.parameters)} parameters</p>`}
      <button type="button" class="quiet theme" onClick=${() => setName(nextTheme())}
        aria-label="Colours: ${name}" title="Colours: ${name}">${SIGNS[name]}</button>
    </header>`;
}
