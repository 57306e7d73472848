// The two endpoints that the page needs, and the server's own words when something is wrong.

import { events } from "./sse.js";
import { recallKey } from "./memory.js";

export class ApiError extends Error {
  constructor({ message, code = "", param = null }, status = 0) {
    super(message);
    Object.assign(this, { code, param, status });
  }
}

const unreachable = () =>
  new ApiError({ message: "The server cannot be reached. Is it still running? Then try again.", code: "unreachable" });

const broken = () =>
  new ApiError({ message: "The connection broke before the answer was whole. Try again.", code: "interrupted" });

const headers = () => {
  const key = recallKey();
  return { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
};

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { headers: headers(), ...options });
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable();
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error ?? { message: `The server answered ${response.status}.` }, response.status);
}

export const models = async () => (await (await call("/v1/models")).json()).data;

// Gives each chunk to `take`. Ends when the answer is whole, and throws otherwise.
export async function stream(body, signal, take) {
  const response = await call("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error);
      take(chunk);
    }
  } catch (error) {
    throw error instanceof ApiError || error.name === "AbortError" ? error : broken();
  }
  throw broken();
}
