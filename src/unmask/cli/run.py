"""``unmask run``: ask a model in the terminal, once or as a conversation."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.hub import HubModel
from unmask.cli import options
from unmask.cli.completion import complete_paths
from unmask.cli.streams import is_text

if TYPE_CHECKING:
    import asyncio

    from unmask.cli.conversation import Conversation
    from unmask.engine.completion import Completion
    from unmask.engine.options import EngineOptions
    from unmask.params import GenerationParams

Model = Annotated[
    str | None,
    typer.Argument(
        help="Directory, GGUF file or hub id; the embedded model if left out.", autocompletion=complete_paths
    ),
]
Prompt = Annotated[str | None, typer.Argument(help="What to ask; without it, a conversation.")]

_PATH_STARTS = ("/", "./", "../", "~")


def run(
    model: Model = None,
    prompt: Prompt = None,
    rule: options.Rule = None,
    threshold: options.Threshold = None,
    steps: options.Steps = None,
    block_length: options.BlockLength = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = None,
    json: options.Json = False,
    adapter: options.Adapter = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    quantize: options.Quantize = "none",
    batch_invariant: options.BatchInvariant = False,
    attention: options.Attention = None,
    max_context: options.MaxContext = 0,
    threads: options.Threads = 0,
) -> None:
    """Ask MODEL the PROMPT, or talk to it.

    A single argument is the model if it is a path, a hub id or the embedded model's name, and the prompt otherwise.
    A prompt may also come from standard input. The canvas is shown while it is denoised if the output is a terminal.
    """
    from unmask.engine.options import EngineOptions
    from unmask.params import GenerationParams

    path, question = split_arguments(model, prompt)
    if question is None and not sys.stdin.isatty():
        question = sys.stdin.read().strip()
    if question is not None and not is_text(question):
        raise typer.BadParameter("it is not UTF-8.", param_hint="PROMPT")
    if question == "" or (json and question is None):
        raise typer.BadParameter(f"there is nothing to ask the model '{path}'.", param_hint="PROMPT")
    engine = EngineOptions(
        model=path,
        adapter=adapter,
        device=device,
        dtype=dtype,
        quantize=quantize,
        batch_invariant=batch_invariant,
        attention=attention,
        max_context=max_context,
        threads=threads,
    )
    params = GenerationParams(
        rule=rule,
        threshold=threshold,
        steps=steps,
        block_length=block_length,
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
    )
    _converse(engine, params, question, json=json)


def split_arguments(first: str | None, second: str | None) -> tuple[str, str | None]:
    """Model and prompt. A lone argument that is no model is a prompt for the embedded one."""
    if first is None:
        return EMBEDDED_MODEL, None
    if second is not None:
        return first, second
    is_model = (
        first == EMBEDDED_MODEL
        or first.startswith(_PATH_STARTS)
        or os.path.exists(first)
        or HubModel.parse(first) is not None
    )
    return (first, None) if is_model else (EMBEDDED_MODEL, first)


def _converse(engine: EngineOptions, params: GenerationParams, question: str | None, *, json: bool) -> None:
    """Load the model, answer the one question or as many as come, and stop the engine."""
    import asyncio

    from unmask.cli.conversation import Conversation
    from unmask.cli.precheck import check_request
    from unmask.cli.progress import loading

    check_request(engine, params)
    with asyncio.Runner() as runner:
        with loading(engine.model) as progress:
            conversation = runner.run(Conversation.open(engine, params, progress))
        try:
            if question is None:
                _talk(runner, conversation)
            else:
                runner.run(_answer(conversation, question, json=json))
        finally:
            runner.run(conversation.close())


def _talk(runner: asyncio.Runner, conversation: Conversation) -> None:
    """Question and answer until end of input. Ctrl-C stops an answer; at the prompt it ends the conversation."""
    import readline  # noqa: F401 (gives input() line editing and history)

    from unmask.errors import UnmaskError

    print(f"This is {conversation.model.name}. Ctrl-C stops an answer, Ctrl-D ends the conversation.", file=sys.stderr)
    while True:
        try:
            question = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not question:
            continue
        if not is_text(question):
            print("error: the question is not UTF-8.", file=sys.stderr)
            continue
        try:
            runner.run(_answer(conversation, question, json=False))
        except UnmaskError as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print()


async def _answer(conversation: Conversation, question: str, *, json: bool) -> None:
    from unmask.cli.canvas_view import CanvasView

    if json:
        print(_as_json(conversation.model.name, await conversation.ask(question)), flush=True)
    elif not sys.stdout.isatty():
        print((await conversation.ask(question)).text, flush=True)
    else:
        with CanvasView(conversation.tokenizer, conversation.model.end_ids) as view:
            answer = await conversation.ask(question, view.show)
        view.finish(answer)


def _as_json(model: str, answer: Completion) -> str:
    """What the model said, and what it cost, in the words of the HTTP responses."""
    import msgspec

    from unmask.serving.extension import GenerationReport

    record = {
        "model": model,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        },
        "unmask": GenerationReport.of(answer),
    }
    return msgspec.json.encode(record).decode()
