# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose template knows no calls, or writes them in a form that no other family has.

The system message says which functions there are and how they are called; calls and results of the history are texts.
"""

from __future__ import annotations

import json
from typing import Any

from .family import Message
from .hermes import Hermes
from .json_calls import as_text

_INSTRUCTIONS = """\
You may call functions. Their signatures are:
{tools}

To call a function, write its name and its arguments as a JSON object between tags:
<tool_call>
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
</tool_call>
Several calls follow one another. Without a call, answer in plain text."""


class Generic(Hermes):
    """The form of Hermes, with instructions."""

    name = "generic"

    def knows(self, template: str) -> bool:
        """Return True: this family knows all templates."""
        return True

    def chat(
        self, messages: list[Message], tools: list[Message] | None, template: str
    ) -> tuple[list[Message], list[Message] | None]:
        """Return messages with the tools in them, and no tools."""
        names = {
            call.get("id"): call.get("function", {}).get("name")
            for message in messages
            for call in message.get("tool_calls") or ()
        }
        written: list[Message] = []
        for message in messages:
            if message.get("tool_calls"):
                written.append(_calls_as_text(message))
            elif message.get("role") == "tool":
                text = _result_as_text(message, names)
                # Templates want roles to take turns.
                if written and written[-1].get("role") == "user" and written[-1].get("is_result"):
                    text = f"{written.pop()['content']}\n{text}"
                written.append({"role": "user", "content": text, "is_result": True})
            elif message.get("role") == "user" and written and written[-1].get("is_result"):
                text = f"{written.pop()['content']}\n\n{content_text(message.get('content'))}"
                written.append({**message, "content": text})
            else:
                written.append(message)
        written = [{key: value for key, value in message.items() if key != "is_result"} for message in written]
        if not tools:
            return written, None
        signatures = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        instructions = _INSTRUCTIONS.format(tools=signatures)
        if written and written[0].get("role") in ("system", "developer"):
            first = written.pop(0)
            instructions = f"{content_text(first.get('content'))}\n\n{instructions}"
        if "System role not supported" in template or "system" not in template:
            if not written or written[0].get("role") != "user":
                return [{"role": "user", "content": instructions}, *written], None
            first = written.pop(0)
            text = f"{instructions}\n\n{content_text(first.get('content'))}"
            return [{**first, "content": text}, *written], None
        return [{"role": "system", "content": instructions}, *written], None


def content_text(content: Any) -> str:
    """Return the text of a message's content, which may be in parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def _calls_as_text(message: Message) -> Message:
    texts = [content_text(message.get("content"))]
    for call in message["tool_calls"]:
        function = call.get("function", call)
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        texts.append(f"<tool_call>\n{as_text(function.get('name', ''), arguments)}\n</tool_call>")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, texts))}


def _result_as_text(message: Message, names: dict[Any, Any]) -> str:
    name = message.get("name") or names.get(message.get("tool_call_id"))
    of = f" name={json.dumps(name)}" if name else ""
    return f"<tool_response{of}>\n{content_text(message.get('content'))}\n</tool_response>"
