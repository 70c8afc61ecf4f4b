# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The form that a request asks for: response formats, calls of tools, reasoning.

A form is held by a grammar, which is compiled before anything is computed: a form that cannot be held is an error that
names the keyword. Only schemas of functions that are not strict lose such keywords, which `Form.dropped` tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..generation.constrained import read_schema
from ..support.errors import InvalidArgumentError
from ..text.encoding import encode
from .answers import Form, Reader
from .chat_request import AskedForm, ChatRequest
from .errors import RequestError
from .families import family_of
from .families.family import Family, Wanted
from .families.generic import content_text
from .grammar import Grammar, alternatives, slashed
from .readers import CountingReader
from .reasoning import at_the_end, effort_variables, switch_variables, thinking_of
from .tools import ANY_OBJECT, ToolUse, read_tools

if TYPE_CHECKING:
    from ..generation.constrained import Constraint
    from .models import ServedModel
    from .readers import Thinking

#: Tokens at the end of a prompt that are looked at: does the template begin the reasoning?
_END_TOKENS = 32
_MOST_CHOICES = 10_000
_MOST_HEADER = 1000
_STRUCTURED = ("json", "regex", "grammar", "choice", "json_object")
_FORMAT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class ContentForm:
    """The form of an answer's text: one of a schema, an expression, and a grammar.

    Attributes
    ----------
    param : str
        The field of the request that asks for it.
    """

    param: str
    schema: dict[str, Any] | None = None
    regex: str | None = None
    lark: str | None = None

    def __call__(self, grammar: Grammar) -> str:
        """Return the form as part of a grammar."""
        if self.schema is not None:
            return grammar.json(self.schema)
        return grammar.lark(f"start: /{slashed(self.regex)}/" if self.lark is None else self.lark)

    def alone(self, model: ServedModel) -> Constraint:
        """Return the constraint of a text that consists of nothing else; called outside of the event loop.

        Raises
        ------
        RequestError
            The form cannot be held.
        """
        try:
            if self.schema is None:
                return model.grammars.constraint(None, self.regex, self.lark)
            grammar = Grammar(model.forms.special)
            return model.forms.compile("json_schema", grammar.finish(self(grammar)))
        except InvalidArgumentError as error:
            raise RequestError(str(error), self.param) from error


