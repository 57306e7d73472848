"""Slow, obvious restatements of the commit rules' references, one block at a time.

A case is a dictionary: ``block`` has a score for each masked position and ``MISSING`` elsewhere, ``second`` the other
number that some rules go by; the rest are the segment's parameters. Rules give the set of positions that they commit.
"""

from __future__ import annotations

import math

MISSING = -1.0  # not masked


def by_confidence(block: list[float]) -> list[int]:
    """Masked positions, the most confident first, the leftmost of equals first."""
    return sorted((i for i, score in enumerate(block) if score != MISSING), key=lambda i: (-block[i], i))


def slow_low_confidence(case):
    return set(by_confidence(case["block"])[: case["quota"]])


def slow_threshold(case):
    order = by_confidence(case["block"])
    return {order[0]} | {i for i in order if case["block"][i] >= case["threshold"]}


def slow_factor(case):
    """Fast-dLLM's loop, word for word: thresholds 1 - f / (k + 1) with the first at -1, then the index corrections."""
    order = by_confidence(case["block"])
    n = len(order)
    thresholds = [1 - case["factor"] / (k + 1) for k in range(1, n + 1)]
    thresholds[0] = -1
    for j in range(n):
        if case["block"][order[j]] < thresholds[j]:
            break
    else:
        j = n - 1
    if j in (0, n - 1):
        j += 1
    return set(order[:j])


def slow_d2f(case):
    """The score only ranks; the second number, the probability, meets the threshold."""
    order = by_confidence(case["block"])
    above = {i for i in order if case["second"][i] > case["threshold"]}
    return above if above or not case["activated"] else {order[0]}


def slow_dynamic(case):
    order = by_confidence(case["block"])
    above = {i for i in order if case["block"][i] > case["threshold"]}
    return above if len(above) >= case["quota"] else slow_low_confidence(case)


def slow_sequential(case):
    return set([i for i, score in enumerate(case["block"]) if score != MISSING][: case["quota"]])


def slow_paced_threshold(case):
    """Fast-dLLM's Dream without a cache: of the k best, the first always, the others if they reach the threshold."""
    best = by_confidence(case["block"])[: case["quota"]]
    return {i for rank, i in enumerate(best) if rank == 0 or case["block"][i] >= case["threshold"]}


def slow_origin(case):
    """The block's numbers are draws."""
    return {i for i, draw in enumerate(case["block"]) if draw != MISSING and draw < case["share"]}


def slow_entropy_bound(case):
    """The block's numbers are entropies, taken in ascending order as long as those before are within the bound."""
    order = sorted((i for i, h in enumerate(case["block"]) if h != MISSING), key=lambda i: (case["block"][i], i))
    accepted, before = set(), 0.0
    for i in order:
        if before <= case["entropy_bound"]:
            accepted.add(i)
        before += case["block"][i]
    return accepted


def slow_eb(case):
    """The second number is the entropy; positions are added one by one, the surest first."""
    accepted: list[int] = []
    for i in by_confidence(case["block"]):
        entropies = [case["second"][j] for j in (*accepted, i)]
        if sum(entropies) - max(entropies) > case["entropy_bound"]:
            break
        accepted.append(i)
    return set(accepted)


def slow_local_leap(case):
    block, order = case["block"], by_confidence(case["block"])
    anchors = {i for i in order if block[i] >= case["anchor_threshold"]}
    near = {i for i in order if any(abs(i - anchor) <= case["radius"] for anchor in anchors)}
    return anchors | {i for i in near if block[i] >= case["threshold"]} | {order[0]}


def slow_hierarchy(case):
    block, order = case["block"], by_confidence(case["block"])
    chosen = {i for i in order if block[i] > case["threshold"]} | {order[0]}
    run: list[int] = []
    for i in range(len(block) + 1):
        if i < len(block) and block[i] != MISSING:
            run.append(i)
        elif run:
            best = max(run, key=lambda j: (block[j], -j))
            chosen |= {best} if block[best] > case["low_threshold"] else set()
            run = []
    return chosen


def slow_klass(case):
    """The second number, in thirds, stands for the forwards in which the distribution has not changed."""
    block, order = case["block"], by_confidence(case["block"])
    ready = {i for i in order if block[i] > case["threshold"] and case["second"][i] * 3 >= 2}
    return ready or slow_low_confidence(case)


def slow_prophet(case):
    """The second number is the gap."""
    order = by_confidence(case["block"])
    if sum(case["second"][i] for i in order) / len(order) > case["gap"]:
        return set(order)
    return set([i for i in order if i < case["inner"]][: case["quota"]])


def slow_saber(case):
    """The second number is the confidence at which the tokens that are not masked were committed."""
    block, order = case["block"], by_confidence(case["block"])
    kept = [case["second"][i] for i, score in enumerate(block) if score == MISSING]
    bar = math.fsum(kept) / len(kept) if kept else 1.0
    above = {i for i in order if block[i] > bar}
    return above if len(above) >= case["quota"] else slow_low_confidence(case)


def slow_wino(case):
    block, order = case["block"], by_confidence(case["block"])
    above = [i for i in order if block[i] > case["threshold"]]
    return set(above[: min(max(int(len(order) * 0.7), 5), 20)]) | {order[0]}


def slow_fallen(case, standing, commits):
    """Saber's backtracking; ``standing`` is how sure the model is now, ``second`` how sure it was."""
    drops = {i: case["second"][i] - standing[i] for i, score in enumerate(case["block"]) if score == MISSING}
    worst = sorted((i for i in drops if drops[i] > 0), key=lambda i: (-drops[i], i))
    return set(worst[: max(0, min(max(case["quota"] // 2, math.ceil(commits / 8)), commits - 1))])


def slow_unconfirmed(case, standing, commits):
    """WINO's verification."""
    decided = [i for i, score in enumerate(case["block"]) if score == MISSING]
    doubted = sorted((i for i in decided if standing[i] < case["verify_threshold"]), key=lambda i: (standing[i], i))
    return set(doubted[: max(0, commits - 1)])


# Rules that go by something of which less is surer; their score is its negative.
NEGATED = {"origin", "entropy_bound"}

SLOW = {
    "dynamic": slow_dynamic,
    "sequential": slow_sequential,
    "paced_threshold": slow_paced_threshold,
    "maskgit_plus": slow_low_confidence,
    "topk_margin": slow_low_confidence,
    "entropy": slow_low_confidence,
    "origin": slow_origin,
    "joint_threshold": slow_dynamic,
    "entropy_bound": slow_entropy_bound,
    "low_confidence": slow_low_confidence,
    "threshold": slow_threshold,
    "factor": slow_factor,
    "d2f": slow_d2f,
    "eb": slow_eb,
    "local_leap": slow_local_leap,
    "hierarchy": slow_hierarchy,
    "credit": slow_threshold,
    "klass": slow_klass,
    "prophet": slow_prophet,
    "saber": slow_saber,
    "wino": slow_wino,
}
