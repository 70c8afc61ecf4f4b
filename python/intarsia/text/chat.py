# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates, as transformers defines them: they turn messages into the text that a model was trained on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ..runtime.files import Files
from ..support.checks import brief
from ..support.errors import InvalidArgumentError
from .chat_process import renderer
from .control_tokens import ControlTokens

#: The special tokens that templates may name; transformers has the same list (SPECIAL_TOKENS_ATTRIBUTES).
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

#: Names that templates know from elsewhere, so that no variable may have them.
_RESERVED = frozenset(
    {
        *("messages", "tools", "documents", "add_generation_prompt", "template", *SPECIAL_TOKENS),
        *("raise_exception", "strftime_now", "range", "dict", "lipsum", "cycler", "joiner", "namespace"),
        *("self", "loop", "caller", "varargs", "kwargs"),
    }
)

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
        check_variables(variables, self.special_tokens)
        return self.render_marked(messages, tools, documents, add_generation_prompt, template, variables)[0]

    def text(self, template: str | None = None, has_tools: bool = False) -> str:
        """Return the Jinja2 text that `render` takes."""
        if template is not None:
            if not isinstance(template, str):
                raise _error(f"template is of type {type(template).__name__}, must be a name or a text")
            return self.templates.get(template, template)
        for name in ("tool_use", "default") if has_tools else ("default",):
            if name in self.templates:
                return self.templates[name]
        raise _error(f"no chat template is the default one; name one of {', '.join(sorted(self.templates))}")

    def render_marked(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        documents: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        template: str | None,
        variables: Mapping[str, Any],
        controls: ControlTokens | None = None,
        beginning: str = "",
    ) -> tuple[str, str]:
        """Return what `render` does, and a mark that breaks what is spelled like `controls` in the messages.

        Without `controls` there is no mark, and texts are shown as they are. `beginning` is that of the answer, which
        follows the rendered text: it is encoded as one text with it.
        """
        for name, value in (("messages", messages), ("tools", tools), ("documents", documents)):
            if not (value is None and name != "messages") and not _is_list(value):
                raise _error(f"{name} are of type {type(value).__name__}, must be a list")
        if not messages:
            raise _error("a chat has no messages")
        for number, message in enumerate(messages):
            if not isinstance(message, Mapping):
                raise _error(
                    f"message {number} is of type {type(message).__name__}, must be a mapping with 'role', 'content'"
                )
        for tool in tools or ():
            if not isinstance(tool, Mapping):
                raise _error(f"a tool is of type {type(tool).__name__}, must be the JSON schema of a function")
        text = self.text(template, tools is not None)
        try:
            values = {"tools": _plain(tools), "documents": _plain(documents), **_plain(variables)}
            shown = [_message(message) for message in messages]
            arguments = [call for number, message in enumerate(shown) for call in _parsed_calls(number, message)]
            marks = None if controls is None else controls.marks(shown, arguments, values, beginning)
            if marks is not None:
                shown, arguments, values = marks.chat(shown, arguments, values)
            request = {
                "template": text,
                "messages": shown,
                "arguments": arguments,
                "values": {**values, **self.special_tokens, "add_generation_prompt": bool(add_generation_prompt)},
                "mark": "" if marks is None else marks.mark,
                "tokens": {} if marks is None else marks.tokens,
            }
            rendered, mark = renderer.render(request), request["mark"]
        except RecursionError as error:
            raise _error(f"the chat template refuses these messages: {error}") from error
        if controls is not None and beginning:
            # The mark before it keeps the template's last letters from being part of a control token.
            beginning = mark + controls.broken(beginning, mark)
        return rendered + beginning, mark


def check_variables(variables: Any, special_tokens: Mapping[str, str]) -> None:
    """Refuse values for names that are the template's own: a variable must not replace a token or a function."""
    if not isinstance(variables, Mapping):
        raise _error(
            f"template variables are of type {type(variables).__name__}, must be a mapping from names to values"
        )
    for name in variables:
        if not isinstance(name, str) or not name.isidentifier():
            raise _error(f"the template variable {brief(name)} has no name that a template could use")
        if name in _RESERVED or name in special_tokens or name.startswith("_"):
            raise _error(
                f"the template variable {brief(name)} has a name that is the template's own; choose another one"
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
    raise _error(f"{where}: chat_template is neither a text nor a list of names with templates")


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message for a template: without keys that have no value, and with reasoning under all its names."""
    plain = {key: value for key, value in _plain(message).items() if value is not None}
    reasoning = next((plain[name] for name in _REASONING if name in plain), None)
    return plain if reasoning is None else {"thinking": reasoning, **plain, "reasoning_content": reasoning}


def _parsed_calls(number: int, message: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Replace arguments of calls that are JSON, as models and OpenAI's interface write them, by what they mean.

    Returns
    -------
    list of (int, int, str)
        The message, the call, and the JSON. Text that is not the JSON of an object stays text.
    """
    parsed = []
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, (list, tuple)) else ()):
        function = call.get("function", call) if isinstance(call, dict) else None
        text = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(text, str):
            try:
                value = json.loads(text) if text.strip() else {}
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                function["arguments"] = value
                parsed.append((number, index, text))
    return parsed


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


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


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
