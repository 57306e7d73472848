"""From the request body to a conversation in no dialect."""

from __future__ import annotations

from unmask.answers.chat import Chat, Length
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.dialects.anthropic_messages.conversation import parse_conversation
from unmask.serving.dialects.anthropic_messages.tools import parse_choice, parse_tools
from unmask.serving.dialects.anthropic_messages.wire import (
    ConversationRequest,
    JsonFormat,
    MessagesRequest,
    OutputConfig,
    ThinkingConfig,
)
from unmask.serving.fields import agree
from unmask.serving.options import decoding_options
from unmask.serving.stop import parse_stop

_FORMAT = "output_config.format.schema"


def parse(body: MessagesRequest) -> Chat:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    wanted = _format(body)
    schema = None if wanted is None else wanted.schema_
    params = GenerationParams(
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        stop=parse_stop(body.stop_sequences),
        **decoding_options(body.unmask, stream=bool(body.stream), schema=schema, schema_name=_FORMAT),
    )
    return parse_chat(body, params)


def parse_chat(body: ConversationRequest, params: GenerationParams) -> Chat:
    """The conversation of ``body``, to be answered with ``params``."""
    messages, prefill = parse_conversation(body.system, body.messages)
    effort = (body.output_config or OutputConfig()).effort
    return Chat(
        messages=messages,
        params=params,
        tools=parse_tools(body.tools),
        choice=parse_choice(body.tool_choice),
        one_call=body.tool_choice is not None and bool(body.tool_choice.disable_parallel_tool_use),
        thinking=_thinking(body.thinking),
        effort=None if effort == "high" else effort,  # "high" is the same as to say nothing
        prefill=prefill,
        length=Length(),  # clients must give a number
    )


def names(body: ConversationRequest) -> dict[str, str]:
    """How errors name what has become of the fields of ``body``."""
    known = {"prompt": "messages", "stop": "stop_sequences", "effort": "output_config.effort"}
    tools = [f"tools[{number}]" for number in range(len(body.tools or ()))]
    known |= {f"{tool}.parameters": f"{tool}.input_schema" for tool in tools}
    if _format(body) is not None:
        known["json_schema"] = _FORMAT
    return known


def _format(body: ConversationRequest) -> JsonFormat | None:
    config = body.output_config or OutputConfig()
    return agree("output_config.format", config.format, "output_format", body.output_format)


def _thinking(config: ThinkingConfig | None) -> bool | None:
    if config is None:
        return None
    if config.budget_tokens is not None and config.type != "enabled":
        raise InvalidValueError(
            f"'thinking' of type '{config.type}' takes no 'budget_tokens'.",
            hint="Leave it out.",
            param="thinking.budget_tokens",
        )
    return {"enabled": True, "disabled": False}.get(config.type)
