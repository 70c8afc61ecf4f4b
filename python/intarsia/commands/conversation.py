# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop of ``intarsia chat``: reads the user's messages and streams the model's answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..generation.generator import Generator
from ..generation.sampling import SamplingOptions
from ..support.errors import Error

HELP = """\
/system TEXT   begin anew with TEXT as the system message (none without TEXT)
/reset         begin anew
/speed         say how fast the last answer came
/exit          end; so does Ctrl-D, and Ctrl-C while there is no answer to stop
A line that ends with \\ goes on in the next one; // begins a message with one slash."""


class Conversation:
    """The messages so far, and the model that answers.

    Parameters
    ----------
    generator : Generator
        A model with a chat template.
    max_tokens : int
        The most tokens of an answer.
    system : str or None
        The system message.
    template_variables : mapping
        More values for the template.
    sampling : SamplingOptions
        How tokens are chosen; the n-th answer has the seed + n.
    draft : path or None
        A smaller model that proposes tokens.
    draft_tokens : int
        The most tokens that are proposed at once.
    """

    def __init__(
        self,
        generator: Generator,
        max_tokens: int,
        system: str | None,
        template_variables: Mapping[str, Any],
        sampling: SamplingOptions,
        draft: Path | None,
        draft_tokens: int,
    ) -> None:
        self._generator = generator
        self._max_tokens = max_tokens
        self._variables = template_variables
        self._sampling, self._draft, self._draft_tokens = sampling, draft, draft_tokens
        self._answers = 0
        self._speed = "there is no answer yet"
        self._begin(system)

    def run(self) -> int:
        """Talk until the user ends it; return the exit code."""
        terminal = sys.stdin.isatty()
        if terminal:
            try:
                import readline  # noqa: F401  (input() edits lines with it)
            except ImportError:
                pass
            print("/help lists commands, Ctrl-C stops an answer, Ctrl-D ends.")
        while True:
            try:
                text = _read("> " if terminal else "")
            except (EOFError, KeyboardInterrupt) as end:
                if terminal:
                    print()
                if isinstance(end, KeyboardInterrupt):
                    raise
                return 0
            if not text.strip():
                continue
            if text.startswith("/") and not text.startswith("//"):
                if not self._obey(*text[1:].partition(" ")[::2]):
                    return 0
                continue
            self._answer(text[1:] if text.startswith("//") else text)

    def _begin(self, system: str | None) -> None:
        self._messages = [{"role": "system", "content": system}] if system else []

    def _obey(self, command: str, rest: str) -> bool:
        """Execute a command; return True if the conversation continues."""
        if command == "system":
            self._begin(rest.strip())
        elif command == "reset":
            system = self._messages[:1] and self._messages[0]["role"] == "system"
            self._messages = self._messages[: 1 if system else 0]
        elif command == "speed":
            print(self._speed, flush=True)
        elif command == "help":
            print(HELP, flush=True)
        elif command != "exit":
            _tell(f"there is no command /{command}; /help lists those that there are")
        return command != "exit"

    def _answer(self, text: str) -> None:
        messages = [*self._messages, {"role": "user", "content": text}]
        generator = self._generator
        started = time.perf_counter()
        try:
            prompt = generator.encode_chat(messages, template_variables=self._variables)
            seed = self._sampling.seed
            writer, steps = generator.start(
                prompt,
                self._max_tokens,
                sampling=self._sampling,
                seed=None if seed is None else seed + self._answers,
                draft=self._draft,
                draft_tokens=self._draft_tokens,
            )
        except Error as error:
            _tell(f"error: {error}")
            if len(self._messages) > 1:
                _tell("/reset begins anew")
            return
        first = started
        try:
            for _ in steps:
                if first == started:
                    first = time.perf_counter()
                for piece in writer.news():
                    print(piece, end="", flush=True)
            for piece in writer.news(last=True):
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            writer.finish_reason = "interrupt"
        ended = time.perf_counter()
        print(flush=True)
        if writer.finish_reason == "length":
            _tell(f"the answer is cut: --max-tokens is {self._max_tokens}, the model's context {generator.context}")
        self._answers += 1
        self._messages = [*messages, {"role": "assistant", "content": writer.text or ""}]
        rate = (len(writer.ids) - 1) / (ended - first) if len(writer.ids) > 1 else 0.0
        self._speed = (
            f"{len(prompt)} tokens of prompt in {first - started:.2f} s, "
            f"{len(writer.ids)} tokens of answer at {rate:.1f} tokens/s"
        )


def _read(prompt: str) -> str:
    """Return the user's message, of one line or several."""
    lines = []
    while True:
        # input() prints its prompt to standard output only if that is a terminal.
        line = input(prompt)
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
