# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
r"""Qwen3-Coder, Qwen 3.5 and others: ``<function=NAME>``, and a tag for each parameter, whose value is text or JSON.

``<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>``: strings are written
as they are, all else as JSON. Parameters are in the order of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..answers import Reader
from ..grammar import Grammar, alternatives
from ..readers import ArgumentsReader, TextReader, Thinking, begun_length
from .family import Family, Tool, Wanted

_FUNCTION, _PARAMETER = "<function=", "<parameter="
_END_PARAMETER, _END_FUNCTION = "\n</parameter>", "</function>"
_KEY = r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}"
#: Keywords of strings that are not held; those within JSON are.
_UNHELD = ("pattern", "format", "minLength")
_MOST_LENGTH = 4096


@dataclass(frozen=True)
class _Value:
    """How a parameter's value is written.

    Attributes
    ----------
    is_text : bool
        As it is, not as JSON.
    words : mapping or None
        The JSON of each text that is allowed.
    """

    is_text: bool = False
    words: Mapping[str, str] | None = None


class Xml(Family):
    """The form of Qwen3-Coder."""

    name = "xml"
    begin, end = "<tool_call>", "</tool_call>"

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        return all(mark in template for mark in (self.begin, _FUNCTION, _PARAMETER, "</parameter>"))

    @property
    def calls(self) -> _XmlCalls:
        """How calls are written; `reader` knows the types of their parameters."""
        return _XmlCalls(())

    def unheld(self, tool: Tool) -> list[str]:
        """Return the keywords of a function's strings that are not held."""
        found: dict[str, None] = {}
        for schema in _properties(tool.schema).values():
            schema = _resolved(tool.schema, schema)
            if _value(tool.schema, schema) == _Value(is_text=True):
                keys = [key for key in _UNHELD if key in schema and not (key == "minLength" and "maxLength" in schema)]
                found.update(dict.fromkeys(keys))
        return list(found)

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call."""
        properties = _properties(tool.schema)
        required = tool.schema.get("required")
        required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        properties = {name: one for name, one in properties.items() if one is not False or name in required}
        space = grammar.regex(r"\n{0,2}")
        parameters = []
        for name in [*properties, *(name for name in required if name not in properties)]:
            head = grammar.literal(f"{_PARAMETER}{name}>\n")
            value = self._written(grammar, tool.schema, properties.get(name, {}))
            one = grammar.rule(f"{head} {value} {space}")
            parameters.append(one if name in required else f"({one})?")
        if not parameters and tool.schema.get("additionalProperties") is not False:
            head = grammar.regex(f"{_PARAMETER}{_KEY}>\n")
            parameters = [f"({grammar.rule(f'{head} {grammar.until(_END_PARAMETER)} {space}')})*"]
        head = grammar.literal(f"{_FUNCTION}{tool.name}>")
        return f"{head} {space} {' '.join(parameters)} {grammar.literal(_END_FUNCTION)}"

    def calls_behind(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of what follows the first marker."""
        space = grammar.regex(r"\n{0,2}")
        one = grammar.rule(f"{space} {self.one_of(grammar, wanted)} {space} {grammar.marker(self.end)}")
        return f"{one} {self.more(wanted, f'{space} {grammar.marker(self.begin)} {one}')}"

    def reader(self, wanted: Wanted, thinking: Thinking | None, hidden: Any) -> Reader:
        """Return the reader of a sample."""
        calls = _XmlCalls(wanted.tools) if wanted.tools else None
        return TextReader(thinking, calls, self.new_id, hidden)

    def _written(self, grammar: Grammar, root: dict[str, Any], schema: Any) -> str:
        """Return the grammar of a value and the marker behind it."""
        schema = _resolved(root, schema)
        value = _value(root, schema)
        end = grammar.literal(_END_PARAMETER)
        if value.words is not None:
            return f"{alternatives([grammar.literal(word) for word in value.words])} {end}"
        if value.is_text:
            most, least = schema.get("maxLength"), schema.get("minLength")
            if type(most) is int and 0 <= most <= _MOST_LENGTH:
                least = least if type(least) is int and 0 <= least <= most else 0
                return f"{grammar.regex(f'[^<]{{{least},{most}}}')} {end}"
            return grammar.until(_END_PARAMETER)
        definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
        return f"{grammar.json({**definitions, **(schema if isinstance(schema, dict) else {})})} {end}"


