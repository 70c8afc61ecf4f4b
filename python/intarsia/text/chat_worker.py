# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program that renders chat templates, in a process that its limits may end; `chat_process` starts it.

It imports nothing of the package, because that would take longer than rendering. A request is a pickled `dict` behind
its length; a reply is a letter (see `REPLIES`) and a text behind its length.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import resource
import signal
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

#: What the letters of replies mean.
REPLIES = {
    b"T": "the rendered text",
    b"C": "the template cannot be compiled, and why",
    b"R": "the template refuses the messages, and why",
    b"M": "out of memory; the process ends",
}

#: Compiled templates that are kept; a model has one or two.
_MOST_TEMPLATES = 16


class Marked(str):
    """A text of a user in which the spelled control tokens are broken by marks, and that compares as if they were not.

    Keys of mappings may be such texts: they are found by what they were.

    What operations return may be a plain `str`: the marks are in it, so that nothing becomes a control token.
    """

    #: Texts of control tokens that occur, and the same with a mark.
    tokens: dict[str, str] = {}  # noqa: RUF012
    mark = ""

    @classmethod
    def of(cls, value: Any) -> Any:
        """Return a value with its strings marked, keys among them."""
        if isinstance(value, dict):
            return type(value)((cls.of(key), cls.of(item)) for key, item in value.items())
        if isinstance(value, (list, tuple)):
            return type(value)(map(cls.of, value))
        return cls(value) if isinstance(value, str) and cls.mark and cls.mark in value else value

    @classmethod
    def _broken(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(cls._broken, value))
        if isinstance(value, str) and not isinstance(value, Marked):
            for token, broken in cls.tokens.items():
                value = value.replace(token, broken)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.replace(self, self.mark, "") == str.replace(other, self.mark, "")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str.replace(self, self.mark, ""))

    def __repr__(self) -> str:
        # It escapes the mark, and a template may print a list.
        return str.__repr__(self).replace(repr(self.mark)[1:-1], self.mark)

    def __contains__(self, other: Any) -> bool:
        return str.__contains__(self, self._broken(other))

    def __getitem__(self, index: Any) -> Any:
        return Marked.of(str.__getitem__(self, index))

    def __add__(self, other: Any) -> Any:
        return Marked.of(str.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Marked.of(other + str(self))


def _on_marked(name: str) -> Callable[..., Any]:
    operation = getattr(str, name)

    def method(self: Marked, *arguments: Any, **named: Any) -> Any:
        return Marked.of(operation(self, *map(self._broken, arguments), **named))

    method.__name__ = name
    return method


for _name in (
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "replace", "removeprefix", "removesuffix"),
    *("split", "rsplit", "partition", "rpartition", "splitlines", "strip", "lstrip", "rstrip", "lower", "upper"),
):
    setattr(Marked, _name, _on_marked(_name))


class Parts(list):  # type: ignore[type-arg]
    """The content of a message in parts, which knows what a template does with it."""

    was_read = False
    was_printed = False

    def __iter__(self) -> Iterator[Any]:
        self.was_read = True
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        self.was_read = True
        return super().__getitem__(index)

    def __repr__(self) -> str:
        self.was_printed = True
        return super().__repr__()

    __str__ = __repr__


class Arguments(dict):  # type: ignore[type-arg]
    """Arguments of a function that came as JSON: an object for templates that read it, and its text where printed."""

    def __init__(self, value: dict[str, Any], text: str) -> None:
        super().__init__(value)
        # Jinja looks for attributes before keys: no argument has the name that this one gets.
        self.__text = text

    def __str__(self) -> str:
        return self.__text

    def __add__(self, other: Any) -> Any:
        return self.__text + other

    def __radd__(self, other: Any) -> Any:
        return other + self.__text


class Refusal(Exception):
    """What a user is told."""


def flattened(parts: list[Any], where: str) -> str:
    """Return the text of a message's parts, a line each, as vLLM and llama.cpp do."""
    texts = []
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            kind = part.get("type", "dict") if isinstance(part, dict) else type(part).__name__
            raise Refusal(f"{where}: part {number} is of type {kind}, and the template takes texts alone")
        texts.append(text)
    return "\n".join(texts)


