"""LangChain's standard tests of chat models, through its client for OpenAI's chat completions."""

from __future__ import annotations

import os

from embedded import MODEL, EmbeddedModelTests
from langchain_openai import ChatOpenAI


class TestChat(EmbeddedModelTests):
    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return MODEL | {
            "base_url": f"{os.environ['UNMASK_URL']}/v1",
            "api_key": "none",
            "max_tokens": 100,
            "max_retries": 0,
            "stream_usage": True,
            "extra_body": {"unmask": self.options},
        }
