"""Keys and values computed once: shared prompts are not computed again, and nobody's answer changes for it."""

from __future__ import annotations

import pytest

from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from unmask.engine import wire

SHARERS = {
    "sdar": "sdar/ckpt",
    "llada2": "llada2/ckpt",
    "fast_dllm_v2": "fast_dllm_v2/ckpt",
    "diffusion_gemma": "diffusion_gemma/ckpt",
}
SYSTEM = [(13 * i + 5) % 240 + 2 for i in range(300)]


def _question(number: int) -> list[int]:
    return [(7 * number + 3 * i) % 240 + 2 for i in range(5 + number % 20)]


@pytest.fixture(scope="module", params=SHARERS)
def path(request, golden, tmp_path_factory):
    return served_copy(golden / SHARERS[request.param], tmp_path_factory.mktemp("sharer"))


def _short(loop):
    return {"temperature": 0.0, "max_tokens": 8, "block_length": 8} | (
        {"steps": 3} if loop.model.denoiser == "renoise" else {}
    )


def _serve_all(loop, count=100):
    for number in range(count):
        submit(loop, str(number), SYSTEM + _question(number), **_short(loop))
    return drain(loop)


def test_a_shared_system_prompt_is_computed_once(path):
    """100 requests at once; the same without the cache is what their answers are compared with."""
    plain = make_loop(path, prefix_cache=False, max_running=16)
    sharing = make_loop(path, max_running=16)
    expected, results = _serve_all(plain), _serve_all(sharing)
    for name, result in expected.items():
        assert results[name].ids == result.ids
        assert result.stats.cached == 0
    prompt_tokens = sum(len(SYSTEM) + len(_question(number)) for number in range(100))
    cached = sum(result.stats.cached for result in results.values())
    assert cached / prompt_tokens >= 0.8
    assert plain.stats.rows - sharing.stats.rows == cached, "what is said to be cached is not computed"


def test_a_conversation_goes_on_where_it_was(path):
    """The answer's own blocks are known when it comes back as part of the next prompt."""
    loop, plain = make_loop(path), make_loop(path, prefix_cache=False)
    options = _short(loop) | {"max_tokens": 100, "ignore_eos": True}
    first = generate(loop, SYSTEM[:90], **options)
    again = SYSTEM[:90] + first.ids + _question(3)
    second = generate(loop, again, **options)
    assert second.stats.cached >= 128
    assert second.ids == generate(plain, again, **options).ids


def test_other_blocks_are_other_keys(path):
    """What a token's keys and values depend on is its block, so requests share only if their blocks are equal."""
    loop = make_loop(path)
    if loop.model.denoiser == "renoise":
        pytest.skip("its prompt is causal whatever the canvas is")
    generate(loop, SYSTEM, **_short(loop))
    assert generate(loop, SYSTEM, **_short(loop)).stats.cached > 0
    other = _short(loop) | {"block_length": 16}
    assert generate(loop, SYSTEM, **other).stats.cached == 0
    assert generate(loop, SYSTEM, **_short(loop) | {"cfg_scale": 0.5}).stats.cached == 0


def test_little_room_forgets_the_oldest(path):
    """Prompts of which two fit: they come and go, and every answer is right."""
    loop = make_loop(path, max_context=256, kv_tokens=512)
    plain = make_loop(path, max_context=256, prefix_cache=False)
    prompts = [[(n * 17 + i) % 240 + 2 for i in range(130 + n)] for n in range(7)]
    expected = [generate(plain, prompt, **_short(plain)).ids for prompt in prompts]
    for number in [*range(7), *reversed(range(7)), *range(7)]:
        assert generate(loop, prompts[number], **_short(loop)).ids == expected[number]
    assert loop.step().stats.pages_idle > 0


@pytest.mark.parametrize("length", [5, 32, 33, 64])
@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_whole_bidirectional_prompt_is_known_again(golden, family, length):
    """Under D2F each prompt token depends on the whole prompt: only the same prompt is known."""
    loop = make_loop(golden / family / "ckpt", attention="block_causal")
    plain = make_loop(golden / family / "ckpt", attention="block_causal", prefix_cache=False)
    prompt = SYSTEM[:length]
    options = {"max_tokens": 40, "block_length": 8, "rule": "d2f", "ignore_eos": True}
    expected = generate(plain, prompt, **options)
    for number in range(3):
        result = generate(loop, prompt, **options)
        assert result.ids == expected.ids
        assert result.stats.forwards == expected.stats.forwards
        assert result.stats.cached == (length - loop.model.shifted if number else 0)
    assert generate(loop, [*prompt, 9], **options).stats.cached == 0


def test_adapters_do_not_share(golden, tmp_path):
    """Keys and values of one model are not those of another."""
    loop = make_loop("unmask-tiny")
    prompt = [1, *range(30, 60), 3]
    assert generate(loop, prompt).stats.cached == 0
    assert generate(loop, prompt).stats.cached == len(prompt)


def test_cancelling_the_first_of_many_lets_the_others_go_on(path):
    """They wait for its prefill; when it goes, one of them does it."""
    loop = make_loop(path, max_running=16, max_rows=64)
    for number in range(6):
        submit(loop, str(number), SYSTEM + _question(number), **_short(loop))
    for number in range(3):
        loop.step()
        loop.send(wire.Cancel(str(number)))
    results = drain(loop)
    assert set(results) >= {"3", "4", "5"}
    assert not any(result.error for result in results.values())
