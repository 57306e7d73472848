"""Pictures of a simulation: how long requests take under each policy, and how that grows with the load."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unmask.bench.distributions import Floats
from unmask.bench.report import Result
from unmask.errors import InvalidValueError, NotInstalledError

FORMATS = ("svg", "png")


class Album:
    """Collects results, and draws them into ``directory`` as files of the kind ``image``, one of ``FORMATS``.

    Raises ``InvalidValueError`` for another kind, ``NotInstalledError`` without matplotlib: better before a simulation
    than after it.
    """

    def __init__(self, directory: str, image: str) -> None:
        if image not in FORMATS:
            raise InvalidValueError(
                f"'plot_format' is {image!r}.", hint=f"Use one of {', '.join(FORMATS)}.", param="plot_format"
            )
        if find_spec("matplotlib") is None:
            raise NotInstalledError(
                "Plots take the package matplotlib, which is not installed.",
                hint="Install it where Unmask is: python -m pip install matplotlib.",
                param="plots",
            )
        self._directory, self._image = Path(directory), image
        self._directory.mkdir(parents=True, exist_ok=True)
        self._results: list[Result] = []
        self._totals: dict[float | None, dict[str, Floats]] = {}

    def add(self, result: Result, totals: Floats) -> None:
        """A result, and the seconds that each request took [N]."""
        self._results.append(result)
        self._totals.setdefault(result.rate, {})[result.label] = totals

    def draw(self) -> list[Path]:
        """The files written: how long requests took at each rate; how it grows with the rate, if there are several."""
        paths = []
        for rate, totals in self._totals.items():
            name = "totals" if len(self._totals) == 1 else f"totals-{rate:.4g}"
            paths.append(self._directory / f"{name}.{self._image}")
            _plot_totals(paths[-1], totals)
        if len(self._totals) > 1:
            paths.append(self._directory / f"load.{self._image}")
            _plot_load(paths[-1], self._results)
        return paths


def _plot_totals(path: Path, totals: dict[str, Floats]) -> None:
    """Share of requests that take longer than a time, per policy; ``totals`` are seconds by policy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for policy, seconds in totals.items():
        known = np.sort(seconds[~np.isnan(seconds)])
        axes.step(known, 1 - np.arange(len(known)) / max(len(known), 1), where="post", label=policy)
    axes.set(xscale="log", yscale="log", xlabel="seconds until the end", ylabel="share of requests that take longer")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path)


def _plot_load(path: Path, results: list[Result]) -> None:
    """Median and 95th percentile of the total over the rate of arrivals, and the share that met the objective."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for policy in dict.fromkeys(result.policy for result in results):
        of_policy = [result for result in results if result.policy == policy and result.finished]
        rates = [result.rate for result in of_policy]
        (line,) = above.plot(rates, [result.total.p50 for result in of_policy], marker=".", label=policy)
        above.plot(rates, [result.total.p95 for result in of_policy], marker=".", ls=":", color=line.get_color())
        below.plot(rates, [result.met for result in of_policy], marker=".", color=line.get_color())
    above.set(yscale="log", ylabel="seconds until the end: median, 95 % dotted")
    below.set(xlabel="requests a second", ylabel="share that met the objective", ylim=(-0.02, 1.02))
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.3)
    above.legend()
    figure.savefig(path)
