"""A configuration file, in YAML and TOML, and what is said against one that is wrong."""

from __future__ import annotations

import os
import re
from dataclasses import fields

import pytest

from tests.foreign_models import tiny_copy
from tests.gateway.config.files import config, refusal, written
from unmask.engine.options import EngineOptions
from unmask.errors import InvalidConfigError
from unmask.gateway.config.budget import MemoryBudget
from unmask.gateway.config.config import Config
from unmask.gateway.config.reading import read_config
from unmask.gateway.config.schema import ENGINE_KEYS, RENAMED
from unmask.gateway.config.wanted import LocalSource, RemoteSource
from unmask.params import GenerationParams
from unmask.service_class import ServiceClass

FULL = """
memory_budget: 8GiB
max_models: 3
idle_seconds: 10m
load_timeout: 90
log_dir: logs
models:
  tiny:
    path: unmask-tiny
    aliases: [little, "org/little:latest"]
    keep_alive: -1
    pinned: true
    preload: true
    canary: off
    context: 256
    threads: 2
    lora: {haiku: adapters/haiku}
    max_running: 4
    dtype: float32
    service_classes: {relaxed: {floor: 0.5, relaxes_at: 0.25}}
    defaults:
      temperature: 0
      max_tokens: 64
      stop: ["\\n\\n"]
      unmask: {rule: threshold, threshold: 0.8}
  chat:
    path: chat.Q4.gguf
    lane: llama.cpp
    slots: 4
    gpu_layers: 0
    keep_alive: 1h30m
    load_timeout: 5m
  far:
    url: https://api.example.com/v1/
    model: mercury
    api_key_env: MERCURY_KEY
    diffusing: true
    context: 8192
"""

TOML = """
memory_budget = "80%"
models_dir = "models"
[models.tiny]
path = "unmask-tiny"
keep_alive = 0
[models.tiny.defaults.unmask]
steps = 4
"""


def test_a_file_says_all_there_is_to_say(tmp_path):
    found = config(tmp_path, FULL)
    tiny, chat, far = found.models
    assert (found.path, found.log_dir, found.models_dir) == (tmp_path / "unmask.yaml", tmp_path / "logs", None)
    assert (found.memory_budget, found.max_models) == (MemoryBudget(amount=8 * 2**30), 3)
    assert (found.idle_seconds, found.load_timeout) == (600, 90)

    assert (tiny.source, tiny.aliases) == (LocalSource("unmask-tiny"), ("little", "org/little:latest"))
    assert tiny.names[-3:] == ("tiny:haiku", "little:haiku", "org/little:latest:haiku")
    assert (tiny.idle_seconds, tiny.pinned, tiny.preload, tiny.canary, tiny.load_timeout) == (
        None, True, True, False, 90,
    )  # fmt: skip
    assert tiny.defaults == GenerationParams(
        temperature=0, max_tokens=64, stop=("\n\n",), rule="threshold", threshold=0.8
    )
    assert tiny.origin == f"{tmp_path / 'unmask.yaml'}:8"

    assert chat.source == LocalSource(str(tmp_path / "chat.Q4.gguf"))
    assert (chat.lane, chat.idle_seconds, chat.load_timeout, chat.preload, chat.canary) == (
        "llama.cpp", 5400, 300, False, None,
    )  # fmt: skip
    options = chat.llama_cpp()
    assert (options.slots, options.gpu_layers, options.context, options.start_seconds) == (4, 0, 4096, 300)

    assert far.source == RemoteSource(
        url="https://api.example.com/v1",
        model="mercury",
        api_key_env="MERCURY_KEY",
        diffusing=True,
        paradigm="diffusion",
    )
    assert (far.idle_seconds, far.context) == (600, 8192)


def test_what_our_own_engine_is_started_with(tmp_path):
    options = config(tmp_path, FULL).models[0].own_engine()
    assert options == EngineOptions(
        model="unmask-tiny", max_context=256, threads=2, adapters={"haiku": str(tmp_path / "adapters/haiku")},
        max_running=4, dtype="float32", service_classes={"relaxed": ServiceClass(0.5, 0.25)},
    )  # fmt: skip
    base = EngineOptions(model="another", threads=7, kv_tokens=1024, max_running=9)
    above = config(tmp_path, FULL).models[0].own_engine(base)
    assert (above.model, above.threads, above.kv_tokens, above.max_running) == ("unmask-tiny", 2, 1024, 4)


