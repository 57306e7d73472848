"""Tokenizer endpoints as vLLM offers them; evaluation and load tools rely on these shapes."""