@dataclass
class Plan:
    """What the chat template is given, and how the answer is held and read.

    Attributes
    ----------
    messages, tools, variables
        What the chat template is given.
    """

    model: ServedModel
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    variables: dict[str, Any]
    family: Family
    use: ToolUse
    content: ContentForm | None = None
    thinking: Thinking | None = None
    dropped: list[str] = field(default_factory=list)

    def form(self, prompt: Sequence[int]) -> Form:
        """Return the form of the answer to a prompt.

        Raises
        ------
        RequestError
            The form cannot be held.
        """
        tokenizer = self.model.tokenizer
        end = tokenizer.decode(list(prompt[-_END_TOKENS:]), skip_special_tokens=False)
        is_harmony = self.family.name == "harmony"
        thinking = self.thinking if is_harmony else at_the_end(self.thinking, end)
        wanted = Wanted(self.use.callable, not self.use.must_call, self.use.may_repeat, self.content)
        constraint = None
        if self.content is not None or self.use.given:
            constraint = self._constraint(wanted, thinking)
        if thinking is None and not wanted.tools and not is_harmony:
            return Form(constraint, dropped=tuple(self.dropped))
        special = self.model.forms.hidden
        markers = self.family.markers(wanted, thinking)
        shows = any(token in marker for marker in markers for token in special)
        others = [token for token in special if not any(token in marker for marker in markers)]
        hidden = re.compile("|".join(map(re.escape, others))) if shows and others else None

        def make_reader() -> Reader:
            reader = self.family.reader(wanted, thinking, hidden)
            return reader if thinking is None else CountingReader(reader, self._count)

        return Form(
            constraint,
            shows_special_tokens=shows,
            make_reader=make_reader,
            dropped=tuple(self.dropped),
        )

    def _count(self, text: str) -> int:
        return len(encode(self.model.tokenizer, text, add_special_tokens=False))

    def _constraint(self, wanted: Wanted, thinking: Thinking | None) -> Constraint:
        is_alone = thinking is None and not self.use.given and self.family.name != "harmony"
        if self.content is not None and (is_alone or self.content.schema is None):
            alone = self.content.alone(self.model)
            if is_alone:
                return alone
        try:
            return self._compiled(wanted, thinking)
        except InvalidArgumentError as error:
            self._hold_what_can_be(wanted, error)
        wanted = replace(wanted, tools=self.use.callable)
        try:
            return self._compiled(wanted, thinking)
        except InvalidArgumentError as error:
            raise RequestError(str(error), "tools" if wanted.tools else self.content.param) from error

    def _compiled(self, wanted: Wanted, thinking: Thinking | None) -> Constraint:
        grammar = Grammar(self.model.forms.special)
        return self.model.forms.compile("form", grammar.finish(self.family.start(grammar, wanted, thinking)))

    def _hold_what_can_be(self, wanted: Wanted, whole: InvalidArgumentError) -> None:
        """Find what a grammar cannot hold; let functions that are not strict have any arguments."""
        if self.content is not None:
            self.content.alone(self.model)
        kept = []
        for tool in wanted.tools:
            try:
                self._compiled(Wanted([tool], False, False), None)
                kept.append(tool)
            except InvalidArgumentError as error:
                if tool.is_strict:
                    raise RequestError(f"the parameters of the function '{tool.name}': {error}", "tools") from error
                kept.append(replace(tool, schema=ANY_OBJECT))
                self.dropped.append(f"{tool.name}: all of its parameters ({error})")
        if kept == list(wanted.tools):
            raise RequestError(str(whole), "tools" if kept else None) from whole
        self.use = replace(self.use, callable=kept)


def plan_of(model: ServedModel, chat: ChatRequest) -> Plan:
    """Return what a chat asks for; called outside of the event loop.

    Raises
    ------
    RequestError
        The tools, the format or the effort of reasoning are wrong, or cannot be had.
    """
    template = "" if model.chat_template is None else model.chat_template.text(None, bool(chat.tools))
    family = _family_of(template)
    use = read_tools(chat.tools, chat.tool_choice, chat.parallel_tool_calls)
    content = read_content_form(chat.form)
    messages = chat.messages if "developer" in template else _with_system_role(chat.messages)
    messages, tools = family.chat(messages, use.given, template)
    variables = {
        **switch_variables(template, chat.thinks),
        **effort_variables(template, chat.reasoning_effort, chat.template_variables),
        **chat.template_variables,
    }
    thinking = thinking_of(template, family.thinking)
    for tool in use.callable:
        unheld = family.unheld(tool)
        if unheld and tool.is_strict:
            raise RequestError(
                f"the parameters of the strict function '{tool.name}' have {', '.join(unheld[:5])}, which the form "
                "that this model writes calls in cannot hold; leave them out, or the function not strict",
                "tools",
            )
        use = replace(use, dropped=(*use.dropped, *(f"{tool.name}: {keyword}" for keyword in unheld)))
    return Plan(model, messages, tools, variables, family, use, content, thinking, list(use.dropped))


