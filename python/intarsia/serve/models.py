# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model that is served: how its texts are encoded, and the engine that computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ..generation.constrained import Grammars
from ..generation.engine import Request
from ..generation.sampling import SamplingOptions
from ..generation.texts import ModelTexts
from ..support.errors import InvalidArgumentError
from ..text.text_stream import Stops, TextStream
from ..text.token_bytes import TokenBytes
from .chat_request import TextOptions
from .engines import Engine, Supervisor
from .errors import RequestError
from .grammar import FormCompiler
from .metrics import ModelMetrics
from .prompts import Prompts
from .runs import Sample


class ServedModel:
    """A language model.

    Parameters
    ----------
    name : str
        Its name in requests.
    texts : ModelTexts
        Its tokenizer, its chat template, and the tokens that end a text.
    context : int
        The most tokens of a sequence.
    make_engine : callable
        Starts the engine; called in a thread, again when the engine is lost.
    temperature : float
        That of requests that name none.
    draft_tokens : int
        The most that the engine's draft model proposes at once; 0: it has none.
    """

    def __init__(
        self,
        name: str,
        texts: ModelTexts,
        context: int,
        make_engine: Callable[[], Engine],
        *,
        temperature: float = 1.0,
        draft_tokens: int = 0,
    ) -> None:
        self.name, self.texts, self.context = name, texts, context
        self.tokenizer, self.chat_template = texts.tokenizer, texts.chat_template
        self.vocabulary, self.ends = texts.vocabulary, texts.ends
        self.temperature, self.draft_tokens = temperature, draft_tokens
        self.created = int(time.time())
        self.prompts = Prompts(texts)
        self.detokenizer = texts.detokenizer
        self.supervisor = Supervisor(name, make_engine)
        self.metrics = ModelMetrics(context)
        self.supervisor.on_step = self.metrics.iteration.add

    @property
    def token_bytes(self) -> TokenBytes:
        """The bytes of each token."""
        return self.texts.token_bytes

    @property
    def grammars(self) -> Grammars:
        """What makes constraints for this model's tokens."""
        return self.texts.grammars

    @cached_property
    def forms(self) -> FormCompiler:
        """What compiles the forms of answers, and keeps those that were used last."""
        return FormCompiler(self.grammars, self.tokenizer, self.vocabulary)

    def request(
        self,
        prompt: Sequence[int],
        options: TextOptions,
        *,
        constraint: Any = None,
        prompt_logprobs: int | None = None,
        key: str = "",
        salt: str = "",
        deadline_seconds: float | None = None,
        param: str = "messages",
    ) -> Request:
        """Return the engine's request.

        Raises
        ------
        RequestError
            The context has no room for it.
        """
        self.check_room(len(prompt), options.max_tokens, param)
        try:
            sampling = SamplingOptions(**options.sampling)
        except InvalidArgumentError as error:
            raise RequestError(str(error)) from error
        ends = set(options.stop_tokens) if options.ignores_end else self.ends | set(options.stop_tokens)
        return Request(
            prompt=prompt,
            sampling=sampling,
            max_tokens=options.max_tokens,
            ends=ends,
            samples=options.samples,
            logprobs=options.logprobs,
            prompt_logprobs=prompt_logprobs,
            draft_tokens=self.draft_tokens,
            constraint=constraint,
            priority=-options.priority,  # to vLLM's clients the lower number is first, to the engine the larger
            deadline_seconds=deadline_seconds,
            key=key,
            salt=salt,
        )

    def check_room(self, prompt_tokens: int, max_tokens: int | None, param: str) -> None:
        """Refuse what the context has no room for, with the numbers; `param` is the field of the prompt."""
        if prompt_tokens == 0:
            raise RequestError("the prompt has no tokens", param)
        if prompt_tokens > self.context - (max_tokens != 0):
            raise RequestError(
                f"the prompt has {prompt_tokens} tokens; the model's context is {self.context} tokens, which prompt "
                "and answer share",
                param,
                code="context_length_exceeded",
            )
        if max_tokens is not None and prompt_tokens + max_tokens > self.context:
            raise RequestError(
                f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}: {prompt_tokens + max_tokens} "
                f"together; the model's context is {self.context} tokens",
                "max_tokens",
                code="context_length_exceeded",
            )

    def samples(
        self,
        prompt: Sequence[int],
        options: TextOptions,
        first: int,
        *,
        shows_special_tokens: bool = False,
        make_reader: Callable[[], Any] | None = None,
    ) -> list[Sample]:
        """Return the samples of one prompt, numbered from `first` on."""
        stops = Stops(options.stops) if options.stops else None
        skips = options.skips_special_tokens and not shows_special_tokens
        return [
            Sample(
                first + number,
                TextStream(self.detokenizer.decoder(prompt, skips), stops, options.shows_stop),
                None if make_reader is None else make_reader(),
            )
            for number in range(options.samples)
        ]
