// Drives Ollama's JavaScript client.
"use strict";

const { Ollama } = require("ollama");
const { run } = require("./loop.cjs");

const connect = (host, key, timeout) =>
  new Ollama({
    host,
    headers: { Authorization: `Bearer ${key}` },
    fetch: (address, { signal, ...options }) => {
      const signals = [signal, AbortSignal.timeout(timeout)].filter(Boolean);
      return fetch(address, { ...options, signal: AbortSignal.any(signals) });
    },
  });

// One line of a chat, or all of it: thoughts and calls are noted, its text returned.
function chatPart(part, seen) {
  if (part.message.thinking) seen.thoughts.push(part.message.thinking);
  for (const { function: called } of part.message.tool_calls ?? []) {
    const text = JSON.stringify(called.arguments);
    seen.calls.push({ id: `call ${seen.calls.length}`, name: called.name, arguments: text });
  }
  end(part, seen);
  return part.message.content;
}

function generatePart(part, seen) {
  if (part.thinking) seen.thoughts.push(part.thinking);
  end(part, seen);
  return part.response;
}

function end(part, seen) {
  if (part.unmask?.canvas) seen.frames += 1;
  if (!part.done) return;
  seen.finish = part.done_reason;
  seen.usage = [part.prompt_eval_count, part.eval_count];
}

async function whole(method, read, request, seen) {
  seen.text = read(await method({ ...request, stream: false }), seen);
  seen.reasoning = seen.thoughts.splice(0).join("");
}

async function stream(method, read, request, seen) {
  const parts = await method({ ...request, stream: true });
  try {
    for await (const part of parts) seen.add(read(part, seen));
  } finally {
    parts.abort(); // to leave the loop is not enough
  }
}

run(connect, {
  "ollama-chat whole": (client, ...job) => whole((body) => client.chat(body), chatPart, ...job),
  "ollama-chat stream": (client, ...job) => stream((body) => client.chat(body), chatPart, ...job),
  "ollama-generate whole": (client, ...job) => whole((body) => client.generate(body), generatePart, ...job),
  "ollama-generate stream": (client, ...job) => stream((body) => client.generate(body), generatePart, ...job),
});
