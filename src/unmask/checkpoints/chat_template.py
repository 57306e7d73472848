"""Rendering a checkpoint's chat template in a sandbox that is bounded in size.

The environment is configured as model authors expect (the conventions of Hugging Face templates): blocks
trimmed, loop controls, ``raise_exception``, ``strftime_now`` and a ``tojson`` without HTML escapes.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnsupportedValueError

_MAX_TEMPLATE_CHARS = 256 * 1024
_MAX_RENDERED_CHARS = 16 * 2**20


class ChatTemplate:
    """Turns a conversation into prompt ids with the checkpoint's own template."""

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.source = _source(path, tokenizer.config)
        self._template = _compile(self.source) if self.source else None

    @property
    def exists(self) -> bool:
        """Whether the checkpoint has a template."""
        return self._template is not None

    def encode(self, messages: list[dict[str, str]]) -> list[int]:
        """Prompt ids of ``messages`` (``role`` and ``content``), ready for the assistant's answer.

        Raises ``UnsupportedValueError`` if the checkpoint has no template, ``InvalidValueError`` if the template
        refuses the conversation.
        """
        if self._template is None:
            raise UnsupportedValueError(
                "This model has no chat template.", hint="Use the completions endpoint.", param="messages"
            )
        guard = self._tokenizer.guard([message["content"] for message in messages])
        guarded = [{**message, "content": guard.hide(message["content"])} for message in messages]
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(
                messages=guarded,
                add_generation_prompt=True,
                bos_token=self._tokenizer.special_text("bos_token"),
                eos_token=self._tokenizer.special_text("eos_token"),
                pad_token=self._tokenizer.special_text("pad_token"),
            ):
                pieces.append(piece)
                size += len(piece)
                if size > _MAX_RENDERED_CHARS:
                    raise InvalidValueError("The rendered conversation is too long.", param="messages")
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise InvalidValueError(
                f"The model's chat template refuses this conversation: {guard.lift(str(error))}", param="messages"
            ) from None
        return self._tokenizer.encode_rendered("".join(pieces), guard)


def _source(path: Path, config: dict[str, Any]) -> str:
    file = path / "chat_template.jinja"
    source = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
    if isinstance(source, list):  # named templates: [{"name": ..., "template": ...}]
        source = next((entry.get("template") for entry in source if entry.get("name") == "default"), None)
    if source is not None and (not isinstance(source, str) or len(source) > _MAX_TEMPLATE_CHARS):
        raise InvalidCheckpointError(
            f"The chat template of '{path}' is not a text of under {_MAX_TEMPLATE_CHARS} characters.",
            hint="Repair chat_template.jinja or tokenizer_config.json.",
        )
    return source or ""


def _compile(source: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise InvalidCheckpointError(
            f"The chat template is malformed: {error}.", hint="Repair the checkpoint's chat template."
        ) from None


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)