def test_toml(tmp_path):
    found = config(tmp_path, TOML, "unmask.toml")
    assert (found.memory_budget, found.models_dir) == (MemoryBudget(share=0.8), tmp_path / "models")
    assert (found.models[0].idle_seconds, found.models[0].defaults.steps) == (0, 4)


@pytest.mark.parametrize("text", ["", "# nothing\n", "models:\n", "{}"])
def test_an_empty_file_says_nothing(tmp_path, text):
    assert config(tmp_path, text) == Config(path=tmp_path / "unmask.yaml")


def test_every_option_of_our_own_engine_has_a_key():
    """Which program computes a model is for 'lane' to say."""
    assert {*ENGINE_KEYS, *RENAMED, "model", "logits_workers"} == {field.name for field in fields(EngineOptions)}


@pytest.mark.parametrize(
    ("written_as", "meant"),
    [("1000000", 10**6), ("64KiB", 2**16), ("1.5 GiB", 3 * 2**29), ("2GB", 2 * 10**9), ("100%", 16 * 2**30)],
)
def test_budgets(tmp_path, written_as, meant):
    budget = config(tmp_path, f"memory_budget: {written_as}").memory_budget
    assert budget is not None
    assert budget.of(16 * 2**30) == meant


@pytest.mark.parametrize(
    "text", ["0", "-1", "101%", "0%", "8G", "80 percent", "true", "0.8", "1e30", "9" * 99 + "%", "[]"]
)
def test_what_is_no_budget(tmp_path, text):
    error = refusal(tmp_path, f"memory_budget: {text}")
    assert (error.param, error.code) == ("memory_budget", "invalid_config")
    assert "8GiB" in error.message


@pytest.mark.parametrize(("written_as", "meant"), [("0", 0), ("4096", 4096), ("4GiB", 2**32), ("1.5 kB", 1500)])
def test_sizes(tmp_path, written_as, meant):
    assert config(tmp_path, f"session_store: {written_as}").session_store == meant


@pytest.mark.parametrize("text", ["-1", "80%", "4G", "true", "1.5", "9999999TB", "[]", "1e30"])
def test_what_is_no_size(tmp_path, text):
    error = refusal(tmp_path, f"session_store: {text}")
    assert (error.param, error.code) == ("session_store", "invalid_config")
    assert "8GiB" in error.message


@pytest.mark.parametrize("text", ["-2", "5 minutes", "true", ".nan", ".inf", "-0.5", "400d", "'-1m'", "[1]", "{}"])
def test_what_is_no_time(tmp_path, text):
    assert refusal(tmp_path, f"idle_seconds: {text}").param == "idle_seconds"


@pytest.mark.parametrize("text", ["0", "-1", "2d", "soon"])
def test_what_is_no_time_to_load(tmp_path, text):
    assert refusal(tmp_path, f"load_timeout: {text}").param == "load_timeout"


MODEL = "models:\n  tiny:\n    path: unmask-tiny\n"

