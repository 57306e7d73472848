"""A quick program that gives logits of no model, always the same for the same questions, and fails as it is told.

Run as ``toy_logits.py MODEL``; its ``config.json`` says how many tokens there are, 256 if it is a file. The file
``TOY_SCRIPT`` holds a word for each request to come, of whatever process: what goes wrong with it. Logits depend on the
tokens and, where they should, on the request before: whoever loses that gets others.
"""

from __future__ import annotations

import array
import json
import os
import random
import struct
import sys
import time
import zlib
from pathlib import Path


def main() -> None:
    vocab = _vocabulary(Path(sys.argv[1]))
    before, before_temperature = 0, 1.0
    _started()
    print(f"READY {vocab}", flush=True)
    for line in sys.stdin:
        path = Path(line.strip())
        data, word = path.read_bytes(), _next_word()
        prefix, canvas = struct.unpack_from("=ii", data)
        conditioned, temperature, head = 0, 1.0, 8
        if len(data) == 16 + 4 * (prefix + canvas):
            (conditioned, temperature), head = struct.unpack_from("=if", data, 8), 16
        if _answered_otherwise(word):
            continue
        seed = zlib.crc32(data[head:], before if conditioned else 0)
        seed = zlib.crc32(struct.pack("=f", before_temperature), seed) if conditioned else seed
        before, before_temperature = seed, temperature
        numbers = random.Random(seed)
        logits = array.array("f", (numbers.gauss(0, 4) for _ in range(canvas * vocab)))
        if word == "nan":
            logits[-1] = float("nan")
        Path(f"{path}.resp").write_bytes(logits.tobytes()[: -8 if word == "short" else None])
        print(f"OK {canvas}" if word != "miscount" else f"OK {canvas + 1}", flush=True)


def _vocabulary(model: Path) -> int:
    if model.is_file():
        return 256
    config = json.loads((model / "config.json").read_text())
    return config.get("text_config", config)["vocab_size"]


def _answered_otherwise(word: str) -> bool:
    """Do what ``word`` says instead of giving logits, if it does."""
    if word == "die":
        print("GGML_ASSERT(n_tokens > 0) failed", file=sys.stderr)
        print("backtrace follows", file=sys.stderr, flush=True)
        os.abort()
    if word == "leave":
        sys.exit(0)
    if word == "hang":
        time.sleep(600)
    told = {"err": "ERR decode", "garbage": "\x1b[31m" + "x" * 100, "flood": "x" * 10_000}.get(word)
    if told is not None:
        print(told, flush=True)
    if word == "missing":
        print("OK 16", flush=True)
    return told is not None or word == "missing"


def _started() -> None:
    if log := os.environ.get("TOY_STARTS"):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {os.environ.get('MAXTOK')} {os.environ.get('NGL')}\n")


def _next_word() -> str:
    script = os.environ.get("TOY_SCRIPT")
    if script is None or not os.path.exists(script):
        return ""
    word, *others = Path(script).read_text().split(" ")
    Path(script).write_text(" ".join(others))
    return word


if __name__ == "__main__":
    main()
