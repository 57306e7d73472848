"""``unmask simulate``: the engine's scheduler under a virtual clock, at costs measured on the live engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.cli import options
from unmask.cli import simulate_options as own

if TYPE_CHECKING:
    from unmask.bench.costs import Calibration
    from unmask.bench.study import Sizes, Study
    from unmask.bench.trajectory import Shape
    from unmask.engine.options import EngineOptions
    from unmask.params import GenerationParams

Model = Annotated[
    str | None,
    typer.Argument(help="With --calibrate: directory, GGUF file, hub id, or the embedded model's name."),
]

_MEASURING = (
    "model", "from_steps", "seconds", "adapter", "device", "dtype", "quantize", "attention", "max_context", "threads",
)  # fmt: skip
_SIMULATING = (
    "trace", "rate", "requests", "bursts", "tokens_per_forward", "deadline", "policy", "timeout", "replicas", "routing",
    "max_waiting", "first_block_within", "total_within", "plots", "plot_format",
)  # fmt: skip
_STEPPING = ("seconds", "like", "tokens_per_forward", "seed", "rule", "block_length")
_LOADING = (
    "adapter", "device", "dtype", "quantize", "attention", "max_running", "max_rows", "kv_tokens", "max_context",
    "threads",
)  # fmt: skip
_SIZES = ("prompt_tokens", "output_tokens", "max_tokens")
_WIDTH = 1000  # of tables, at most: a narrow terminal breaks their lines, and nothing is left out
_DEFAULT_SIZE = "uniform:1:256"  # of prompts and answers when costs are measured


def simulate(
    context: typer.Context,
    model: Model = None,
    calibrate: own.Calibrate = None,
    costs: own.Costs = None,
    from_steps: own.FromSteps = None,
    seconds: own.Seconds = 60.0,
    trace: own.Trace = None,
    rate: own.Rate = [],  # noqa: B006 (typer wants a list)
    requests: own.Requests = 1000,
    bursts: own.Bursts = None,
    like: own.Like = None,
    prompt_tokens: own.PromptTokens = None,
    output_tokens: own.OutputTokens = None,
    tokens_per_forward: own.TokensPerForward = None,
    max_tokens: options.MaxTokens = None,
    deadline: own.Deadline = None,
    seed: own.Seed = 0,
    policy: own.Policy = [],  # noqa: B006
    timeout: own.Timeout = [],  # noqa: B006
    replicas: own.Replicas = 1,
    routing: own.Routing = "shortest_queue",
    max_running: options.MaxRunning = 32,
    max_waiting: options.MaxWaiting = 128,
    max_rows: options.MaxRows = 4096,
    kv_tokens: options.KvTokens = 0,
    max_context: options.MaxContext = 0,
    rule: options.Rule = None,
    block_length: options.BlockLength = None,
    first_block_within: own.FirstBlockWithin = None,
    total_within: own.TotalWithin = None,
    plots: own.Plots = None,
    plot_format: own.PlotFormat = "svg",
    json: options.Json = False,
    adapter: options.Adapter = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = "none",
    attention: options.Attention = None,
    threads: options.Threads = 0,
) -> None:
    """Serve made-up or recorded requests under a virtual clock, at costs that --calibrate measured of MODEL."""
    from unmask.bench.distributions import Distribution
    from unmask.bench.policies import POLICIES, Limits
    from unmask.bench.report import Objective
    from unmask.bench.study import Fleet, Load, Sizes, Study
    from unmask.bench.trace import read_trace
    from unmask.engine.options import EngineOptions
    from unmask.params import GenerationParams

    _check_use(context)
    asked = GenerationParams(rule=rule, block_length=block_length)
    drawn = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "tokens_per_forward": tokens_per_forward}
    if calibrate is not None:
        drawn = {name: text or _DEFAULT_SIZE for name, text in drawn.items()}
    laws = {name: Distribution.parse(text, name) for name, text in drawn.items() if text is not None}
    sizes = Sizes(like=read_trace(like) if like else [], laws=laws, max_tokens=max_tokens)
    if calibrate is not None:
        engine = EngineOptions(
            model=model or EMBEDDED_MODEL,
            adapter=adapter,
            device=device,
            dtype=dtype,
            quantize=quantize,
            attention=attention,
            max_running=max_running,
            max_rows=max_rows,
            kv_tokens=kv_tokens,
            max_context=max_context,
            threads=threads,
        )
        if from_steps is None:
            _measure(calibrate, engine, asked, sizes, seconds, seed, json=json)
        else:
            _fit(calibrate, from_steps, engine if model else None, json=json)
        return
    study = Study(
        load=Load(
            trace=read_trace(trace) if trace else [],
            count=requests,
            rates=tuple(rate),
            on_off=_on_off(bursts),
            sizes=sizes,
            deadline=None if deadline is None else Distribution.parse(deadline, "deadline"),
            seed=seed,
        ),
        fleet=Fleet(replicas=replicas, routing=routing, limits=Limits(max_running, max_rows, kv_tokens, max_waiting)),
        policies=tuple(policy) or POLICIES,
        timeouts=tuple(timeout),
        options=asked,
        objective=Objective(first_block_within, total_within),
    )
    _simulate(str(costs), study, plots, plot_format, json=json)


def _measure(
    path: str, engine: EngineOptions, asked: GenerationParams, sizes: Sizes, seconds: float, seed: int, *, json: bool
) -> None:
    """Calibrate, write the file, and say what was measured."""
    import numpy as np

    from unmask.bench.calibrate import calibrate
    from unmask.bench.files import check_writable
    from unmask.bench.workload import MOST_SHAPES
    from unmask.cli.progress import loading

    def shapes(context_length: int) -> list[Shape]:
        return sizes.shapes(MOST_SHAPES, context_length, np.random.default_rng(seed))

    check_writable(path)
    with loading(engine.model) as progress:
        measured = calibrate(engine, asked, shapes, seconds, seed, progress)
    measured.save(path)
    _tell(measured, json=json)


def _fit(path: str, log: str, engine: EngineOptions | None, *, json: bool) -> None:
    """Calibrate by a step log, and measure of ``engine``, if given, what a request takes outside."""
    from unmask.bench.files import check_writable
    from unmask.bench.logged_steps import calibrate_from_steps

    check_writable(path)
    measured = calibrate_from_steps(log, engine)
    measured.save(path)
    _tell(measured, json=json)


def _tell(measured: Calibration, *, json: bool) -> None:
    """Print what was measured."""
    import msgspec

    if json:
        typer.echo(msgspec.json.encode(measured).decode())
        return
    costs = {f"a {term}": value for term, value in msgspec.structs.asdict(measured.costs).items()}
    for what, value in (costs | {"a request, outside the engine": measured.request_seconds}).items():
        unknown = "" if value or what in costs else " (not measured: give MODEL)"
        typer.echo(f"{value * 1e6:12.4f} microseconds {what}{unknown}")
    typer.echo(
        f"Fitted to {measured.fit.steps} steps ({measured.device}, threads: {measured.threads}); half of them are told "
        f"within {measured.fit.median_error:.1%}, 95 % within {measured.fit.p95_error:.1%}."
    )


def _simulate(costs: str, study: Study, plots: str | None, image: str, *, json: bool) -> None:
    """Simulate, draw, and print the results."""
    import msgspec
    from rich.console import Console

    from unmask.bench.costs import Calibration
    from unmask.bench.plots import Album
    from unmask.bench.report import result_tables

    album = None if plots is None else Album(plots, image)
    results = study.run(Calibration.load(costs), (lambda result, totals: None) if album is None else album.add)
    drawn = [] if album is None else [str(path) for path in album.draw()]
    if json:
        typer.echo(msgspec.json.encode({"results": results, "plots": drawn}).decode())
        return
    console = Console(width=_WIDTH)
    for table in result_tables(results):
        console.print(table)
    for path in drawn:
        typer.echo(path)


def _on_off(bursts: str | None) -> tuple[float, float] | None:
    """Mean seconds of bursts and silences."""
    if bursts is None:
        return None
    try:
        on, off = map(float, bursts.split(":"))
    except ValueError:
        on = off = 0.0
    if not (0 < on < math.inf and 0 < off < math.inf):
        raise typer.BadParameter(f"'{bursts}' is not ON:OFF, two positive numbers of seconds.", param_hint="--bursts")
    return on, off


def _check_use(context: typer.Context) -> None:
    """Refuse what would have no effect beside other options."""
    given = context.params
    if (given["calibrate"] is None) == (given["costs"] is None):
        raise typer.BadParameter("give one of the two: measure, or simulate.", param_hint="--calibrate, --costs")
    if given["calibrate"] is not None:
        _refuse(context, _SIMULATING, "when costs are measured")
        if given["from_steps"] is not None:
            _refuse(context, (*_STEPPING, *_SIZES), "beside --from-steps")
            if given["model"] is None:
                _refuse(context, _LOADING, "beside --from-steps without MODEL")
    else:
        _refuse(context, _MEASURING, "without --calibrate")
        if bool(given["trace"]) == bool(given["rate"]):
            raise typer.BadParameter("give one of the two: who arrives when.", param_hint="--trace, --rate")
    if given["trace"]:
        _refuse(context, (*_SIZES, "requests", "bursts", "like"), "beside --trace")
    if given["like"]:
        _refuse(context, _SIZES, "beside --like")
    if given["policy"] and "fill" not in given["policy"]:
        _refuse(context, ("timeout",), "without the policy 'fill'")
    if given["plots"] is None:
        _refuse(context, ("plot_format",), "without --plots")


def _refuse(context: typer.Context, names: tuple[str, ...], when: str) -> None:
    """Those that stand on the command line; variables of the environment are for several commands."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            hint = name.upper() if name == "model" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"it has no effect {when}.", param_hint=hint)
