"""An engine that comes back knows the prefixes it had, and its answers are what they would have been."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import time
from dataclasses import replace
from errno import EIO
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.engines import drain, generate, submit
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine import prefix_sessions
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.session_place import SessionPlace
from unmask.engine.wire import Session, Shutdown, Submit
from unmask.events import StepReport
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.session_store import SessionStore
from unmask.terms import PLAIN

FAMILIES = {
    "sdar": "sdar/ckpt",
    "llada2": "llada2/ckpt",
    "fast_dllm_v2": "fast_dllm_v2/ckpt",
    "diffusion_gemma": "diffusion_gemma/ckpt",
}


@pytest.fixture
def place(tmp_path) -> SessionPlace:
    return SessionPlace(str(tmp_path / "sessions"), 10**9)


def options_of(model: Path | str, **more) -> EngineOptions:
    return EngineOptions(model=str(model), threads=1, device="cpu", **more)


def make(model: Path | str, place: SessionPlace | None = None, **more) -> EngineLoop:
    """A loop, which has taken up what it had."""
    loop = EngineLoop(options_of(model, **more), place=place)
    loop.said = None if loop.sessions is None else loop.sessions.restore()
    return loop


def kept_in(place: SessionPlace) -> list[Path]:
    return sorted(Path(place.directory).iterdir())


def prompts(seed: int) -> list[list[int]]:
    """Some of which begin alike."""
    draw = random.Random(seed)

    def some(least: int, most: int) -> list[int]:
        return [draw.randrange(2, 240) for _ in range(draw.randint(least, most))]

    stems = [some(20, 200) for _ in range(3)]
    return [stem[: draw.randint(len(stem) // 2, len(stem))] + some(1, 40) for stem in draw.choices(stems, k=8)]


def short(loop: EngineLoop) -> dict:
    return {"temperature": 0.0, "max_tokens": 16, "block_length": 8} | (
        {"steps": 3} if loop.model.denoiser == "renoise" else {}
    )


def answers(loop: EngineLoop, asked: list[list[int]]) -> list[list[int]]:
    """Of all at once."""
    for number, prompt in enumerate(asked):
        submit(loop, str(number), prompt, **short(loop))
    results = drain(loop)
    return [results[str(number)].ids for number in range(len(asked))]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_what_they_would_have_been(golden, family, seed, place, tmp_path):
    """Through three lives, the last two of which begin with what the one before left."""
    model = served_copy(golden / FAMILIES[family], tmp_path)
    asked = prompts(seed)
    plain = make(model, prefix_cache=False)
    expected = [generate(plain, prompt, **short(plain)).ids for prompt in asked]
    known = 0
    for _ in range(3):
        loop = make(model, place)
        assert answers(loop, asked) == expected
        assert loop.stats.rows < plain.stats.rows or not known
        assert loop.said == Session("restored", known)
        saved = loop.sessions.save()
        assert saved.tokens >= known
        assert saved.reason == ""
        known = saved.tokens
    assert known > 100
    again = make(model, place)
    for prompt, ids in zip(asked, expected, strict=True):
        result = generate(again, prompt, **short(again))
        assert result.ids == ids
        assert result.stats.cached >= (len(prompt) - 1) // 32 * 32 - 32
    if loop.model.denoiser != "renoise":
        other = generate(again, asked[0], **short(again) | {"block_length": 16})
        assert other.stats.cached == 0, "other blocks are other keys"


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_whole_bidirectional_prompt_is_known_again(golden, family, place):
    """Whose last page is not full."""
    model, more = golden / family / "ckpt", {"attention": "block_causal"}
    asked = {"max_tokens": 40, "block_length": 8, "rule": "d2f", "ignore_eos": True}
    prompt = prompts(1)[0][:45]
    first = make(model, place, **more)
    expected = generate(first, prompt, **asked)
    first.sessions.save()
    result = generate(make(model, place, **more), prompt, **asked)
    assert result.ids == expected.ids
    assert result.stats.cached == 45 - first.model.shifted


def test_adapters_find_their_own(golden, place, tmp_path):
    """By what they are, not by their place in a list that was another one."""
    model, adapter = golden / "llada" / "ckpt", golden / "d2f" / "llada_adapter"
    other = shutil.copytree(adapter, tmp_path / "other")
    tensors = load_file(adapter / "adapter_model.safetensors")
    halved = {name: -0.5 * tensor if "lora_B" in name else tensor for name, tensor in tensors.items()}
    save_file(halved, other / "adapter_model.safetensors")
    prompt, adapters = prompts(1)[0][:45], {"one": str(adapter), "other": str(other)}

    def ask(loop: EngineLoop, name: str) -> tuple[list[int], int]:
        params = GenerationParams(max_tokens=16, block_length=8)
        loop.send(Submit("only", prompt, resolve(params, loop.models[name], len(prompt))))
        result = drain(loop)["only"]
        return result.ids, result.stats.cached

    first = make(model, place, adapters=adapters)
    expected = {name: ask(first, name)[0] for name in adapters}
    assert expected["one"] != expected["other"]
    first.sessions.save()
    again = make(model, place, adapters=adapters)
    swapped = make(model, place, adapters=dict(reversed(adapters.items())))
    for name in adapters:
        assert ask(again, name) == (expected[name], 45)
        assert ask(swapped, name) == (expected[name], 0)


@pytest.fixture
def model(golden, tmp_path) -> Path:
    return served_copy(golden / FAMILIES["sdar"], tmp_path / "sdar")


PROMPT = [(13 * i + 5) % 240 + 2 for i in range(150)]


@pytest.fixture
def kept(model, place) -> Path:
    """What a first life left."""
    loop = make(model, place)
    generate(loop, PROMPT, **short(loop))
    loop.sessions.save()
    (path,) = kept_in(place)
    return path


def cached_by(model, place, **more) -> int:
    loop = make(model, place, **more)
    return generate(loop, PROMPT, **short(loop)).stats.cached


def test_it_is_a_file_of_safetensors_for_its_user_alone(kept):
    assert kept.stat().st_mode & 0o777 == 0o600
    with safe_open(kept, "pt") as file:
        assert list(file.keys()) == [str(number) for number in range(5)]
        assert "prefixes" in file.metadata()


def test_another_model_knows_nothing_of_it(model, place, kept, tmp_path):
    assert cached_by(model, place) == 128
    assert cached_by(shutil.copytree(model, tmp_path / "copy"), place) == 0
    for more in ({"batch_invariant": True}, {"dtype": "bfloat16"}, {"quantize": "int8"}, {"max_context": 512}):
        assert cached_by(model, place, **more) == 0, more
    os.utime(model / "config.json")
    assert cached_by(model, place) == 0


def test_another_way_to_compute_knows_nothing_of_it(model, place, kept, monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")  # which rounds in another way
    assert make(model, place).said == Session("restored")


def test_what_changes_no_key_does_not_matter(model, place, kept):
    assert cached_by(model, place, max_running=3, kv_tokens=4096, max_context=0) == 128


def test_a_model_without_a_prefix_cache_keeps_nothing(model, place):
    assert make(model, place, prefix_cache=False).sessions is None


@pytest.mark.parametrize("harm", ["flipped", "cut", "emptied", "longer"])
def test_a_damaged_file_is_deleted(model, place, kept, harm):
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 8
    harmed = {"flipped": content, "cut": content[:-1], "emptied": b"", "longer": kept.read_bytes() + b"\0"}
    kept.write_bytes(harmed[harm])
    loop = make(model, place)
    assert loop.said == Session("restored", reason="a damaged file was deleted")
    assert kept_in(place) == []
    assert generate(loop, PROMPT, **short(loop)).stats.cached == 0


@pytest.mark.parametrize("harm", ["no header", "no index", "other shape", "a parent to come", "a token too few"])
def test_a_file_that_holds_something_else_is_deleted(model, place, kept, harm):
    """Whole by its digest: written by whoever."""
    content = kept.read_bytes()
    harmed = {
        "no header": b"\xff" * 1000,
        "no index": content.replace(b'"prefixes"', b'"prefixez"', 1),
        "other shape": content.replace(b'"U8"', b'"I8"', 1),
        "a parent to come": content.replace(b"[[-1,", b"[[09,", 1).replace(b"[[09,", b"[[9, ", 1),
        "a token too few": content.replace(b",32,", b",31,", 1),
    }[harm]
    assert harmed != content
    loop = make(model, place)
    store = loop.sessions._store()
    with store.draft(kept.name[:32], 0) as draft:
        draft.path.write_bytes(harmed)
        draft.seal(time.monotonic() + 10)
    loop = make(model, place)
    assert (loop.said.tokens, loop.said.reason[:36]) == (0, "a file that holds no prefixes was de")
    assert kept_in(place) == []
    loop.step()
    assert generate(loop, PROMPT, **short(loop)).stats.cached == 0


def test_a_file_that_cannot_be_read_is_left_alone(model, place, kept, monkeypatch):
    def intact(*_):
        raise OSError(EIO, os.strerror(EIO))

    monkeypatch.setattr(SessionStore, "intact", intact)
    loop = make(model, place)
    assert "Input/output error" in loop.said.reason
    assert kept.exists()
    assert generate(loop, PROMPT, **short(loop)).stats.cached == 0


def test_a_folder_that_others_may_write_to_is_not_used(model, place, kept):
    """The model is served without it."""
    Path(place.directory).chmod(0o777)
    loop = make(model, place)
    assert "others may write there" in loop.said.reason
    assert generate(loop, PROMPT, **short(loop)).stats.cached == 0
    assert "others may write there" in loop.sessions.save().reason


def test_little_room_keeps_what_was_used_last(model, place):
    """In the store first, then in the engine: of a chain the beginning, whatever is longer ago not at all."""
    old, new = PROMPT, [(17 * i + 3) % 240 + 2 for i in range(150)]
    loop = make(model, place)
    for prompt in (new, old, new):
        generate(loop, prompt, **short(loop))
    assert loop.sessions.save().tokens == 320
    whole = kept_in(place)[0].stat().st_size
    small = replace(place, most_bytes=whole * 2 // 3)
    loop.sessions = prefix_sessions.PrefixSessions(small, kept_in(place)[0].name[:32], loop._memory.prefixes,
                                                   loop._runner.cache)  # fmt: skip
    assert loop.sessions.save().tokens == 192
    assert kept_in(place)[0].stat().st_size <= small.most_bytes
    loop = make(model, place)
    assert [generate(loop, prompt, **short(loop)).stats.cached for prompt in (new, old)] == [128, 64]
    tiny = replace(place, most_bytes=1000)
    loop.sessions = prefix_sessions.PrefixSessions(tiny, "0" * 32, loop._memory.prefixes, loop._runner.cache)
    assert loop.sessions.save().reason


def test_an_engine_with_fewer_pages_takes_what_fits(model, place):
    loop = make(model, place)
    for number in range(8):
        generate(loop, [(number * 17 + i) % 240 + 2 for i in range(150)], **short(loop))
    saved = loop.sessions.save()
    small = make(model, place, max_running=1, kv_tokens=2 * loop.model.context_length // 32 * 32)
    assert 0 < small.said.tokens <= saved.tokens
    assert generate(small, [(7 * 17 + i) % 240 + 2 for i in range(150)], **short(small)).stats.cached == 128


def test_time_that_runs_out_keeps_what_is_written(model, place, monkeypatch):
    loop = make(model, place)
    generate(loop, PROMPT, **short(loop))
    ticks = iter(range(1000))
    monkeypatch.setattr(prefix_sessions, "SAVE_SECONDS", 6.0)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    saved = loop.sessions.save()
    monkeypatch.undo()
    assert 0 < saved.tokens < 128
    assert saved.reason == ""
    assert make(model, place).said.tokens == saved.tokens


def test_a_full_disk_leaves_what_was_there(model, place, kept):
    loop = make(model, place)
    generate(loop, PROMPT[::-1], **short(loop))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, before[1]))
    try:
        saved = loop.sessions.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (saved.tokens, "File too large" in saved.reason) == (0, True)
    assert kept_in(place) == [kept]
    assert cached_by(model, place) == 128


async def asked_of(engine: ProcessEngine, prompt: list[int]) -> tuple[list[int], int]:
    """The answer's ids, and how many tokens were known."""
    params = resolve(GenerationParams(temperature=0.0, max_tokens=16), engine.model, len(prompt))
    ids: list[int] = []
    with engine.submit([(prompt, params, PLAIN)]) as mailbox:
        while True:
            _, event = await mailbox.get()
            ids += event.token_ids
            if event.last:
                return ids, event.stats.cached


