"""All models of a server, by the names that requests have for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from unmask.errors import ModelNotFoundError
from unmask.metrics import Metrics
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.extension import OWN_LANE
from unmask.serving.listing import Listing
from unmask.serving.model import Model
from unmask.serving.native_model import NativeModel
from unmask.serving.server_metrics import ServerMetrics
from unmask.shown import shown


class House:
    """The models that a server was started with; ``first`` is meant where a request names none."""

    def __init__(self, models: list[DiffusionModel]) -> None:
        self.models = models
        self.metrics = ServerMetrics(self._metrics)

    @property
    def names(self) -> list[str]:
        """All names, in the order in which they were given."""
        return [name for model in self.models for name in model.variants]

    @asynccontextmanager
    async def hold(self, name: str | None) -> AsyncIterator[Model]:
        """The model called ``name``, loaded for as long as it is held. Raises ``ModelNotFoundError``."""
        name = self.names[0] if name is None else name
        model = self._of(name)
        yield NativeModel(model, name, model.variants[name])

    def _of(self, name: str) -> DiffusionModel:
        for model in self.models:
            if name in model.variants:
                return model
        served = ", ".join(f"'{one}'" for one in self.names)
        raise ModelNotFoundError(f"Model {shown(name)} is not served here.", hint=f"Use {served}.", param="model")

    def listings(self) -> Iterator[Listing]:
        """All models."""
        for model in self.models:
            yield from model.listings()

    def show(self, name: str) -> Listing:
        """One of them. Raises ``ModelNotFoundError``."""
        return next(listing for listing in self._of(name).listings() if listing.name == name)

    def _metrics(self) -> Iterator[tuple[dict[str, str], Metrics]]:
        for model in self.models:
            yield {"model": model.name, "lane": OWN_LANE, "paradigm": "diffusion"}, model.metrics

    def check_ready(self) -> None:
        """Raises ``EngineUnavailableError`` unless requests can be served."""
        for model in self.models:
            model.check_alive()
