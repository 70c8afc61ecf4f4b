# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read what models write: reasoning, content, and calls of functions, as soon as each is certain.

A reader has a state, which is a method. It takes what it can from the beginning of the text that is not read yet, and
returns whether it has taken anything or another state has its turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .answers import ARGUMENTS, CALL, CONTENT, REASONING, Piece, Reader


@dataclass(frozen=True)
class Thinking:
    """How a model marks its reasoning.

    Attributes
    ----------
    begin, end : str
        The markers around it.
    is_open : bool
        The prompt ends with the first marker.
    """

    begin: str
    end: str
    is_open: bool = False


class ArgumentsReader(Protocol):
    """Reads the arguments of one call."""

    def read(self, text: str) -> tuple[str, int, bool]:
        """Return JSON, how many letters of the text were taken, and whether the arguments end there."""


class CallForm(Protocol):
    """How a family of models writes calls.

    Attributes
    ----------
    begin : str
        The marker before the first call; if it is empty, an answer is text or calls from its beginning on.
    between : str
        What each further call begins with; empty: there is one call.
    skips_between : bool
        That is a marker before the call, no part of it.
    """

    begin: str
    between: str
    skips_between: bool

    def head(self, text: str) -> tuple[str, int] | bool | None:
        """Return the name and the length of what a call begins with; None: needs more text; False: it is no call."""

    def arguments(self) -> ArgumentsReader:
        """Return the reader for the arguments of a call."""


class TextReader:
    """Reads reasoning between markers, content, and calls behind a marker.

    Parameters
    ----------
    thinking : Thinking or None
        None: the model does not mark reasoning.
    calls : CallForm or None
        None: there are no calls.
    new_id : callable
        Makes the identifier of a call.
    hidden : re.Pattern or None
        Special tokens that are not shown.
    """

    reasoning_tokens = 0

    def __init__(
        self,
        thinking: Thinking | None,
        calls: CallForm | None,
        new_id: Callable[[], str],
        hidden: re.Pattern[str] | None = None,
    ) -> None:
        self._thinking, self._calls, self._new_id, self._hidden = thinking, calls, new_id, hidden
        self._text = ""
        self._pieces: list[Piece] = []
        self._count = 0
        self._is_last = False
        self._arguments: ArgumentsReader | None = None
        self._has_ended_call = False
        self._state = self._beginning
        if thinking is not None and thinking.is_open:
            self._state = self._reasoning_gap
        elif thinking is None:
            self._state = self._first

    def read(self, text: str) -> Sequence[Piece]:
        """Take more text."""
        self._text += text if self._hidden is None else self._hidden.sub("", text)
        while self._text and self._state():
            pass
        pieces, self._pieces = self._pieces, []
        return pieces

    def finish(self, reason: str) -> tuple[Sequence[Piece], str]:
        """Take the end of the text."""
        self._is_last = True
        pieces = self.read("")
        return pieces, "tool_calls" if reason == "stop" and self._has_ended_call else reason

    def _put(self, kind: str, text: str) -> None:
        if not text:
            return
        if self._pieces and self._pieces[-1].kind == kind:
            text = self._pieces.pop().text + text
        self._pieces.append(Piece(kind, text, max(0, self._count - 1) if kind == ARGUMENTS else 0))

    # Reasoning.

    def _beginning(self) -> bool:
        text = self._text.lstrip()
        if text.startswith(self._thinking.begin):
            self._text = text[len(self._thinking.begin) :]
            self._state = self._reasoning_gap
            return True
        if self._thinking.begin.startswith(text) and not self._is_last:
            return False
        self._state = self._first
        return True

    def _reasoning_gap(self) -> bool:
        self._text = self._text.lstrip()
        self._state = self._reasoning if self._text else self._reasoning_gap
        return bool(self._text)

    def _reasoning(self) -> bool:
        return self._take_until(self._thinking.end, REASONING, self._gap)

    def _gap(self) -> bool:
        self._text = self._text.lstrip()
        self._state = self._first if self._text else self._gap
        return bool(self._text)

    def _take_until(self, marker: str, kind: str, following: Callable[[], bool]) -> bool:
        """Take text up to a marker, without the white space before it."""
        at = self._text.find(marker)
        if at >= 0:
            self._put(kind, self._text[:at].rstrip())
            self._text = self._text[at + len(marker) :]
            self._state = following
            return True
        certain = len(self._text) if self._is_last else certain_length(self._text, marker)
        self._put(kind, self._text[:certain])
        self._text = self._text[certain:]
        return False

    # Content and calls.

    def _first(self) -> bool:
        """Tell content from a call where no marker does."""
        if self._calls is not None and not self._calls.begin:
            head = self._calls.head(self._text)
            if head is None and not self._is_last:
                return False
            if head:
                self._state = self._head
                return True
        self._state = self._content
        return True

    def _content(self) -> bool:
        if self._calls is None or not self._calls.begin:
            self._put(CONTENT, self._text)
            self._text = ""
            return False
        return self._take_until(self._calls.begin, CONTENT, self._head)

    def _head(self) -> bool:
        head = self._calls.head(self._text)
        if head is None:
            return False
        if head is False:  # only where nothing holds the model to its form
            self._put(CONTENT, self._calls.begin)
            self._state = self._content
            return True
        name, length = head
        self._text = self._text[length:]
        self._pieces.append(Piece(CALL, name, self._count, self._new_id()))
        self._count += 1
        self._arguments = self._calls.arguments()
        self._state = self._take_arguments
        return True

    def _take_arguments(self) -> bool:
        json, length, is_end = self._arguments.read(self._text)
        self._put(ARGUMENTS, json)
        self._text = self._text[length:]
        if is_end:
            self._has_ended_call = True
            self._state = self._between
        return is_end

    def _between(self) -> bool:
        marker = self._calls.between
        at = self._text.find(marker) if marker else -1
        if at < 0:
            self._text = self._text[len(self._text) - begun_length(self._text, marker) :]
            return False
        self._text = self._text[at + (len(marker) if self._calls.skips_between else 0) :]
        self._state = self._head
        return True


