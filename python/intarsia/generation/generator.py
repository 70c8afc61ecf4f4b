# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Continue texts with a compiled language model."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _runtime
from ..runtime.module import Module, load
from ..support.checks import INT64_MAX, token_ids, whole_number
from ..support.errors import InvalidArgumentError
from ..text.chat import ChatTemplate
from ..text.tokenizer import open_tokenizer, open_tokenizer_of
from .arguments import several, shown_signature
from .cache import Cache
from .constrained import Constraint
from .device_rows import log_probability
from .drafts import check_draft
from .engine import Engine, Request
from .prompts import compute
from .runs import Runs, Steps
from .sampling import SamplingKeywords, SamplingOptions
from .texts import ModelTexts, limits_of, open_texts
from .writer import Generation, Writer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class GenerationKeywords(SamplingKeywords, total=False):
    """The keywords of `Generator.generate`."""

    sampling: SamplingOptions | None
    json_schema: str | Mapping[str, Any] | None
    regex: str | None
    grammar: str | None
    draft: Generator | str | os.PathLike[str] | None
    draft_tokens: int
    skip_special_tokens: bool


class Generator:
    """A compiled language model that continues texts.

    Parameters
    ----------
    artifact : path or Module
        A module with a function ``step``.
    tokenizer : path or tokenizers.Tokenizer, optional
        A ``tokenizer.json``, the directory that holds one, a GGUF file, or a tokenizer of the package tokenizers.
        Without it, the tokenizer in the artifact, or else the ``tokenizer.json`` beside it; if there is none, prompts
        are lists of token ids and results have no text.
    chat_template : ChatTemplate or str, optional
        The template of `chat`, instead of the one that comes with the tokenizer; a str is Jinja2 text.
    cache : int, optional
        The most bytes that keys and values of all sequences may take; without it, half of the memory available at the
        first call. Memory is taken as it is needed.
    memory : int, optional
        Bytes of memory that this process may use; see `Module`. An artifact that is loaded already has its own limit.
    kept_tokens : int, optional
        The most tokens of earlier prompts and answers whose keys and values stay in the cache: prompts that begin like
        one of them start behind what they have in common. By default as many as the model's context; 0: none.
    spill_memory, spill_folder, spill_files
        Where these go when the cache has no room for them, instead of being forgotten: see `Cache`.

    Attributes
    ----------
    vocabulary : int
        Number of logits of a token.
    context : int
        The most tokens of a sequence, prompt and answer.
    """

    def __init__(
        self,
        artifact: str | os.PathLike[str] | Module,
        tokenizer: Any = None,
        chat_template: ChatTemplate | str | None = None,
        *,
        cache: int | None = None,
        memory: int | None = None,
        kept_tokens: int | None = None,
        spill_memory: int = 0,
        spill_folder: str | os.PathLike[str] | None = None,
        spill_files: int = 0,
    ) -> None:
        self.module = artifact if isinstance(artifact, Module) else load(artifact, memory=memory)
        if "step" not in self.module.functions:
            raise InvalidArgumentError(
                f"{self.module.path} has no function 'step': it is no language model", "invalid argument"
            )
        self._limits = limits_of(self.module)
        self.vocabulary, self.context = self._limits.vocabulary, self._limits.context
        self._given_template = chat_template
        self._opened = None if tokenizer is None else open_texts(self._limits, open_tokenizer(tokenizer), chat_template)
        cache = None if cache is None else whole_number("cache", cache, 0, INT64_MAX)
        most = self.context if kept_tokens is None else whole_number("kept_tokens", kept_tokens, 0)
        self._engine_options: dict[str, Any] = {
            "cache": cache,
            "kept_tokens": most,
            "spill_memory": spill_memory,
            "spill_folder": spill_folder,
            "spill_files": spill_files,
        }
        self._runs: Runs | None = None
        self._drafts: dict[str | Generator, Generator] = {}  # checked draft models by the `draft` argument
        if cache is not None:
            self._open_runs()

    def _open_runs(self) -> Runs:
        """Return what computes requests; its cache takes memory when it is first used."""
        if self._runs is None:
            self._runs = Runs(Engine(self.module, **self._engine_options))
        return self._runs

    @property
    def engine(self) -> Engine:
        """What computes the texts; its events are taken here."""
        return self._open_runs().engine

    @property
    def _texts(self) -> ModelTexts:
        """Tokenizer and chat template; a tokenizer that was not given is opened when it is first needed."""
        if self._opened is None:
            self._opened = open_texts(self._limits, open_tokenizer_of(self.module), self._given_template)
        return self._opened

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, a tokenizers.Tokenizer; None: there are only token ids."""
        return self._texts.tokenizer

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template; None: the model is not for chats."""
        return self._texts.chat_template

    def encode(self, prompt: str | Sequence[int]) -> list[int]:
        """Return the token ids of a prompt; ids are returned as they are."""
        ids = self._texts.encode(prompt) if isinstance(prompt, str) else token_ids(prompt).tolist()
        if not ids:
            raise InvalidArgumentError("a prompt is empty", "invalid argument")
        if len(ids) > self.context:
            raise InvalidArgumentError(
                f"a prompt has {len(ids)} tokens, the model's context {self.context}: give a shorter one, or compile "
                "the model with a larger --context if it was trained for one",
                "invalid argument",
            )
        return ids

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Return the token ids of messages and of the beginning of an answer.

        Only the template writes control tokens: where messages, tools or documents spell one, its letters are encoded.
        The parameters are those of `chat`.
        """
        return self.encode(self._texts.encode_chat(messages, tools, documents, template, template_variables))

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        max_tokens: int = 512,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[GenerationKeywords],
    ) -> Generation:
        """Answer the last of some messages.

        Parameters
        ----------
        messages : sequence of mappings
            ``[{"role": "user", "content": "Hello"}]``; ``stream(encode_chat(messages))`` streams the answer.
        max_tokens : int
            The most tokens to generate.
        tools : sequence of mappings, optional
            JSON schemas of functions for the template; the model's calls of them are in the text.
        documents : sequence of mappings, optional
            Texts to answer from, for templates that take them.
        template : str, optional
            Name of one of several templates, or the text of another.
        template_variables : mapping, optional
            More values that the template knows, such as ``{"enable_thinking": False}``.
        **options
            The keywords of `generate`.
        """
        prompt = self.encode_chat(
            messages, tools=tools, documents=documents, template=template, template_variables=template_variables
        )
        return self.generate(prompt, max_tokens, **options)[0]

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of UTF-8 that a token stands for: those of one letter may be spread over several tokens."""
        return self._texts.token_bytes[whole_number("token", token, 0, self.vocabulary - 1)]

    def logits(self, sequences: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Return the logits [length, vocabulary] after each token of each sequence."""
        prompts = [self.encode(ids) for ids in sequences]
        cache = self.engine.cache()
        return [np.concatenate(parts) for parts in compute(cache, [cache.sequence() for _ in prompts], prompts, True)]

    def encode_document(self, text: str) -> list[int]:
        """Return the token ids of a whole text, with what the tokenizer puts around it, and the model's end."""
        return self._texts.encode_document(text)

    def cross_entropy(self, window: Sequence[int]) -> float:
        """Return the mean of -log p over tokens 1 … of a window, each given the tokens before it."""
        ids = self.encode(window)
        if len(ids) < 2:
            raise InvalidArgumentError("a window has fewer than two tokens", "invalid argument")
        logits = self.logits([ids[:-1]])[0]
        return -float(np.mean([log_probability(row, token) for row, token in zip(logits, ids[1:], strict=True)]))

    def perplexity(self, windows: Sequence[Sequence[int]]) -> float:
        """Return the exponential of the mean of `cross_entropy` over windows."""
        return float(np.exp(np.mean([self.cross_entropy(window) for window in windows])))

    def measure(self, prompts: Sequence[Sequence[int]], decode: int) -> tuple[float, float]:
        """Return the seconds of prefill and of `decode` forward steps after it, which repeat tokens of the prompts."""
        sequences = [self.encode(ids) for ids in prompts]
        begin = time.perf_counter()
        cache = self.engine.cache()
        texts = [cache.sequence() for _ in sequences]
        compute(cache, texts, sequences)
        middle = time.perf_counter()
        # Stages of a pipeline compute steps of different sequences at the same time.
        stages = 1 if cache.info["candidates"] else cache.info["stages"]
        parts = np.array_split(np.arange(len(sequences)), min(stages, len(sequences)))
        under_way: deque[Callable[[], Any]] = deque()
        for step in range(decode):
            if any(text.length >= self.context for text in texts):
                raise InvalidArgumentError(
                    f"{len(sequences[0])} + {decode} tokens are more than the model's context of {self.context}",
                    "invalid argument",
                )
            for part in parts:
                if len(under_way) == len(parts):
                    under_way.popleft()()
                chunks = [(texts[i], [sequences[i][step % len(sequences[i])]], 1) for i in part]
                under_way.append(_start(cache, chunks))
        for wait in under_way:
            wait()
        return middle - begin, time.perf_counter() - middle

    def generate(
        self,
        prompts: str | Sequence[int] | Sequence[str | Sequence[int]],
        max_tokens: int = 128,
        **options: Unpack[GenerationKeywords],
    ) -> list[Generation]:
        """Continue each prompt.

        Parameters
        ----------
        prompts : str, list of int, or a list of those
            Texts or token ids.
        max_tokens : int
            The most tokens to generate for each.
        sampling : SamplingOptions, optional
            How tokens are chosen, and when a text ends. By default the most likely token is taken.
        temperature, top_k, top_p, min_p, seed, stop, …
            Fields of `SamplingOptions`, in place of those of `sampling`.
        json_schema : str or mapping, optional
            The text is JSON that is valid by this schema, once it has ended (`finish_reason` is not ``"length"``).
        regex : str, optional
            The whole text matches this regular expression (in the syntax of Rust's crate regex).
        grammar : str, optional
            The text follows this context-free grammar, in llguidance's form of Lark.
        draft : Generator or path, optional
            A smaller model with the same tokenizer: it proposes tokens, and this model checks several in one call. The
            text (greedy decoding) or its distribution (sampling) is the same as without (arXiv 2211.17192).
        draft_tokens : int
            The most tokens that are proposed at once.
        skip_special_tokens : bool
            Leave special tokens out of the text. Calls of tools and reasoning are between special tokens in the texts
            of many models: False shows them.
        """
        writers, requests, draft = self._start(several(prompts), max_tokens, **options)
        with closing(self._open_runs().run(writers, requests, draft)) as steps:
            for _ in steps:
                pass
        return [writer.result() for writer in writers]

    async def generate_async(
        self,
        prompts: str | Sequence[int] | Sequence[str | Sequence[int]],
        max_tokens: int = 128,
        **options: Unpack[GenerationKeywords],
    ) -> list[Generation]:
        """Continue each prompt, as `generate` does, while others have the event loop.

        Calls at the same time are computed together. One that is cancelled ends its requests.
        """
        writers, requests, draft = self._start(several(prompts), max_tokens, **options)
        async with aclosing(self._open_runs().run_async(writers, requests, draft)) as steps:
            async for _ in steps:
                pass
        return [writer.result() for writer in writers]

    async def stream_async(
        self, prompt: str | Sequence[int], max_tokens: int = 128, **options: Unpack[GenerationKeywords]
    ) -> AsyncIterator[str | int]:
        """Continue one prompt, as `stream` does, while others have the event loop.

        Closing the iterator ends the request.
        """
        (writer,), requests, draft = self._start([prompt], max_tokens, **options)
        async with aclosing(self._open_runs().run_async([writer], requests, draft)) as steps:
            async for _ in steps:
                for piece in writer.news():
                    yield piece
        for piece in writer.news(last=True):
            yield piece

    async def chat_async(
        self,
        messages: Sequence[Mapping[str, Any]],
        max_tokens: int = 512,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[GenerationKeywords],
    ) -> Generation:
        """Answer the last of some messages, as `chat` does, while others have the event loop."""
        prompt = await asyncio.to_thread(
            self.encode_chat,
            messages,
            tools=tools,
            documents=documents,
            template=template,
            template_variables=template_variables,
        )
        return (await self.generate_async(prompt, max_tokens, **options))[0]

    def stream(
        self, prompt: str | Sequence[int], max_tokens: int = 128, **options: Unpack[GenerationKeywords]
    ) -> Iterator[str | int]:
        """Continue one prompt; yield text as soon as it is final, or token ids if there is no tokenizer.

        The parameters are those of `generate`.
        """
        return _pieces(*self.start(prompt, max_tokens, **options))

    def start(
        self, prompt: str | Sequence[int], max_tokens: int = 128, **options: Unpack[GenerationKeywords]
    ) -> tuple[Writer, Steps]:
        """Begin to continue one prompt, for callers that need more than `stream` yields.

        The parameters are those of `generate`.

        Returns
        -------
        Writer
            The text so far.
        iterator
            Each forward step adds one or more tokens. Closing it ends the text.
        """
        writers, requests, draft = self._start([prompt], max_tokens, **options)
        return writers[0], self._open_runs().run(writers, requests, draft)

    def _open_draft(self, draft: Generator | str | os.PathLike[str] | None) -> Generator | None:
        if draft is None:
            return None
        key = draft if isinstance(draft, Generator) else os.fsdecode(draft)
        if key not in self._drafts:
            opened = draft if isinstance(draft, Generator) else Generator(draft)
            check_draft(self, opened)
            self._drafts[key] = opened
        return self._drafts[key]

    def _constraint(self, json_schema: Any, regex: str | None, grammar: str | None) -> Constraint | None:
        if json_schema is None and regex is None and grammar is None:
            return None
        return self._texts.grammars.constraint(json_schema, regex, grammar)

    def _start(
        self,
        prompts: Sequence[Any],
        max_tokens: int,
        *,
        sampling: SamplingOptions | None = None,
        json_schema: str | Mapping[str, Any] | None = None,
        regex: str | None = None,
        grammar: str | None = None,
        draft: Generator | str | os.PathLike[str] | None = None,
        draft_tokens: int = 4,
        skip_special_tokens: bool = True,
        **fields: Unpack[SamplingKeywords],
    ) -> tuple[list[Writer], list[Request], Module | None]:
        """Check all arguments; nothing is computed before the first forward step."""
        max_tokens = whole_number("max_tokens", max_tokens, 1)
        draft_tokens = whole_number("draft_tokens", draft_tokens, 1)
        if not isinstance(sampling, (SamplingOptions, type(None))):
            raise TypeError(f"sampling is of type {type(sampling).__name__}, must be SamplingOptions")
        rules = replace(sampling or SamplingOptions(), **fields)
        rules.check_tokens(self.vocabulary)
        if rules.stop or not skip_special_tokens:
            self._texts.need_tokenizer("a stop string" if rules.stop else "skip_special_tokens")
        constraint = self._constraint(json_schema, regex, grammar)
        texts = self._texts
        detokenizer = None if texts.tokenizer is None else texts.detokenizer
        writers = [
            Writer(texts.tokenizer, self.encode(prompt), rules, skip_special_tokens, detokenizer=detokenizer)
            for prompt in prompts
        ]
        ends = texts.ends if constraint is None else texts.ends | constraint.ends
        requests = [
            Request(
                writer.prompt,
                rules,
                max_tokens,
                ends=[end for end in ends if end < self.vocabulary],
                logprobs=rules.logprobs or 0,
                draft_tokens=0 if draft is None else draft_tokens,
                constraint=constraint,
                seed_spawn=number,
            )
            for number, writer in enumerate(writers)
        ]
        opened = self._open_draft(draft)
        return writers, requests, None if opened is None else opened.module

    def save(self, path: str | os.PathLike[str], prompt: str | Sequence[int]) -> None:
        """Compute a prompt, and write its state to a file for `restore`."""
        self._computed(prompt).save(path)

    def restore(self, path: str | os.PathLike[str]) -> list[int]:
        """Read a file of `save`: prompts that begin with the same tokens do not compute them again.

        Returns
        -------
        list of int
            The tokens.
        """
        return self._keep(self.engine.cache().restore(path))

    def send(
        self, connection: socket.socket | Sequence[socket.socket], prompt: str | Sequence[int], timeout: float = 60.0
    ) -> None:
        """Compute a prompt, and hand its state over to the process at the other end, which calls `receive`.

        Parameters
        ----------
        connection : socket.socket, or a sequence of them
            A connected stream socket; those to all ranks of the other world, in their order, if it is one.
        prompt : str or sequence of int
            Text or token ids.
        timeout : float
            Seconds that the other process may be silent.
        """
        sequence = self._computed(prompt)
        for one in connection if isinstance(connection, Sequence) else [connection]:
            sequence.send(one, timeout)

    def receive(self, connection: socket.socket | Sequence[socket.socket], timeout: float = 60.0) -> list[int]:
        """Take over a prompt that another process computes and sends: its artifact is made from the same model.

        The ranks of a world send a part each: ``connection`` is those with all of them, in their order.

        Returns
        -------
        list of int
            The tokens. Prompts that begin with them do not compute them again.
        """
        return self._keep(self.engine.cache().receive(connection, timeout))

    def cache_bytes(self, lengths: Sequence[int]) -> int:
        """Return the bytes of keys and values that sequences of so many tokens take."""
        info = self.engine.info
        page = info["page_tokens"]
        pages = sum(-(-min(length, self.context) // page) for length in lengths)
        return pages * info["page_bytes"] + len(lengths) * info["sequence_bytes"]

    def _computed(self, prompt: str | Sequence[int]) -> _runtime.Sequence:
        """Return a sequence with a prompt; what the engine knows of it is not computed again."""
        ids = self.encode(prompt)
        cache = self.engine.cache()
        # Ranks of a world have no common sequences beside those of their engines.
        sequence = cache.sequence() if "world" in self.module.manifest else self.engine.fork(ids)
        compute(cache, [sequence], [ids])
        return sequence

    def _keep(self, sequence: _runtime.Sequence) -> list[int]:
        """Let prompts begin with a sequence; return its tokens."""
        tokens = sequence.tokens
        self.engine.keep(sequence)
        return tokens


def _start(cache: Cache, chunks: list[tuple[_runtime.Sequence, list[int], int]]) -> Callable[[], Any]:
    """Start a step; return a function that waits for it."""
    if cache.info["candidates"]:  # logits are in the memory of a device, and stay there
        cache.step_on_device(chunks, 1.0)
        return lambda: None
    return cache.start_step(chunks).wait


def _pieces(writer: Writer, steps: Steps) -> Iterator[str | int]:
    with closing(steps):
        for _ in steps:
            yield from writer.news()
    yield from writer.news(last=True)


# help() and completion show the keywords one by one.
for _method in (
    Generator.generate,
    Generator.generate_async,
    Generator.stream,
    Generator.stream_async,
    Generator.start,
    Generator.chat,
    Generator.chat_async,
):
    _method.__signature__ = shown_signature(_method, Generator._start, SamplingOptions)  # type: ignore[union-attr]
