"""LangChain's standard tests of chat models, through its client for Ollama."""

from __future__ import annotations

import os

from embedded import MODEL, EmbeddedModelTests
from langchain_ollama import ChatOllama


class TestOllama(EmbeddedModelTests):
    @property
    def chat_model_class(self):
        return ChatOllama

    @property
    def chat_model_params(self):
        return MODEL | {"base_url": os.environ["UNMASK_URL"], "num_predict": 100}
