"""Lines that llama.cpp really wrote, or answered, each with the error it stands for."""

from __future__ import annotations

import time

import pytest

from unmask.errors import (
    CheckpointNotFoundError,
    EngineCrashedError,
    InsufficientMemoryError,
    InvalidCheckpointError,
    ModelLoadFailedError,
    ModelUnsupportedEngineError,
    NotInstalledError,
    PortBusyError,
    UnknownArchitectureError,
)
from unmask.gateway import telling
from unmask.gateway.telling import SIGNS, Clues, explain_end, explain_line

LINES = {
    "0.00.008.234 E llama_model_load: error loading model: unknown model architecture: 'llada2'":
        (UnknownArchitectureError, "'llada2'"),
    "0.00.007.870 E llama_model_load: error loading model: unsupported model architecture: 'gptj'":
        (UnknownArchitectureError, "'gptj'"),
    '{"error":{"code":500,"message":"the current context does not support logits computation. skipping",'
    '"type":"server_error"}}': (ModelUnsupportedEngineError, "cannot write text"),
    "E srv    send_error: task id = 0, error: the current context does not logits computation. skipping":
        (ModelUnsupportedEngineError, "cannot write text"),
    "/workspace/thirdparty/llama.cpp/src/llama-context.cpp:2289: GGML_ASSERT(n_outputs_max <= cparams.n_outputs_max) "
    "failed": (ModelUnsupportedEngineError, "cannot write text"),
    "diffusion.cpp:168: GGML_ASSERT(params.steps % num_blocks == 0) failed": (EngineCrashedError, "num_blocks == 0"),
    "0.00.510.107 E ggml_aligned_malloc: insufficient memory (attempted to allocate 43953.75 MB)":
        (InsufficientMemoryError, "memory"),
    "E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 46088847360":
        (InsufficientMemoryError, "memory"),
    "E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 37173": (PortBusyError, "port"),
    "E gguf_init_from_file: failed to open GGUF file '/nope.gguf' (No such file or directory)":
        (CheckpointNotFoundError, "find its file"),
    "E llama_model_load: error loading model: tensor 'blk.0.ffn_down.weight' data is not within the file bounds, model "
    "is corrupted or incomplete": (InvalidCheckpointError, "cut short"),
    "E llama_model_load: error loading model: check_tensor_dims: tensor 'blk.1.ffn_gate_inp.weight' not found":
        (InvalidCheckpointError, "damaged"),
    "E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'": (InvalidCheckpointError, "damaged"),
    "E gguf_init_from_reader: failed to read magic": (InvalidCheckpointError, "damaged"),
    "error: invalid argument: --frobnicate": (ModelLoadFailedError, "--frobnicate"),
    "ModuleNotFoundError: No module named 'xllamacpp'": (NotInstalledError, "xllamacpp"),
    "E srv          init: exiting due to model loading error": (ModelLoadFailedError, "could not load"),
}  # fmt: skip

# Said by models that load and answer.
HARMLESS = [
    "W common_fit_params: failed to fit params to free device memory: was unable to fit model into system memory by "
    "reducing context, abort",
    "W llama_context: n_ctx_seq (2048) > n_ctx_train (256) -- possible training context overflow",
    "W srv    load_model: speculative decoding not supported by this context",
    "I srv    load_model: loading model '/models/SmolLM2-135M-Instruct.Q4_1.gguf'",
    "W srv    operator(): unauthorized: Invalid API Key",
]


@pytest.mark.parametrize("line", LINES)
def test_what_a_line_tells(line):
    kind, words = LINES[line]
    error = explain_line(line, "m")
    assert type(error) is kind
    assert words in error.message
    assert "'m'" in error.message
    assert error.hint


@pytest.mark.parametrize("line", HARMLESS)
def test_what_tells_nothing(line):
    assert explain_line(line, "m") is None


def test_every_sign_is_one_that_a_line_above_has():
    told = {next(sign for sign in SIGNS if sign.pattern.search(line)) for line in LINES}
    told |= {sign for sign in SIGNS if "pre-tokenizer" in sign.pattern.pattern}  # known from its source only
    assert told == set(SIGNS)


def test_of_many_lines_the_most_telling_one_counts():
    clues = Clues()
    for line in reversed(LINES):
        clues.see(line)
    assert "unknown model architecture" in clues.best()


def test_an_answer_that_nobody_dies_of_explains_no_death():
    clues = Clues()
    clues.see("E srv send_error: the current context does not support logits computation. skipping")
    assert clues.best() is None


def test_what_was_said_long_before_explains_nothing(monkeypatch):
    clues = Clues()
    clues.see("E ggml_aligned_malloc: insufficient memory (attempted to allocate 90.00 MB)")
    assert clues.best() is not None
    now = time.monotonic()
    monkeypatch.setattr(telling.time, "monotonic", lambda: now + 61)
    assert clues.best() is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(-9, "killed"), (137, "killed"), (-4, "CPU instruction"), (132, "CPU instruction"), (134, "ended itself"),
     (-11, "crashed"), (-15, "told to end"), (1, "exit code 1"), (0, "exit code 0"), (-34, "exit code -34")],
)  # fmt: skip
def test_what_a_status_means(status, words):
    error = explain_end(status, "m", EngineCrashedError, None, "Ouch")
    assert words in error.message
    assert error.message.endswith("It last said: 'Ouch'.")
    assert error.hint
    assert error.code == "engine_crashed"


def test_a_line_tells_more_than_a_status():
    error = explain_end(-6, "m", ModelLoadFailedError, "GGML_ASSERT(a) failed", "a frame of a debugger")
    assert "GGML_ASSERT(a) failed" in error.message
    assert "frame" not in error.message
    assert error.code == "model_load_failed"


@pytest.mark.parametrize(
    ("clue", "mended"),
    [
        ("error: invalid argument: --flash-atn", True),
        ("api_server.py: error: unrecognized arguments: --flash-atn on", True),
        ("error: invalid argument: --flash-at", False),
        (None, True),
    ],
)
def test_a_flag_of_the_models_own_is_to_be_mended_where_it_stands(clue, mended):
    last = 'error while handling argument "--flash-atn": unknown value'
    error = explain_end(1, "m", ModelLoadFailedError, clue, last, ("--flash-atn", "on"))
    assert ("'engine_args'" in error.hint and "correct --flash-atn there" in error.hint) is mended
    assert "engine_args" not in explain_end(1, "m", ModelLoadFailedError, clue, last).hint
