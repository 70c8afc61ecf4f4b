# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gemma 4: ``<|tool_call>call:NAME{key:<|"|>text<|"|>,other:[1,true]}<tool_call|>``, which is JSON but for its strings.

Keys have no quotation marks, strings have a token for them, and an object's keys are sorted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..grammar import Grammar, alternatives
from ..readers import ArgumentsReader, Thinking
from .family import Family, Tool, Wanted

_BEGIN, _END, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_NUMBER = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?"
#: Keywords of numbers, which Gemma writes as JSON does.
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEY = r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}"
#: Keywords that `_Values` does not hold.
_UNHELD = frozenset(
    {
        *("pattern", "format", "patternProperties", "minProperties", "maxProperties", "prefixItems"),
        "additionalItems",
    }
)
#: Keywords whose values are schemas, or lists of them.
_INNER = ("items", "additionalProperties", "anyOf", "oneOf", "allOf")
#: How deep the values are that a schema does not describe.
_FREE_DEPTH = 4
#: Schemas that references may lead to.
_MOST_SCHEMAS = 2000


class Gemma(Family):
    """The form of Gemma 4."""

    name = "gemma"
    thinking = Thinking("<|channel>thought\n", "<channel|>")

    def __init__(self) -> None:
        self.calls = _GemmaCalls()

    def knows(self, template: str) -> bool:
        """Return True for a chat template of this family."""
        return f"{_BEGIN}call:" in template

    def call(self, grammar: Grammar, tool: Tool) -> str:
        """Return the grammar of a call."""
        return f"{grammar.literal(f'call:{tool.name}')} {_Values(grammar, tool.schema).object()}"

    def unheld(self, tool: Tool) -> list[str]:
        """Return the keywords that the grammar of `_Values` does not have."""
        found: dict[str, None] = {}
        waiting: list[Any] = [tool.schema]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, list):
                waiting += schema
            elif isinstance(schema, dict):
                found.update(dict.fromkeys(key for key in schema if key in _UNHELD))
                waiting += [schema[key] for key in _INNER if key in schema]
                for key in ("properties", "$defs", "definitions"):
                    waiting += list(schema[key].values()) if isinstance(schema.get(key), dict) else []
        return list(found)

    def calls_behind(self, grammar: Grammar, wanted: Wanted) -> str:
        """Return the grammar of what follows the first marker."""
        one = grammar.rule(f"{self.one_of(grammar, wanted)} {grammar.marker(_END)}")
        return f"{one} {self.more(wanted, f'{grammar.marker(_BEGIN)} {one}')}"

    def markers(self, wanted: Wanted, thinking: Thinking | None) -> set[str]:
        """Return the markers that the reader must see."""
        marks = {"<|channel>", "<channel|>"} if thinking is not None else set()
        return marks | ({_BEGIN, _END, _QUOTE} if wanted.tools else set())


class _GemmaCalls:
    begin = between = _BEGIN
    skips_between = True

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name of a call, see `CallForm`."""
        text, prefix = text[:4096], "call:"
        if not text.startswith(prefix):
            return None if prefix.startswith(text) else False
        name, bracket, _ = text[len(prefix) :].partition("{")
        return (name, len(prefix) + len(name)) if bracket else None

    def arguments(self) -> ArgumentsReader:
        """Return the reader for the arguments of a call."""
        return _GemmaArguments()


class _GemmaArguments:
    """Turns Gemma's values into JSON, letter by letter."""

    def __init__(self) -> None:
        self._open: list[str] = []  # brackets
        self._is_string = False
        self._is_key = False
        self._begins_key = False

    def read(self, text: str) -> tuple[str, int, bool]:
        """Return what is read, see `ArgumentsReader`."""
        written: list[str] = []
        at = 0
        while at < len(text):
            if text.startswith(_QUOTE, at):
                written.append('"')
                self._is_string = not self._is_string
                self._begins_key = False
                at += len(_QUOTE)
                continue
            letter = text[at]
            if letter == "<" and _QUOTE.startswith(text[at:]):
                break  # needs more text
            at += 1
            if self._is_string:
                written.append(json.dumps(letter, ensure_ascii=False)[1:-1])
                continue
            if self._begins_key and letter not in "}":
                self._begins_key, self._is_key = False, True
                written.append('"')
            if self._is_key and letter == ":":
                self._is_key = False
                written.append('":')
                continue
            if self._is_key:
                written.append(json.dumps(letter, ensure_ascii=False)[1:-1])
                continue
            written.append(letter)
            if letter in "{[":
                self._open.append(letter)
            elif letter in "}]" and self._open:
                self._open.pop()
                if not self._open:
                    return "".join(written), at, True
            self._begins_key = bool(self._open) and self._open[-1] == "{" and letter in "{,"
        return "".join(written), at, False


