"""LangChain's standard tests of chat models, through its client for Ollama."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from embedded import MODEL, TOLD, EmbeddedModelTests, call
from langchain_ollama import ChatOllama


class ChatOllamaWithOptions(ChatOllama):
    """The client knows no options but Ollama's own: this one adds ours."""

    more: dict[str, Any]

    def _chat_params(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        params = super()._chat_params(*arguments, **named)
        return params | {"options": dict(params["options"]) | {"unmask": self.more}}


class TestOllama(EmbeddedModelTests):
    """Ollama has no choice of tools, so that more has to be told."""

    told: ClassVar = TOLD | {
        "test_bind_runnables_as_tools": call("greeting_generator", answer_style="pirate"),
        "test_tool_calling_with_no_arguments": call("magic_function_no_args"),
    }

    @property
    def chat_model_class(self):
        return ChatOllamaWithOptions

    @property
    def chat_model_params(self):
        return MODEL | {"base_url": os.environ["UNMASK_URL"], "num_predict": 100, "more": self.options}

    @property
    def has_tool_choice(self) -> bool:
        return False
