# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistral: ``[TOOL_CALLS]`` and a list, or ``[TOOL_CALLS]name[ARGS]{…}`` since version 11 of the tokenizer."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from ..grammar import Grammar
from ..readers import ArgumentsReader, JsonArguments, Thinking
from .family import Family, Message, Tool, Wanted, random_letters
from .json_calls import JsonCalls

_ID = re.compile(r"[A-Za-z0-9]{9}")
_BEGIN, _ARGUMENTS, _CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"


@dataclass(frozen=True)
class _NamedCalls:
    """The form ``name[ARGS]{…}``, where ``[CALL_ID]`` may stand before the arguments."""

    begin: str = _BEGIN
    between: str = _BEGIN
    skips_between: bool = True

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name of a call, see `CallForm`."""
        name, marker, _ = text.partition(_ARGUMENTS)
        if not marker:
            return None
        return name.partition(_CALL_ID)[0].strip(), len(name) + len(marker)

    def arguments(self) -> ArgumentsReader:
        """Return the reader for the arguments of a call."""
        return JsonArguments()


class Mistral(Family):
    """The form of one version of Mistral's tokenizers.

    Parameters
    ----------
    is_named : bool
        Names are before the arguments, not in a list of objects.
    has_id : bool
        Calls are written with an identifier.
    """

    name = "mistral"

    def __init__(self, is_named: bool, has_id: bool = False) -> None:
        self._is_named, self._has_id = is_named, has_id
        self.calls = _NamedCalls() if is_named else JsonCalls(_BEGIN, "{", False, is_list=True)

    @classmethod
    def versions(cls) -> list[Mistral]:
        """Return one family for each form."""
        return [cls(True, True), cls(True), cls(False)]

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        if _BEGIN not in template or (self._is_named and _ARGUMENTS not in template):
            return False
        return not self._has_id or _CALL_ID in template

    def new_id(self) -> str:
        """Return an identifier for a call: templates refuse others."""
        return random_letters(9)

    def chat(
        self, messages: list[Message], tools: list[Message] | None, template: str
    ) -> tuple[list[Message], list[Message] | None]:
        """Return the messages for the chat template, which takes identifiers of nine letters."""
        return [_with_short_ids(message) for message in messages], tools

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call."""
        if not self._is_named:
            return self.calls.call(grammar, tool, '(, ?"id" ?: ?"[A-Za-z0-9]{9}")?')
        number = f"({grammar.marker(_CALL_ID)} {grammar.regex(_ID.pattern)})?" if self._has_id else ""
        return f"{grammar.literal(tool.name)} {number} {grammar.marker(_ARGUMENTS)} {grammar.json(tool.schema)}"

    def calls_behind(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of what follows the first marker."""
        one = self.one_of(grammar, wanted)
        if self._is_named:
            return f"{one} {self.more(wanted, f'{grammar.marker(_BEGIN)} {one}')}"
        more = self.more(wanted, f"{grammar.regex(', ?')} {one}")
        begin, end = grammar.regex(r" ?\["), grammar.literal("]")
        return f"{begin} {one} {more} {end}"

    def markers(self, wanted: Wanted, thinking: Thinking | None) -> set[str]:
        """Return the markers that the reader must see."""
        named = {_ARGUMENTS, _CALL_ID} if self._is_named and wanted.tools else set()
        return super().markers(wanted, thinking) - {"{"} | named


def _with_short_ids(message: Message) -> Message:
    """Return a message with identifiers that Mistral's templates take, the same one for the same identifier."""
    result: dict[str, Any] = dict(message)
    if isinstance(result.get("tool_call_id"), str):
        result["tool_call_id"] = _short(result["tool_call_id"])
    if isinstance(result.get("tool_calls"), list):
        result["tool_calls"] = [
            {**call, "id": _short(call["id"])} if isinstance(call.get("id"), str) else call
            for call in result["tool_calls"]
        ]
    return result


def _short(identifier: str) -> str:
    if _ID.fullmatch(identifier):
        return identifier
    return hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:9]
