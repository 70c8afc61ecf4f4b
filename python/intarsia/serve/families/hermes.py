# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hermes, Qwen and others: ``<tool_call>{"name": …, "arguments": …}</tool_call>``, as often as there are calls."""

from __future__ import annotations

from ..grammar import Grammar
from .family import Family, Tool, Wanted
from .json_calls import JsonCalls


class Hermes(Family):
    """The form of NousResearch's Hermes and of Qwen 2.5 and 3."""

    name = "hermes"
    begin, end = "<tool_call>", "</tool_call>"
    calls = JsonCalls("<tool_call>", "<tool_call>", True)

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        return "tools" in template and "<tool_call>" in template and not _is_xml(template)

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call."""
        return self.calls.call(grammar, tool)

    def calls_behind(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of what follows the first marker."""
        space = grammar.regex(r"\n{0,2}")
        one = grammar.rule(f"{space} {self.one_of(grammar, wanted)} {space} {grammar.marker(self.end)}")
        return f"{one} {self.more(wanted, f'{space} {grammar.marker(self.begin)} {one}')}"


def _is_xml(template: str) -> bool:
    """Return True for templates that have tags for parameters between those of calls (Qwen3-Coder, GLM 4.5)."""
    return "<function=" in template or "<arg_key>" in template or "<param" in template
