// Drawn here, since not every font has the signs.

import { html } from "./vendor/htm-preact-standalone.js";

const icon = (path) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${path} /></svg>`;

export const Play = () => icon("M4.5 2.6v10.8L13.5 8z");
export const Pause = () => icon("M4 3h3v10H4zM9 3h3v10H9z");
export const First = () => icon("M3 3h2v10H3zM13 3v10L6 8z");
export const Last = () => icon("M11 3h2v10h-2zM3 3v10l7-5z");
