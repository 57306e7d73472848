// The request as a command or a program, to be copied.

import { html, useState } from "./vendor/htm-preact-standalone.js";
import { recallKey } from "./memory.js";
import { curl, python } from "./snippets.js";

const LANGUAGES = { curl, Python: python };

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or not over plain HTTP: the text can still be selected
  }
}

export function Code({ body, name }) {
  const [said, say] = useState("");
  const withKey = recallKey() !== "";
  const copyOf = (language) => async () => {
    const copied = await copy(LANGUAGES[language](body, withKey));
    say(copied ? `Copied as ${language}` : "Select the text to copy it");
  };
  return html`
    <details class="code">
      <summary>${name === null ? "As code" : `${name} as code`}</summary>
      ${Object.entries(LANGUAGES).map(([language, write]) => html`
        <figure key=${language}>
          <figcaption>${language}<button type="button" class="quiet small" onClick=${copyOf(language)}>Copy as ${language}</button></figcaption>
          <pre tabindex="0" aria-label=${language}><code>${write(body, withKey)}</code></pre>
        </figure>`)}
      <span role="status">${said}</span>
    </details>`;
}
