"""Tools for models whose chat template knows none: told, called and answered in plain text.

The words are those of the Hermes format, which more open models were trained on than on any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_INSTRUCTIONS = """You may call functions. Their signatures stand within <tools></tools>:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": <function-name>, "arguments": <arguments-json-object>}}
</tool_call>"""


def spell_out(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """``messages`` without anything but roles and contents: ``tools`` are told by a system message, calls stand in the
    assistant's own, and results come from the user, neighbouring ones together.
    """
    plain: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] == "tool" else message["role"]
        text = _text(message)
        if message["role"] == "tool" and plain and plain[-1]["role"] == "user":
            plain[-1]["content"] += f"\n{text}"
        else:
            plain.append({"role": role, "content": text})
    if not tools:
        return plain
    told = _INSTRUCTIONS.format(tools="\n".join(map(_json, tools)))
    if plain and plain[0]["role"] == "system":
        plain[0]["content"] = f"{plain[0]['content']}\n\n{told}"
        return plain
    return [{"role": "system", "content": told}, *plain]


def _text(message: dict[str, Any]) -> str:
    content: str = message.get("content") or ""
    if message["role"] == "tool":
        return f"<tool_response>\n{content}\n</tool_response>"
    calls = [f"<tool_call>\n{_json(call['function'])}\n</tool_call>" for call in message.get("tool_calls", ())]
    return "\n".join(filter(None, [content, *calls]))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
