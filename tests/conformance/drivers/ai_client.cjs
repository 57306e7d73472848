// Drives the AI SDK with its provider for servers that speak as OpenAI's does. It has words of its own for requests.
"use strict";

const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { generateText, jsonSchema, Output, streamText, tool } = require("ai");
const { run } = require("./loop.cjs");

const connect = (url, apiKey, timeout) => ({
  provider: createOpenAICompatible({
    name: "here",
    baseURL: `${url}/v1`,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  }),
  timeout,
});

// A chat request in the library's words.
function translated({ provider, timeout }, request) {
  const { model, messages, max_tokens, temperature, stop, response_format, tools, tool_choice, ...others } = request;
  const offered = (tools ?? []).map(({ function: { name, description, parameters } }) => [
    name,
    tool({ description, inputSchema: jsonSchema(parameters) }),
  ]);
  const form = response_format && jsonSchema(response_format.json_schema.schema);
  return {
    model: provider(model),
    messages: messages.map((message) => turn(message, messages)),
    maxOutputTokens: max_tokens,
    temperature,
    stopSequences: stop && [stop],
    output: form && Output.object({ schema: form }),
    tools: offered.length ? Object.fromEntries(offered) : undefined,
    toolChoice: typeof tool_choice === "object" ? { type: "tool", toolName: tool_choice.function.name } : tool_choice,
    providerOptions: { here: others },
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(timeout),
  };
}

function turn({ role, content, tool_calls: calls, tool_call_id: toolCallId }, messages) {
  if (role === "tool") {
    const all = messages.flatMap((message) => message.tool_calls ?? []);
    const toolName = all.find((call) => call.id === toolCallId).function.name;
    return { role, content: [{ type: "tool-result", toolCallId, toolName, output: { type: "text", value: content } }] };
  }
  if (!calls) return { role, content };
  return {
    role,
    content: calls.map((call) => ({
      type: "tool-call",
      toolCallId: call.id,
      toolName: call.function.name,
      input: JSON.parse(call.function.arguments),
    })),
  };
}

async function whole(client, request, seen) {
  await end(await generateText(translated(client, request)), seen);
}

async function stream(client, request, seen) {
  const leaving = new AbortController();
  const asked = translated(client, request);
  const abortSignal = AbortSignal.any([asked.abortSignal, leaving.signal]);
  const result = streamText({ ...asked, abortSignal, onError: () => {} });
  try {
    for await (const part of result.fullStream) {
      if (part.type === "error") throw part.error;
      if (part.type === "reasoning-delta") seen.thoughts.push(part.text);
      if (part.type === "text-delta") seen.add(part.text);
    }
  } catch (error) {
    leaving.abort(); // to leave the loop is not enough
    throw error;
  }
  await end(result, seen);
}

// What a result holds: at once, or as promises.
async function end(result, seen) {
  seen.frames = null; // the library hides what it does not know
  seen.text = await result.text;
  seen.reasoning = (await result.reasoningText) ?? "";
  seen.calls = (await result.toolCalls).map(({ toolCallId: id, toolName: name, input }) => ({
    id,
    name,
    arguments: JSON.stringify(input),
  }));
  seen.finish = (await result.finishReason).replace("-", "_");
  const usage = await result.totalUsage;
  seen.usage = [usage.inputTokens, usage.outputTokens];
}

run(connect, { "chat whole": whole, "chat stream": stream });
