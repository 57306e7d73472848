// What can be set, how it is asked for, and how it becomes a request. Blank means the model's default, and is not sent.

const integer = { kind: "integer", step: 1 };
const share = { kind: "number", step: 0.01, min: 0, max: 1 };
const number = { kind: "number", step: "any" };

// Of the `unmask` object: what rules read.
const RULE_OPTIONS = {
  steps: { ...integer, min: 1, label: "Steps", hint: "forwards per block" },
  threshold: { ...share, label: "Threshold", hint: "confidence that commits a token" },
  factor: { ...number, min: 0, label: "Factor", hint: "larger commits more at once" },
  score: { kind: "choice", choices: ["probability", "margin", "entropy"], label: "Score", hint: "what is ranked by" },
  add_threshold: { ...share, label: "Add threshold", hint: "share decided before the next block opens" },
  activate_threshold: { ...share, label: "Activate threshold", hint: "share decided before the next must commit" },
  max_live_blocks: { ...integer, min: 1, label: "Live blocks", hint: "at most, at once" },
  alg_temp: { ...number, min: 0, label: "Order temperature", hint: "chance in the order of commits" },
  edit_threshold: { ...share, label: "Edit threshold", hint: "confidence that replaces a token" },
  max_edit_steps: { ...integer, min: 0, label: "Edit steps", hint: "forwards per block for edits" },
  min_commits: { ...integer, min: 1, label: "Commits", hint: "at least, per forward" },
  anchor_threshold: { ...share, label: "Anchor threshold", hint: "confidence that helps neighbours" },
  radius: { ...integer, min: 0, label: "Radius", hint: "how far an anchor helps" },
  low_threshold: { ...share, label: "Low threshold", hint: "confidence for the middle of gaps" },
  verify_threshold: { ...share, label: "Verify threshold", hint: "below it a token is taken back" },
  entropy_bound: { ...number, min: 0, label: "Entropy bound", hint: "what one forward may commit in all" },
};

// Read by every rule.
const COMMON = {
  block_length: { ...integer, min: 1, label: "Block length", hint: "tokens denoised together" },
  max_tokens: { ...integer, min: 1, label: "Max tokens", hint: "length limit of the answer" },
  temperature: { ...number, min: 0, label: "Temperature", hint: "0 takes the likeliest token" },
  seed: { ...integer, min: 0, label: "Seed", hint: "equal seeds, equal answers" },
  ignore_eos: { kind: "choice", choices: ["no", "yes"], label: "Ignore ends", hint: "goes on behind end tokens" },
};

const OPENAI = ["max_tokens", "temperature", "seed", "ignore_eos"]; // fields of their own on the wire; all else goes into `unmask`

const words = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

// The fields of a settings form for `card`, a model's entry in GET /v1/models.
export function fields(card, settings) {
  const model = card.unmask;
  const rule = model.rules.includes(settings.rule) ? settings.rule : model.rules[0];
  const own = model.rule_options[rule];
  const usual = (name) => model.defaults[name] ?? { block_length: model.block_length, max_tokens: model.max_tokens }[name];
  const field = (name, what) => ({
    name,
    placeholder: String(usual(name) ?? "default"),
    ...(what ?? { ...number, label: words(name), hint: "see the documentation" }),
  });
  return [
    { name: "rule", kind: "choice", choices: model.rules, label: "Rule", hint: "which tokens a forward commits" },
    ...own.map((name) => field(name, RULE_OPTIONS[name])),
    ...Object.entries(COMMON).map(([name, what]) => field(name, what)),
    { name: "cache", kind: "choice", choices: model.caches, label: "Cache", hint: "of keys and values" },
  ];
}

function read(name, kind, value) {
  if (name === "ignore_eos") return value === "yes";
  return kind === "choice" || Number.isNaN(Number(value)) ? value : Number(value);
}

// The request for `messages` under `settings`. What cannot be read as a number is sent as it is: the server explains.
export function request(card, messages, settings) {
  const body = { model: card.id, messages };
  const unmask = {};
  for (const { name, kind, choices } of fields(card, settings)) {
    const value = (settings[name] ?? "").trim();
    if (value === "" || (kind === "choice" && !choices.includes(value))) continue; // another model's choice
    (OPENAI.includes(name) ? body : unmask)[name] = read(name, kind, value);
  }
  return Object.keys(unmask).length ? { ...body, unmask } : body;
}

export const watched = (body) => ({
  ...body,
  stream: true,
  stream_options: { include_usage: true },
  unmask: { ...body.unmask, canvas: "frames" },
});

// Which field an error is about: `unmask.threshold` and `threshold` are the same here.
export const fieldOf = (error) => error?.param?.replace(/^unmask\./, "") ?? null;

// What a request asks of the decoding, in words.
export const summary = (card, { model, messages, unmask = {}, ...body }) => {
  const { rule = card.unmask.rules[0], ...options } = unmask;
  const said = Object.entries({ ...options, ...body }).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
  return [rule, ...said].join(", ");
};
