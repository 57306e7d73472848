"""The options of ``unmask simulate``, each with its environment variable."""

from __future__ import annotations

from typing import Annotated

import typer

# What is measured, or taken from a measurement

Calibrate = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_CALIBRATE", metavar="FILE", help="Measure what steps of MODEL cost, and write it."),
]
Costs = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_COSTS", metavar="FILE", help="What --calibrate wrote: simulate with these costs."),
]
FromSteps = Annotated[
    str | None,
    typer.Option(
        envvar="UNMASK_FROM_STEPS",
        metavar="LOG",
        help="With --calibrate: take the costs from what serve --step-log wrote, and measure no steps.",
    ),
]
Seconds = Annotated[float, typer.Option(envvar="UNMASK_SECONDS", min=0.1, max=86400, help="How long to measure steps.")]

# Who arrives when

Trace = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_TRACE", metavar="FILE", help="Requests with their times, a .jsonl or .csv file."),
]
Rate = Annotated[list[float], typer.Option(envvar="UNMASK_RATE", help="Requests a second, on average; repeatable.")]
Requests = Annotated[int, typer.Option(envvar="UNMASK_REQUESTS", min=1, max=10_000_000, help="How many arrive.")]
Bursts = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_BURSTS", metavar="ON:OFF", help="Mean seconds of bursts and of silences between them."),
]
Like = Annotated[
    str | None, typer.Option(envvar="UNMASK_LIKE", metavar="FILE", help="A trace whose requests are drawn from.")
]
PromptTokens = Annotated[
    str | None, typer.Option(envvar="UNMASK_PROMPT_TOKENS", metavar="DISTRIBUTION", help="Tokens of a prompt.")
]
OutputTokens = Annotated[
    str | None, typer.Option(envvar="UNMASK_OUTPUT_TOKENS", metavar="DISTRIBUTION", help="Tokens of an answer.")
]
TokensPerForward = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_TOKENS_PER_FORWARD", metavar="DISTRIBUTION", help="Tokens committed per forward."),
]
Deadline = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_DEADLINE", metavar="DISTRIBUTION", help="Seconds in which a request should end."),
]
Seed = Annotated[int, typer.Option(envvar="UNMASK_SEED", min=0, help="Of all that is drawn.")]

# Who serves them

Policy = Annotated[
    list[str], typer.Option(envvar="UNMASK_POLICY", help="step, deadline, drain or fill; repeatable. All by default.")
]
Timeout = Annotated[
    list[float],
    typer.Option(envvar="UNMASK_TIMEOUT", help="Seconds that 'fill' waits for more requests; repeatable."),
]
Replicas = Annotated[int, typer.Option(envvar="UNMASK_REPLICAS", min=1, max=100_000, help="Engines.")]
Routing = Annotated[
    str,
    typer.Option(envvar="UNMASK_ROUTING", help="round_robin, random, two_choices, shortest_queue or least_loaded."),
]

# What is told

FirstBlockWithin = Annotated[
    float | None, typer.Option(envvar="UNMASK_FIRST_BLOCK_WITHIN", help="Objective: seconds until the first block.")
]
TotalWithin = Annotated[
    float | None, typer.Option(envvar="UNMASK_TOTAL_WITHIN", help="Objective: seconds until the end.")
]
Plots = Annotated[str | None, typer.Option(envvar="UNMASK_PLOTS", metavar="DIRECTORY", help="Draw pictures into it.")]
PlotFormat = Annotated[str, typer.Option(envvar="UNMASK_PLOT_FORMAT", help="svg or png.")]
