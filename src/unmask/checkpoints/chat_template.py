"""From a conversation to prompt ids, with the checkpoint's own chat template."""

from __future__ import annotations

from jinja2 import Template, TemplateError

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
        return self._tokenizer.encode_rendered(self._render(self._template, guarded, guard), guard)

    def _render(self, template: Template, messages: list[dict[str, str]], guard: TextGuard) -> str:
        specials = {name: self._tokenizer.special_text(name) for name in ("bos_token", "eos_token", "pad_token")}
        pieces: list[str] = []
        size = 0
        try:
            with deadline():
                for piece in template.generate(messages=messages, add_generation_prompt=True, **specials):
                    pieces.append(piece)
                    size += len(piece)
                    if size > MAX_CHARS:
                        raise TemplateError("it makes the conversation too long")
        except _TEMPLATE_FAULTS as error:
            raise InvalidValueError(
                f"The model's chat template refuses this conversation: {cut(guard.lift(str(error)))}", param="messages"
            ) from None
        return "".join(pieces)


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


def _compile(source: str) -> Template:
    try:
        return TemplateSandbox().from_string(source)
    except (TemplateError, RecursionError) as error:
        raise InvalidCheckpointError(
            f"The chat template is malformed: {cut(error)}.", hint="Repair the checkpoint's chat template."
        ) from None
