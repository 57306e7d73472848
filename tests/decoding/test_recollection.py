"""What rules remember, against dictionaries that remember everything."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.decoding.kept import KEPT, kept_bytes
from unmask.decoding.propose import propose
from unmask.decoding.recollection import RECOLLECTIONS, Recall, RuleMemory
from unmask.decoding.rules import RULES

VOCAB, MASK, BLOCK = 12, 11, 4
OPTIONS = {"credit_weight": 0.7, "credit_power": 0.2, "credit_decay": 0.8, "kl_threshold": 0.05}


def recall(rule: str, looks: list[tuple[RuleMemory, list[int]]]) -> Recall:
    """The rows of several requests: their memories, and the positions that each looks at."""
    recollection = RECOLLECTIONS[rule]
    runs = [(memory, torch.from_numpy(memory.lines(np.array(positions)))) for memory, positions in looks]
    known = np.concatenate([memory.take(np.array(positions)) for memory, positions in looks])
    options = {name: torch.full((len(known),), OPTIONS[name], dtype=torch.float64) for name in recollection.options}
    return Recall(recollection, runs, torch.from_numpy(known), options)


def look(rule: str, logits: torch.Tensor, looks, decided=None):
    scoring = RULES[rule].scoring
    return propose(logits.clone(), MASK, scoring, decided=decided, recall=recall(rule, looks))


def new_memory(rule: str) -> RuleMemory:
    return RuleMemory(rule, BLOCK, VOCAB, torch.device("cpu"))


@st.composite
def visits(draw):
    """Forwards of two requests: the positions of their current block that are looked at, some left out, and logits."""
    steps = []
    for block in draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)):
        for _ in range(draw(st.integers(1, 4))):
            chosen = [
                sorted(draw(st.sets(st.integers(block * BLOCK, (block + 1) * BLOCK - 1), min_size=1))) for _ in range(2)
            ]
            steps.append((chosen, draw(st.integers(0, 2**31))))
    return steps


def play(rule, steps):
    """Each step's proposals and what every row was."""
    memories = [new_memory(rule), new_memory(rule)]
    for chosen, seed in steps:
        rows = [(number, position) for number in range(2) for position in chosen[number]]
        # Coarse logits, so that the likeliest token often stays the same; and some distributions change little.
        generator = torch.Generator().manual_seed(seed % 5)
        logits = torch.randn(len(rows), VOCAB, generator=generator).round() + torch.rand(1, generator=generator) * 0.1
        logits[:, seed % VOCAB] += 1.5
        yield rows, logits, look(rule, logits, list(zip(memories, chosen, strict=True)))


class Forgetful(dict):
    """What each request knows of the positions of its block: nothing of those that another block's replaced."""

    def of(self, row):
        number, position = row
        stale = [old for old in self if old[0] == number and old != row and old[1] % BLOCK == position % BLOCK]
        for old in stale:
            del self[old]
        return self.setdefault(row, {})


@settings(deadline=None, max_examples=50)
@given(steps=visits())
def test_credit_equals_a_dictionary_of_all_tokens(steps):
    memory = Forgetful()
    for rows, logits, proposals in play("credit", steps):
        for index, row in enumerate(rows):
            credit = memory.of(row)
            probability = torch.softmax(logits[index], dim=-1)
            top = max((t for t in range(VOCAB) if t != MASK), key=lambda t: (float(logits[index, t]), -t))
            for token in credit:
                credit[token] *= 0.8
            credit[top] = credit.get(top, 0.0) + float(probability[top]) ** 0.2
            fused = logits[index].double().clone()
            for token, value in credit.items():
                fused[token] += 0.7 * np.log1p(value)
            after = torch.softmax(fused, dim=-1)
            assert proposals.score[index] == pytest.approx(float(after[proposals.token[index]]), rel=1e-5)
            assert after[proposals.token[index]] >= (1 - 1e-6) * max(after[t] for t in range(VOCAB) if t != MASK)


