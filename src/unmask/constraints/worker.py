"""Builds one automaton in a process of its own: a ``Job`` on standard input gives a ``Result`` on standard output.

An expression comes from a stranger, and a short one can need any amount of time and memory; a process can be ended, and
bounded.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

import msgspec

from unmask.constraints.build import ConstraintError, build

MAX_BYTES = 3 * 2**30
MAX_SECONDS = 20.0


class Job(msgspec.Struct, array_like=True):
    """What ``build`` takes."""

    pattern: str
    tokens: dict[bytes, list[int]]
    vocab_size: int
    end_ids: tuple[int, ...]
    own: tuple[str, ...]


class Result(msgspec.Struct, array_like=True):
    """The automaton, or why there is none."""

    automaton: bytes = b""
    reason: str = ""


def main() -> None:
    """One job."""
    with suppress(ValueError, OSError):  # some systems know no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        # Whoever waits for it ends it in time; this is for one that nobody waits for any more.
        most = 2 * int(MAX_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    try:
        result = Result(build(job.pattern, job.tokens, job.vocab_size, job.end_ids, job.own).to_bytes())
    except ConstraintError as error:
        result = Result(reason=str(error))
    except MemoryError:
        result = Result(reason="it takes too much memory")
    sys.stdout.buffer.write(msgspec.msgpack.encode(result))


if __name__ == "__main__":
    main()
