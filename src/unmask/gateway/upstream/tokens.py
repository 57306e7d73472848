"""A lane's tokenizer: the tokens of a text, or of the prompt that a conversation makes, and the text of tokens.

None in place of an answer: lanes of this kind, or this server, cannot tell.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from unmask.answers.chat import Chat
from unmask.answers.tokenized import Tokenized, check_ids
from unmask.errors import UpstreamError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.failures import failure_of, told_by_response
from unmask.gateway.upstream.request import ask_chat

_SECONDS = aiohttp.ClientTimeout(total=30)
_TEMPLATE_FIELDS = ("messages", "tools", "chat_template_kwargs", "continue_final_message", "add_generation_prompt")
_MOST_IDS = 2**31 - 1  # of any vocabulary
_UNKNOWN = (404, 405, 501)  # a server without such an endpoint

Object = dict[str, Any]


class LaneTokenizer:
    """Asks ``endpoint``. All raise what the lane says is wrong."""

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession) -> None:
        self._endpoint = endpoint
        self._session = session
        self._root = endpoint.base_url.rstrip("/").removesuffix("/v1")

    async def of_text(self, text: str, *, special: bool = True, pieces: bool = False) -> Tokenized | None:
        """The tokens of ``text``, after a token that begins it if ``special`` and the model knows one."""
        if self._endpoint.kind == "llama.cpp":
            return await self._of_llama_cpp(text, special, pieces)
        if self._endpoint.kind not in ("vllm", "sglang"):
            return None
        return await self._of_vllm({"prompt": text, "add_special_tokens": special}, pieces)

    async def of_chat(self, chat: Chat, *, pieces: bool = False) -> Tokenized | None:
        """The tokens of the prompt that ``chat`` makes. Raises what ``ask_chat`` raises."""
        said: Object = msgspec.json.decode(ask_chat(chat, self._endpoint)[0].body)
        shown = {name: said[name] for name in _TEMPLATE_FIELDS if name in said}
        if self._endpoint.kind == "llama.cpp":
            rendered = await self._ask("/apply-template", shown)
            return None if rendered is None else await self._of_llama_cpp(rendered.get("prompt"), True, pieces)
        return await self._of_vllm(shown, pieces) if self._endpoint.kind == "vllm" else None

    async def text(self, ids: list[int]) -> str | None:
        """The text of ``ids``, special tokens shown. Raises ``InvalidValueError`` for an id that is none."""
        if self._endpoint.kind == "llama.cpp":
            check_ids(ids, await self._vocabulary() or _MOST_IDS)
            told, name = await self._ask("/detokenize", {"tokens": ids}), "content"
        elif self._endpoint.kind in ("vllm", "sglang"):
            check_ids(ids, _MOST_IDS)
            own = {"skip_special_tokens": False} if self._endpoint.kind == "sglang" else {}
            told = await self._ask("/detokenize", {"model": self._endpoint.model, "tokens": ids, **own})
            name = "prompt" if self._endpoint.kind == "vllm" else "text"
        else:
            return None
        text = None if told is None else told.get(name)
        return text if isinstance(text, str) else None

    async def info(self) -> Object | None:
        """What is known of the tokenizer: the chat template, and the tokens that begin and end a text."""
        if self._endpoint.kind == "llama.cpp":
            props = await self._ask("/props")
            names = ("bos_token", "eos_token", "chat_template")
            return None if props is None else {name: props[name] for name in names if name in props}
        return await self._ask("/tokenizer_info") if self._endpoint.kind == "vllm" else None

    async def _of_llama_cpp(self, text: Any, special: bool, pieces: bool) -> Tokenized | None:
        asked = {"content": text, "add_special": special, "parse_special": True, "with_pieces": pieces}
        tokens = (await self._ask("/tokenize", asked) or {}).get("tokens")
        if not isinstance(tokens, list):
            return None
        spelled = [token for token in tokens if isinstance(token, dict)]
        if len(spelled) < len(tokens) or not pieces:
            return Tokenized(tokens, None, self._endpoint.context_length)
        texts = [_piece(token.get("piece")) for token in spelled]
        return Tokenized([token.get("id", 0) for token in spelled], texts, self._endpoint.context_length)

    async def _of_vllm(self, asked: Object, pieces: bool) -> Tokenized | None:
        own = {"return_token_strs": True} if pieces and self._endpoint.kind == "vllm" else {}
        told = await self._ask("/tokenize", {"model": self._endpoint.model, **asked, **own}) or {}
        tokens, texts = told.get("tokens"), told.get("token_strs")
        if not isinstance(tokens, list):
            return None
        return Tokenized(tokens, texts if isinstance(texts, list) else None, self._endpoint.context_length)

    async def _vocabulary(self) -> int | None:
        """How many tokens llama.cpp's model knows: asked for the text of others it fails, and says nothing useful."""
        listed = (await self._ask("/v1/models") or {}).get("data")
        meta = listed[0].get("meta") if isinstance(listed, list) and listed else None
        size = meta.get("n_vocab") if isinstance(meta, dict) else None
        return size if isinstance(size, int) else None

    async def _ask(self, path: str, body: Object | None = None) -> Object | None:
        """What the server says at ``path``; None if it has no such endpoint."""
        endpoint, method = self._endpoint, "GET" if body is None else "POST"
        sent = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method,
                self._root + path,
                data=sent,
                headers=endpoint.headers,
                timeout=_SECONDS,
                allow_redirects=False,
            ) as response:
                said = await response.read()
                if response.status in _UNKNOWN:
                    return None
                if response.status != 200:
                    raise failure_of(told_by_response(response.status, response.headers, said), endpoint)
                return msgspec.json.decode(said, type=Object)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            raise UpstreamError(
                f"{endpoint.told} did not tell its tokens: {type(error).__name__}.", hint=endpoint.look
            ) from None


def _piece(piece: Any) -> str:
    """A token's text; llama.cpp tells a part of a character as its bytes."""
    return bytes(piece).decode(errors="replace") if isinstance(piece, list) else str(piece)
