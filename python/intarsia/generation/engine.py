# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many requests with one language model at the same time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _runtime
from ..runtime.module import Module
from ..support.checks import INT64_MAX, real_number, token_ids, whole_number
from .cache import Cache
from .constrained import Constraint
from .masks import MaskedRequest, Masks, take_ends
from .sampling import SamplingOptions

#: Kinds of events.
TOKEN, PROMPT_TOKEN, FINISHED = 1, 2, 3
#: Why a text has ended.
END, LENGTH, CANCELLED, DEADLINE, FAILED = 1, 2, 3, 4, 5

_NO_TOKENS = np.empty(0, np.int64)
_NO_BIASES = np.empty(0, np.float32)


@dataclass(frozen=True)
class Mock:
    """A model that computes nothing, for tests and measurements of what is around one.

    Attributes
    ----------
    vocabulary, context, page_tokens : int
        Tokens that there are, the most of a text, and those of a page of its cache.
    stop_token : int
        The token that ends texts, one in 64 of them; negative: none does.
    step_seconds, token_seconds : float
        The time of a step, and that of each of its tokens.
    seed : int
        Of the logits.
    """

    vocabulary: int = 4096
    context: int = 4096
    page_tokens: int = 16
    stop_token: int = -1
    step_seconds: float = 0.0
    token_seconds: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """What an engine is asked for.

    Attributes
    ----------
    prompt : sequence of int
        Token ids.
    sampling : SamplingOptions
        How tokens are chosen. Its `stop` is the caller's to watch; `logprobs` are those of the request.
    max_tokens : int or None
        The most tokens of a text; 0: only the prompt is computed; None: as many as context and cache have room for.
    ends : collection of int
        Tokens that end a text, beside the `stop_tokens` of `sampling`.
    samples : int
        Texts to generate.
    logprobs : int or None
        Give the probability of each token, and of so many likeliest ones (at most 20); None: of none.
    prompt_logprobs : int or None
        The same for the tokens of the prompt from the second on.
    draft_tokens : int
        The most tokens that the draft model proposes at once.
    constraint : Constraint or None
        What the texts must follow.
    priority : int
        Of two requests the one with the larger priority is first.
    deadline_seconds : float or None
        The request ends after this time.
    key : str
        Requests of different keys get the same share of the engine.
    salt : str
        Prompts share state only with those of the same salt.
    seed_spawn : int
        Number of the request's random numbers among those of one seed.
    """

    prompt: Sequence[int]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_tokens: int | None = None
    ends: Any = ()
    samples: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    draft_tokens: int = 0
    constraint: Constraint | None = None
    priority: int = 0
    deadline_seconds: float | None = None
    key: str = ""
    salt: str = ""
    seed_spawn: int = 0


