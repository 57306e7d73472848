"""The rules that no family brought along, through the engine: against slow decoders, batched and alone, to the end."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tests.decoding.slow_rules import MISSING, SLOW, slow_fallen, slow_unconfirmed
from tests.engines import absorb, drain, generate, make_loop, submit
from tests.golden.checkpoints import MASK_ID, served_copy
from unmask.decoding.rules import gap_bound
from unmask.engine.sequence import Sequence
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.models.base import AttentionGroup, StepContext
from unmask.params import RULE_TRAITS, SCORES, GenerationParams
from unmask.resolve import resolve

ADAPTIVE = ["eb", "local_leap", "hierarchy", "credit", "klass", "prophet", "saber", "wino"]
PROMPT = [5, 17, 60, 3, 99, 12, 41]

# Options at which random weights get every rule to do all that it can.
BOLD = {
    "eb": {"entropy_bound": 9.0},
    "local_leap": {"anchor_threshold": 0.6, "threshold": 0.4, "radius": 1},
    "hierarchy": {"threshold": 0.6, "low_threshold": 0.4},
    "credit": {"threshold": 0.7, "credit_weight": 0.9},
    "klass": {"threshold": 0.3, "kl_threshold": 0.25},
    "prophet": {"gap_threshold": 1.2},
    "saber": {"min_commits": 3},
    "wino": {"threshold": 0.4, "verify_threshold": 0.4},
}


@pytest.fixture(scope="module")
def llada(golden, tmp_path_factory):
    """Full attention, random weights."""
    return make_loop(served_copy(golden / "llada/ckpt", tmp_path_factory.mktemp("rules")), max_running=32)


@pytest.fixture(scope="module")
def block_causal(golden, tmp_path_factory):
    """The same weights, block by block."""
    path = served_copy(golden / "llada/ckpt", tmp_path_factory.mktemp("rules"))
    return make_loop(path, attention="block_causal", max_running=32)


@pytest.fixture(scope="module", params=["full", "block-causal"])
def random_weights(request, llada, block_causal):
    return {"full": llada, "block-causal": block_causal}[request.param]


@pytest.fixture(scope="module", params=["tiny", "full", "block-causal"])
def any_loop(request, loop, llada, block_causal):
    return {"tiny": loop, "full": llada, "block-causal": block_causal}[request.param]


class SlowDecoder:
    """One request, without batching, caches, segments, memories or shadow rows of the engine's kind.

    Whatever is remembered is a dictionary by position; every forward is dense, with a mask written cell by cell.
    """

    def __init__(self, model, params):
        self.model, self.params = model, params
        self.full = model.spec.attention == "full"
        self.tokens = PROMPT + [None] * params.max_tokens
        self.forwards = 0
        self.remembered: dict[int, dict] = {}

    def run(self) -> list[int]:
        first, block = len(PROMPT), self.params.block_length
        while None in self.tokens:
            start = first + (self.tokens.index(None) - first) // block * block
            self.step = 0
            self.remembered.clear()
            while None in self.tokens[start : start + block]:
                self.decide(start, min(start + block, len(self.tokens)))
                self.step += 1
        return self.tokens[first:]

    def decide(self, start: int, end: int) -> None:
        rule = self.params.rule
        within = range(start, len(self.tokens) if rule == "prophet" and self.full else end)
        shadows = [p for p in within if self.tokens[p] is not None] if rule == "wino" else []
        logits = self.logits(shadows)
        case = self.case(start, end)
        case["block"], case["second"], standing, proposed = [], [], [], []
        for p in within:
            token = self.tokens[p]
            row = logits[len(self.tokens) + shadows.index(p)] if p in shadows else logits[p]
            likeliest, probability, second = self.look(p, row, token)
            proposed.append(likeliest)
            case["block"].append(MISSING if token is not None else probability)
            standing.append(probability)
            case["second"].append(second)
        commits = SLOW[rule](case)
        remasks = {"saber": slow_fallen, "wino": slow_unconfirmed}.get(rule, lambda *_: set())
        for i in remasks(case, standing, len(commits)):
            self.tokens[within[i]] = None
        for i in commits:
            self.tokens[within[i]] = proposed[i]
        self.forwards += 1

    def look(self, p: int, row: torch.Tensor, token: int | None) -> tuple[int, float, float]:
        """What the rule sees of one position: its likeliest token, its (or the standing token's) score, the second."""
        row = row.clone()
        rule, mine = self.params.rule, self.remembered.setdefault(p, {"credit": {}, "calm": 0})
        precision = torch.float64 if rule in ("local_leap", "klass", "saber", "wino") else torch.float32
        if rule == "credit":
            top = int(likeliest_of(row))
            gain = float(torch.softmax(row, dim=-1)[top]) ** self.params.credit_power
            mine["credit"] = {t: c * self.params.credit_decay for t, c in mine["credit"].items()}
            mine["credit"][top] = mine["credit"].get(top, 0.0) + gain
            for t, c in mine["credit"].items():
                row[t] += self.params.credit_weight * float(np.log1p(c))
        probability = torch.softmax(row.to(precision), dim=-1)
        likeliest = likeliest_of(row)
        score = float(probability[likeliest if token is None else token])
        if rule == "eb":
            entropy = -float((probability * torch.log(probability + 1e-10)).sum())
            return likeliest, -entropy if self.params.score == "entropy" else score, entropy
        if rule == "klass":
            before = mine.get("p", torch.zeros_like(probability))
            divergence = (probability * (torch.log(probability + 1e-12) - torch.log(before + 1e-12))).sum()
            mine["calm"] = mine["calm"] + 1 if divergence < self.params.kl_threshold else 0
            mine["p"] = probability
            return likeliest, score, mine["calm"] / 3
        if rule == "prophet":
            best = sorted((float(x) for t, x in enumerate(row) if t != MASK_ID), reverse=True)
            return likeliest, score, best[0] - best[1]
        if token is None:
            mine["confidence"] = score
        return likeliest, score, mine.get("confidence", 0.0)

    def case(self, start: int, end: int) -> dict:
        params, answer = self.params, self.tokens[len(PROMPT) :] if self.full else self.tokens[start:end]
        progress = sum(token is not None for token in answer) / len(answer)
        length = end - start
        steps = min(params.steps, length)
        even = length // steps + (self.step < length % steps)
        return {
            "quota": {"saber": params.min_commits, "klass": even, "prophet": even}.get(params.rule, 1),
            "threshold": params.threshold,
            "entropy_bound": params.entropy_bound,
            "anchor_threshold": params.anchor_threshold,
            "radius": params.radius,
            "low_threshold": params.low_threshold,
            "verify_threshold": params.verify_threshold,
            "gap": gap_bound(params.gap_threshold, progress),
            "inner": length,
        }

    @torch.inference_mode()
    def logits(self, shadows: list[int]) -> torch.Tensor:
        """Of every position; then of a mask token at each of ``shadows``, which does not see what stands there."""
        length = len(self.tokens)
        ids = [MASK_ID if token is None else token for token in self.tokens] + [MASK_ID] * len(shadows)
        mask = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        for row in range(len(ids)):
            for key in range(len(ids)):
                if key >= length:
                    mask[row, key] = key == row
                elif row < length:
                    mask[row, key] = key < self.sees(row)
                else:
                    mask[row, key] = key < self.sees(shadows[row - length]) and key != shadows[row - length]
        rows = torch.arange(len(ids))
        group = AttentionGroup(slice(0, len(ids)), rows[None], mask[None, None])
        positions = torch.tensor([*range(length), *shadows])
        step = StepContext(torch.tensor(ids), positions, rows, [group])
        return self.model.head(self.model.forward(step, self.model.new_cache(len(ids)))).float()

    def sees(self, p: int) -> int:
        """How far a position looks: everywhere, or to the end of its own block, the prompt being one."""
        first, block = len(PROMPT), self.params.block_length
        if self.full:
            return len(self.tokens)
        return first if p < first else first + ((p - first) // block + 1) * block


def likeliest_of(row: torch.Tensor) -> int:
    allowed = row.clone()
    allowed[MASK_ID] = -torch.inf
    return int(allowed.argmax())


@pytest.mark.parametrize("options", [{"block_length": 24}, {"block_length": 8}], ids=["one block", "blocks"])
@pytest.mark.parametrize("rule", [*ADAPTIVE, "eb by probability"])
def test_the_engine_decodes_as_the_slow_decoder(random_weights, rule, options):
    rule, by = rule.split()[0], {"score": "probability"} if " by " in rule else {}
    options = {"rule": rule, "max_tokens": 24, "ignore_eos": True} | options | by | BOLD[rule]
    params = resolve(GenerationParams(**options), random_weights.model, len(PROMPT))
    slow = SlowDecoder(random_weights._runner.model, params)
    expected = slow.run()
    result = generate(random_weights, PROMPT, **options)
    assert result.ids == expected
    assert result.stats.forwards == slow.forwards
    assert 1 < slow.forwards < 24, "neither all at once nor one by one: the rule had something to decide"


def requests(loop, **common):
    """Every adaptive rule, and some others, with different prompts, blocks, lengths, caches, end tokens, guidance."""
    rng = random.Random(11)
    for number, rule in enumerate([*ADAPTIVE, "threshold", "low_confidence", *ADAPTIVE]):
        if rule not in loop.model.rules:
            continue
        prompt = [1, *(rng.randrange(20, 200) for _ in range(rng.randint(1, 40)))]
        options = {"rule": rule, "max_tokens": rng.choice([16, 24, 33]), "block_length": rng.choice([8, 16])}
        caches = [name for name in loop.model.caches if name != "delayed" or not RULE_TRAITS[rule].revises]
        options |= {"ignore_eos": rng.random() < 0.5, "cache": rng.choice(caches)}
        options |= {"end_tokens": rng.choice(["free", "last", "never"])}
        options |= {"cfg_scale": rng.choice([0.0, 0.8])} if rule != "wino" else {}
        options |= BOLD.get(rule, {}) if number % 2 else {}
        yield str(number), prompt, options | common


def outcome(result):
    return result.ids, result.finish, result.error, result.stats.forwards, result.stats.committed


@pytest.mark.parametrize("common", [{}, {"temperature": 0.9, "top_p": 0.9, "seed": 4}], ids=["greedy", "sampled"])
def test_mixed_rules_equal_their_solo_runs(any_loop, common):
    """Eight rules and more in one forward; they join one by one, so no two are at the same step of their blocks."""
    jobs = list(requests(any_loop, **common))
    alone = {name: outcome(generate(any_loop, prompt, **options)) for name, prompt, options in jobs}
    results = {}
    for name, prompt, options in jobs:
        submit(any_loop, name, prompt, **options)
        absorb(any_loop.step(), results)
    drain(any_loop, results)
    assert {name: outcome(result) for name, result in results.items()} == alone
    assert not any(error for _, _, error, *_ in alone.values())


@pytest.mark.parametrize("rule", ADAPTIVE)
@pytest.mark.parametrize("bold", [False, True], ids=["defaults", "bold"])
def test_every_forward_gains_a_token(any_loop, rule, bold, monkeypatch):
    """So a request takes at most as many forwards as it has positions; and no mask is left."""
    gains, told = [], []
    apply = Sequence.apply

    def watched(sequence, *arguments):
        gains.append(apply(sequence, *arguments))
        told.append(sequence.canvas.tokens[len(PROMPT) : sequence.canvas.text_end].tolist())
        return gains[-1]

    monkeypatch.setattr(Sequence, "apply", watched)
    options = {"max_tokens": 32, "block_length": 16, "ignore_eos": True} | (BOLD[rule] if bold else {})
    result = generate(any_loop, PROMPT, rule=rule, **options)
    assert result.error is None
    assert len(result.ids) == 32
    assert any_loop.model.mask_id not in result.ids
    assert min(gains) >= 1
    assert len(gains) <= sum(gains)
    assert all(result.ids[: len(text)] == text for text in told), "what was told does not change"


@pytest.mark.parametrize("rule", ["saber", "wino"])
def test_tokens_are_really_taken_back(llada, rule, monkeypatch):
    taken = []
    apply = Sequence.apply

    def watched(sequence, window, decision, now):
        taken.extend(decision.masked_again)
        assert sequence.canvas.text_end in (len(PROMPT), len(PROMPT) + 8, len(PROMPT) + 16)
        return apply(sequence, window, decision, now)

    monkeypatch.setattr(Sequence, "apply", watched)
    result = generate(llada, PROMPT, rule=rule, max_tokens=24, block_length=8, ignore_eos=True, **BOLD[rule])
    assert taken
    assert result.stats.committed == 24, "a token that was taken back is counted once"


@pytest.mark.parametrize("rule", [rule for rule in RULE_TRAITS if "threshold" in RULE_TRAITS[rule].options])
def test_a_threshold_that_nothing_meets_ends_all_the_same(llada, rule):
    if rule not in llada.model.rules:
        pytest.skip("not a rule of this family")
    strict = {"verify_threshold": 1.0} if rule == "wino" else {}
    result = generate(llada, PROMPT, rule=rule, threshold=0.99, max_tokens=32, ignore_eos=True, **strict)
    assert len(result.ids) == 32
    assert result.stats.forwards <= 32


def test_a_memory_is_kept_by_the_request_and_goes_with_it(llada):
    submit(llada, "klass", PROMPT, rule="klass", max_tokens=32, block_length=16)
    submit(llada, "plain", PROMPT, rule="threshold", max_tokens=32, block_length=16)
    llada.step()
    running = llada._scheduler.running
    memory = running["klass"].rule_memory
    assert sum(tensor.nbytes for tensor in memory.kept.values()) == running["klass"].kept_bytes
    assert running["plain"].rule_memory is None
    assert running["plain"].kept_bytes == 0
    drain(llada)


@pytest.mark.parametrize("score", ["margin", "entropy"])
@pytest.mark.parametrize(("rule", "twin"), [("low_confidence", {"margin": "topk_margin", "entropy": "entropy"})])
def test_the_score_ranks(llada, rule, twin, score):
    """In one step per token both Dream's rules and this one take the best by the same score, but for Dream's pace."""
    options = {"max_tokens": 16, "block_length": 16, "ignore_eos": True}
    chosen = generate(llada, PROMPT, rule=rule, score=score, **options)
    plain = generate(llada, PROMPT, rule=rule, **options)
    by_dream = generate(llada, PROMPT, rule=twin[score], **options)
    assert chosen.ids != plain.ids
    assert chosen.ids == by_dream.ids


def test_the_score_of_d2f_only_forces(loop):
    """Where all is sure, the score makes no difference; the threshold is met by the probability."""
    options = {"rule": "d2f", "max_tokens": 32, "ignore_eos": True, "end_tokens": "never"}
    assert len({generate(loop, PROMPT, threshold=0.0, score=s, **options).stats.forwards for s in SCORES}) == 1
    slow = {s: generate(loop, PROMPT, threshold=1.0, score=s, **options) for s in SCORES}
    assert len({tuple(result.ids) for result in slow.values()}) > 1
    assert all(result.stats.forwards <= 32 for result in slow.values())


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"rule": "threshold", "score": "margin"}, "score"),
        ({"rule": "low_confidence", "score": "best"}, "score"),
        ({"rule": "low_confidence", "score": 1}, "score"),
        ({"rule": "local_leap", "radius": -1}, "radius"),
        ({"rule": "eb", "threshold": 0.5}, "threshold"),
        ({"rule": "credit", "credit_decay": 1.5}, "credit_decay"),
        ({"rule": "wino", "cfg_scale": 1.0}, "cfg_scale"),
        ({"rule": "klass", "kl_threshold": -1.0}, "kl_threshold"),
        ({"rule": "saber", "min_commits": 0}, "min_commits"),
        ({"rule": "d2f", "gap_threshold": 1.0}, "gap_threshold"),
    ],
)
def test_options_without_effect_are_refused(loop, params, field):
    with pytest.raises((InvalidValueError, UnsupportedValueError)) as caught:
        resolve(GenerationParams(**params), loop.model, 10)
    assert caught.value.param == field


def test_a_rules_own_defaults_go_before_the_familys(golden, tmp_path):
    """LLaDA2's threshold of 0.95 is meant for its own rules."""
    model = make_loop(served_copy(golden / "llada2/ckpt", tmp_path)).model
    assert resolve(GenerationParams(rule="dynamic"), model, 1).threshold == 0.95
    assert resolve(GenerationParams(rule="local_leap"), model, 1).threshold == 0.75
    assert resolve(GenerationParams(rule="local_leap", threshold=0.8), model, 1).threshold == 0.8


def test_shifted_families_do_not_offer_shadows(golden, tmp_path):
    model = make_loop(served_copy(golden / "dream/ckpt", tmp_path)).model
    assert "wino" not in model.rules
    assert "saber" in model.rules


def test_shadows_have_room_at_the_end_of_the_context():
    """They need slots of their own, and a request that fills the context is served all the same."""
    loop = make_loop("unmask-tiny", kv_tokens=256, max_context=128)
    for name in "ab":
        submit(loop, name, [1, *range(20, 83)], rule="wino", max_tokens=64, block_length=64, ignore_eos=True)
    assert [len(result.ids) for result in drain(loop).values()] == [64, 64]