class CountingReader:
    """A reader that counts the tokens of the reasoning: those of its text, without markers.

    Parameters
    ----------
    reader : Reader
        What reads.
    count : callable
        Returns the tokens of a text.
    """

    def __init__(self, reader: Reader, count: Callable[[str], int]) -> None:
        self._reader, self._count = reader, count
        self._reasoning: list[str] = []
        self.reasoning_tokens = 0

    def read(self, text: str) -> Sequence[Piece]:
        """Take more text."""
        pieces = self._reader.read(text)
        self._reasoning += [piece.text for piece in pieces if piece.kind == REASONING]
        return pieces

    def finish(self, reason: str) -> tuple[Sequence[Piece], str]:
        """Take the end of the text."""
        pieces, reason = self._reader.finish(reason)
        self._reasoning += [piece.text for piece in pieces if piece.kind == REASONING]
        if self._reasoning:
            self.reasoning_tokens = self._count("".join(self._reasoning))
        return pieces, reason


class JsonArguments:
    """Reads a JSON object as it is, up to its last bracket."""

    def __init__(self) -> None:
        self._has_begun = False
        self._depth = 0
        self._is_string = False
        self._is_escaped = False

    def read(self, text: str) -> tuple[str, int, bool]:
        """Return what is read, see `ArgumentsReader`."""
        begin = 0 if self._has_begun else len(text) - len(text.lstrip())
        self._has_begun = self._has_begun or begin < len(text)
        for at in range(begin, len(text)):
            letter = text[at]
            if self._is_escaped:
                self._is_escaped = False
            elif self._is_string:
                self._is_string = letter != '"'
                self._is_escaped = letter == "\\"
            elif letter == '"':
                self._is_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return text[begin : at + 1], at + 1, True
        return text[begin:], len(text), False


def certain_length(text: str, marker: str) -> int:
    """Return how many letters of a text are neither white space at its end nor the beginning of a marker."""
    begun = begun_length(text, marker)
    return len(text[: len(text) - begun].rstrip())


def begun_length(text: str, marker: str) -> int:
    """Return how many letters at the end of a text may begin a marker."""
    for length in range(min(len(marker) - 1, len(text)), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0


def match_compact(text: str, compact: str) -> int | bool | None:
    """Return the length of the beginning of a text that is `compact` apart from white space.

    None: the text ends before; False: it is something else.
    """
    read = 0
    for at, letter in enumerate(text):
        if read == len(compact):
            return at
        if letter == compact[read]:
            read += 1
        elif not letter.isspace():
            return False
    return len(text) if read == len(compact) else None
