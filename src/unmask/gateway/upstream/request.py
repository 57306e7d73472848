"""From a conversation, or a prompt, to the bodies of the requests that a lane answers it with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from unmask.answers.chat import Chat, Continuation, Length, check_variables
from unmask.answers.reading import VERBATIM, Reading
from unmask.answers.syntax import NO_SYNTAX
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.forms import check_prefill, form_fields
from unmask.gateway.upstream.messages import openai_messages
from unmask.gateway.upstream.tools import check_chat_tools, reading_of, tool_fields, tool_messages
from unmask.gateway.upstream.understood import HERE, TAKEN, check_params, check_taken, is_said
from unmask.params import CONSTRAINTS, GenerationParams
from unmask.sampling import SAMPLING

_SEEDS = 2**32 - 1  # the last one of 32 bits means "any" to llama.cpp
_THINKING = ("enable_thinking", "thinking")  # what templates call it
_MOST_LOOKED_AT = 2**16  # tokens of an engine that does not tell how many a request has
_PLAIN = ("max_tokens", "temperature", "top_p", "min_tokens", "ignore_eos")  # as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to a lane, and how its answer is to be read.

    ``body``: its JSON. ``unlimited``: the same without ``max_tokens``, for an answer that is to be cut to what fits; it
    is sent if the lane says that it has no room for as many. ``prompt_bytes``: how long what is asked is, for a lane
    that does not count tokens. ``stop`` strings end the text whether the lane was told of them or not. ``logprobs``:
    how many alternatives were asked for with each token. ``tells_end``: whether what the lane says of why the answer
    ended means anything. ``timeout`` in seconds. ``applied``: what the lane was told, as users name it.
    """

    path: str
    body: bytes
    unlimited: bytes | None
    prompt_bytes: int
    reading: Reading
    stop: tuple[str, ...]
    logprobs: int | None
    frames: bool
    max_tokens: int | None
    tells_end: bool
    timeout: float | None
    applied: dict[str, Any]


def ask_chat(chat: Chat, endpoint: Endpoint) -> list[Asked]:
    """A request for each copy of ``chat``. Raises ``UnsupportedValueError`` naming what ``endpoint`` does not
    understand, ``InvalidValueError`` for what is out of range or contradicts itself.
    """
    params = chat.params
    check_params(params, endpoint)
    _check_length(chat.length, endpoint)
    _check_chat(chat, endpoint)
    fields = {
        **_conversation(chat, endpoint),
        **tool_fields(chat, endpoint),
        **_thinking_fields(chat, endpoint),
        **form_fields(params, endpoint, chat=True),
    }
    if params.logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": _alternatives(params.logprobs, endpoint)}
    if params.frames:
        fields["diffusing"] = True
    reading = reading_of(chat, endpoint)
    said = {"thinking": chat.thinking, "effort": chat.effort, "chat_template_kwargs": chat.variables or None}
    told = {name: value for name, value in said.items() if value is not None}
    asked = [_asked("/chat/completions", fields, reading, params, endpoint, copy, told) for copy in range(chat.copies)]
    return asked if chat.length is None or params.max_tokens is None else list(map(_with_unlimited, asked))


def ask_texts(continuation: Continuation, endpoint: Endpoint) -> list[Asked]:
    """A request for each copy of each prompt of ``continuation``; copies of a prompt stand next to each other. Raises
    what ``ask_chat`` raises.
    """
    params = continuation.params
    check_params(params, endpoint)
    _check_texts(continuation, endpoint)
    fields = form_fields(params, endpoint, chat=False)
    if params.logprobs is not None:
        fields["logprobs"] = _alternatives(params.logprobs, endpoint)
    if endpoint.kind == "vllm" and params.max_tokens is None:
        fields["max_tokens"] = None  # else it takes 16; None is all the room there is
    return [
        _asked("/completions", {"prompt": prompt, **fields}, VERBATIM, params, endpoint, copy, {})
        for prompt in (*continuation.texts, *continuation.ids)
        for copy in range(continuation.copies)
    ]


