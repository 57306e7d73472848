"""Any form of prompt to token ids, with a model's own tokenizer and chat template."""

from __future__ import annotations

from typing import Any

from unmask.checkpoints.chat_template import ChatTemplate
from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.errors import InvalidCheckpointError, InvalidValueError
from unmask.params import ModelInfo
from unmask.shown import shown


class PromptEncoder:
    """The tokenizer and the template of one model."""

    def __init__(self, model: str, info: ModelInfo) -> None:
        """Read them from the checkpoint ``model``. Raises ``InvalidCheckpointError`` if they do not fit the model."""
        checkpoint = open_checkpoint(model)
        source = (
            TokenizerSource.from_directory(checkpoint.path)
            if checkpoint.header is None
            else TokenizerSource.from_gguf(checkpoint.header)
        )
        self.tokenizer = Tokenizer(source, info.mask_id)
        if self.tokenizer.size > info.vocab_size:
            raise InvalidCheckpointError(
                f"The tokenizer knows {self.tokenizer.size} tokens; the model has {info.vocab_size}.",
                hint="Does the tokenizer belong to this model?",
            )
        self.template = ChatTemplate(source, self.tokenizer)

    def encode(self, prompt: str | list[int] | list[dict[str, str]], *, raw: bool = False) -> list[int]:
        """Prompt ids of messages, ids (checked), or text: a user's message where there is a template, unless ``raw``.

        Raises ``InvalidValueError`` for an empty prompt, an unknown id, the mask id, a refused conversation, and
        what is no prompt at all.
        """
        if isinstance(prompt, str):
            chat = self.template.exists and not raw
            ids = (
                self.template.encode([{"role": "user", "content": prompt}])
                if chat
                else self.tokenizer.encode_text(prompt)
            )
        elif not isinstance(prompt, list | tuple) or (prompt and isinstance(prompt[0], str | list | tuple)):
            raise InvalidValueError(
                f"The prompt is {shown(prompt)}.",
                hint="Give one prompt: a text, a list of token ids, or a list of messages.",
                param="prompt",
            )
        elif prompt and isinstance(prompt[0], dict):
            ids = self.template.encode([_checked(message) for message in prompt])
        else:
            ids = self.tokenizer.check_ids(prompt)  # type: ignore[arg-type]
        if not ids:
            raise InvalidValueError("The prompt is empty.", hint="Give at least one token.", param="prompt")
        return ids


def _checked(message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
        raise InvalidValueError("Every message needs the texts 'role' and 'content'.", param="messages")
    return message
