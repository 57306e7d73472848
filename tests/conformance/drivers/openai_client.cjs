// Drives OpenAI's JavaScript client.
"use strict";

const { OpenAI } = require("openai");
const { run } = require("./loop.cjs");

const USAGE = { stream: true, stream_options: { include_usage: true } };

const connect = (url, key, timeout) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout });
const billed = (usage) => [usage.prompt_tokens, usage.completion_tokens];
const frame = (chunk) => (chunk.unmask?.canvas ? 1 : 0);

function chatMessage(message, seen) {
  seen.text = message.content ?? "";
  seen.reasoning = message.reasoning_content ?? "";
  seen.calls = (message.tool_calls ?? []).map((call) => ({ id: call.id, ...pick(call.function) }));
}

const pick = ({ name, arguments: text }) => ({ name, arguments: text });

async function chatWhole(client, request, seen) {
  const answer = await client.chat.completions.create(request);
  chatMessage(answer.choices[0].message, seen);
  seen.finish = answer.choices[0].finish_reason;
  seen.usage = billed(answer.usage);
}

function chatDelta(delta, seen) {
  for (const piece of delta.tool_calls ?? []) {
    if (piece.index === seen.calls.length) seen.calls.push({ id: piece.id, name: piece.function.name, arguments: "" });
    seen.calls[piece.index].arguments += piece.function.arguments ?? "";
  }
  if (delta.reasoning_content) seen.thoughts.push(delta.reasoning_content);
  seen.add(delta.content);
}

async function chatStream(client, request, seen) {
  for await (const chunk of await client.chat.completions.create({ ...request, ...USAGE })) {
    seen.frames += frame(chunk);
    for (const choice of chunk.choices) {
      chatDelta(choice.delta, seen);
      seen.finish = choice.finish_reason ?? seen.finish;
    }
    if (chunk.usage) seen.usage = billed(chunk.usage);
  }
}

async function chatHelper(client, request, seen) {
  const stream = client.chat.completions.stream({ ...request, ...USAGE });
  for await (const chunk of stream) {
    seen.frames += frame(chunk);
    for (const { delta } of chunk.choices) {
      if (delta.reasoning_content) seen.thoughts.push(delta.reasoning_content);
      seen.add(delta.content);
    }
  }
  const answer = await stream.finalChatCompletion();
  chatMessage(answer.choices[0].message, seen);
  seen.reasoning = null; // this accumulator keeps the last piece of a field that it does not know
  seen.finish = answer.choices[0].finish_reason;
  seen.usage = billed(answer.usage);
}

async function completionsWhole(client, request, seen) {
  const answer = await client.completions.create(request);
  seen.text = answer.choices[0].text;
  seen.finish = answer.choices[0].finish_reason;
  seen.usage = billed(answer.usage);
}

async function completionsStream(client, request, seen) {
  for await (const chunk of await client.completions.create({ ...request, ...USAGE })) {
    seen.frames += frame(chunk);
    for (const choice of chunk.choices) {
      seen.add(choice.text);
      seen.finish = choice.finish_reason ?? seen.finish;
    }
    if (chunk.usage) seen.usage = billed(chunk.usage);
  }
}

async function responsesWhole(client, request, seen) {
  response(await client.responses.create(request), seen);
}

async function responsesStream(client, request, seen) {
  for await (const event of await client.responses.create({ ...request, stream: true })) {
    responseEvent(event, seen);
    if (event.type === "response.completed" || event.type === "response.incomplete") response(event.response, seen);
  }
}

async function responsesHelper(client, request, seen) {
  const stream = client.responses.stream(request);
  for await (const event of stream) responseEvent(event, seen);
  response(await stream.finalResponse(), seen);
}

function responseEvent(event, seen) {
  seen.frames += frame(event);
  if (event.type === "response.reasoning_text.delta") seen.thoughts.push(event.delta);
  if (event.type === "response.output_text.delta") seen.add(event.delta);
  if (event.type === "response.failed" || event.type === "error") throw new Failed(event);
}

// The stream told of an error, which this library does not throw.
class Failed extends Error {
  constructor(event) {
    const error = event.type === "error" ? event : event.response.error;
    super(error.message);
    this.code = error.code;
  }
}

// A whole response, as the client has it.
function response(answer, seen) {
  const items = (type) => answer.output.filter((item) => item.type === type);
  seen.text = answer.output_text ?? null; // the library adds it to whole answers only
  seen.reasoning = items("reasoning").flatMap((item) => (item.content ?? []).map((part) => part.text)).join("");
  seen.calls = items("function_call").map((item) => ({ id: item.call_id, ...pick(item) }));
  seen.finish = answer.incomplete_details?.reason ?? answer.status;
  seen.usage = [answer.usage.input_tokens, answer.usage.output_tokens];
}

run(connect, {
  "chat whole": chatWhole,
  "chat stream": chatStream,
  "chat helper": chatHelper,
  "completions whole": completionsWhole,
  "completions stream": completionsStream,
  "responses whole": responsesWhole,
  "responses stream": responsesStream,
  "responses helper": responsesHelper,
});