class Engine:
    """Computes many requests with one model at the same time; their tokens come as events.

    A thread runs forward steps while there are requests. Each step takes a token of every text that is under way, and
    parts of prompts. Prompts that begin alike share what they have in common.

    Parameters
    ----------
    module : Module or Mock
        A language model.
    sequences : int
        The most texts that are under way at a time; others wait.
    cache : int or None
        The most bytes of keys and values; None: half of the memory that is available.
    pages : int
        Pages of the cache; 0: as many as fit `cache`.
    spill_memory, spill_folder, spill_files
        Where state goes that the cache has no room for: see `Cache`.
    waiting : int
        The most texts that wait; 0: any number.
    step_tokens : int
        The most tokens of prompts in a step; 0: as many as suit the model, twice as many for several prompts.
    token_seconds : float
        The time between two tokens of a text that parts of prompts should leave; 0: they take as long as they take.
    kept_tokens : int or None
        The most tokens of ended texts whose state stays while nothing else needs the pages; None: any number.
    draft : Module or None
        A smaller model with the same tokens, for requests with `draft_tokens`.
    followers : bool
        The other ranks of the model's world call `follow`.

    Attributes
    ----------
    info : dict
        ``vocabulary``, ``context``, ``pages``, ``page_tokens``, … of the cache when the engine was made.
    """

    def __init__(
        self,
        module: Module | Mock,
        *,
        sequences: int = 64,
        cache: int | None = None,
        pages: int = 0,
        spill_memory: int = 0,
        spill_folder: str | os.PathLike[str] | None = None,
        spill_files: int = 0,
        waiting: int = 0,
        step_tokens: int = 0,
        token_seconds: float = 0.0,
        kept_tokens: int | None = None,
        draft: Module | None = None,
        followers: bool = False,
    ) -> None:
        self._masks = Masks()
        model, mock = None, None
        if isinstance(module, Mock):
            mock = (
                module.vocabulary,
                module.context,
                module.page_tokens,
                module.stop_token,
                module.step_seconds,
                module.token_seconds,
                module.seed,
            )
        else:
            model = module._runtime
        # In the C interface 0 is any number, and less than that none.
        kept = 0 if kept_tokens is None else (whole_number("kept_tokens", kept_tokens, 0, INT64_MAX) or -1)
        self._runtime = _runtime.Engine(
            model,
            mock,
            whole_number("sequences", sequences, 1, 2**20),
            whole_number("pages", pages, 0, INT64_MAX),
            0 if cache is None else whole_number("cache", cache, 0, INT64_MAX),
            None if spill_folder is None else os.fspath(spill_folder),
            whole_number("spill_memory", spill_memory, 0, INT64_MAX),
            whole_number("spill_files", spill_files, 0, INT64_MAX),
            None if draft is None else draft._runtime,
            whole_number("waiting", waiting, 0, INT64_MAX),
            whole_number("step_tokens", step_tokens, 0, INT64_MAX),
            real_number("token_seconds", token_seconds, 0.0, 1e9),
            kept,
            bool(followers),
            self._masks,
        )
        self._masked: dict[int, MaskedRequest] = {}
        self.info: dict[str, Any] = self.cache().info

    def submit(self, request: Request, queue: EventQueue | None = None) -> int:
        """Add a request; return its number.

        Parameters
        ----------
        request : Request
            What is asked for.
        queue : EventQueue or None
            Where its events come; None: `poll`.

        Raises
        ------
        InvalidArgumentError
            A value is out of range; the prompt is longer than the model's context.
        CacheFullError
            The prompt and `max_tokens` need more pages than there are.
        BusyError
            As many texts wait as the engine lets.
        """
        rules = request.sampling
        ends = _NO_TOKENS
        if request.ends or rules.stop_tokens:
            ends = np.array(sorted({*request.ends, *rules.stop_tokens}), np.int64)
        tokens, values = _NO_TOKENS, _NO_BIASES
        if rules.logit_bias:
            tokens = np.fromiter(rules.logit_bias.keys(), np.int64)
            values = np.fromiter(rules.logit_bias.values(), np.float32)
        seed = rules.seed
        if seed is not None:  # negative seeds are those of 64 bits
            seed = (seed + 2**63) % 2**64 - 2**63
        arguments = (
            token_ids(request.prompt),
            0 if request.max_tokens is None else min(request.max_tokens, INT64_MAX) or -1,
            min(rules.min_tokens, INT64_MAX),
            ends,
            rules.temperature,
            min(rules.top_k, INT64_MAX),
            rules.top_p,
            rules.min_p,
            rules.repetition_penalty,
            rules.presence_penalty,
            rules.frequency_penalty,
            tokens,
            values,
            seed,
            request.seed_spawn,
            request.samples,
            0 if request.logprobs is None else request.logprobs + 1,
            0 if request.prompt_logprobs is None else request.prompt_logprobs + 1,
            request.draft_tokens,
            request.constraint is not None,
            request.priority,
            0.0 if request.deadline_seconds is None else request.deadline_seconds,
            request.key,
            request.salt,
            None if queue is None else queue._runtime,
        )
        if request.constraint is None:
            return self._runtime.submit(*arguments)
        masked = MaskedRequest(request.samples, request.constraint)
        with self._masks.lock:
            number = self._runtime.submit(*arguments)
            (self if queue is None else queue)._masked[number] = masked
            self._masks.add(number, masked)
        return number

    def cancel(self, number: int) -> None:
        """End a request; its last events come at the latest after the step that is under way."""
        self._runtime.cancel(number)

    def poll(self, timeout: float | None = 0.0) -> list[_runtime.Event]:
        """Return events in their order; wait for the first one at most `timeout` seconds, None: without end."""
        return _taken(self._runtime.poll(timeout), self._masked)

    def fileno(self) -> int:
        """Return a file descriptor that is readable while there are events."""
        return self._runtime.fileno()

    def stats(self) -> dict[str, Any]:
        """Return counters: those of ``itx_engine_stats`` in engine.h."""
        return self._runtime.stats()

    def cache(self) -> Cache:
        """Return the engine's cache, for files and hand-overs of sequences."""
        cache = Cache.__new__(Cache)
        _runtime.Cache.__init__(cache, self._runtime.cache())
        return cache

    def keep(self, sequence: _runtime.Sequence, salt: str = "") -> None:
        """Take a sequence of the cache: prompts that begin with its tokens do not compute them again."""
        self._runtime.keep(sequence.release(), salt)

    def fork(self, tokens: Sequence[int], salt: str = "") -> _runtime.Sequence:
        """Return a new sequence of the cache with the longest beginning of some tokens that the engine has."""
        return _runtime.Sequence(self._runtime.fork(token_ids(tokens), salt))

    def queue(self) -> EventQueue:
        """Return a new queue for the events of some requests."""
        return EventQueue(self)

    def set_draft(self, draft: Module | None) -> None:
        """Set the draft model; wait until there are no requests that use another one, and in a world none at all."""
        self._runtime.set_draft(None if draft is None else draft._runtime)

    def follow(self) -> None:
        """Do what rank 0 of the world decides, until that closes its engine."""
        self._runtime.follow()

    def close(self) -> None:
        """End all requests; nothing else may be called after it."""
        self._runtime.close()

    def __enter__(self) -> Engine:
        """Return the engine."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class EventQueue:
    """Takes the events of some requests, so that callers in several threads each wait for their own.

    Requests that have not ended when it is closed, or when nobody has it any more, are cancelled.

    Parameters
    ----------
    engine : Engine
        The engine of the requests.
    """

    def __init__(self, engine: Engine) -> None:
        self._runtime = engine._runtime.queue()
        self._masked: dict[int, MaskedRequest] = {}

    def poll(self, timeout: float | None = 0.0) -> list[_runtime.Event]:
        """Return events as `Engine.poll` does."""
        return _taken(self._runtime.poll(timeout), self._masked)

    def fileno(self) -> int:
        """Return a file descriptor that is readable while there are events."""
        return self._runtime.fileno()

    def close(self) -> None:
        """Cancel the requests; on ranks of a world wait until they have ended."""
        self._runtime.close()


def _taken(events: list[_runtime.Event], masked: dict[int, MaskedRequest]) -> list[_runtime.Event]:
    """Return events; take the ends of requests with a constraint."""
    if masked:
        take_ends(masked, (event for event in events if event.kind == FINISHED))
    return events
