# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is asked of a server, and what came back when."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Request:
    """A prompt of token ids and the number of tokens to generate, which the end of a text does not shorten.

    With a JSON schema the text is the beginning of a value of that schema, which servers that know vLLM's
    `structured_outputs` hold.
    """

    prompt: list[int]
    max_tokens: int
    schema: dict[str, Any] | None = None


@dataclass
class Record:
    """The life of one request; times are those of `time.perf_counter`.

    Attributes
    ----------
    sent
        When it was due. A client that is late does not shorten the time that is measured.
    times
        When each piece of text came; servers send one a token.
    tokens
        Tokens that the server says it generated.
    cached
        Tokens of the prompt that the server did not compute again; None if it does not say.
    cancelled
        The client closed the stream, as the workload wants it.
    """

    prompt_tokens: int
    max_tokens: int
    sent: float = math.nan
    times: list[float] = field(default_factory=list)
    tokens: int = 0
    cached: int | None = None
    error: str | None = None
    cancelled: bool = False

    @classmethod
    def of(cls, request: Request) -> Record:
        return cls(len(request.prompt), request.max_tokens)

    @property
    def first_s(self) -> float:
        """Returns the seconds to the first token."""
        return self.times[0] - self.sent

    @property
    def whole_s(self) -> float:
        """Returns the seconds to the last token."""
        return self.times[-1] - self.sent

    @property
    def token_s(self) -> float:
        """Returns the mean seconds of a token after the first one; 0 if there is only one."""
        return (self.times[-1] - self.times[0]) / (self.tokens - 1) if self.tokens > 1 else 0.0

    @property
    def gaps_s(self) -> list[float]:
        """Returns the seconds between pieces."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]

    @property
    def failure(self) -> str | None:
        """Returns why the request does not count as served."""
        if self.error or self.cancelled:
            return self.error
        if not self.times:
            return "the answer has no text"
        return None if self.tokens == self.max_tokens else f"{self.tokens} tokens instead of {self.max_tokens}"


class Target(Protocol):
    """Something that generates: a server, or an engine in this process."""

    async def generate(self, request: Request, record: Record) -> None:
        """Fills the record as tokens come; errors are written to it. Cancelling the task cancels the request."""
