// Asks for the API key of a server that wants one.

import { html, useState } from "./vendor/htm-preact-standalone.js";
import { recallKey, rememberKey } from "./memory.js";

export function KeyForm({ message, onKey }) {
  const [key, setKey] = useState(recallKey());
  const submit = (event) => {
    event.preventDefault();
    rememberKey(key.trim());
    onKey();
  };
  return html`
    <form class="key" onSubmit=${submit}>
      <label for="key">API key</label>
      <input id="key" type="password" value=${key} autocomplete="off" spellcheck="false"
        onInput=${(event) => setKey(event.currentTarget.value)} />
      <button type="submit">Use it</button>
      <small role="alert">${message} It is kept in this tab only.</small>
    </form>`;
}
