"""llama.cpp's server, from the package ``xllamacpp``, as a program of its own: a failed assertion ends the interpreter.

Takes the options of ``llama-server`` that ``llama_cpp`` uses, and like it finds the secret in ``LLAMA_API_KEY`` and the
limit of its cache of prompts in ``LLAMA_ARG_CACHE_RAM``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import xllamacpp

_WORDS_SECONDS = 0.5


def main() -> int:
    """Serve until a signal comes; 1 if the model could not be loaded, or the port not be had."""
    try:
        server = xllamacpp.Server(_params(_parser().parse_args()))
    except RuntimeError as error:  # llama.cpp has said why, in a thread of its own that the end would cut short
        time.sleep(_WORDS_SECONDS)
        print(error, file=sys.stderr)
        return 1
    print(f"ready on {server.listening_address}", file=sys.stderr, flush=True)
    signal.pause()  # SIGTERM ends the process
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for option in ("--model", "--alias", "--host"):
        parser.add_argument(option, required=True)
    for option in ("--port", "--ctx-size", "--parallel", "--threads", "--threads-batch"):
        parser.add_argument(option, type=int, required=True)
    parser.add_argument("--gpu-layers", type=int, default=-1)
    parser.add_argument("--slot-save-path", default="")
    return parser


def _params(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.model_alias = {arguments.alias}
    params.hostnames = [arguments.host]
    params.port = arguments.port
    params.api_keys = [os.environ["LLAMA_API_KEY"]]
    params.n_ctx = arguments.ctx_size
    params.n_parallel = arguments.parallel
    params.n_gpu_layers = arguments.gpu_layers
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads_batch
    params.cache_ram_mib = int(os.environ["LLAMA_ARG_CACHE_RAM"])
    params.slot_save_path = arguments.slot_save_path
    params.ui = False
    return params


if __name__ == "__main__":
    sys.exit(main())
