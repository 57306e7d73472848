"""How many tokens a lane's answer took, as far as the lane tells it."""

from __future__ import annotations

from unmask.gateway.upstream.chunk import Chunk

_BYTES_A_TOKEN = 4  # of most tokenizers, in English


class Counts:
    """Reads usage wherever a server puts it: in the last chunk, in each, or in llama.cpp's ``timings``.

    What is not told is estimated from the text, since clients rely on numbers, and 0 would be a lie; ``estimated`` says
    so. A count of 0 beside text is none. ``cached``: prompt tokens whose keys and values the lane had.
    """

    def __init__(self, prompt_bytes: int) -> None:
        self._prompt_bytes = prompt_bytes
        self._prompt: int | None = None
        self._completion: int | None = None
        self._reasoning: int | None = None
        self._while_reasoning = 0  # tokens, by counts in between
        self._reasoning_chunks = 0
        self._text_chunks = 0
        self._text_bytes = 0
        self.cached = 0

    def read(self, chunk: Chunk, text: str = "", *, reasoning: bool = False, replaces: str | None = None) -> None:
        """Take what ``chunk`` tells. It brought ``text`` of an answer, ``reasoning`` or not, or one that ``replaces``
        all text before it.
        """
        before = self._completion
        self._read_timings(chunk)
        self._read_usage(chunk)
        if replaces is not None:
            self._text_chunks, self._text_bytes = int(bool(replaces)), len(replaces.encode(errors="replace"))
        if text:
            self._text_chunks += 1
            self._text_bytes += len(text.encode(errors="replace"))
            self._reasoning_chunks += reasoning
            if reasoning and self._completion is not None:
                self._while_reasoning += max(0, self._completion - (before or 0))

    def _read_timings(self, chunk: Chunk) -> None:
        timings = chunk.timings
        if timings is None:
            return
        self.cached = timings.cache_n or 0
        self._prompt = (timings.prompt_n or 0) + self.cached or self._prompt
        self._completion = timings.predicted_n or self._completion

    def _read_usage(self, chunk: Chunk) -> None:
        usage = chunk.usage
        if usage is None:
            return
        self._prompt = _positive(usage.prompt_tokens) or self._prompt
        self._completion = _positive(usage.completion_tokens) or self._completion
        if usage.prompt_tokens_details is not None:
            self.cached = _positive(usage.prompt_tokens_details.cached_tokens) or 0
        details = usage.completion_tokens_details
        told = usage.reasoning_tokens if details is None else details.reasoning_tokens
        self._reasoning = _positive(told) or self._reasoning

    @property
    def estimated(self) -> bool:
        """Whether a number is not the lane's own."""
        return self._prompt is None or (self._completion is None and self._text_bytes > 0)

    @property
    def prompt(self) -> int:
        """Tokens of what was asked."""
        return self._prompt if self._prompt is not None else max(1, -(-self._prompt_bytes // _BYTES_A_TOKEN))

    @property
    def completion(self) -> int:
        """Tokens of the answer. A chunk that brings text has at least one of them."""
        if self._completion is not None:
            return self._completion
        return max(self._text_chunks, -(-self._text_bytes // _BYTES_A_TOKEN))

    @property
    def told_prompt(self) -> int | None:
        """Tokens of what was asked, if the lane told them."""
        return self._prompt

    @property
    def told_completion(self) -> int | None:
        """Tokens of the answer, if the lane told them."""
        return self._completion

    @property
    def reasoning(self) -> int:
        """Tokens of the answer's reasoning; if the lane does not tell them, as many as there were at least."""
        told = self._reasoning or self._while_reasoning or self._reasoning_chunks
        return min(told, self.completion)


def _positive(count: int | None) -> int | None:
    return count if count is not None and count > 0 else None
