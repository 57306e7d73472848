"""From a conversation to prompt ids, with the checkpoint's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Template, TemplateError, meta

from unmask.checkpoints.generic_tools import spell_out
from unmask.checkpoints.sandbox import MAX_CHARS, TemplateSandbox, deadline
from unmask.checkpoints.tokenizer import TextGuard, Tokenizer
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnsupportedValueError
from unmask.shown import cut

_MAX_TEMPLATE_CHARS = 256 * 1024

# What a template may raise by doing something silly with the conversation.
_TEMPLATE_FAULTS = (
    TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError,
    MemoryError,
)  # fmt: skip


class ChatTemplate:
    """Turns a conversation into prompt ids with the checkpoint's own template."""

    def __init__(self, source: TokenizerSource, tokenizer: Tokenizer) -> None:
        """The template of ``source``, whose ``tokenizer`` it renders for. Raises ``InvalidCheckpointError``."""
        self._tokenizer = tokenizer
        self.source = _text(source)
        self._template: Template | None = None
        self.variables: frozenset[str] = frozenset()
        if self.source:
            self._template, self.variables = _compile(self.source)

    @property
    def exists(self) -> bool:
        """Whether the checkpoint has a template."""
        return self._template is not None

    @property
    def knows_tools(self) -> bool:
        """Whether the template itself tells the model of tools; else ``generic_tools`` does."""
        return "tools" in self.variables

    def encode(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = (), **variables: Any
    ) -> list[int]:
        """Prompt ids of ``messages``, ready for the assistant's answer, which may call ``tools``.

        Both have the shape that templates know from Hugging Face: ``role`` and ``content``, and for tools
        ``tool_calls`` (``{"type": "function", "function": {"name", "arguments"}}``, arguments as objects), the role
        ``tool``, ``tool_call_id`` and ``name``; ``reasoning_content``. ``variables``, none of them ``RESERVED``, go to
        the template. Raises ``UnsupportedValueError`` if the checkpoint has no template, ``InvalidValueError`` if the
        template refuses the conversation.
        """
        if self._template is None:
            raise UnsupportedValueError(
                "This model has no chat template.", hint="Use the completions endpoint.", param="messages"
            )
        if not self.knows_tools and (tools or any(_beyond_text(message) for message in messages)):
            messages, tools = spell_out(messages, tools), ()
        guard = self._tokenizer.guard(_strings([*messages, *tools, *variables.values()]))
        values = {"messages": _hide([*messages], guard), "tools": _hide([*tools], guard) or None}
        values |= {name: _hide(value, guard) for name, value in variables.items()}
        return self._tokenizer.encode_rendered(self._render(self._template, values, guard), guard)

    def _render(self, template: Template, values: dict[str, Any], guard: TextGuard) -> str:
        specials = {name: self._tokenizer.special_text(name) for name in ("bos_token", "eos_token", "pad_token")}
        pieces: list[str] = []
        size = 0
        try:
            with deadline():
                for piece in template.generate(add_generation_prompt=True, **specials, **values):
                    pieces.append(piece)
                    size += len(piece)
                    if size > MAX_CHARS:
                        raise TemplateError("it makes the conversation too long")
        except _TEMPLATE_FAULTS as error:
            raise InvalidValueError(
                f"The model's chat template refuses this conversation: {cut(guard.lift(str(error)))}", param="messages"
            ) from None
        return "".join(pieces)


def _beyond_text(message: dict[str, Any]) -> bool:
    return message["role"] == "tool" or bool(message.get("tool_calls"))


def _strings(value: Any) -> list[str]:
    """Every string in ``value``, which came from JSON, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [text for each in value for text in _strings(each)] if isinstance(value, list) else []


def _hide(value: Any, guard: TextGuard) -> Any:
    """``value`` with the special literals of all its strings hidden."""
    if isinstance(value, str):
        return guard.hide(value)
    if isinstance(value, dict):
        return {guard.hide(key): _hide(each, guard) for key, each in value.items()}
    return [_hide(each, guard) for each in value] if isinstance(value, list) else value


def _text(source: TokenizerSource) -> str:
    text = source.config.get("chat_template") if source.template_file is None else source.template_file
    if isinstance(text, list):  # named templates: [{"name": ..., "template": ...}]
        default = (entry for entry in text if isinstance(entry, dict) and entry.get("name") == "default")
        text = next(default, {}).get("template")
    if text is not None and (not isinstance(text, str) or len(text) > _MAX_TEMPLATE_CHARS):
        raise InvalidCheckpointError(
            f"The chat template of '{source.origin}' is not a text of under {_MAX_TEMPLATE_CHARS} characters.",
            hint="Repair it where it is: in chat_template.jinja, tokenizer_config.json, or the GGUF file's metadata.",
        )
    return text or ""


def _compile(source: str) -> tuple[Template, frozenset[str]]:
    """The template, and the names of the variables that it asks for."""
    sandbox = TemplateSandbox()
    try:
        return sandbox.from_string(source), frozenset(meta.find_undeclared_variables(sandbox.parse(source)))
    except (TemplateError, RecursionError) as error:
        raise InvalidCheckpointError(
            f"The chat template is malformed: {cut(error)}.", hint="Repair the checkpoint's chat template."
        ) from None
