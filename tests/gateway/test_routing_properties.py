"""What holds of every decision, for any card and any lanes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import UnmaskError
from unmask.gateway.lane import Lane
from unmask.gateway.routing import Route, route
from unmask.models.card import ModelCard
from unmask.refusal import Refusal
from unmask.shown import shown

# Few of each, so that what is drawn often fits together.
ARCHITECTURES = ("llada2", "llama\x1b[2J")
FORMATS = ("gguf", "safetensors")
WRITERS = ("diffusion", "autoregressive")
NAMES = ("unmask", "llama.cpp", "a", "b", "c")
KINDS = ("unmask", "llama.cpp", "logits_worker", "sglang", "vllm", "remote")
REASONS = {kind.code for kind in UnmaskError.__subclasses__()}


def refusals(*codes):
    return st.sampled_from([Refusal(code, "It is so.", "Do so.") for code in codes])


def cards_of(**fields):
    """Cards whose other fields are anything."""
    return st.builds(
        ModelCard,
        model=st.just("some/model"),
        name=st.sampled_from(("m", None)),
        format=st.sampled_from(FORMATS),
        architecture=st.sampled_from((*ARCHITECTURES * 3, None)),
        quantization=st.sampled_from((None, None, "awq", "mlx", "Q4_K")),
        suspect=st.sampled_from((None, "It may be another.")),
        evidence=st.sampled_from(((), ("key 'diffusion.x'",), ("x" * 500,) * 5)),
        **fields,
    )


SERVED = cards_of(served=st.just(True), intact=st.just(True), paradigm=st.just("diffusion"))
OBJECTED_TO = cards_of(
    served=st.just(False),
    intact=st.just(True),
    paradigm=st.sampled_from(WRITERS),
    refusal=refusals("unknown_architecture", "unsupported_quantization", "autoregressive_model", "invalid_checkpoint"),
)
BARRED = cards_of(
    served=st.just(False),
    intact=st.booleans(),
    paradigm=st.sampled_from(("encoder", "image", "adapter", "unknown")),
    refusal=refusals("not_a_text_model", "adapter_not_model", "unknown_architecture", "checkpoint_not_found"),
)
BROKEN = cards_of(
    served=st.just(False),
    intact=st.just(False),
    paradigm=st.sampled_from(WRITERS),
    refusal=refusals("invalid_checkpoint", "pickle_refused"),
)
CARDS = st.one_of(SERVED, SERVED, OBJECTED_TO, OBJECTED_TO, BARRED, BROKEN)

ADVERTISED = st.sampled_from((frozenset(ARCHITECTURES), *(frozenset({name}) for name in ARCHITECTURES)))
LANES = st.lists(
    st.builds(
        Lane,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        formats=st.sampled_from((frozenset(FORMATS), *(frozenset({name}) for name in FORMATS))),
        # Some say more than is true.
        architectures=st.fixed_dictionaries({}, optional=dict.fromkeys(WRITERS, ADVERTISED)),
        missing=st.sampled_from(("", "", "not here")),
        remedy=st.sampled_from(("", "install it")),
    ),
    min_size=2,
    max_size=len(NAMES),
    unique_by=lambda lane: lane.name,
).map(tuple)
WANTED = st.sampled_from((*[None] * len(NAMES), *NAMES, "nobody"))


@settings(max_examples=500)
@given(CARDS, LANES, WANTED)
def test_a_lane_serves_what_it_is_given(card, known, wanted):
    found = route(card, known, wanted)
    assert found == route(card, known, wanted)
    if isinstance(found, Refusal):
        return
    lane = found.lane
    assert lane in known
    assert not lane.missing
    assert wanted in (None, lane.name)
    assert card.format in lane.formats
    assert card.paradigm in ("diffusion", "autoregressive")
    assert card.architecture in lane.architectures[card.paradigm]
    assert card.intact
    if lane.kind == "unmask":
        assert card.served
    if card.format == "safetensors" and card.quantization is not None and lane.kind != "unmask":
        assert card.quantization != "mlx"
        assert lane.kind in ("sglang", "vllm")
    assert bool(found.warnings) == (card.suspect is not None)


@settings(max_examples=200)
@given(CARDS, LANES, WANTED)
def test_a_refusal_teaches(card, known, wanted):
    found = route(card, known, wanted)
    if isinstance(found, Route):
        return
    assert found.code in REASONS
    assert found.message
    assert found.remedy
    assert len(found.message) + len(found.remedy) < 3000
    if found is card.refusal:
        return
    assert card.intact
    for text in (found.message, found.remedy):
        assert card.paradigm in text
        assert (shown(card.architecture) if card.architecture is not None else "that it does not name") in text
        assert text.isprintable()


@settings(max_examples=200)
@given(CARDS, LANES, st.randoms(use_true_random=False), WANTED)
def test_only_the_order_of_lanes_that_could_be_taken_matters(card, known, random, wanted):
    """Those that would not be taken, alone among all, may stand anywhere; and missing ones may be left out."""
    found = route(card, known, wanted)
    could = [lane for lane in known if isinstance(route(card, (lane,)), Route)]
    others = [lane for lane in known if lane not in could]
    random.shuffle(others)
    mixed, left = [], list(could)
    while left or others:
        mixed.append((left if left and (not others or random.random() < 0.5) else others).pop(0))
    assert route(card, tuple(mixed), wanted) == found
    if isinstance(found, Route):
        assert route(card, tuple(lane for lane in mixed if not lane.missing), wanted) == found


@settings(max_examples=400)
@given(CARDS, LANES)
def test_there_is_a_lane_whenever_one_of_them_alone_would_do(card, known):
    alone = [lane for lane in known if isinstance(route(card, (lane,)), Route)]
    found = route(card, known)
    assert isinstance(found, Route) == bool(alone)
    own = [lane for lane in alone if lane.kind == "unmask"]
    if isinstance(found, Route):
        assert found.lane == (own or alone)[0]
