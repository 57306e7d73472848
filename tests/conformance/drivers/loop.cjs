// What all JavaScript drivers share: jobs in as JSON lines, and what the client saw of each out as one. See loop.py.
"use strict";

const readline = require("node:readline");

class Left extends Error {}

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// What a user of the client has at the end, or when it fails.
class Seen {
  constructor(leaveAfter) {
    this.leave_after = leaveAfter;
    this.deltas = [];
    this.thoughts = [];
    this.text = null; // the client's own sum, where it makes one
    this.reasoning = null;
    this.calls = [];
    this.finish = null;
    this.usage = null;
    this.frames = 0;
    this.error = null;
    this.left = false;
  }

  // A piece of text has come, or none. Throws Left if it is the last one that the job wants.
  add(delta) {
    if (!delta) return;
    this.deltas.push(delta);
    say({ delta });
    if (this.leave_after !== null && this.deltas.length >= this.leave_after) throw new Left();
  }
}

// The error as a user's catch clause meets it.
const describe = (error) => ({
  class: error.constructor.name,
  status: error.status ?? error.status_code ?? error.statusCode ?? null,
  code: error.code ?? error.data?.error?.code ?? error.error?.error?.code ?? null,
  message: String(error.message ?? error),
});

// Answer jobs until stdin ends; handlers by "dialect mode".
async function run(connect, handlers) {
  say({ can: Object.keys(handlers).sort() });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const job = JSON.parse(line);
    const seen = new Seen(job.leave_after);
    try {
      const client = connect(job.url, job.key, job.timeout * 1000);
      await handlers[`${job.dialect} ${job.mode}`](client, job.request, seen);
    } catch (error) {
      if (error instanceof Left) seen.left = true;
      else seen.error = describe(error);
    }
    say({ seen });
  }
}

module.exports = { run };
