// Drives Anthropic's JavaScript client.
"use strict";

const { Anthropic } = require("@anthropic-ai/sdk");
const { run } = require("./loop.cjs");

const connect = (url, key, timeout) => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout });

// A whole message, as the client has it.
function message(answer, seen) {
  const blocks = (type) => answer.content.filter((block) => block.type === type);
  seen.text = blocks("text").map((block) => block.text).join("");
  seen.reasoning = blocks("thinking").map((block) => block.thinking).join("");
  seen.calls = blocks("tool_use").map(({ id, name, input }) => ({ id, name, arguments: JSON.stringify(input) }));
  seen.finish = answer.stop_reason;
  seen.usage = [answer.usage.input_tokens, answer.usage.output_tokens];
}

async function whole(client, request, seen) {
  message(await client.messages.create(request), seen);
}

async function stream(client, request, seen) {
  seen.usage = [0, 0];
  for await (const event of await client.messages.create({ ...request, stream: true })) {
    if (event.type === "message_start") seen.usage = [event.message.usage.input_tokens, 0];
    if (event.type === "content_block_start" && event.content_block.type === "tool_use") {
      seen.calls.push({ id: event.content_block.id, name: event.content_block.name, arguments: "" });
    }
    if (event.type === "content_block_delta") piece(event.delta, seen);
    if (event.type === "message_delta") {
      seen.finish = event.delta.stop_reason;
      seen.usage[1] = event.usage.output_tokens;
    }
    if (event.type === "dllm_canvas") seen.frames += 1;
  }
}

function piece(delta, seen) {
  if (delta.type === "thinking_delta") seen.thoughts.push(delta.thinking);
  if (delta.type === "input_json_delta") seen.calls.at(-1).arguments += delta.partial_json;
  if (delta.type === "text_delta") seen.add(delta.text);
}

async function helper(client, request, seen) {
  const events = client.messages.stream(request);
  for await (const event of events) {
    if (event.type === "dllm_canvas") seen.frames += 1;
    if (event.type !== "content_block_delta") continue;
    if (event.delta.type === "thinking_delta") seen.thoughts.push(event.delta.thinking);
    if (event.delta.type === "text_delta") seen.add(event.delta.text);
  }
  message(await events.finalMessage(), seen);
}

run(connect, { "messages whole": whole, "messages stream": stream, "messages helper": helper });