WRONG = [
    # text, param, line, words of message and hint
    (MODEL + "    slot: 2", "models.tiny.slot", 4, "no key of a model", "'slots'"),
    (MODEL + "    ttl: 60", "models.tiny.ttl", 4, "no key of a model", "'keep_alive'"),
    (MODEL + "    num_ctx: 60", "models.tiny.num_ctx", 4, "no key of a model", "'context'"),
    (MODEL + "    Max-Running: 60", "models.tiny.Max-Running", 4, "no key of a model", "'max_running'"),
    (MODEL + "    memory_budget: 60", "models.tiny.memory_budget", 4, "no key of a model", "the file as a whole"),
    (MODEL + "    temperature: 1", "models.tiny.temperature", 4, "no key of a model", "'defaults'"),
    (MODEL + "model_dir: x", "model_dir", 4, "no key of the file", "'models_dir'"),
    (MODEL + "quux: x", "quux", 4, "no key of the file", "Its keys are models, models_dir"),
    (MODEL + "    slots: two", "models.tiny.slots", 4, "is a text; it must be an integer", ""),
    (MODEL + "    slots: true", "models.tiny.slots", 4, "is true or false; it must be an integer", ""),
    (MODEL + "    slots: 2.5", "models.tiny.slots", 4, "is a number; it must be an integer", ""),
    (MODEL + "    slots: 0", "models.tiny.slots", 4, "at least 1", ""),
    (MODEL + "    pinned: 1", "models.tiny.pinned", 4, "is an integer; it must be true or false", ""),
    (MODEL + "    aliases: little", "models.tiny.aliases", 4, "is a text; it must be a list", ""),
    (MODEL + "    aliases: [ok, 'not ok']", "models.tiny.aliases[1]", 4, "is no name", ""),
    (MODEL + "    lora: {'a b': x}", "models.tiny.lora['a b']", 4, "is no name", "64"),
    (MODEL + "    path: other", "models.tiny.path", 3, "is there again in line 4", ""),
    (MODEL + "    device: meta", "models.tiny.device", 4, "no device", ""),
    (MODEL + "    max_running: 9999", "models.tiny.max_running", 4, "from 1 to 4096", ""),
    (MODEL + "    threads: 4096", "models.tiny.threads", 4, "at most 1024", ""),
    (MODEL + "    context: .nan", "models.tiny.context", 4, "integer", ""),
    (MODEL + "    defaults: {temperature: hot}", "models.tiny.defaults.temperature", 4, "a number", ""),
    (MODEL + "    defaults: {temperature: .inf}", "models.tiny.defaults.temperature", 4, "a finite number", ""),
    (MODEL + "    defaults: {treshold: 1}", "models.tiny.defaults.treshold", 4, "'defaults'", ""),
    (MODEL + "    defaults: {unmask: {treshold: 1}}", "models.tiny.defaults.unmask.treshold", 4, "", "'threshold'"),
    (MODEL + "    defaults: {unmask: {canvas: frames}}", "models.tiny.defaults.unmask.canvas", 4, "is no key", ""),
    (MODEL + "    service_classes: {a: {flor: 1}}", "models.tiny.service_classes.a.flor", 4, "", "'floor'"),
    (MODEL + "    service_classes: {a: {floor: 1}}", "models.tiny.service_classes.a.relaxes_at", 4, "is needed", ""),
    (MODEL + "    url: http://x/v1", "models.tiny", 2, "either 'path' or 'url'", ""),
    (MODEL + "    api_key_env: X", "models.tiny", 2, "'api_key_env' has no effect with 'path'", ""),
    ("models:\n  'a b': {path: x}", "models['a b']", 2, "is no name", "A-Z a-z 0-9 ._:/-"),
    ("models:\n  1: {path: x}", "models", 1, "the key 1, which is no text", "quotes"),
    ("models:\n  no: {path: x}", "models", 1, "the key False, which is no text", "quotes"),
    ("models:\n  a:", "models.a", 2, "is empty; it must be a mapping", ""),
    ("models: [a]", "models", 1, "is a list; it must be a mapping", ""),
    ("models:\n  a: {url: 'ftp://x', model: m}", "models.a.url", 2, "base URL", ""),
    ("models:\n  a: {url: http://x/v1}", "models.a", 2, "which 'model'", ""),
    ("models:\n  a: {url: http://x/v1, model: m, slots: 2}", "models.a", 2, "'slots' has no effect with 'url'", ""),
    ("models:\n  a: {url: http://x/v1, model: m, dtype: int}", "models.a", 2, "'dtype' has no effect with 'url'", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "param", "line", "words", "hint"), WRONG)
def test_what_is_wrong_is_named(tmp_path, text, param, line, words, hint):
    error = refusal(tmp_path, text)
    assert error.param == param
    assert error.message.startswith(f"{tmp_path / 'unmask.yaml'}:{line}: '{param}'")
    assert words in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "models: {a: {url: 'http://x/v1', model: m, api_key: sk-geheim}}",
        "models: {a: {url: 'http://x/v1', model: m, api_key_env: sk-geheim}}",
        "models: {a: {url: 'http://me:sk-geheim@x/v1', model: m}}",
        "models: {a: {url: 'http://x/v1?key=sk-geheim', model: m}}",
    ],
)
def test_keys_do_not_belong_into_the_file_and_are_not_shown(tmp_path, text):
    error = refusal(tmp_path, text)
    assert "geheim" not in str(error)
    assert (error.param or "").startswith("models.a.")