def read_content_form(asked: AskedForm) -> ContentForm | None:
    """Return the form of an answer's text that a request asks for, checked but not compiled."""
    given, kind = asked.response_format, (asked.response_format or {}).get("type", "text")
    if asked.structured:
        if kind != "text":
            raise RequestError("response_format and structured_outputs are both given", "structured_outputs")
        return _structured(asked.structured, asked.structured_where)
    if kind == "text":
        return None
    if kind == "json_object":
        return ContentForm("response_format", _any_object())
    if kind != "json_schema":
        raise RequestError(
            f"response_format.type is {kind!r:.60}, must be text, json_object or json_schema", "response_format.type"
        )
    named = given.get("json_schema")
    where = "response_format.json_schema"
    if not isinstance(named, dict):
        raise RequestError(f"{where} is missing, or no object", where)
    name = named.get("name")
    if name is not None and not (isinstance(name, str) and _FORMAT_NAME.fullmatch(name)):
        raise RequestError(f"{where}.name is {name!r:.80}, must be 1 to 64 of A-Z, a-z, 0-9, _ and -", f"{where}.name")
    if not isinstance(named.get("strict"), (bool, type(None))):
        raise RequestError(f"{where}.strict is {named['strict']!r:.60}, must be true or false", f"{where}.strict")
    schema = named.get("schema")
    if schema is None:
        return ContentForm(where, _any_object())
    if not isinstance(schema, (dict, bool)):
        raise RequestError(f"{where}.schema is {schema!r:.60}, must be a JSON schema", f"{where}.schema")
    return ContentForm(f"{where}.schema", _prepared(schema, f"{where}.schema"))


def _structured(given: dict[str, Any], before: str) -> ContentForm:
    """Return a form as vLLM's structured outputs have it."""
    unknown = [name for name in given if name not in _STRUCTURED]
    if unknown:
        raise RequestError(f"structured_outputs.{unknown[0]} is not supported", f"structured_outputs.{unknown[0]}")
    names = [name for name, value in given.items() if value is not None and value is not False]
    if len(names) != 1:
        raise RequestError(
            f"structured_outputs has {' and '.join(names) or 'nothing'}, must have one of {', '.join(_STRUCTURED)}",
            "structured_outputs",
        )
    (name,) = names
    value, where = given[name], f"{before}{name}"
    if name == "json_object":
        return ContentForm(where, _any_object())
    if name == "json":
        return ContentForm(where, _prepared(value, where))
    if name == "choice":
        is_list = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
        if not is_list or not 0 < len(value) <= _MOST_CHOICES:
            raise RequestError(f"{where} must be a list of 1 to {_MOST_CHOICES} texts", where)
        return ContentForm(where, lark=f"start: {alternatives([json.dumps(text) for text in value])}")
    if not isinstance(value, str):
        raise RequestError(f"{where} is of type {type(value).__name__}, must be a text", where)
    if name == "regex":
        return ContentForm(where, regex=value)
    return ContentForm(where, lark=_lark(value, where))


def _lark(text: str, where: str) -> str:
    """Return a grammar in Lark's dialect, which may be given in llama.cpp's (GBNF)."""
    if "::=" not in text:
        return text
    from llguidance import gbnf_to_lark

    try:
        return gbnf_to_lark.any_to_lark(text)
    except Exception as error:  # of whatever type its reader raises
        raise RequestError(f"{where}: {error}", where) from error


def _prepared(schema: Any, where: str) -> dict[str, Any]:
    try:
        return read_schema(schema, closes=True).schema
    except InvalidArgumentError as error:
        raise RequestError(str(error), where) from error


def _any_object() -> dict[str, Any]:
    return {"type": "object"}


def not_held(dropped: Sequence[str]) -> str:
    """Return what is not held as a header of HTTP: one line of ASCII, not too long."""
    text = ascii(", ".join(dropped))[1:-1]
    return text if len(text) <= _MOST_HEADER else f"{text[:_MOST_HEADER]}..."


@lru_cache(maxsize=64)
def _family_of(template: str) -> Family:
    return family_of(template)


def _with_system_role(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages without the role of a developer, which a template does not know."""
    if all(message.get("role") != "developer" for message in messages):
        return messages
    renamed = [{**one, "role": "system"} if one.get("role") == "developer" else one for one in messages]
    count = next((n for n, one in enumerate(renamed) if one.get("role") != "system"), len(renamed))
    if count < 2:
        return renamed
    # Templates take one system message.
    text = "\n\n".join(content_text(one.get("content")) for one in renamed[:count])
    return [{"role": "system", "content": text}, *renamed[count:]]
