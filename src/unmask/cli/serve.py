"""``unmask serve``: models behind one server."""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.cli import options
from unmask.cli import security_options as security
from unmask.cli.completion import complete_models
from unmask.cli.interrupt import leaving_at_once

if TYPE_CHECKING:
    from unmask.refusal import Refusal
    from unmask.serving.house import House

Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Directories, GGUF files, hub ids (org/name), the embedded model's name, or names of --config; "
        "without any, UNMASK_MODEL.",
        autocompletion=complete_models,
    ),
]

_MOST_TOLD = 8  # of other models, as the server starts
_CHAT = ("chat/completions", {"messages": [{"role": "user", "content": "What is 7 + 8?"}]})
_TEXT = ("completions", {"prompt": "7 + 8 =", "max_tokens": 32})


def serve(
    models: Models = None,
    config: options.ConfigFile = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    served_model_name: options.ServedModelName = None,
    api_key: options.ApiKey = None,
    keys: security.Keys = None,
    allowed_host: security.AllowedHost = [],  # noqa: B006
    allowed_origin: security.AllowedOrigin = [],  # noqa: B006
    grace: security.Grace = 30,
    access_log: security.AccessLog = True,
    max_connections: security.MaxConnections = 900,
    receive_timeout: security.ReceiveTimeout = 30,
    adapter: options.Adapter = None,
    lora: options.Lora = [],  # noqa: B006 (typer wants a list)
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = "none",
    batch_invariant: options.BatchInvariant = False,
    attention: options.Attention = None,
    max_running: options.MaxRunning = 32,
    max_waiting: options.MaxWaiting = 128,
    queue_timeout: options.QueueTimeout = 300,
    request_timeout: options.RequestTimeout = 0,
    store: options.Store = None,
    response_cache: options.ResponseCache = 0,
    session_store: options.SessionStore = None,
    canary: options.Canary = False,
    service_class: options.ServiceClasses = [],  # noqa: B006
    max_rows: options.MaxRows = 4096,
    draft_rows: options.DraftRows = 512,
    kv_tokens: options.KvTokens = 0,
    max_context: options.MaxContext = 0,
    prefix_cache: options.PrefixCache = True,
    threads: options.Threads = 0,
    step_log: options.StepLog = None,
) -> None:
    """Serve each MODEL over HTTP until interrupted."""
    with leaving_at_once():
        import asyncio

        from uvicorn.loops.auto import auto_loop_factory

        from unmask.cli.progress import loading
        from unmask.engine.options import EngineOptions
        from unmask.gateway.config.config import Config
        from unmask.gateway.config.reading import read_config
        from unmask.serving.opening import HousePlan
        from unmask.serving.server import run_server
        from unmask.serving.settings import ServerSettings
        from unmask.terms import Timeouts

    if api_key == "" or (api_key is None and "UNMASK_API_KEY" in os.environ):  # typer takes an empty one for none
        raise typer.BadParameter("an empty key protects nothing.", param_hint="--api-key")
    if api_key is None and keys is None and not _is_loopback(host):
        typer.echo(f"warning: anyone who reaches {host} may use this server; set --api-key or --keys.", err=True)
    given = models or [one for one in [os.environ.get("UNMASK_MODEL")] if one]
    engine = EngineOptions(
        model=EMBEDDED_MODEL,
        adapter=adapter,
        adapters=options.named_adapters(lora),
        device=device,
        dtype=dtype,
        quantize=quantize,
        batch_invariant=batch_invariant,
        attention=attention,
        max_running=max_running,
        max_rows=max_rows,
        draft_rows=draft_rows,
        kv_tokens=kv_tokens,
        max_context=max_context,
        prefix_cache=prefix_cache,
        threads=threads,
        service_classes=options.named_service_classes(service_class),
        step_log=step_log,
    )
    settings = ServerSettings(
        host=host,
        port=port,
        served_name=served_model_name,
        api_key=api_key,
        max_waiting=max_waiting,
        timeouts=Timeouts(queue_timeout, request_timeout),
        keys=keys,
        allowed_hosts=tuple(allowed_host),
        allowed_origins=tuple(allowed_origin),
        grace_seconds=grace,
        access_log=access_log,
        max_connections=max_connections,
        receive_seconds=receive_timeout,
        store=store,
        response_cache=response_cache << 20,
        canary=canary,
        session_store=session_store,
    )
    announce = partial(_announce, secured=api_key is not None or keys is not None)
    try:
        read = Config() if config is None else read_config(config)
        plan = HousePlan(models=given, engine=engine, settings=settings, config=read)
        model = given[0] if given else EMBEDDED_MODEL
        with loading(model) as progress, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(run_server(plan.open, settings, progress=progress, announce=announce))
    except (asyncio.CancelledError, KeyboardInterrupt):  # interrupted while models were fetched, or loaded
        raise typer.Exit(130) from None


def _announce(house: House, url: str, *, secured: bool) -> None:
    first, *others = house.listings()
    if first.precision:
        typer.echo(f"Computing in {first.precision}.", err=True)
    size = f", {first.parameters / 1e6:.3g}M parameters" if first.parameters else ""
    typer.echo(f"Serving {first.name} ({first.family}{size}) on {url}", err=True)
    key = '-H "authorization: Bearer $UNMASK_API_KEY" ' if secured else ""
    _tell_of_others(house)
    adapted = ", ".join(listing.name for listing in others if listing.parent)
    if adapted:
        typer.echo(f"With its adapters it is also {adapted}.", err=True)
    typer.echo(f"Base URL: {url}/v1 for OpenAI's clients; {url} for Anthropic's, Ollama's, and browsers", err=True)
    endpoint, asked = _CHAT if "tools" in first.capabilities else _TEXT
    body = json.dumps({"model": first.name} | asked if len(house.entries) > 1 else asked)
    typer.echo(
        f"Try: curl {url}/v1/{endpoint} {key}-H 'content-type: application/json' -d {shlex.quote(body)}", err=True
    )


def _tell_of_others(house: House) -> None:
    """Which models there are besides the first one, and which are not served, and why; of many only some."""
    names = [entry.name for entry in house.entries[1:]]
    if names:
        more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
        typer.echo(f"Also serving {', '.join(names[:_MOST_TOLD])}{more}.", err=True)
    names_of: dict[Refusal, str] = {}
    for name, refusal in house.refused.items():
        names_of.setdefault(refusal, name)  # its aliases are refused for the same
    for refusal, name in list(names_of.items())[:_MOST_TOLD]:
        typer.echo(f"warning: '{name}' is not served: {refusal.message} [{refusal.code}]", err=True)
        if refusal.remedy:
            typer.echo(f"hint: {refusal.remedy}", err=True)
    if len(names_of) > _MOST_TOLD:
        typer.echo(f"warning: and {len(names_of) - _MOST_TOLD} more are not served; see 'unmask ps'.", err=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