TINY = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, kv_tokens=20_000)
TINY_PROMPT = [1, *range(30, 100), 3]


async def test_an_engine_process_leaves_what_it_has_and_finds_it(place):
    told: list[Session] = []
    engine = await ProcessEngine.launch(TINY, place=place, on_session=told.append)
    first = await asked_of(engine, TINY_PROMPT)
    await engine.close()
    assert engine._process.returncode == 0
    assert [(one.action, one.tokens > 0, one.reason) for one in told] == [("restored", False, ""), ("saved", True, "")]
    engine = await ProcessEngine.launch(TINY, place=place, on_session=told.append)
    second = await asked_of(engine, TINY_PROMPT)
    await engine.close()
    assert second[0] == first[0]
    assert second[1] > first[1] == 0
    assert told[2] == Session("restored", told[1].tokens)


@pytest.mark.slow
async def test_an_engine_that_is_killed_leaves_nothing(place):
    engine = await ProcessEngine.launch(TINY, place=place)
    await asked_of(engine, TINY_PROMPT)
    engine._process.kill()
    await engine.close()
    assert kept_in(place) == []


@pytest.mark.slow
async def test_an_engine_whose_parent_is_gone_keeps_nothing(place):
    engine = await ProcessEngine.launch(TINY, place=place)
    await asked_of(engine, TINY_PROMPT)
    engine._writer.close()
    await asyncio.to_thread(engine._process.wait, 3)
    await engine.close()
    assert kept_in(place) == []


def test_what_runs_as_the_engine_ends_is_no_harm(model, place):
    """What of it is final is kept, and is right."""
    loop = make(model, place)
    submit(loop, "long", PROMPT, **short(loop) | {"max_tokens": 200, "ignore_eos": True})

    def stop(report: StepReport) -> None:
        if report.stats.steps == 20:
            loop.send(Shutdown())

    loop.run(stop)
    assert loop.sessions.save().tokens >= 128
    plain = make(model, prefix_cache=False)
    again = make(model, place)
    expected = generate(plain, PROMPT, **short(plain))
    result = generate(again, PROMPT, **short(again))
    assert (result.ids, result.stats.cached) == (expected.ids, 128)