def render(compiled: Any, request: dict[str, Any]) -> str:
    """Return the text of a request's messages.

    Parts are given to the template first. If it does not read them, prints the list, or fails, they are given as text.
    """
    values = Marked.of(request["values"])
    messages = Marked.of(request["messages"])
    for number, call, text in request["arguments"]:
        function = messages[number]["tool_calls"][call]
        function = function.get("function", function)
        function["arguments"] = Arguments(function["arguments"], Marked.of(text))
    parted = [number for number, message in enumerate(messages) if type(message.get("content")) is list]

    def text_of(shown: list[Any]) -> str:
        pieces, length = [], 0
        for piece in compiled.generate(messages=shown, **values):
            length += len(piece)
            if length > request["most_letters"]:
                raise Refusal(f"the text is longer than {request['most_letters']} letters")
            pieces.append(piece)
        return "".join(pieces)

    if not parted:
        return text_of(messages)
    shown = list(messages)
    for number in parted:
        shown[number] = {**messages[number], "content": Parts(messages[number]["content"])}
    failure: Exception | None = None
    try:
        text = text_of(shown)
    except MemoryError:
        raise
    except Exception as error:
        failure = error
    given = {number: shown[number]["content"] for number in parted}
    as_text = [n for n, parts in given.items() if failure or parts.was_printed or not parts.was_read]
    if not as_text:
        return text
    try:
        for number in as_text:
            shown[number] = {
                **messages[number],
                "content": Marked.of(flattened(messages[number]["content"], f"message {number}")),
            }
    except Refusal:
        if failure is not None:
            raise failure from None
        raise
    return text_of(shown)


def make_environment() -> Any:
    """Return Jinja2's sandbox with what transformers adds to it."""
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

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
        if isinstance(value, Parts):
            value.was_printed = True
        # Jinja's own filter escapes characters for HTML.
        text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        if ensure_ascii and Marked.mark:
            text = text.replace(json.dumps(Marked.mark)[1:-1], Marked.mark)
        return text

    def strftime_now(format: str) -> str:
        return datetime.datetime.now().strftime(format)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals.update(
        raise_exception=raise_exception, strftime_now=strftime_now, dict=Dictionary(), namespace=Namespace
    )
    return environment


def compile_template(environment: Any, templates: OrderedDict[str, Any], text: str) -> Any:
    """Return a compiled template; those that were used least recently are forgotten."""
    import jinja2

    if text not in templates:
        try:
            templates[text] = environment.from_string(text)
        except jinja2.TemplateSyntaxError as error:
            raise Refusal(f"the chat template is wrong at line {error.lineno}: {error.message}") from error
        if len(templates) > _MOST_TEMPLATES:
            templates.popitem(last=False)
    templates.move_to_end(text)
    return templates[text]


def answer(environment: Any, templates: OrderedDict[str, Any], request: dict[str, Any]) -> tuple[bytes, str]:
    """Return the reply to a request."""
    Marked.mark, Marked.tokens = request["mark"], request["tokens"]
    try:
        compiled = compile_template(environment, templates, request["template"])
    except MemoryError:
        return b"M", "compiled"
    except Refusal as refusal:
        return b"C", str(refusal)
    except Exception as error:  # Jinja2 and Python's compiler end deep nesting in several ways
        return b"C", f"the chat template cannot be compiled: {error or type(error).__name__}"
    try:
        return b"T", render(compiled, request)
    except MemoryError:
        return b"M", "rendered"
    except Exception as error:  # a template may raise anything
        return b"R", str(error) or type(error).__name__


def read(source: BinaryIO, count: int) -> bytes:
    """Return so many bytes; end the process where the other one has ended."""
    data = source.read(count)
    if len(data) < count:
        sys.exit(0)
    return data


def main() -> None:
    """Answer requests until there are no more. Arguments: bytes of memory, seconds of processor time, module paths."""
    memory, seconds, paths = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    sys.path[:] = paths
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    environment = make_environment()
    environment.from_string("{{ x }}").render()  # what Jinja2 imports late
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    for name, limit in ((resource.RLIMIT_AS, used + memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(name, (limit, limit))
    templates: OrderedDict[str, Any] = OrderedDict()
    while True:
        (length,) = struct.unpack("<q", read(requests, 8))
        try:
            request = pickle.loads(read(requests, length))
            # The default action of the signal ends the process, in the middle of whatever it computes.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            letter, text = answer(environment, templates, request)
            signal.setitimer(signal.ITIMER_PROF, 0)
            data = text.encode("utf-8", "surrogatepass")
        except MemoryError:
            letter, data = b"M", b"handled"
        replies.write(letter + struct.pack("<q", len(data)) + data)
        replies.flush()
        if letter == b"M":
            return


if __name__ == "__main__":
    main()
