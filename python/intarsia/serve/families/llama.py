# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Llama 3.1 to 3.3: an answer is text, or one object ``{"name": …, "parameters": …}`` from its beginning on."""

from __future__ import annotations

import re

from ..grammar import Grammar
from ..readers import Thinking
from .family import Family, Tool, Wanted, with_thinking
from .json_calls import JsonCalls

#: How templates write a call: '{"name": "' + tool_call.name + '", "parameters": ' + tool_call.arguments.
_CALL = re.compile(
    r"""["']name["']\s*:\s*["']\s*['"]?\s*\+.{0,80}?["']parameters["']\s*:.{0,60}?arguments""", re.DOTALL
)


class _LlamaCalls(JsonCalls):
    """The form of a call, before which there may be a marker."""

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name of a call, see `CallForm`."""
        mark = Llama.mark
        if text.startswith(mark):
            found = super().head(text[len(mark) :])
            return (found[0], found[1] + len(mark)) if found else found
        return None if mark.startswith(text) else super().head(text)


class Llama(Family):
    """The form of Meta's Llama 3.1, 3.2 and 3.3 for functions of the user."""

    name = "llama"
    mark = "<|python_tag|>"
    calls = _LlamaCalls("", "", False, "parameters")
    calls_once = True

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        return bool(_CALL.search(template))

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call."""
        return self.calls.call(grammar, tool)

    def start(self, grammar: Grammar, wanted: Wanted, thinking: Thinking | None) -> str:
        """Return the grammar of a whole answer."""
        content = None if wanted.content is None else wanted.content(grammar)
        if not wanted.tools:
            return with_thinking(grammar, content or grammar.regex(r"([^{](?s:.*))?"), thinking)
        answer = self.one_of(grammar, wanted)
        if grammar.is_token(self.mark):
            answer = f"({grammar.marker(self.mark)})? {answer}"
        if wanted.may_talk:
            answer = f"({content or grammar.regex('([^{](?s:.*))?')} | {answer})"
        return with_thinking(grammar, answer, thinking)

    def markers(self, wanted: Wanted, thinking: Thinking | None) -> set[str]:
        """Return the markers that the reader must see."""
        return super().markers(wanted, thinking) | ({self.mark} if wanted.tools else set())