def _check_texts(continuation: Continuation, endpoint: Endpoint) -> None:
    _check_length(continuation.length, endpoint)
    if continuation.params.frames:
        raise UnsupportedValueError(
            f"'frames' are understood by lane '{endpoint.lane}' in chats only.", hint="Ask in a chat.", param="frames"
        )
    if continuation.echo:
        check_taken("echo", endpoint)
    if continuation.ids:
        check_taken("token ids", endpoint, "prompt")
    if not all(continuation.texts) or not all(continuation.ids):
        raise InvalidValueError("The prompt is empty.", hint="Give at least one token.", param="prompt")


def _check_length(length: Length | None, endpoint: Endpoint) -> None:
    """The client's own context can only be kept to where the lane's is no larger: nobody counts the prompt here."""
    if length is None or length.context is None:
        return
    if endpoint.context_length is None or length.context < endpoint.context_length:
        raise UnsupportedValueError(
            f"'context' is {length.context}; lane '{endpoint.lane}' has a context of its own.",
            hint="Leave it out, or limit 'max_tokens'.",
            param="context",
        )


def _asked(
    path: str,
    fields: dict[str, Any],
    reading: Reading,
    params: GenerationParams,
    endpoint: Endpoint,
    copy: int,
    told: dict[str, Any],
) -> Asked:
    seed = None if params.seed is None else (params.seed + copy) % _SEEDS
    body = {"model": endpoint.model, **fields, **_sampling(params, seed, endpoint), **_streaming(endpoint)}
    applied = {
        name: getattr(params, name) for name in TAKEN if hasattr(params, name) and is_said(params, name, endpoint)
    }
    form = next((name for name in CONSTRAINTS if applied.pop(name, None) is not None), None)
    applied |= told | ({} if seed is None else {"seed": seed}) | ({} if form is None else {"constraint": form})
    asking = {name: fields[name] for name in ("messages", "tools", "prompt") if name in fields}
    return Asked(
        path=path,
        body=msgspec.json.encode(body),
        unlimited=None,
        prompt_bytes=len(msgspec.json.encode(asking)),
        reading=reading,
        stop=params.stop or (),
        logprobs=params.logprobs,
        frames=params.frames,
        max_tokens=params.max_tokens,
        tells_end=endpoint.kind != "diffusion",  # which says "stop" of every answer
        timeout=None if params.timeout_ms is None else params.timeout_ms / 1000,
        applied=applied,
    )


def _with_unlimited(asked: Asked) -> Asked:
    body = msgspec.json.decode(asked.body)
    del body["max_tokens"]
    return replace(asked, unlimited=msgspec.json.encode(body))


def _streaming(endpoint: Endpoint) -> dict[str, Any]:
    """Always a stream, and always its usage: with each chunk where a lane can tell it, so that no end hides it."""
    options: dict[str, Any] = {"include_usage": True}
    if endpoint.kind in ("vllm", "sglang"):
        options["continuous_usage_stats"] = True
    own = {"timings_per_token": True} if endpoint.kind == "llama.cpp" else {}
    return {"stream": True, "stream_options": options, **own}


def _sampling(params: GenerationParams, seed: int | None, endpoint: Endpoint) -> dict[str, Any]:
    fields = {
        TAKEN[name][endpoint.kind]: getattr(params, name)
        for name in (*_PLAIN, *SAMPLING)
        if is_said(params, name, endpoint)
    }
    if params.repeat_last_n is not None and is_said(params, "repeat_last_n", endpoint):
        most = endpoint.context_length or _MOST_LOOKED_AT  # llama.cpp makes room for as many
        fields["repeat_last_n"] = most if params.repeat_last_n < 0 else min(params.repeat_last_n, most)
    if params.top_k is not None:
        off = -1 if endpoint.kind in ("vllm", "sglang") else 0  # in its words
        fields["top_k"] = max(0, params.top_k) or off
    if seed is not None:
        fields["seed"] = seed
    if params.stop and TAKEN["stop"][endpoint.kind] != HERE:  # llama.cpp does not tell by which one it was stopped
        fields["stop"] = list(params.stop)
    if params.logit_bias:
        fields["logit_bias"] = {str(token): bias for token, bias in params.logit_bias.items()}
    return fields