class _XmlCalls:
    begin = between = Xml.begin
    skips_between = True

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._name = ""

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name of a call, see `CallForm`."""
        space = len(text) - len(text.lstrip())
        text = text[space:]
        if not text.startswith(_FUNCTION):
            return None if _FUNCTION.startswith(text) else False
        name, mark, _ = text[len(_FUNCTION) :].partition(">")
        self._name = name
        return (name, space + len(_FUNCTION) + len(name) + 1) if mark else None

    def arguments(self) -> ArgumentsReader:
        """Return the reader for the arguments of the call whose name was read."""
        root = self._schemas.get(self._name, {})
        properties = _properties(root)
        return _XmlArguments({key: _value(root, _resolved(root, value)) for key, value in properties.items()})


class _XmlArguments:
    """Turns parameters into JSON."""

    def __init__(self, values: Mapping[str, _Value]) -> None:
        self._values = values
        self._value: _Value | None = None  # None: between parameters
        self._count = 0

    def read(self, text: str) -> tuple[str, int, bool]:
        """Return what is read, see `ArgumentsReader`."""
        written: list[str] = []
        taken = 0
        while True:
            rest = text[taken:]
            if self._value is None:
                at = rest.find(_PARAMETER)
                end = rest.find(_END_FUNCTION)
                if end >= 0 and (at < 0 or end < at):
                    written.append("}" if self._count else "{}")
                    return "".join(written), taken + end + len(_END_FUNCTION), True
                key, mark, behind = rest[at + len(_PARAMETER) :].partition(">") if at >= 0 else ("", "", "")
                if not mark or not behind:  # a new line may follow
                    return "".join(written), taken, False
                taken += at + len(_PARAMETER) + len(key) + 1 + behind.startswith("\n")
                self._value = self._values.get(key, _Value(is_text=True))
                written.append(f"{', ' if self._count else '{'}{json.dumps(key, ensure_ascii=False)}: ")
                written.append('"' if self._value == _Value(is_text=True) else "")
                self._count += 1
                continue
            at = rest.find(_END_PARAMETER)
            if self._value.words is not None:
                if at < 0:
                    return "".join(written), taken, False
                written.append(self._value.words.get(rest[:at], json.dumps(rest[:at], ensure_ascii=False)))
            else:
                certain = at if at >= 0 else len(rest) - begun_length(rest, _END_PARAMETER)
                piece = rest[:certain]
                written.append(json.dumps(piece, ensure_ascii=False)[1:-1] if self._value.is_text else piece)
                taken += certain
                if at < 0:
                    return "".join(written), taken, False
                written.append('"' if self._value.is_text else "")
                at = 0
            taken += at + len(_END_PARAMETER)
            self._value = None


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _resolved(root: dict[str, Any], schema: Any) -> Any:
    """Return the schema that a reference means."""
    for _ in range(16):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        at: Any = root
        for name in reference[2:].split("/"):
            at = at.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
        if not isinstance(at, dict):
            break
        schema = at
    return schema


def _value(root: dict[str, Any], schema: Any) -> _Value:
    """Return how the value of a parameter is written."""
    if not isinstance(schema, dict):
        return _Value()
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values:
        # "3" and 3 would be the same text: JSON tells them apart.
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        if len(set(texts)) == len(texts) and not any(_END_PARAMETER in text for text in texts):
            return _Value(
                words={text: json.dumps(v, ensure_ascii=False) for text, v in zip(texts, values, strict=True)}
            )
        return _Value()
    return _Value(is_text=schema.get("type") == "string" and not schema.keys() & {"anyOf", "oneOf", "allOf", "$ref"})
