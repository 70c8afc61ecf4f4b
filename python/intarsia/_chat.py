# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates, as transformers defines them: they turn messages into the text that a model was trained on."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ._errors import InvalidArgumentError, NotFoundError
from ._files import Files

#: The special tokens that templates may name; transformers has the same list (SPECIAL_TOKENS_ATTRIBUTES).
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

#: Names of a message's reasoning; templates read the first, those of gpt-oss the second.
_REASONING = ("reasoning_content", "thinking", "reasoning")


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a model, or several with names.

    Attributes
    ----------
    templates : dict of str to str
        Jinja2 text by name; ``"default"`` is used when none is named, ``"tool_use"`` when there are tools.
    special_tokens : dict of str to str
        Tokens that templates name: ``"bos_token"``, ``"eos_token"``, …
    """

    templates: Mapping[str, str]
    special_tokens: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template: str | None = None,
        **variables: Any,
    ) -> str:
        """Return messages as the model's text.

        Parameters
        ----------
        messages : sequence of mappings
            ``{"role": …, "content": …}`` and other keys that the template knows.
        tools : sequence of mappings, optional
            JSON schemas of the functions that the model may call.
        documents : sequence of mappings, optional
            Texts to answer from, ``{"title": …, "text": …}``.
        add_generation_prompt : bool
            End with the text that begins an answer.
        template : str, optional
            Name of one of `templates`, or the text of another.
        **variables
            More values that the template knows, such as ``enable_thinking=False``.

        Raises
        ------
        InvalidArgumentError
            The template refuses the messages (its own words are in the message), or is itself wrong.
        """
        if not messages:
            raise InvalidArgumentError("a chat has no messages", "invalid argument")
        for number, message in enumerate(messages):
            if not isinstance(message, Mapping):
                raise InvalidArgumentError(
                    f"message {number} is of type {type(message).__name__}, must be a mapping with 'role', 'content'",
                    "invalid argument",
                )
        for tool in tools or ():
            if not isinstance(tool, Mapping):
                raise InvalidArgumentError(
                    f"a tool is of type {type(tool).__name__}, must be the JSON schema of a function",
                    "invalid argument",
                )
        compiled = _compile(self._text(template, tools is not None))
        values: dict[str, Any] = {**self.special_tokens, **variables, "tools": tools, "documents": documents}
        try:
            values = {name: _plain(value) for name, value in values.items()}
            return compiled.render(
                messages=[_message(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                **values,
            )
        except Exception as error:  # a template may raise anything
            raise InvalidArgumentError(
                f"the chat template refuses these messages: {error or type(error).__name__}", "invalid argument"
            ) from error

    def _text(self, template: str | None, has_tools: bool) -> str:
        if template is not None:
            return self.templates.get(template, template)
        for name in ("tool_use", "default") if has_tools else ("default",):
            if name in self.templates:
                return self.templates[name]
        raise InvalidArgumentError(
            f"no chat template is the default one; name one of {', '.join(sorted(self.templates))}", "invalid argument"
        )


def open_chat_template(files: Files) -> ChatTemplate | None:
    """Return the chat template among a model's files, or None if there is none.

    ``chat_template.jinja`` and ``additional_chat_templates/*.jinja`` take precedence over ``chat_template.json`` and
    ``tokenizer_config.json``, as in transformers.
    """
    config = files.json("tokenizer_config.json")
    special = config if "added_tokens_decoder" in config else {**config, **files.json("special_tokens_map.json")}
    tokens = {}
    for name in SPECIAL_TOKENS:
        value = special.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            tokens[name] = value
    templates: dict[str, str] = {}
    default = files.text("chat_template.jinja")
    if default is not None:
        templates["default"] = default
    for name in files.names("additional_chat_templates", ".jinja"):
        templates[PurePosixPath(name).stem] = files.text(name) or ""
    if not templates:
        stored = files.json("chat_template.json").get("chat_template")
        found, name = (
            (stored, "chat_template.json") if stored else (config.get("chat_template"), "tokenizer_config.json")
        )
        templates = _by_name(found, files.where(name))
    return ChatTemplate(templates, tokens) if templates else None


def _by_name(found: Any, where: str) -> dict[str, str]:
    """Return templates by name, from one text or a list of ``{"name": …, "template": …}``."""
    if not found:
        return {}
    if isinstance(found, str):
        return {"default": found}
    try:
        named = found if isinstance(found, dict) else {entry["name"]: entry["template"] for entry in found}
        if all(isinstance(text, str) for item in named.items() for text in item):
            return named
    except (KeyError, TypeError):
        pass
    raise InvalidArgumentError(
        f"{where}: chat_template is neither a text nor a list of names with templates", "invalid argument"
    )


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message for a template: without keys that have no value, and with reasoning under all its names."""
    plain = {key: value for key, value in _plain(message).items() if value is not None}
    reasoning = next((plain[name] for name in _REASONING if name in plain), None)
    return plain if reasoning is None else {"thinking": reasoning, **plain, "reasoning_content": reasoning}


def _plain(value: Any) -> Any:
    """Return a value as plain JSON types: other objects have methods that the sandbox does not know."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    for base in (str, int, float):
        if isinstance(value, base):
            return base.__str__(value) if base is str else base(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return f"<{type(value).__name__}>"


@cache
def _compile(text: str) -> Any:
    """Return a template that can be rendered. Templates are untrusted, so Jinja2's sandbox runs them."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError as error:
        raise NotFoundError(
            "chat templates need Jinja2, which is not installed: pip install 'intarsia[text]'", "not found"
        ) from error

    class Generation(jinja2.ext.Extension):
        """``{% generation %}…{% endgeneration %}`` marks an answer for training and does not change the text."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

        def _as_it_is(self, caller: Callable[[], str]) -> str:
            return caller()

    class Dictionary:
        """The function dict, without the attributes of the type."""

        def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
            return dict(*arguments, **named)

        def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
            return dict.fromkeys(*arguments)

    class Namespace(jinja2.utils.Namespace):
        """A namespace in which names of Python's internals cannot be set."""

        def __init__(*arguments: Any, **named: Any) -> None:
            # No parameter is called self, because an attribute may have that name.
            own, *rest = arguments
            attributes = dict(*rest, **named)
            for name in attributes:
                _refuse_private(name)
            jinja2.utils.Namespace.__init__(own, attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            _refuse_private(name)
            super().__setitem__(name, value)

    def _refuse_private(name: str) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot have an attribute '{name}'")

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def to_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Jinja's own filter escapes characters for HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format: str) -> str:
        return datetime.datetime.now().strftime(format)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals.update(
        raise_exception=raise_exception, strftime_now=strftime_now, dict=Dictionary(), namespace=Namespace
    )
    try:
        return environment.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise InvalidArgumentError(
            f"the chat template is wrong at line {error.lineno}: {error.message}", "invalid argument"
        ) from error
    except Exception as error:  # Jinja2 and Python's compiler end deep nesting in several ways
        raise InvalidArgumentError(
            f"the chat template cannot be compiled: {error or type(error).__name__}", "invalid argument"
        ) from error
