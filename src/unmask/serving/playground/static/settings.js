// The form for one lane's settings: what the model offers, and of each rule what it reads.

import { html } from "./vendor/htm-preact-standalone.js";
import { fieldOf, fields } from "./options.js";

function Choice({ id, field, value, onChange, ...rest }) {
  return html`
    <select id=${id} value=${value} onChange=${onChange} ...${rest}>
      <option value="">${field.choices[0]} (default)</option>
      ${field.choices.slice(field.name === "score" ? 0 : 1).map((choice) => html`<option value=${choice}>${choice}</option>`)}
    </select>`;
}

function Entry({ id, field, value, onChange, ...rest }) {
  const { min, max, step, placeholder } = field;
  return html`
    <input id=${id} type="number" inputmode="decimal" value=${value} onInput=${onChange} placeholder=${placeholder}
      min=${min} max=${max} step=${step} autocomplete="off" ...${rest} />`;
}

export function Settings({ lane, card, settings, error, onChange }) {
  const wrong = fieldOf(error);
  return html`
    <fieldset class="settings">
      <legend class=${lane === null ? "visually-hidden" : ""}>${lane === null ? "Settings" : html`<span class="badge">${lane}</span>`}</legend>
      ${fields(card, settings).map((field) => {
        const id = `${lane ?? "A"}-${field.name}`;
        const change = (event) => onChange({ ...settings, [field.name]: event.currentTarget.value });
        const Control = field.kind === "choice" ? Choice : Entry;
        const bad = wrong === field.name;
        return html`
          <div class="field" key=${field.name} title=${field.hint}>
            <label for=${id}>${field.label}</label>
            <${Control} id=${id} field=${field} value=${settings[field.name] ?? ""} onChange=${change}
              aria-describedby="${id}-hint" aria-invalid=${bad ? "true" : null} />
            <small class="visually-hidden" id="${id}-hint">${field.hint}</small>
          </div>`;
      })}
    </fieldset>`;
}
