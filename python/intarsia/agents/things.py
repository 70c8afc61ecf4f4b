# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models, indexes, tools and memories that tasks of agents name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .figures import CACHES, PRECISIONS, AgentError, check_all, check_text
from .text import attributes, symbol
from .values import (
    Amount,
    Figure,
    Size,
    Value,
    _amount,
    _Declared,
    _emit,
    _here,
    _operands,
    _produced,
    _task_options,
    _trace,
    _types,
)


@dataclass(frozen=True, eq=False)
class Model(_Declared):
    """A model that tasks ask.

    Parameters
    ----------
    name
        Its name in the graph.
    shape
        The name of a published shape in the catalogue, or a Hugging Face directory or its config.json.
    module
        A compiled model, for other tools: its file does not say the sizes that a plan needs.
    parameters
        The number of parameters, for a model without shape.
    flops_per_unit, flops_per_output
        FLOPs for each token, pixel or second of the input, and of the output.
    tokens_per_unit
        For encoders: the tokens that a pixel or a second becomes.
    kv_bytes_per_token, context_tokens, precisions, cache
        For language models: bytes of a 16-bit cache for a token (without shape), the longest prompt and answer
        together, element types of weights, and the element type of the cache.
    encoders
        For language models: models by "image", "audio" or "video" that turn such inputs into tokens.

    """

    shape: str | None = None
    module: str | None = None
    parameters: float | None = None
    flops_per_unit: float | None = None
    flops_per_output: float | None = None
    tokens_per_unit: float | None = None
    kv_bytes_per_token: float | None = None
    context_tokens: int | None = None
    precisions: Sequence[str] | None = None
    cache: str | None = None
    encoders: Mapping[str, Model] = field(default_factory=dict)

    def _check(self, what: str) -> None:
        if self.shape is None and self.module is None and self.parameters is None:
            raise AgentError(f"{what} has neither a shape nor a module nor parameters: nothing says what it costs")
        check_text("shape", what, self.shape)
        check_text("module", what, self.module)
        if isinstance(self.precisions, str):
            raise AgentError(
                f"precisions of {what} is {self.precisions!r}, must be a list, such as [{self.precisions!r}]"
            )
        for precision in self.precisions or ():
            if precision not in PRECISIONS:
                raise AgentError(f"precision {precision!r} of {what} is unknown; known are {', '.join(PRECISIONS)}")
        if self.cache is not None and self.cache not in CACHES:
            raise AgentError(f"cache of {what} is {self.cache!r}; known are {', '.join(CACHES)}")
        for kind, encoder in self.encoders.items():
            if kind not in ("image", "audio", "video"):
                raise AgentError(f"encoders of {what} has {kind!r}, known are image, audio, video")
            if not isinstance(encoder, Model) or encoder.tokens_per_unit is None:
                raise AgentError(
                    f"encoder of {kind} of {what} is {encoder!r}, must be a Model with tokens_per_unit, which says how "
                    "many tokens it makes"
                )

    def _needs(self) -> Sequence[_Declared]:
        return list(self.encoders.values())

    def _text(self) -> str:
        options: dict[str, Any] = {
            name: value for name, value in vars(self).items() if name not in ("name", "encoders") and value is not None
        }
        for name in ("parameters", "flops_per_unit", "flops_per_output", "tokens_per_unit", "kv_bytes_per_token"):
            if name in options:
                options[name] = float(options[name])
        if self.encoders:
            options["encoders"] = {kind: (symbol(model.name),) for kind, model in self.encoders.items()}
        if self.precisions is not None:
            options["precisions"] = list(self.precisions)
        return f"agent.model {symbol(self.name)}{attributes(options)}"

    def answer(
        self,
        *inputs: Value,
        tokens: Figure,
        instruction_tokens: int | None = None,
        shared_instructions: bool = False,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> Value:
        """Ask a language model.

        Parameters
        ----------
        inputs
            The parts of the prompt, in order; parts other than text go through the model's encoders.
        tokens
            The length of the answer.
        instruction_tokens
            Tokens before the prompt that are the same for each request; with `shared_instructions` their cache is kept
            between requests.
        label
            Its name for people; by default that of the model.
        place
            The pool that it is put on: ``"system::pool"``.
        together, apart
            Tasks of the same group share a pool, or do not: see the dialect's documentation.

        """
        what = f"answer of {self.name!r}"
        values = _operands(what, inputs)
        trace = _trace(what)
        check_all(what, {"instruction_tokens": instruction_tokens})
        if instruction_tokens is None and (shared_instructions or not values):
            reason = "has shared_instructions" if shared_instructions else "has no input"
            raise AgentError(f"{what} {reason}, but no instruction_tokens; say how many tokens stand before the prompt")
        head = f"{trace.use(self)}(@@)"
        size = Size("text", _amount("tokens", what, tokens, "tokens"))
        given = {
            "instruction_tokens": instruction_tokens,
            "shared_instructions": shared_instructions or None,
            **_task_options(what, label, place, together, apart),
        }
        return _emit("agent.llm", head, values, size, given, label or self.name)

    def infer(
        self,
        *inputs: Value,
        tokens: Figure | None = None,
        pixels: Figure | None = None,
        seconds: Figure | None = None,
        size: Figure | None = None,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> Value:
        """Ask another model for text (`tokens`), an image (`pixels`), sound (`seconds`) or data (`size`)."""
        what = f"infer of {self.name!r}"
        values = _operands(what, inputs)
        produced = _produced(what, {"tokens": tokens, "pixels": pixels, "seconds": seconds, "size": size})
        head = f"{_trace(what).use(self)}(@@)"
        given = _task_options(what, label, place, together, apart)
        return _emit("agent.infer", head, values, produced, given, label or self.name)


@dataclass(frozen=True, eq=False)
class Index(_Declared):
    """An index that finds texts by their vectors.

    It has `vectors` vectors of `dimension` elements, for texts of `chunk_tokens` tokens; a search reads the fraction
    `visited` of them. `embedder` computes the vectors of queries; a hosted index has the time `ms` of a search instead.
    """

    vectors: int
    dimension: int
    chunk_tokens: int
    embedder: Model | None = None
    ms: Figure | None = None
    visited: float | None = None
    bytes_per_vector: int | None = None

    def _check(self, what: str) -> None:
        if self.embedder is None and self.ms is None:
            raise AgentError(f"{what} has neither an embedder nor a time (ms)")
        if self.embedder is not None and not isinstance(self.embedder, Model):
            raise AgentError(f"embedder of {what} is {self.embedder!r}, must be a Model")
        if self.ms is not None:
            _amount("ms", what, self.ms, "ms")

    def _needs(self) -> Sequence[_Declared]:
        return [self.embedder] if self.embedder else []

    def _text(self) -> str:
        takes = f" takes {_amount('ms', self.name, self.ms, 'ms')._text('ms')}" if self.ms is not None else ""
        options: dict[str, Any] = {
            "vectors": self.vectors,
            "dimension": self.dimension,
            "chunk_tokens": self.chunk_tokens,
            "embedder": (symbol(self.embedder.name),) if self.embedder else None,
            "bytes_per_vector": self.bytes_per_vector,
            "visited": None if self.visited is None else float(self.visited),
        }
        return f"agent.index {symbol(self.name)}{takes}{attributes(options)}"

    def retrieve(
        self,
        query: Value,
        *,
        top_k: int,
        tokens: Figure | None = None,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> Value:
        """Find the `top_k` nearest texts: by default ``top_k * chunk_tokens`` tokens."""
        what = f"retrieve of {self.name!r}"
        values = _operands(what, [query])
        check_all(what, {"top_k": top_k})
        if top_k > self.vectors:
            raise AgentError(f"top_k of {what} is {top_k}, the index has {self.vectors} vectors")
        size = Size("text", Amount(0) if tokens is None else _amount("tokens", what, tokens, "tokens"))
        given = {"top_k": top_k, **_task_options(what, label, place, together, apart)}
        head = f"{_trace(what).use(self)}(@@)"
        return _emit("agent.retrieve", head, values, size, given, label or self.name, tokens is not None)


@dataclass(frozen=True, eq=False)
class Tool(_Declared):
    """An external tool; calling the object is a task.

    Parameters
    ----------
    name
        Its name in the graph.
    ms
        The time of a call.
    dollars_per_call, concurrency, failure_probability, endpoint
        The price of a call, the most calls at once, the probability that a call must be repeated, the address.

    """

    ms: Figure
    dollars_per_call: float | None = None
    concurrency: int | None = None
    failure_probability: float | None = None
    endpoint: str | None = None

    def _check(self, what: str) -> None:
        _amount("ms", what, self.ms, "ms")
        check_text("endpoint", what, self.endpoint)

    def _text(self) -> str:
        options = {
            "dollars_per_call": None if self.dollars_per_call is None else float(self.dollars_per_call),
            "concurrency": self.concurrency,
            "failure_probability": None if self.failure_probability is None else float(self.failure_probability),
            "endpoint": self.endpoint,
        }
        takes = _amount("ms", self.name, self.ms, "ms")._text("ms")
        return f"agent.tool {symbol(self.name)} takes {takes}{attributes(options)}"

    def __call__(
        self,
        *inputs: Value,
        tokens: Figure | None = None,
        pixels: Figure | None = None,
        seconds: Figure | None = None,
        size: Figure | None = None,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> Value:
        """Call the tool: it gives text (`tokens`), an image, sound (`seconds`) or data (`size`, in bytes)."""
        what = f"tool {self.name!r}"
        values = _operands(what, inputs)
        produced = _produced(what, {"tokens": tokens, "pixels": pixels, "seconds": seconds, "size": size})
        head = f"{_trace(what).use(self)}(@@)"
        given = _task_options(what, label, place, together, apart)
        return _emit("agent.invoke", head, values, produced, given, label or self.name)


@dataclass(frozen=True, eq=False)
class Memory(_Declared):
    """A store of observations. A read waits for the writes before it."""

    read_ms: Figure
    write_ms: Figure
    concurrency: int | None = None

    def _check(self, what: str) -> None:
        _amount("read_ms", what, self.read_ms, "ms")
        _amount("write_ms", what, self.write_ms, "ms")

    def _text(self) -> str:
        reads = _amount("read_ms", self.name, self.read_ms, "ms")._text("ms")
        writes = _amount("write_ms", self.name, self.write_ms, "ms")._text("ms")
        options = attributes({"concurrency": self.concurrency})
        return f"agent.memory {symbol(self.name)} reads {reads} writes {writes}{options}"

    def read(
        self,
        *inputs: Value,
        tokens: Figure | None = None,
        size: Figure | None = None,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> Value:
        """Read text (`tokens`) or data (`size`, in bytes)."""
        what = f"read of {self.name!r}"
        values = _operands(what, inputs)
        produced = _produced(what, {"tokens": tokens, "size": size})
        head = f"{_trace(what).use(self)}(@@)"
        given = _task_options(what, label, place, together, apart)
        return _emit("agent.read", head, values, produced, given, label or self.name)

    def write(
        self,
        *inputs: Value,
        label: str | None = None,
        place: str | None = None,
        together: str | None = None,
        apart: str | None = None,
    ) -> None:
        """Write to the memory; only reads of this memory wait for it."""
        what = f"write of {self.name!r}"
        values = _operands(what, inputs)
        if not values:
            raise AgentError(f"{what} has no input, must have what is written")
        trace = _trace(what)
        names = ", ".join(value.name for value in values)
        given = attributes(_task_options(what, label, place, together, apart))
        trace.block.lines.append(f"agent.write {trace.use(self)}({names}){given} : {_types(values)}{_here()}")
