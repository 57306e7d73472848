"""Flags of a model's own for the engine that serves it."""

from __future__ import annotations

import json

import pytest

from tests.foreign_models import gguf_file, hugging_face
from tests.gateway.config.files import config, refusal
from tests.gateway.known import LLAMA_CPP, OWN, lane
from unmask.gateway.config.appraisal import appraise
from unmask.gateway.config.entries import entries

FORK = lane("fork", "llama.cpp", "gguf", autoregressive="llama")
VLLM = lane("their-vllm", "vllm", "safetensors", autoregressive="LlamaForCausalLM")
SGLANG = lane("their-sglang", "sglang", "safetensors", autoregressive="LlamaForCausalLM")
LANES = {"unmask": OWN, "llama.cpp": LLAMA_CPP, "fork": FORK, "vllm": VLLM, "sglang": SGLANG}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    plain = hugging_face(architectures=["LlamaForCausalLM"], model_type="llama")(home / "plain")
    gguf = gguf_file("llama", llama__context_length=4096)(home / "gguf")
    return {"unmask": "unmask-tiny", "vllm": plain, "sglang": plain, "llama.cpp": gguf, "fork": gguf}


def judged(tmp_path, models, name, words):
    text = json.dumps({"models": {"m": {"path": str(models[name]), "engine_args": words}}})
    (found,) = appraise(entries(config(tmp_path, text)), [LANES[name]])
    return found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fork", ["--flash-attn", "on", "-ctk", "q8_0", "--mmproj", "/x.gguf", "--ui"]),
        ("fork", ["--temp", "-1"]),
        ("vllm", ["--enforce-eager", "--tensor-parallel-size=2", "-dp", "2", "--max_num_seqs", "4"]),
        ("sglang", ["--mem-fraction-static", "0.8", "--attention-backend", "triton"]),
    ],
)
def test_most_are_left_to_the_engine(tmp_path, models, name, words):
    found = judged(tmp_path, models, name, words)
    assert found.refusal is None
    assert found.entry.engine_args == tuple(words)


@pytest.mark.parametrize(
    ("name", "word", "why"),
    [
        ("fork", "--host", "address"),
        ("fork", "--port=80", "address"),
        ("fork", "--api-key", "secret"),
        ("fork", "--ssl-cert-file", "secret"),
        ("fork", "-m", "the model is that of its 'path'"),
        ("fork", "-hfr", "lets others reach"),
        ("fork", "--rpc", "lets others reach"),
        ("fork", "--fim-qwen-3b-default", "lets others reach"),
        ("fork", "--tools", "run code"),
        ("fork", "-c", "own 'context'"),
        ("fork", "-np", "own 'slots'"),
        ("vllm", "--api_key", "secret"),
        ("vllm", "--hos", "address"),  # Python's parsers take what is cut short
        ("vllm", "--trust-remote-code", "run code"),
        ("vllm", "--config", "cannot be looked at"),
        ("vllm", "--kv_events_config.endpoint=tcp://*:1", "lets others reach"),  # vLLM makes objects of such
        ("vllm", "--max-model-len", "own 'context'"),
        ("sglang", "--model-pa", "the model is that"),
        ("sglang", "--admin-api-key=x", "secret"),
        ("sglang", "--dist_init_addr", "lets others reach"),
    ],
)
def test_what_would_take_the_engine_out_of_hand_is_refused_by_name(tmp_path, models, name, word, why):
    found = judged(tmp_path, models, name, ["--verbose", word, "x"])
    assert found.refusal is not None
    assert found.refusal.code == "invalid_config"
    assert f"must not have '{word.partition('=')[0]}': " in found.refusal.message
    assert why in found.refusal.message
    assert f"{tmp_path / 'unmask.yaml'}:1" in found.refusal.message


def test_engines_that_take_none_say_so(tmp_path, models):
    own = judged(tmp_path, models, "unmask", ["--verbose"]).refusal
    assert own.message.startswith(
        "'engine_args' of the model 'm' has no effect on the engine that it goes to, Unmask's own engine"
    )
    packaged = judged(tmp_path, models, "llama.cpp", ["--verbose"]).refusal
    assert "cannot be given to the engine that it goes to, llama.cpp" in packaged.message
    assert "unmask engine add" in packaged.remedy


@pytest.mark.parametrize("said", ["[on]", "'--flash-attn on'", "[1]", '["--a\\0b"]', f"[{', '.join(['--a'] * 65)}]"])
def test_what_are_no_flags(tmp_path, said):
    error = refusal(tmp_path, f"models: {{m: {{path: x, engine_args: {said}}}}}")
    assert error.param.startswith("models.m.engine_args")


def test_elsewhere_there_is_no_command_line(tmp_path):
    error = refusal(tmp_path, "models: {m: {url: http://x/v1, model: m, engine_args: [--a]}}")
    assert "'engine_args' has no effect with 'url'" in error.message
