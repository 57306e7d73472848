// What the page remembers. Prompt and settings outlive a reload; the API key only this tab, and never reaches a disk.

const PREFIX = "unmask.playground.1.";

const read = (storage, name, otherwise) => {
  try {
    const text = storage().getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise; // storage that is forbidden or holds something else
  }
};

const write = (storage, name, value) => {
  try {
    storage().setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // nothing is remembered where nothing may be stored
  }
};

const local = () => window.localStorage;
const tab = () => window.sessionStorage;

export const recall = (name, otherwise) => read(local, name, otherwise);
export const remember = (name, value) => write(local, name, value);
export const recallKey = () => read(tab, "key", "");
export const rememberKey = (key) => write(tab, "key", key);
