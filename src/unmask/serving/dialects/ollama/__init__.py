"""Ollama: chat, generate, and what its clients ask of models. A request passes wire, parse, then encode or stream."""