class _Values:
    """Writes the grammar of Gemma's values by a schema; what a grammar cannot hold is any value of the same type.

    The values are valid by the schema but for the keywords of `_UNHELD`.
    """

    def __init__(self, grammar: Grammar, schema: dict[str, Any]) -> None:
        self._grammar, self._root = grammar, schema
        self._known: dict[str, str] = {}
        self._count = 0

    def object(self) -> str:
        """Return the grammar of the arguments."""
        return self._value({"type": "object", **self._root}, 0)

    def _value(self, schema: Any, depth: int) -> str:
        self._count += 1
        if not isinstance(schema, dict) or depth > 32 or self._count > _MOST_SCHEMAS:
            return self._free(_FREE_DEPTH)
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        if "const" in schema or isinstance(schema.get("enum"), list):
            values = schema.get("enum", [schema.get("const")])
            return self._grammar.rule(alternatives([self._constant(value) for value in values]))
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key]:
                rest = {name: value for name, value in schema.items() if name != key}
                parts = [_merged({**part, "allOf": [rest]}) for part in schema[key] if isinstance(part, dict)]
                return self._grammar.rule(alternatives([self._value(part, depth + 1) for part in parts or [{}]]))
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            return self._value(_merged(schema), depth + 1)
        types = schema.get("type")
        if types is None:
            types = next(("object" for key in ("properties", "additionalProperties") if key in schema), None)
        types = types if isinstance(types, list) else [types]
        return self._grammar.rule(alternatives([self._of_type(kind, schema, depth) for kind in types] or ['""']))

    def _of_type(self, kind: Any, schema: dict[str, Any], depth: int) -> str:
        grammar = self._grammar
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return grammar.json({"type": kind, **{key: schema[key] for key in _BOUNDS if key in schema}})
        if kind == "boolean":
            return '("true" | "false")'
        if kind == "null":
            return '"null"'
        if kind == "array":
            items = schema.get("items")
            prefix = schema.get("prefixItems")
            element = self._free(_FREE_DEPTH) if items is None or prefix else self._value(items, depth + 1)
            least, most = schema.get("minItems"), schema.get("maxItems")
            least = least if type(least) is int and 0 < least <= 64 else 0
            most = most if type(most) is int and least <= most <= 64 else None
            return self._list(element, least, most)
        if kind == "object":
            return self._object(schema, depth)
        return self._free(_FREE_DEPTH)

    def _list(self, element: str, least: int, most: int | None) -> str:
        if most == 0:
            return '"[" "]"'
        bound = f"{{{max(least, 1) - 1},{'' if most is None else most - 1}}}"
        elements = f'{element} ("," {element}){bound}'
        return f'"[" {elements} "]"' if least else f'"[" ({elements})? "]"'

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        properties = {name: one for name, one in properties.items() if one is not False or name in required}
        if not properties and not required:
            rest = schema.get("additionalProperties", True)
            if rest is False:
                return '"{" "}"'
            pair = f'{self._grammar.regex(_KEY)} ":" {self._value(rest, depth + 1)}'
            return f'"{{" ({pair} ("," {pair})*)? "}}"'
        names = sorted({*properties, *required}, key=str.lower)
        # The rule of a property and those behind it, with and without one before.
        behind, first = '""', '""'
        for name in reversed(names):
            key = self._grammar.literal(f"{name}:")
            pair = f"{key} {self._value(properties.get(name, {}), depth + 1)}"
            new = self._grammar.rule(f'"," {pair} {behind}' + ("" if name in required else f" | {behind}"))
            first = self._grammar.rule(f"{pair} {behind}" + ("" if name in required else f" | {first}"))
            behind = new
        return f'"{{" {first} "}}"'

    def _string(self, schema: dict[str, Any]) -> str:
        quote = self._grammar.marker(_QUOTE)
        least, most = schema.get("minLength"), schema.get("maxLength")
        if type(most) is int and 0 <= most <= 4096:
            least = least if type(least) is int and 0 <= least <= most else 0
            return f"{quote} {self._grammar.regex(f'[^<]{{{least},{most}}}')} {quote}"
        if self._grammar.is_token(_QUOTE):
            return f"{quote} {self._grammar.text(_QUOTE)} {quote}"
        return f"{quote} {self._grammar.until(_QUOTE)}"

    def _constant(self, value: Any) -> str:
        grammar = self._grammar
        quote = grammar.marker(_QUOTE)
        if isinstance(value, str):
            return f"{quote} {grammar.literal(value)} {quote}"
        if isinstance(value, list):
            return self._joined("[", map(self._constant, value), "]")
        if isinstance(value, dict):
            pairs = (f"{grammar.literal(f'{key}:')} {self._constant(value[key])}" for key in sorted(value))
            return self._joined("{", pairs, "}")
        return grammar.literal(json.dumps(value))

    @staticmethod
    def _joined(begin: str, elements: Iterable[str], end: str) -> str:
        return f'"{begin}" ' + ' "," '.join(elements) + f' "{end}"'

    def _reference(self, reference: Any, depth: int) -> str:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return self._free(_FREE_DEPTH)
        if reference in self._known:
            return self._known[reference]
        at: Any = self._root
        for name in reference[2:].split("/"):
            at = at.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
        # A schema may contain itself: the rule's name is known before its body.
        self._known[reference] = name = self._grammar.reserve()
        self._grammar.fill(name, self._value(at if at is not None else {}, depth + 1))
        return name

    def _free(self, depth: int) -> str:
        scalar = f'{self._string({})} | {self._grammar.regex(_NUMBER)} | "true" | "false" | "null"'
        if depth == 0:
            return self._grammar.rule(scalar)
        inner = self._free(depth - 1)
        pair = f'{self._grammar.regex(_KEY)} ":" {inner}'
        return self._grammar.rule(f'{scalar} | {self._list(inner, 0, None)} | "{{" ({pair} ("," {pair})*)? "}}"')


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the keywords of its allOf beside its own."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            if key in ("properties",) and isinstance(merged.get(key), dict) and isinstance(value, dict):
                merged[key] = {**merged[key], **value}
            elif key == "required" and isinstance(merged.get(key), list) and isinstance(value, list):
                merged[key] = [*merged[key], *value]
            else:
                merged.setdefault(key, value)
    return merged
