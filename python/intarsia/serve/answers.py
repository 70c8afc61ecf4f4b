# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an answer consists of, how the text of a sample becomes one, and how an interface writes it.

`Reader` is for what models write (calls of tools, reasoning), `AnswerWriter` for what clients read (events of a stream,
or one object). `chat.answer` joins them: each step of the engine gives the new text of each sample to its reader, and
the reader's pieces to the writer, whose bytes are sent at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .errors import RequestError

CONTENT, REASONING, CALL, ARGUMENTS = "content", "reasoning", "call", "arguments"

#: OpenAI's interface has this value for tokens that are very unlikely; JSON has no -inf.
_LEAST_LOGPROB = -9999.0


@dataclass(frozen=True)
class Piece:
    """A part of an answer.

    Attributes
    ----------
    kind : str
        `CONTENT`, `REASONING`; `CALL`: a call of a function begins, `text` is its name; `ARGUMENTS`: more of the JSON
        of its arguments.
    call : int
        The index of the call, from 0 on.
    id : str
        The identifier of a call that begins.
    """

    kind: str
    text: str
    call: int = 0
    id: str = ""


@dataclass(frozen=True)
class LoggedToken:
    """A generated token with its probability, where logprobs are asked for.

    Attributes
    ----------
    token : int
    logprob : float
        Natural logarithm of its probability.
    top : sequence of (int, float)
        The likeliest tokens with theirs.
    """

    token: int
    logprob: float
    top: Sequence[tuple[int, float]] = ()


def shown_logprob(logprob: float) -> float:
    """Return the logarithm of a probability as JSON can have it."""
    return max(logprob, _LEAST_LOGPROB)


@dataclass
class Usage:
    """What a request has taken, in tokens; the generated ones are those of all samples."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass
class Call:
    """A call of a function: `arguments` is JSON."""

    id: str
    name: str
    arguments: str = ""


@dataclass
class Answer:
    """The whole answer of one sample.

    Attributes
    ----------
    finish_reason : str
        ``"stop"``, ``"length"`` or ``"tool_calls"``.
    stop : str or None
        The stop string that ended the text.
    """

    content: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    tokens: list[LoggedToken] = field(default_factory=list)
    finish_reason: str = "stop"
    stop: str | None = None

    def add(self, pieces: Sequence[Piece]) -> None:
        """Append pieces."""
        for piece in pieces:
            if piece.kind == CONTENT:
                self.content += piece.text
            elif piece.kind == REASONING:
                self.reasoning += piece.text
            elif piece.kind == CALL:
                self.calls.append(Call(piece.id, piece.text))
            else:
                self.calls[piece.call].arguments += piece.text


class Reader(Protocol):
    """Reads the text that a model writes for one sample.

    Attributes
    ----------
    reasoning_tokens : int
        Tokens of the reasoning, at the end.
    """

    reasoning_tokens: int

    def read(self, text: str) -> Sequence[Piece]:
        """Take more text, which later tokens cannot change; return what is certain."""

    def finish(self, reason: str) -> tuple[Sequence[Piece], str]:
        """Take the end of the text and why it has ended; return the rest, and the reason that the client is told."""


@dataclass
class Form:
    """How the text of an answer is held in a form, and read.

    Attributes
    ----------
    constraint : Constraint or None
        What the text must follow (`generation.constrained`); each sample has a copy.
    shows_special_tokens : bool
        The text has special tokens such as ``<tool_call>``: the reader needs them.
    make_reader : callable, optional
        Makes the reader of a sample; without it all text is content.
    dropped : tuple of str
        What of the functions' schemas the constraint does not hold, because they are not strict.
    """

    constraint: Any = None
    shows_special_tokens: bool = False
    make_reader: Callable[[], Reader] | None = None
    dropped: tuple[str, ...] = ()


class AnswerWriter(Protocol):
    """Writes the answers to one request as an interface has them."""

    def begin(self, usage: Usage) -> bytes:
        """Return what a stream begins with, before the first token; the usage is that of the prompt."""

    def pieces(self, sample: int, pieces: Sequence[Piece], tokens: Sequence[LoggedToken]) -> bytes:
        """Return the events of more of an answer; nothing if there is nothing to tell."""

    def end(self, sample: int, answer: Answer) -> bytes:
        """Return the events of the end of an answer, whose content and calls are empty in a stream."""

    def close(self, usage: Usage) -> bytes:
        """Return what the stream ends with."""

    def error(self, error: RequestError) -> bytes:
        """Return the events of an error after the beginning; the stream ends with them."""

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """Return the object for a client that has not asked for a stream."""
