"""A model whose logits other processes give is decoded like one of ours: the same tokens, alone and beside others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.constraints.local import LocalCompiler
from tests.engine.test_families import FAMILIES
from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.logits_programs import logits_program
from unmask.checkpoints.directory import find_checkpoint
from unmask.checkpoints.prompts import PromptEncoder
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.logits_workers import LogitsWorkers
from unmask.models.logits_worker.served import worker_spec
from unmask.models.registry import describe
from unmask.params import GenerationParams

SEATS = {"diffusion_gemma": 2, "llada": 2}


@pytest.fixture(scope="module", params=SEATS)
def loops(request, golden, tmp_path_factory):
    """The model in our own engine, and in processes."""
    folder = tmp_path_factory.mktemp("elsewhere")
    path = served_copy(golden / FAMILIES[request.param], folder, tokenizer=True)
    workers = LogitsWorkers(program=logits_program(folder), count=SEATS[request.param])
    own = make_loop(path, max_running=16, max_context=192)
    elsewhere = make_loop(path, max_running=16, max_context=192, logits_workers=workers)
    compiler = LocalCompiler(PromptEncoder(str(path), own.model).tokenizer, own.model)
    yield own, elsewhere, compiler
    elsewhere.close()


def _settings(model):
    """Every other rule that is left, sampling, filters, guidance, drafts, blocks of any length."""
    chosen = [{"rule": rule} for rule in model.rules[::2]]
    chosen += [
        {"temperature": 1.0, "seed": 4},
        {"temperature": 0.7, "seed": 5, "top_p": 0.9, "top_k": 9},
        {"min_tokens": 6},
        {"max_tokens": 1},
        {"block_length": 5, "max_tokens": 13},
        {"logprobs": 3},
    ]
    if model.denoiser == "full":
        chosen += [{"cfg_scale": 0.7}, {"rule": "threshold", "lookahead": 3, "threshold": 0.05}]
    base = {"max_tokens": 12, "temperature": 0.0, "block_length": 8}
    return [base | ({"steps": 5} if model.denoiser == "renoise" else {}) | one for one in chosen]


def _prompts():
    return [[(7 * n + 11 * i) % 240 + 2 for i in range(n)] for n in (1, 8, 17, 40)]


def test_the_same_tokens_alone_and_beside_others(loops):
    own, elsewhere, _ = loops
    prompts = _prompts()
    jobs = {str(n): (prompts[n % len(prompts)], chosen) for n, chosen in enumerate(_settings(elsewhere.model))}
    natively = {name: generate(own, prompt, **chosen) for name, (prompt, chosen) in jobs.items()}
    alone = {name: generate(elsewhere, prompt, **chosen) for name, (prompt, chosen) in jobs.items()}
    for name, (prompt, chosen) in jobs.items():
        submit(elsewhere, name, prompt, **chosen)
    together = drain(elsewhere)
    for name, expected in natively.items():
        assert expected.error is None
        assert alone[name].ids == together[name].ids == expected.ids, jobs[name]
        assert alone[name].finish == together[name].finish == expected.finish
        assert alone[name].stats.forwards == together[name].stats.forwards == expected.stats.forwards
        assert together[name].stats.cached == 0


def test_what_an_answer_must_look_like(loops):
    own, elsewhere, compiler = loops
    constraint = compiler.compile(GenerationParams(regex=r"[a-f]{2,7}-[0-9]{1,3}"))
    for temperature in (0.0, 1.0):
        asked = {"regex": r"[a-f]{2,7}-[0-9]{1,3}", "temperature": temperature, "seed": 1, "max_tokens": 16}
        for loop in (own, elsewhere):
            submit(loop, "only", _prompts()[2], constraint, **asked)
        expected, found = drain(own)["only"], drain(elsewhere)["only"]
        assert expected.error is found.error is None
        assert expected.ids == found.ids


@settings(max_examples=8)
@given(st.data())
def test_any_request(loops, data):
    own, elsewhere, _ = loops
    prompt = data.draw(st.lists(st.integers(2, 249), min_size=1, max_size=60))
    asked = {
        "max_tokens": data.draw(st.integers(1, 40)),
        "block_length": data.draw(st.sampled_from((1, 4, 7, 16, 32))),
        "temperature": data.draw(st.sampled_from((0.0, 0.8))),
        "seed": data.draw(st.integers(0, 99)),
    }
    if own.model.denoiser == "renoise":
        asked["steps"] = data.draw(st.integers(1, 6))
        asked["t_max"] = data.draw(st.sampled_from((0.5, 0.8, 2.0)))
    else:
        asked["rule"] = data.draw(st.sampled_from(("threshold", "low_confidence", "saber")))
    assert generate(own, prompt, **asked).ids == generate(elsewhere, prompt, **asked).ids


def test_a_canvas_is_conditioned_on_the_one_before(loops, monkeypatch):
    """Else the tests above would show little."""
    own, elsewhere, _ = loops
    if own.model.denoiser != "renoise":
        pytest.skip("it builds on nothing")
    asked = {"max_tokens": 16, "temperature": 0.0, "steps": 5}
    expected = generate(own, _prompts()[2], **asked).ids
    answers = elsewhere._runner.model._pool.answers

    def forgetful(calls):
        for call in calls:
            call.trail = None
            object.__setattr__(call.question, "conditioned", False)
        return answers(calls)

    monkeypatch.setattr(elsewhere._runner.model._pool, "answers", forgetful)
    assert generate(elsewhere, _prompts()[2], **asked).ids != expected


def test_no_more_requests_run_than_processes_remember(loops):
    _, elsewhere, _ = loops
    for number in range(5):
        submit(elsewhere, str(number), [5, 6, 7], max_tokens=16, temperature=0.0)
    report = elsewhere.step()
    assert report.stats.running == (2 if elsewhere.model.denoiser == "renoise" else 5)
    assert len(drain(elsewhere)) == 5


def test_fields_that_would_do_something_else(loops):
    own, elsewhere, _ = loops
    if own.model.denoiser == "renoise":
        with pytest.raises(UnsupportedValueError, match="to which no bias is added") as error:
            generate(elsewhere, [5], logit_bias={7: 5.0})
        assert error.value.param == "logit_bias"
        return
    generate(elsewhere, [5], logit_bias={7: 5.0}, max_tokens=1)
    for field, value in {"rule": "wino", "cache": "prefix"}.items():
        assert value in getattr(own.model, f"{field}s")
        with pytest.raises(UnsupportedValueError) as error:
            generate(elsewhere, [5], **{field: value})
        assert error.value.param == field


@pytest.mark.parametrize("family", ["dream", "llada2", "sdar", "fast_dllm_v2"])
def test_families_that_need_more_than_logits_of_a_canvas(golden, tmp_path, family):
    path = served_copy(golden / FAMILIES[family], tmp_path)
    with pytest.raises(UnsupportedValueError, match="logits of its canvas alone") as error:
        worker_spec(describe(find_checkpoint(str(path))))
    assert error.value.param == "lane"


@pytest.mark.parametrize(
    "options",
    [{"quantize": "int8"}, {"dtype": "bfloat16"}, {"adapter": "a"}, {"adapters": {"a": "b"}}, {"batch_invariant": True},
     {"attention": "full"}],
)  # fmt: skip
def test_options_that_are_about_weights(options):
    with pytest.raises(InvalidValueError, match="another program computes") as error:
        make_loop("unmask-tiny", logits_workers=LogitsWorkers(program="/bin/false"), **options)
    assert error.value.param in options