def _alternatives(count: int, endpoint: Endpoint) -> int:
    """How many to ask for: to llama.cpp none means no log-probabilities at all."""
    return max(count, 1) if endpoint.kind == "llama.cpp" else count


def _conversation(chat: Chat, endpoint: Endpoint) -> dict[str, Any]:
    messages = openai_messages(tool_messages(chat, endpoint), endpoint.kind)
    if chat.prefill:
        messages.append({"role": "assistant", "content": chat.prefill})
    fields: dict[str, Any] = {"messages": messages}
    # llama.cpp goes on with any last message of the assistant's; untold to, b11434 repeats it in its answer.
    if chat.prefill or (endpoint.kind == "llama.cpp" and any(map(_is_text_of_the_assistant, messages[-1:]))):
        fields["continue_final_message"] = True
        if endpoint.kind in ("llama.cpp", "vllm"):
            fields["add_generation_prompt"] = False
    return fields


def _is_text_of_the_assistant(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "assistant" and "tool_calls" not in message)


def _thinking_fields(chat: Chat, endpoint: Endpoint) -> dict[str, Any]:
    """Whether to reason, and how much: variables of the chat template, or an effort for who shows no template."""
    if endpoint.kind == "remote":
        least = "instant" if endpoint.snapshots else "none"
        effort = least if chat.thinking is False else chat.effort
        return {} if effort is None else {"reasoning_effort": effort}
    if endpoint.kind == "diffusion":
        return {}
    variables: dict[str, Any] = {**chat.variables}
    if chat.thinking is not None:
        variables |= dict.fromkeys(_THINKING, chat.thinking)
    if chat.effort is not None:
        variables["reasoning_effort"] = chat.effort
    return {"chat_template_kwargs": variables} if variables else {}


def _check_chat(chat: Chat, endpoint: Endpoint) -> None:
    """What can be known beforehand to have no effect."""
    check_chat_tools(chat, endpoint)
    if chat.prefill:
        check_taken("prefill", endpoint, "messages")
        check_prefill(chat.prefill, chat.params, endpoint)
    if chat.variables:
        check_taken("chat_template_kwargs", endpoint)
        check_variables(chat.variables, endpoint.variables)
    _check_thinking(chat, endpoint)
    if chat.params.logprobs is not None and reading_of(chat, endpoint).syntax not in (None, NO_SYNTAX):
        raise UnsupportedValueError(
            f"Lane '{endpoint.lane}' tells reasoning and calls as text, which its log-probabilities cannot be told "
            "apart by.",
            hint="Leave 'logprobs' out.",
            param="logprobs",
        )


def _check_thinking(chat: Chat, endpoint: Endpoint) -> None:
    for name in ("thinking", "effort"):
        if getattr(chat, name):
            check_taken(name, endpoint)
    if endpoint.kind == "remote":
        if chat.thinking and chat.effort is None:
            raise UnsupportedValueError(
                f"Lane '{endpoint.lane}' is told of reasoning by an effort only.", hint="Say one.", param="thinking"
            )
        return
    if endpoint.variables is None:
        return
    # Not to reason is what most models without the switch do anyway; an effort that goes along with 'thinking' need
    # not mean anything: it is on or off.
    thinking = chat.thinking is not None and (chat.thinking or endpoint.opens_reasoning)
    effort = chat.effort is not None and chat.thinking is None
    for name, variables, asked in (("thinking", _THINKING, thinking), ("effort", ("reasoning_effort",), effort)):
        if asked and endpoint.variables.isdisjoint(variables):
            raise UnsupportedValueError(
                f"The chat template of this model on lane '{endpoint.lane}' does not read '{variables[0]}'.",
                hint=f"Leave '{name}' out.",
                param=name,
            )
