"""All metrics of a server: its own, and those of each of its models, told apart by labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Metric, generate_latest
from prometheus_client.registry import Collector

from unmask.metrics import Metrics


class ServerMetrics:
    """``models`` gives the metrics of the models that have been loaded, each with its labels."""

    def __init__(self, models: Callable[[], Iterable[tuple[dict[str, str], Metrics]]]) -> None:
        self._registry = CollectorRegistry()
        self._responses = Counter("unmask_http_responses", "Responses.", ["status"], registry=self._registry)
        self._refusals = Counter(
            "unmask_http_refusals", "Requests turned away for their key.", ["reason"], registry=self._registry
        )
        self._warnings = Counter(
            "unmask_answer_warnings", "What seemed wrong with answers.", ["model", "kind"], registry=self._registry
        )
        self._cache = Counter(
            "unmask_response_cache", "Requests that it may answer.", ["model", "outcome"], registry=self._registry
        )
        self._registry.register(_Labelled(models))

    def response(self, status: int) -> None:
        """An HTTP response began."""
        self._responses.labels(status).inc()

    def refused(self, reason: str) -> None:
        """A request was turned away before it came to any model, for the ``reason`` of the error's code."""
        self._refusals.labels(reason).inc()

    def warned(self, model: str, kind: str) -> None:
        """Something seems wrong with an answer of ``model``."""
        self._warnings.labels(model, kind).inc()

    def looked_up(self, model: str, *, found: bool) -> None:
        """The response cache was asked for a request to ``model``."""
        self._cache.labels(model, "hit" if found else "miss").inc()

    def render(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _Labelled(Collector):
    """The metrics of several models as those of one server."""

    def __init__(self, models: Callable[[], Iterable[tuple[dict[str, str], Metrics]]]) -> None:
        self._models = models

    def describe(self) -> list[Metric]:
        """Nothing: which there are is known once models are loaded."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with the samples of all models."""
        together: dict[str, Metric] = {}
        for labels, metrics in self._models():
            for metric in metrics.collect():
                whole = together.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                whole.samples += [sample._replace(labels=labels | sample.labels) for sample in metric.samples]
        yield from together.values()
