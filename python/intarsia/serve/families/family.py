# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What families of models have in common: a marker, calls behind it, and nothing behind them."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..answers import Reader
from ..grammar import Grammar, alternatives
from ..readers import CallForm, TextReader, Thinking

#: Calls of an answer: a model that does not end would go on calling until its context is full.
MOST_CALLS = 16
_LETTERS = string.ascii_letters + string.digits

Message = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A function that may be called.

    Attributes
    ----------
    name : str
    schema : dict
        What its arguments are valid by, prepared for llguidance.
    is_strict : bool
        All of the schema must be held.
    """

    name: str
    schema: dict[str, Any]
    is_strict: bool = False


@dataclass(frozen=True)
class Wanted:
    """What an answer may consist of.

    Attributes
    ----------
    tools : sequence of Tool
        Those that may be called.
    may_talk : bool
        The answer may be text.
    may_repeat : bool
        Several calls are allowed.
    content : callable or None
        Writes the grammar of the text; None: any text.
    """

    tools: Sequence[Tool] = ()
    may_talk: bool = True
    may_repeat: bool = True
    content: Any = None


class Family:
    """A family of models.

    Attributes
    ----------
    name : str
    calls : CallForm
        How calls are written.
    calls_once : bool
        An answer, and a message of the history, has one call.
    """

    name = ""
    calls: CallForm
    calls_once = False
    #: Markers of reasoning that templates of this family have, beside those of `reasoning.MARKERS`.
    thinking: Thinking | None = None

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        raise NotImplementedError

    def new_id(self) -> str:
        """Return an identifier for a call."""
        return f"call_{random_letters(24)}"

    def chat(
        self, messages: list[Message], tools: list[Message] | None, template: str
    ) -> tuple[list[Message], list[Message] | None]:
        """Return the messages and the tools for the chat template."""
        return (separate_calls(messages) if self.calls_once else messages), tools

    def unheld(self, tool: Tool) -> list[str]:
        """Return the keywords of a function's schema that this form of calls cannot hold."""
        return []

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call, without the markers around calls."""
        raise NotImplementedError

    def calls_behind(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of what follows the first marker."""
        raise NotImplementedError

    def start(self, grammar: Grammar, wanted: Wanted, thinking: Thinking | None) -> str:
        """Return the grammar of a whole answer."""
        marker = self.calls.begin
        content = None if wanted.content is None else wanted.content(grammar)
        if not wanted.tools:
            answer = content or grammar.text(marker)
        else:
            calls = grammar.rule(self.calls_behind(grammar, wanted))
            answer = f"{grammar.marker(marker)} {calls}"
            if wanted.may_talk and content is None:
                answer = f"({grammar.text(marker)} | {grammar.until(marker)} {calls})"
            elif wanted.may_talk:
                answer = f"({content} | {answer})"
        return with_thinking(grammar, answer, thinking)

    def one_of(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of a call of any tool."""
        return grammar.rule(alternatives([self.call(grammar, tool) for tool in wanted.tools]))

    def more(self, wanted: Wanted, another: str) -> str:
        """Return the grammar of further calls."""
        return f"({another}){{0,{MOST_CALLS - 1}}}" if wanted.may_repeat else ""

    def reader(self, wanted: Wanted, thinking: Thinking | None, hidden: Any) -> Reader:
        """Return the reader of a sample."""
        return TextReader(thinking, self.calls if wanted.tools else None, self.new_id, hidden)

    def markers(self, wanted: Wanted, thinking: Thinking | None) -> set[str]:
        """Return the markers that the reader must see."""
        marks = {thinking.begin, thinking.end} if thinking is not None else set()
        return marks | ({self.calls.begin, self.calls.between} - {""} if wanted.tools else set())


def with_thinking(grammar: Grammar, answer: str, thinking: Thinking | None) -> str:
    """Return the grammar of an answer before which a model may think, or goes on thinking."""
    if thinking is None:
        return answer
    gap = grammar.regex(r"[ \n]{0,4}")
    rest = grammar.rule(f"{grammar.until(thinking.end)} {gap}")
    if thinking.is_open:
        return f"{rest} {answer}"
    # The white space before an answer: templates write a new line behind the marker.
    return f"({grammar.marker(thinking.begin)} {rest})? {answer}"


def separate_calls(messages: list[Message]) -> list[Message]:
    """Return messages with one call in each, and each result behind its call."""
    separated: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or len(calls) < 2:
            separated.append(message)
            continue
        results = []
        while at < len(messages) and messages[at].get("role") == "tool":
            results.append(messages[at])
            at += 1
        for number, call in enumerate(calls):
            alone = {**message, "tool_calls": [call]}
            if number:  # what was thought and said is before the first call
                alone = {key: alone[key] for key in ("role", "tool_calls")}
            separated.append(alone)
            mine = [result for result in results if result.get("tool_call_id") == call.get("id")]
            separated += mine
            results = [result for result in results if all(result is not one for one in mine)]
        separated += results
    return separated


def random_letters(count: int) -> str:
    """Return random letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
