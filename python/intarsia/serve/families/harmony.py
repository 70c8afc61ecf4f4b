# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gpt-oss: messages in channels, which the model begins and ends itself (the Harmony format of OpenAI).

``<|channel|>analysis<|message|>`` is reasoning, ``<|channel|>final<|message|>`` the answer, and what the channel
``commentary`` has for a recipient ``functions.NAME`` is a call, which ends the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..answers import ARGUMENTS, CALL, CONTENT, REASONING, Piece, Reader
from ..grammar import Grammar, alternatives
from ..readers import JsonArguments, Thinking, begun_length
from .family import Family, Message, Tool, Wanted, separate_calls

_CHANNEL, _MESSAGE, _END, _START = "<|channel|>", "<|message|>", "<|end|>", "<|start|>"
_CONSTRAIN, _CALL, _RETURN = "<|constrain|>", "<|call|>", "<|return|>"
_MARKERS = (_CHANNEL, _MESSAGE, _END, _START, _CONSTRAIN, _CALL, _RETURN)
_HEAD = re.compile(r"(?: to=(?P<first>\S+?))?<\|channel\|>(?P<channel>\w+)(?: to=(?P<then>[^\s<]+))?")
_PREFIX = "functions."
#: What the head of a message begins with: of the first one, the prompt has the beginning.
_BEGINNINGS = tuple(start + begin for start in ("", f"{_START}assistant") for begin in (_CHANNEL, " to=", _MESSAGE))


class Harmony(Family):
    """The form of gpt-oss."""

    name = "harmony"
    calls_once = True
    thinking = Thinking(f"{_CHANNEL}analysis{_MESSAGE}", _END)

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        return _CHANNEL in template and _MESSAGE in template and "analysis" in template

    def chat(
        self, messages: list[Message], tools: list[Message] | None, template: str
    ) -> tuple[list[Message], list[Message] | None]:
        """Return the messages for the chat template, which takes content or reasoning beside a call, not both."""
        return [_without_preamble(message) for message in separate_calls(messages)], tools

    def start(self, grammar: Grammar, wanted: Wanted, thinking: Thinking | None) -> str:
        """Return the grammar of a whole answer."""
        channel, message, constrain = map(grammar.marker, (_CHANNEL, _MESSAGE, _CONSTRAIN))
        again = f'{grammar.marker(_END)} {grammar.marker(_START)} "assistant"'
        text = grammar.text(*_MARKERS)
        format = grammar.rule(f'({grammar.regex(" ?")} {constrain} "json" | " json")?')
        analysis = f'{channel} "analysis" {message} {text} {again}'
        preamble = f'{channel} "commentary" {message} {text} {again}'
        content = None if wanted.content is None else wanted.content(grammar)
        endings = []
        if wanted.may_talk or not wanted.tools:
            endings.append(f'{channel} "final" {format if content else ""} {message} {content or text}')
        for tool in wanted.tools:
            to = grammar.literal(f" to={_PREFIX}{tool.name}")
            arguments = f"{format} {message} {grammar.json(tool.schema)}"
            endings.append(f'({to} {channel} "commentary" | {channel} "commentary" {to}) {arguments}')
        before = f"({analysis} | {preamble})*" if wanted.tools else f"({analysis})*"
        return f"{before} {alternatives(endings)}"

    def reader(self, wanted: Wanted, thinking: Thinking | None, hidden: Any) -> Reader:
        """Return the reader of a sample."""
        return _Reader(self.new_id, bool(wanted.tools))

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call: it is part of `start`."""
        raise NotImplementedError

    def markers(self, wanted: Wanted, thinking: Thinking | None) -> set[str]:
        """Return the markers that the reader must see."""
        return set(_MARKERS)


class _Reader:
    """Reads messages in channels."""

    reasoning_tokens = 0

    def __init__(self, new_id: Any, has_tools: bool) -> None:
        self._new_id, self._has_tools = new_id, has_tools
        self._text = ""
        self._kind: str | None = None  # of the message that is being read; None: its head is
        self._pieces: list[Piece] = []
        self._has_put: set[str] = set()
        self._has_begun = False  # this message has text
        self._arguments: JsonArguments | None = None
        self._has_ended_call = False

    def read(self, text: str) -> Sequence[Piece]:
        """Take more text."""
        self._text += text
        while self._text and (self._head() if self._kind is None else self._message()):
            pass
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self, reason: str) -> tuple[Sequence[Piece], str]:
        """Take the end of the text."""
        pieces = list(self.read(""))
        if self._kind in (CONTENT, REASONING):
            self._put(self._text)
            pieces += self._pieces
        return pieces, "tool_calls" if reason == "stop" and self._has_ended_call else reason

    def _head(self) -> bool:
        if not any(begin.startswith(self._text[: len(begin)]) for begin in _BEGINNINGS):
            self._begin(CONTENT)  # no head at all
            return True
        head, marker, rest = self._text.partition(_MESSAGE)
        if not marker:
            return False
        head = head.removeprefix(_START).removeprefix("assistant")
        self._text = rest
        found = _HEAD.match(head)
        channel = found["channel"] if found else "final"
        recipient = (found["first"] or found["then"]) if found else None
        if recipient and recipient.startswith(_PREFIX) and self._has_tools and not self._has_ended_call:
            self._begin(ARGUMENTS)
            self._arguments = JsonArguments()
            self._pieces.append(Piece(CALL, recipient[len(_PREFIX) :], 0, self._new_id()))
        else:
            self._begin(REASONING if channel == "analysis" or recipient else CONTENT)
        return True

    def _begin(self, kind: str) -> None:
        self._kind, self._has_begun = kind, False

    def _message(self) -> bool:
        if self._kind == ARGUMENTS:
            json, length, is_end = self._arguments.read(self._text)
            if json:
                self._pieces.append(Piece(ARGUMENTS, json))
            self._text = self._text[length:]
            if is_end:
                self._has_ended_call = True
                self._kind = None
            return is_end
        at = self._text.find(_END)
        if at < 0:
            certain = len(self._text) - begun_length(self._text, _END)
            self._put(self._text[:certain])
            self._text = self._text[certain:]
            return False
        self._put(self._text[:at])
        self._text = self._text[at + len(_END) :]
        self._kind = None
        return True

    def _put(self, text: str) -> None:
        if not text:
            return
        # Several messages of a channel become one text.
        if not self._has_begun and self._kind in self._has_put:
            text = f"\n\n{text}"
        self._has_begun = True
        self._has_put.add(self._kind)
        self._pieces.append(Piece(self._kind, text))


def _without_preamble(message: Message) -> Message:
    """Return a message in which what was said before a call is part of the reasoning."""
    if not message.get("tool_calls") or not message.get("content"):
        return message
    names = ("reasoning_content", "thinking", "reasoning")
    reasoning = next((message[name] for name in names if message.get(name)), None)
    if reasoning is None or not isinstance(message["content"], str):
        return message
    rest = {key: value for key, value in message.items() if key not in (*names, "content")}
    return {**rest, "reasoning_content": f"{reasoning}\n\n{message['content']}"}
