"""From the request body to a conversation in no dialect."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.answers.chat import Chat
from unmask.errors import InvalidValueError
from unmask.serving.dialects.openai_chat import wire
from unmask.serving.dialects.openai_chat.tools import parse_choice, parse_tools
from unmask.serving.dialects.openai_common.messages import parse_messages
from unmask.serving.dialects.openai_common.parse import format_names, parse_effort, parse_params, wants_usage
from unmask.serving.dialects.openai_common.template_variables import parse_variables, variable_names
from unmask.serving.fields import agree
from unmask.serving.options import alternatives


@dataclass(frozen=True, slots=True)
class ParsedChat:
    """What the body asks for, and how. ``names`` maps parameters to the request's fields, for errors."""

    chat: Chat
    snapshots: bool
    include_usage: bool
    names: dict[str, str]


def parse(body: wire.ChatRequest) -> ParsedChat:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    snapshots = bool(body.diffusing)
    if snapshots:
        _check_snapshots(body)
    max_tokens = agree("max_tokens", body.max_tokens, "max_completion_tokens", body.max_completion_tokens)
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    logprobs = alternatives(body.top_logprobs, asked=bool(body.logprobs), by="'logprobs': true")
    chat = Chat(
        messages=parse_messages(body.messages),
        params=parse_params(body, max_tokens, logprobs, frames=snapshots),
        tools=parse_tools(body.tools),
        choice=parse_choice(body.tool_choice),
        one_call=body.parallel_tool_calls is False,
        copies=body.n or 1,
        **parse_variables(body.chat_template_kwargs, **parse_effort(body.reasoning_effort)),
    )
    own = {"prompt": "messages", "max_tokens": limit, "logprobs": "top_logprobs", "thinking": "reasoning_effort"}
    own |= variable_names(body.chat_template_kwargs) | format_names(body)
    return ParsedChat(chat, snapshots, wants_usage(body), own)


def _check_snapshots(body: wire.ChatRequest) -> None:
    """Snapshots are a stream of one answer, and have no room for what belongs to additions."""
    taken = (
        ("stream", body.stream is False),
        ("n", (body.n or 1) > 1),
        ("logprobs", bool(body.logprobs)),
        ("unmask.canvas", body.unmask is not None and body.unmask.canvas is not None),
    )
    for field, wrong in taken:
        if wrong:
            raise InvalidValueError(f"'{field}' does not go with 'diffusing'.", hint="Leave it out.", param=field)
