# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read the tools of a request, and which of them may or must be called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..generation.constrained import read_schema
from ..generation.json_schema import MOST_COST, PreparedSchema
from ..support.errors import InvalidArgumentError
from .errors import RequestError
from .families.family import Tool

#: OpenAI's limit.
MOST_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
#: What arguments of a function are when its schema cannot be held at all.
ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True)
class ToolUse:
    """What a request says of tools.

    Attributes
    ----------
    given : list of dict or None
        The tools as the client gave them, for the chat template.
    callable : list of Tool
        Those that may be called.
    must_call : bool
        The answer is a call.
    may_repeat : bool
        An answer may have several calls.
    dropped : list of str
        Keywords of schemas that are not held, with their places: those of tools that are not strict.
    """

    given: list[dict[str, Any]] | None
    callable: list[Tool]
    must_call: bool = False
    may_repeat: bool = True
    dropped: tuple[str, ...] = ()


def read_tools(tools: list[dict[str, Any]] | None, choice: Any, is_parallel: bool) -> ToolUse:
    """Return what a request says of tools.

    Raises
    ------
    RequestError
        A tool is no function, a schema is none or cannot be held though the tool is strict, the choice is unknown.
    """
    if not tools:
        if choice in (None, "none", "auto"):
            return ToolUse(None, [])
        raise _error("tool_choice asks for a call, but there are no tools", "tool_choice")
    if len(tools) > MOST_TOOLS:
        raise _error(f"there are {len(tools)} tools, there may be {MOST_TOOLS}", "tools")
    for number, tool in enumerate(tools):
        _check(f"tools[{number}]", tool)
    functions = [tool["function"] for tool in tools]
    names = [function["name"] for function in functions]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise _error(f"two tools have the name '{name}'", f"tools[{number}].function.name")
    allowed, must_call = _allowed(choice, names)
    known, dropped, cost = [], [], 0
    for number, function in enumerate(functions):
        if names[number] not in allowed:
            continue
        prepared = _schema(f"tools[{number}].function", function, bool(function.get("strict")))
        cost += prepared.cost
        if cost > MOST_COST:
            raise _error("the schemas of the tools are too large: they would take longer than a second", "tools")
        known.append(Tool(names[number], prepared.schema, bool(function.get("strict"))))
        dropped += [f"{names[number]}: {keyword}" for keyword in prepared.dropped]
    return ToolUse(list(map(_for_template, functions)), known, must_call, is_parallel, tuple(dropped))


def _check(where: str, tool: Any) -> None:
    """Refuse a tool whose parts have other types."""
    kind = tool.get("type", "function") if isinstance(tool, dict) else None
    if kind != "function":
        raise _error(f"{where} is of type {_brief(kind)}; only functions are supported", f"{where}.type")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise _error(f"{where}.function is missing, or no object", f"{where}.function")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _error(
            f"{where}.function.name is {_brief(name)}, must be 1 to 128 of A-Z, a-z, 0-9, _, . and -",
            f"{where}.function.name",
        )
    for key, kinds, what in (
        ("description", str, "a text"),
        ("parameters", dict, "a JSON schema"),
        ("strict", bool, "true or false"),
    ):
        if function.get(key) is not None and not isinstance(function[key], kinds):
            raise _error(
                f"{where}.function.{key} is {_brief(function[key])}, must be {what}", f"{where}.function.{key}"
            )


def _for_template(function: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as templates read it: with a description, and parameters that are an object."""
    given = {"name": function["name"], "description": function.get("description") or ""}
    given["parameters"] = function.get("parameters") or {"type": "object", "properties": {}}
    given |= {key: value for key, value in function.items() if key not in (*given, "strict") and value is not None}
    return {"type": "function", "function": given}


def _schema(where: str, function: dict[str, Any], is_strict: bool) -> PreparedSchema:
    """Return what the arguments of a function are valid by."""
    schema = function.get("parameters")
    if schema is None:
        return PreparedSchema(dict(_EMPTY))
    if schema.get("type", "object") != "object":
        raise _error(
            f"{where}.parameters is a schema of {_brief(schema['type'])}: arguments are an object",
            f"{where}.parameters",
        )
    try:
        return read_schema({**schema, "type": "object"}, drops=not is_strict, closes=True)
    except InvalidArgumentError as error:
        message = str(error).removeprefix("json_schema: ")
        raise _error(
            f"the parameters of the function '{function['name']}': {message}", f"{where}.parameters"
        ) from error


def _allowed(choice: Any, names: list[str]) -> tuple[set[str], bool]:
    """Return which functions may be called, and whether one must be."""
    if choice is None or choice in ("auto", "required"):
        return set(names), choice == "required"
    if choice == "none":
        return set(), False
    if isinstance(choice, dict) and choice.get("type") == "function":
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        return {_known(name, names, "tool_choice.function.name")}, True
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools")
        mode = allowed.get("mode") if isinstance(allowed, dict) else None
        tools = allowed.get("tools") if isinstance(allowed, dict) else None
        if mode not in ("auto", "required") or not isinstance(tools, list) or not tools:
            raise _error(
                "tool_choice.allowed_tools needs a mode, auto or required, and tools", "tool_choice.allowed_tools"
            )
        found = set()
        for number, tool in enumerate(tools):
            function = tool.get("function") if isinstance(tool, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            found.add(_known(name, names, f"tool_choice.allowed_tools.tools[{number}].function.name"))
        return found, mode == "required"
    raise _error(
        f"tool_choice is {_brief(choice)}, must be none, auto, required, a function, or allowed_tools", "tool_choice"
    )


def _known(name: Any, names: list[str], where: str) -> str:
    if name not in names:
        raise _error(f"{where} is {_brief(name)}, which is none of the tools", where)
    return name


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _error(message: str, param: str) -> RequestError:
    return RequestError(message, param)
