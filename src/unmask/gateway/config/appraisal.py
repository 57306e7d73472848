"""What the entries are: of each its card, and the lane that it goes to or why it goes to none."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unmask.errors import InvalidCheckpointError, LaneMissingError
from unmask.gateway.config.effect import without_effect
from unmask.gateway.config.engine_args import refused_arguments
from unmask.gateway.config.side_by_side import side_by_side
from unmask.gateway.config.wanted import RemoteSource, WantedModel
from unmask.gateway.lane import Lane
from unmask.gateway.routing import Route, route
from unmask.models.card import ModelCard, inspect_model
from unmask.refusal import Refusal

SECONDS = 20.0  # that reading the headers of one model may take

REMOTE = Lane(name="remote", kind="remote", formats=frozenset(), architectures={})


@dataclass(frozen=True, slots=True)
class Appraisal:
    """``found`` is where ``entry`` goes, or what an engine, or the configuration, has against it."""

    entry: WantedModel
    card: ModelCard
    found: Route | Refusal

    @property
    def lane(self) -> Lane | None:
        """The lane, if there is one."""
        return self.found.lane if isinstance(self.found, Route) else None

    @property
    def refusal(self) -> Refusal | None:
        """Why there is none."""
        return self.found if isinstance(self.found, Refusal) else None


def appraise(
    entries: Sequence[WantedModel], lanes: Sequence[Lane], *, environment: Mapping[str, str] = os.environ
) -> list[Appraisal]:
    """One appraisal of each entry, in their order. Raises nothing: what is wrong with one is its ``refusal``.

    Headers are read, of several models at once, and nothing is downloaded or asked over the network. Of a model that
    runs elsewhere only the variable of its key is looked for in ``environment``.
    """
    local = [entry for entry in entries if not isinstance(entry.source, RemoteSource)]
    cards = iter(side_by_side(_card, local, late=_late, seconds=SECONDS))
    return [
        _remote(entry, entry.source, environment)
        if isinstance(entry.source, RemoteSource)
        else _local(entry, next(cards), lanes)
        for entry in entries
    ]


def _local(entry: WantedModel, card: ModelCard, lanes: Sequence[Lane]) -> Appraisal:
    found = route(card, lanes, entry.lane)
    if isinstance(found, Route):
        found = without_effect(entry, found.lane.kind) or refused_arguments(entry, found.lane) or found
    return Appraisal(entry, card, found)


def _remote(entry: WantedModel, source: RemoteSource, environment: Mapping[str, str]) -> Appraisal:
    card = ModelCard(
        model=source.url,
        name=source.model,
        served=False,
        paradigm=source.paradigm,
        context_length=entry.context,
    )
    if source.api_key_env is not None and not environment.get(source.api_key_env):
        return Appraisal(entry, card, _keyless(entry, source.api_key_env))
    return Appraisal(entry, card, without_effect(entry, "remote") or Route(REMOTE))


def _keyless(entry: WantedModel, variable: str) -> Refusal:
    return Refusal(
        LaneMissingError.code,
        f"The key of the model '{entry.name}' is not there: the environment variable {variable} is not set.",
        f"Set {variable}, or leave 'api_key_env' out if the server wants no key.",
    )


def _card(entry: WantedModel) -> ModelCard:
    return inspect_model(_model(entry))


def _late(entry: WantedModel) -> ModelCard:
    refusal = Refusal(
        InvalidCheckpointError.code,
        f"The headers of '{_model(entry)}' were not read within {SECONDS:g} s.",
        "Is its disk, or the machine that it is on, reachable?",
    )
    return ModelCard(model=_model(entry), served=False, refusal=refusal)


def _model(entry: WantedModel) -> str:
    assert not isinstance(entry.source, RemoteSource)
    return entry.source.model
