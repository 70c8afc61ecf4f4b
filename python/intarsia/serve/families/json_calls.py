# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that are JSON objects with a name and arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..grammar import Grammar, escaped
from ..readers import ArgumentsReader, JsonArguments, match_compact
from .family import Tool

_SPACE = "[ \\n]{0,4}"


@dataclass(frozen=True)
class JsonCalls:
    """The form ``{"name": …, "arguments": …}``.

    Attributes
    ----------
    key : str
        The key of the arguments.
    is_list : bool
        Calls are the elements of a list.
    """

    begin: str
    between: str
    skips_between: bool
    key: str = "arguments"
    is_list: bool = False

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name of a call, see `CallForm`."""
        begun = len(text) - len(text.lstrip(" \n[")) if self.is_list else 0
        length = match_compact(text[begun:], '{"name":"')
        if not length:
            return length
        begun += length
        name, quote, rest = text[begun:].partition('"')
        if not quote:
            return None
        length = match_compact(rest, f',"{self.key}":')
        return length if not length else (name, begun + len(name) + 1 + length)

    def arguments(self) -> ArgumentsReader:
        """Return the reader for the arguments of a call."""
        return JsonArguments()

    def call(self, grammar: Grammar, tool: Tool, rest: str = "") -> str:
        """Return the grammar of a call; `rest` is a pattern of what may stand before its last bracket."""
        head = f'\\{{{_SPACE}"name" ?: ?"{escaped(tool.name)}"{_SPACE},{_SPACE}"{self.key}" ?: ?'
        tail = f"{rest}{_SPACE}\\}}"
        return f"{grammar.regex(head)} {grammar.json(tool.schema)} {grammar.regex(tail)}"


def as_text(name: str, arguments: str) -> str:
    """Return a call as models write it."""
    return f'{{"name": {json.dumps(name)}, "arguments": {arguments or "{}"}}}'