def laughing(form: str) -> str:
    """Lines that are short, and would grow ninefold each."""
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    return "\n".join(f"{later}: &{later} " + form.format(",".join([f"*{one}"] * 9)) for one, later in pairs)


NOT_YAML = {
    "a: b: c": "line 1",
    "a: [1, 2": "line",
    "\tx: 1": "line 1",
    "a: &x 1\nb: *y": "line 2",
    "a: 1\n---\nb: 2": "line",
    "a: !!python/object/apply:os.system [ls]": "tag",
    "a: !secret x": "tag",
    "a: !!binary aGk=": "tag",
    "a: !!int x": "tag",
    "a: !!float 'x'": "tag",
    "a: !!bool 'x'": "tag",
    "a: \x01": "not YAML",
    "- a": "no mapping",
    "just words": "no mapping",
    "a: 0b": "no key",
    "a: 2026-99-99": "no key",
    "<<: 1": "'<<'",
    "[" * 5_000: "levels deep",
    "a: " + "{b: " * 50 + "1" + "}" * 50: "levels deep",
    "models: &a [*a]": "levels deep",
    "a: &a {<<: *a}": "levels deep",
    "a: " + "9" * 5000: "over 100 characters",
    "x" * 300 + ": 1": "over 200 characters",
    "a: [" + "1," * 21_000 + "]": "over 20000 values",
    "a: &a [1,1,1,1,1,1,1,1,1]\n" + laughing("[{}]"): "over 20000 values",
    "a: &a {k: 1, l: 1, m: 1}\n" + laughing("{{<<: [{}]}}"): "over 20000 values",
}  # fmt: skip


@pytest.mark.parametrize("text", NOT_YAML)
def test_what_cannot_be_read_is_told(tmp_path, text):
    error = refusal(tmp_path, text)
    assert NOT_YAML[text] in f"{error.message} {error.hint}"
    assert len(error.message) < 700


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "a = " + "[" * 5_000, "a = 1979-13-01", "\x00"])
def test_what_is_not_toml_is_told(tmp_path, text):
    assert re.search("is not TOML|levels deep", refusal(tmp_path, text, "x.toml").message)


def test_a_date_of_toml_is_no_text(tmp_path):
    assert "is a date; it must be a text" in refusal(tmp_path, "models_dir = 1979-01-01", "x.toml").message


def test_a_name_may_look_like_a_date(tmp_path):
    assert config(tmp_path, "models:\n  2026-01-01: {path: x}").models[0].name == "2026-01-01"


def test_what_is_no_configuration_file(tmp_path):
    for path in (tmp_path / "x.json", tmp_path / "x.yaml", tmp_path, tmp_path / "y.toml" / "z.toml"):
        with pytest.raises(InvalidConfigError):
            read_config(path)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InvalidConfigError, match="regular"):
        read_config(tmp_path / "pipe.yaml")
    assert "256 KiB" in refusal(tmp_path, "#" * 2**19).message
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(InvalidConfigError, match="UTF-8"):
        read_config(tmp_path / "latin.yaml")


def test_mappings_are_merged_and_ones_own_keys_win(tmp_path):
    text = """
models:
  a: &a {path: unmask-tiny, threads: 1, pinned: true}
  b: &b {path: x, threads: 2}
  c: {<<: [*b, *a], threads: 3}
"""
    c = config(tmp_path, text).models[2]
    assert (c.source, c.threads, c.pinned) == (LocalSource(str(tmp_path / "x")), 3, True)


def test_paths_are_relative_to_the_file_and_what_exists_wins_over_the_hub(tmp_path, monkeypatch):
    text = "models: {a: {path: org/a}, b: {path: org/b}, c: {path: ./c}, d: {path: ~/d}, e: {path: unmask-tiny}}"
    (tmp_path / "org").mkdir()
    tiny_copy(tmp_path / "org" / "a")
    file = written(tmp_path, text)
    monkeypatch.chdir("/")
    models = [entry.source.model for entry in read_config(file).models]
    home = os.path.expanduser("~")
    assert models == [str(tmp_path / "org/a"), "org/b", str(tmp_path / "c"), f"{home}/d", "unmask-tiny"]
