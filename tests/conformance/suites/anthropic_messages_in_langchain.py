"""LangChain's standard tests of chat models, through its client for Anthropic's messages."""

from __future__ import annotations

import os

from embedded import MODEL, EmbeddedModelTests
from langchain_anthropic import ChatAnthropic


class TestMessages(EmbeddedModelTests):
    @property
    def chat_model_class(self):
        return ChatAnthropic

    @property
    def chat_model_params(self):
        return MODEL | {
            "base_url": os.environ["UNMASK_URL"],
            "api_key": "none",
            "max_tokens": 100,
            "max_retries": 0,
            "model_kwargs": {"extra_body": {"unmask": self.options}},
        }

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True
