"""Every option of every verb, each with its environment variable."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.engine.options import DEVICES

if TYPE_CHECKING:
    from unmask.service_class import ServiceClass

# The engine


def _device(name: str) -> str:
    """Refused here because torch knows more devices than can hold a model."""
    if re.fullmatch(DEVICES, name) is None:
        raise typer.BadParameter(f"'{name}' is no device to run a model on.")
    return name


Adapter = Annotated[str | None, typer.Option(envvar="UNMASK_ADAPTER", help="LoRA directory to merge into the model.")]
Lora = Annotated[
    list[str],
    typer.Option(
        envvar="UNMASK_LORA", metavar="NAME=DIRECTORY", help="Adapter for requests to choose as MODEL:NAME; repeatable."
    ),
]
Device = Annotated[str, typer.Option(envvar="UNMASK_DEVICE", callback=_device, help="auto, cpu, cuda, cuda:1, ...")]
Dtype = Annotated[str, typer.Option(envvar="UNMASK_DTYPE", help="auto, float32, bfloat16 or float16.")]
Quantize = Annotated[str, typer.Option(envvar="UNMASK_QUANTIZE", help="int8 computes in 8 bits on CPUs.")]
BatchInvariant = Annotated[
    bool,
    typer.Option(
        "--batch-invariant",
        envvar="UNMASK_BATCH_INVARIANT",
        help="Compute a request the same, bit for bit, whatever shares its steps; slower.",
    ),
]
Attention = Annotated[
    str | None, typer.Option(envvar="UNMASK_ATTENTION", help="full or block_causal, whatever the checkpoint says.")
]
MaxRunning = Annotated[int, typer.Option(envvar="UNMASK_MAX_RUNNING", min=1, help="Requests that share a step.")]
MaxRows = Annotated[int, typer.Option(envvar="UNMASK_MAX_ROWS", min=1, help="Positions through the model in one step.")]
DraftRows = Annotated[
    int, typer.Option(envvar="UNMASK_DRAFT_ROWS", min=0, help="Positions up to which lookahead fills a step.")
]
KvTokens = Annotated[
    int, typer.Option(envvar="UNMASK_KV_TOKENS", min=0, help="Key/value capacity in tokens; 0 derives it.")
]
MaxContext = Annotated[
    int,
    typer.Option(
        envvar="UNMASK_MAX_CONTEXT", min=0, help="Prompt and answer tokens of a request; 0 takes the model's limit."
    ),
]
PrefixCache = Annotated[
    bool, typer.Option(envvar="UNMASK_PREFIX_CACHE", help="Compute what prompts begin with once, where that is exact.")
]
Threads = Annotated[
    int,
    typer.Option(
        envvar="UNMASK_THREADS",
        min=0,
        max=4 * (os.cpu_count() or 1),
        help="CPU threads of a forward; 0 takes all cores but one.",
    ),
]

StepLog = Annotated[
    str | None,
    typer.Option(
        envvar="UNMASK_STEP_LOG", metavar="FILE", help="Write what each step held and took, for simulate --from-steps."
    ),
]

# The server


def seconds(value: float) -> float:
    """Refused here because a number need not be one: nothing is before or after NaN."""
    if not 0 <= value <= 86400:
        raise typer.BadParameter(f"{value:g} is not 0 to 86400 seconds.")
    return value


Host = Annotated[str, typer.Option(envvar="UNMASK_HOST", help="Address to listen on.")]
Port = Annotated[
    int, typer.Option(envvar="UNMASK_PORT", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]
ServedModelName = Annotated[
    str | None, typer.Option(envvar="UNMASK_SERVED_MODEL_NAME", help="The model's name on the wire.")
]
ApiKey = Annotated[
    str | None, typer.Option(envvar="UNMASK_API_KEY", help="Key that clients must send as bearer token.")
]
MaxWaiting = Annotated[
    int, typer.Option(envvar="UNMASK_MAX_WAITING", min=0, help="Requests that may wait; more get a 429.")
]
QueueTimeout = Annotated[
    float,
    typer.Option(
        envvar="UNMASK_QUEUE_TIMEOUT", callback=seconds, help="Seconds until a request is begun; 0 sets no limit."
    ),
]
RequestTimeout = Annotated[
    float,
    typer.Option(
        envvar="UNMASK_REQUEST_TIMEOUT", callback=seconds, help="Seconds a request may take in all; 0 sets no limit."
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(envvar="UNMASK_STORE", metavar="FILE", help="Keep responses in this file; else they stay in memory."),
]


def _mebibytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})(MiB)?", str(text).strip())
    if found is None:
        raise typer.BadParameter(f"'{text}' is no number of MiB, like 64 or 64MiB.")
    return int(found.group(1))


ResponseCache = Annotated[
    int,
    typer.Option(
        envvar="UNMASK_RESPONSE_CACHE",
        metavar="N[MiB]",
        parser=_mebibytes,
        help="Keep answers in so many MiB, for the same request again; 0 keeps none.",
    ),
]


def _bytes(text: str) -> int:
    from pydantic_core import PydanticCustomError

    from unmask.gateway.config.amounts import size

    text = str(text).strip()
    try:
        return size(int(text) if text.isdecimal() and len(text) < 20 else text) or 0
    except PydanticCustomError:
        raise typer.BadParameter(f"'{text}' is no size, like 4GiB.") from None


SessionStore = Annotated[
    int | None,
    typer.Option(
        envvar="UNMASK_SESSION_STORE",
        metavar="SIZE",
        parser=_bytes,
        help="Keep conversations of models that are unloaded in so many bytes of disk (4GiB); 0 keeps none.",
    ),
]
Canary = Annotated[
    bool, typer.Option("--canary", envvar="UNMASK_CANARY", help="Ask the model a few things before it is served.")
]
ServiceClasses = Annotated[
    list[str],
    typer.Option(
        "--service-class",
        envvar="UNMASK_SERVICE_CLASS",
        metavar="NAME=FLOOR@LOAD",
        help="For requests to choose: from LOAD (0 to 1) on, the threshold falls to FLOOR at full load; repeatable.",
    ),
]

# Decoding

Rule = Annotated[str | None, typer.Option(envvar="UNMASK_RULE", help="Commit rule.")]
Threshold = Annotated[float | None, typer.Option(envvar="UNMASK_THRESHOLD", help="Confidence that commits a token.")]
Steps = Annotated[int | None, typer.Option(envvar="UNMASK_STEPS", help="Forwards per block.")]
BlockLength = Annotated[int | None, typer.Option(envvar="UNMASK_BLOCK_LENGTH", help="Tokens denoised together.")]
Temperature = Annotated[float | None, typer.Option(envvar="UNMASK_TEMPERATURE", help="0 takes the likeliest token.")]
Seed = Annotated[int | None, typer.Option(envvar="UNMASK_SEED", help="Makes sampling repeatable.")]
MaxTokens = Annotated[int | None, typer.Option(envvar="UNMASK_MAX_TOKENS", help="Length limit of an answer.")]

# Output

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="UNMASK_CONFIG", metavar="FILE", help="YAML or TOML file of the models that are served."
    ),
]
Json = Annotated[bool, typer.Option("--json", envvar="UNMASK_JSON", help="Print one JSON object.")]


def named_service_classes(texts: list[str]) -> dict[str, ServiceClass]:
    """The classes of ``--service-class`` by name. Raises ``typer.BadParameter`` for an option of another form."""
    from unmask.service_class import ServiceClass

    classes: dict[str, ServiceClass] = {}
    for text in texts:
        parts = re.fullmatch(r"([^=]+)=([\d.]+)@([\d.]+)", text)
        try:
            name, floor, load = parts.groups() if parts else ("", "", "")
            service_class = ServiceClass(float(floor), float(load))
        except ValueError:
            raise typer.BadParameter(f"'{text}' is not NAME=FLOOR@LOAD.", param_hint="--service-class") from None
        if name in classes:
            raise typer.BadParameter(f"'{name}' is there twice.", param_hint="--service-class")
        classes[name] = service_class
    return classes


def named_adapters(lora: list[str]) -> dict[str, str]:
    """The directories of ``--lora`` by name. Raises ``typer.BadParameter`` for an option of another form."""
    pairs = [option.partition("=") for option in lora]
    for (name, equals, directory), option in zip(pairs, lora, strict=True):
        if not (name and equals and directory):
            raise typer.BadParameter(f"'{option}' is not NAME=DIRECTORY.", param_hint="--lora")
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise typer.BadParameter("two adapters have the same name.", param_hint="--lora")
    return {name: directory for name, _, directory in pairs}
