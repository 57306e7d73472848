"""Where a lane's server listens, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from unmask.answers.syntax import AnswerSyntax
from unmask.checkpoints.paradigm import Paradigm

# "diffusion": a server of llama.cpp for that, of its pull request 24427, which shares nothing with llama-server.
UpstreamKind = Literal["llama.cpp", "vllm", "sglang", "remote", "diffusion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that speaks OpenAI's API. ``lane`` names it to users; ``kind`` says what it understands besides.

    ``base_url`` as OpenAI's clients take it, up to ``/v1``. ``model``: the model's name there. ``key`` is sent in
    ``key_header``, to nobody else, and shown to nobody. ``snapshots``: it answers ``diffusing`` as Mercury does.
    ``tools``: it shows tools to the model; else they are spelled out for it. ``variables``: what its chat template
    reads, None if that is not known. ``syntax``: markers of reasoning and calls that it leaves in the content, so that
    they are read here; ``opens_reasoning``: its prompts end inside a reasoning block. ``context_length``: the most
    tokens that prompt and answer have there together, None if that is not known. ``at_once``: requests that it works
    on at the same time, None for any number. ``paradigm``: the model's, where its server tells. ``served``: what
    a model that runs elsewhere is called here.
    """

    lane: str
    kind: UpstreamKind
    base_url: str
    model: str
    key: str = field(default="", repr=False)
    key_header: str = "Authorization"
    snapshots: bool = False
    tools: bool = True
    variables: frozenset[str] | None = None
    syntax: AnswerSyntax | None = None
    opens_reasoning: bool = False
    context_length: int | None = None
    at_once: int | None = None
    paradigm: Paradigm = "unknown"
    served: str = ""

    @property
    def told(self) -> str:
        """The lane to users, who know a model elsewhere by its name and its address."""
        return f"Model '{self.served}' at {self.base_url}" if self.served else f"Lane '{self.lane}'"

    @property
    def look(self) -> str:
        """Where to look when it fails: a model elsewhere has its log there."""
        return "Check its 'url', and the server there." if self.kind == "remote" else "See its log."

    @property
    def headers(self) -> dict[str, str]:
        """What a request says besides its body."""
        own = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if not self.key:
            return own
        return own | {self.key_header: f"Bearer {self.key}" if self.key_header == "Authorization" else self.key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds a lane may take: until it is a request's turn (``queue``, None for no limit); to ``connect``; to
    ``begin`` its answer, its own queue and the prompt included;
    between two signs of progress within it (``stall``); to ``end`` its stream once it has said that it is over; and to
    take ``notice`` of a question that costs it nothing, while its requests get nowhere.

    Bytes that say nothing, as comments that keep a connection alive, are no progress.
    """

    queue: float | None = None
    connect: float = 10.0
    begin: float = 600.0
    stall: float = 120.0
    end: float = 5.0
    notice: float = 15.0
