"""A real llama.cpp server for a GGUF file: run as a program, since an assertion in it ends the process."""

from __future__ import annotations

import sys

from xllamacpp import CommonParams, Server


def main(model: str) -> None:
    params = CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 2
    params.n_ctx = 1024
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