@settings(deadline=None, max_examples=50)
@given(steps=visits())
def test_stability_equals_a_dictionary_of_distributions(steps):
    memory = Forgetful()
    for rows, logits, proposals in play("klass", steps):
        for index, row in enumerate(rows):
            known = memory.of(row)
            now = torch.softmax(logits[index].double(), dim=-1).numpy()
            before = known.get("p", np.zeros(VOCAB))
            divergence = float((now * (np.log(now + 1e-12) - np.log(before + 1e-12))).sum())
            known["p"] = now
            known["calm"] = known.get("calm", 0) + 1 if divergence < 0.05 else 0
            assert proposals.second[index] == known["calm"]


def test_stability_is_met_sometimes():
    """The property above does not hold of nothing."""
    memory, logits = new_memory("klass"), torch.randn(1, VOCAB)
    counts = [int(look("klass", logits + 0.01 * n, [(memory, [0])]).second) for n in (0, 1, 2, 300)]
    assert counts == [0, 1, 2, 3]
    assert int(look("klass", -logits, [(memory, [0])]).second) == 0


def test_a_decided_token_keeps_the_confidence_at_which_it_was_committed():
    memory = new_memory("saber")
    first = look("saber", torch.randn(2, VOCAB), [(memory, [0, 1])], decided=torch.tensor([-1, -1]))
    token = int(first.token[0])
    logits = torch.randn(2, VOCAB)
    second = look("saber", logits, [(memory, [0, 1])], decided=torch.tensor([token, -1]))
    assert second.second[0] == first.score[0]
    assert second.token[0] == token
    assert second.score[0] == pytest.approx(float(torch.softmax(logits[0].double(), dim=-1)[token]))
    assert second.second[1] == second.score[1], "a mask's is always the latest"


@pytest.mark.parametrize("rule", sorted(KEPT))
def test_memory_takes_what_was_announced(rule):
    memory = new_memory(rule)
    assert sum(tensor.nbytes for tensor in memory.kept.values()) == kept_bytes(rule, BLOCK, VOCAB) > 0
    assert kept_bytes("threshold", BLOCK, VOCAB) == 0


@pytest.mark.parametrize("rule", sorted(KEPT))
def test_a_deep_copy_is_a_memory_of_its_own(rule):
    memory = new_memory(rule)
    logits = torch.randn(4, VOCAB)
    decided = torch.full((4,), -1)
    look(rule, logits, [(memory, [0, 1, 2, 3])], decided)
    fork = deepcopy(memory)
    look(rule, -logits, [(fork, [0, 1, 2, 3])], decided)
    a, b = (look(rule, logits, [(each, [0, 1, 2, 3])], decided) for each in (memory, fork))
    c = look(rule, logits, [(deepcopy(memory), [0, 1, 2, 3])], decided)
    changed = rule == "saber" or not torch.equal(a.score, b.score) or not torch.equal(a.second, b.second)
    assert changed
    assert c.token.tolist() == a.token.tolist()


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_credit_forgets_the_least_when_full(data):
    """A position whose likeliest token keeps changing: the credit of the last ones stays, of whatever came before."""
    vocab = 40
    memory = RuleMemory("credit", 1, vocab, torch.device("cpu"))
    tokens = data.draw(st.lists(st.integers(0, vocab - 2), min_size=20, max_size=60))
    for token in tokens:
        logits = torch.zeros(1, vocab)
        logits[0, token] = 8.0
        propose(logits, vocab - 1, RULES["credit"].scoring, recall=recall("credit", [(memory, [0])]))
    exact: dict[int, float] = {}
    for token in tokens:
        exact = {t: value * 0.8 for t, value in exact.items()}
        gain = float(torch.softmax(torch.tensor([8.0] + [0.0] * (vocab - 1)), dim=-1)[0]) ** 0.2
        exact[token] = exact.get(token, 0.0) + gain
    kept = dict.fromkeys(range(vocab), 0.0)
    for token, value in zip(memory.kept["tokens"][0].tolist(), memory.kept["credits"][0].tolist(), strict=True):
        kept[token] += value
    # The least of 16 tokens was last the likeliest 16 forwards ago: the sum of all 0.8 ** n from there on.
    assert all(kept[token] == pytest.approx(value, abs=0.15) for token, value in exact.items())
