// One request on its way: what came of it so far, told to whoever looks.

import { ApiError, stream } from "./api.js";
import { Film } from "./film.js";

export class Run {
  film = new Film();
  text = "";
  state = "running"; // then done, stopped or failed
  finish = null;
  report = null;
  usage = null;
  error = null;

  constructor(body, changed) {
    this.body = body;
    this._changed = changed;
    this._abort = new AbortController();
  }

  async go() {
    try {
      await stream(this.body, this._abort.signal, (chunk) => this._take(chunk));
      this.state = "done";
    } catch (error) {
      if (error.name === "AbortError") {
        this.state = "stopped";
      } else {
        this.state = "failed";
        this.error = error instanceof ApiError ? error : new ApiError({ message: String(error) });
      }
    }
    this._changed();
  }

  // The request leaves the engine within one step.
  stop() {
    this._abort.abort();
  }

  _take(chunk) {
    const [choice] = chunk.choices;
    this.text += choice?.delta.content ?? "";
    this.finish = choice?.finish_reason ?? this.finish;
    this.usage = chunk.usage ?? this.usage;
    if (chunk.unmask?.canvas) this.film.add(chunk.unmask.canvas);
    else if (chunk.unmask) this.report = chunk.unmask;
    this._changed();
  }
}
