// Dark or light: as the system has it, until somebody says otherwise.

import { recall, remember } from "./memory.js";

const NEXT = { auto: "light", light: "dark", dark: "auto" };

export const theme = () => recall("theme", "auto");

export function applyTheme(name = theme()) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function nextTheme() {
  const name = NEXT[theme()] ?? "auto";
  remember("theme", name);
  applyTheme(name);
  return name;
}
