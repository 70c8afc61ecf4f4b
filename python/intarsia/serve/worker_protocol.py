# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Messages between a worker (intarsia-worker) and its front end, as bytes.

``lib/Runtime/Worker/Messages.h`` has the same in C++, and says what the fields mean. A message is a header, the bytes
of its body and its kind as u32, and the body: numbers are little-endian and follow one another without padding; a list
or a text is its count, a u32, and its elements.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

#: "itxworkr" in ASCII.
MAGIC = 0x726B726F77787469
VERSION = 1
#: The most bytes of a body.
LARGEST_BODY = 64 << 20
#: The largest number of an i64.
_MOST = 2**63 - 1

_HEADER = struct.Struct("<II")
_HELLO = struct.Struct("<QI")
_SUBMIT = struct.Struct("<Q7d4qIIiiiii")
_ACCEPTED = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
_COUNT = struct.Struct("<I")
_EVENTS = struct.Struct("<QI")
_EVENT = struct.Struct("<BBHiQqfIqqqdd")
_TOP = struct.Struct("<qf")
_MASK_ROW = struct.Struct("<QiII")

_HAS_SEED = 1
_HAS_MASK = 2


class Kind(IntEnum):
    """Kinds of messages: those of the front end are below 64."""

    HELLO = 1
    SUBMIT = 2
    CANCEL = 3
    MASKS = 4
    ASK_STATISTICS = 5
    PING = 6
    DRAIN = 7
    WELCOME = 65
    ACCEPTED = 66
    REFUSED = 67
    EVENTS = 68
    ASK_MASKS = 69
    STATISTICS = 70
    PONG = 71
    PROBLEM = 72
    DRAINED = 73


class ProtocolError(ValueError):
    """Bytes are no message of this version."""


class Event(NamedTuple):
    """What happens to a sample, as the engine says it (``itx_engine_event``)."""

    kind: int
    request: int
    sample: int
    token: int
    logprob: float
    top: list[tuple[int, float]]
    finish: int
    step: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    waited_seconds: float
    prompt_seconds: float
    message: str | None


class Submission(NamedTuple):
    """The fields of a request (``itx_request``)."""

    prompt: Sequence[int]
    stop_tokens: Sequence[int] = ()
    temperature: float = 0.0
    top_p: float = 0.0
    min_p: float = 0.0
    repetition_penalty: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    deadline_seconds: float = 0.0
    max_tokens: int = 0
    min_tokens: int = 0
    top_k: int = 0
    seed: int | None = None
    seed_spawn: int = 0
    has_mask: bool = False
    samples: int = 1
    logprobs: int = 0
    prompt_logprobs: int = 0
    draft_tokens: int = 0
    priority: int = 0
    logit_bias: Mapping[int, float] = {}
    key: str = ""
    salt: str = ""

    @classmethod
    def of(cls, request: Any) -> Submission:
        """Return the fields of a `generation.engine.Request`."""
        rules = request.sampling
        for name, text in (("key", request.key), ("salt", request.salt)):
            if "\0" in text:
                raise ValueError(f"{name} has a zero byte")
        return cls(
            prompt=request.prompt,
            stop_tokens=sorted({*request.ends, *rules.stop_tokens}),
            temperature=rules.temperature,
            top_p=rules.top_p,
            min_p=rules.min_p,
            repetition_penalty=rules.repetition_penalty,
            presence_penalty=rules.presence_penalty,
            frequency_penalty=rules.frequency_penalty,
            deadline_seconds=request.deadline_seconds or 0.0,
            # None: as many as there is room for; 0: only the prompt is computed.
            max_tokens=0 if request.max_tokens is None else min(request.max_tokens, _MOST) or -1,
            min_tokens=min(rules.min_tokens, _MOST),
            top_k=min(rules.top_k, _MOST),
            seed=None if rules.seed is None else (rules.seed + 2**63) % 2**64 - 2**63,  # as `Engine` takes it
            seed_spawn=request.seed_spawn,
            has_mask=request.constraint is not None,
            samples=request.samples,
            logprobs=0 if request.logprobs is None else 1 + request.logprobs,
            prompt_logprobs=0 if request.prompt_logprobs is None else 1 + request.prompt_logprobs,
            draft_tokens=request.draft_tokens,
            priority=request.priority,
            logit_bias=rules.logit_bias or {},
            key=request.key,
            salt=request.salt,
        )


class MaskRow(NamedTuple):
    """A text whose next tokens are asked for: the first `kept` tokens of the sample's last row, and `added`."""

    request: int
    sample: int
    kept: int
    added: tuple[int, ...]


def _message(kind: Kind, *parts: bytes | memoryview) -> bytes:
    return _HEADER.pack(sum(len(part) for part in parts), kind) + b"".join(parts)


def _list(letter: str, values: Sequence[Any]) -> bytes:
    return struct.pack(f"<I{len(values)}{letter}", len(values), *values)


def _text(text: str) -> bytes:
    data = text.encode()
    return _COUNT.pack(len(data)) + data


def hello() -> bytes:
    """Return the first message of a front end."""
    return _message(Kind.HELLO, _HELLO.pack(MAGIC, VERSION))


def submit(tag: int, request: Submission) -> bytes:
    """Return a request. Numbers that have no room in their field are a `struct.error`."""
    flags = (request.seed is not None) * _HAS_SEED | request.has_mask * _HAS_MASK
    numbers = _SUBMIT.pack(
        tag,
        request.temperature,
        request.top_p,
        request.min_p,
        request.repetition_penalty,
        request.presence_penalty,
        request.frequency_penalty,
        request.deadline_seconds,
        request.max_tokens,
        request.min_tokens,
        request.top_k,
        request.seed or 0,
        request.seed_spawn,
        flags,
        request.samples,
        request.logprobs,
        request.prompt_logprobs,
        request.draft_tokens,
        request.priority,
    )
    bias = request.logit_bias
    lists = (
        _list("q", request.prompt),
        _list("q", request.stop_tokens),
        _list("q", list(bias)),
        _list("f", list(bias.values())),
        _text(request.key),
        _text(request.salt),
    )
    return _message(Kind.SUBMIT, numbers, *lists)


def with_tag(message: bytes, tag: int) -> bytes:
    """Return a message of `submit` with another tag."""
    return message[: _HEADER.size] + _NUMBER.pack(tag) + message[_HEADER.size + _NUMBER.size :]


def cancel(request: int) -> bytes:
    """Return the message that ends a request."""
    return _message(Kind.CANCEL, _NUMBER.pack(request))


def masks(number: int, complete: bytes, bits: memoryview) -> bytes:
    """Return the answer to a question for masks.

    Parameters
    ----------
    number : int
        The question's round.
    complete : bytes
        Of each row: 1 if its text is complete, else 0.
    bits : memoryview of bytes
        u32 [rows, words].
    """
    count = _COUNT.pack(len(complete))
    return _message(Kind.MASKS, _NUMBER.pack(number), count, complete, _COUNT.pack(len(bits) // 4), bits)


def ask_statistics(tag: int) -> bytes:
    """Return the question for statistics."""
    return _message(Kind.ASK_STATISTICS, _NUMBER.pack(tag))


def ping(tag: int) -> bytes:
    """Return a message that the worker answers at once."""
    return _message(Kind.PING, _NUMBER.pack(tag))


def drain() -> bytes:
    """Return the message that ends the worker when no request is left."""
    return _message(Kind.DRAIN)


class _Body:
    """Reads the fields of a body."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.bytes(layout.size))

    def bytes(self, count: int) -> memoryview:
        if len(self.data) - self.at < count:
            raise ProtocolError(f"a message of {len(self.data)} bytes has {count} bytes at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        (count,) = self.numbers(_COUNT)
        return str(self.bytes(count), errors="replace")

    def end(self) -> None:
        if self.at != len(self.data):
            raise ProtocolError(f"{len(self.data) - self.at} bytes are left behind the last field of a message")


def read_info(body: memoryview) -> dict[str, Any]:
    """Return what a worker says of its engine."""
    return _json(_Body(body))


def _json(fields: _Body) -> dict[str, Any]:
    text = fields.text()
    fields.end()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"a text is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("a text is no JSON object")
    return value


def read_accepted(body: memoryview) -> tuple[int, int]:
    """Return the tag and the number of a request."""
    fields = _Body(body)
    tag, number = fields.numbers(_ACCEPTED)
    fields.end()
    return tag, number


def read_refused(body: memoryview) -> tuple[int, str, str]:
    """Return the tag of a request, the kind of error and why it was refused."""
    fields = _Body(body)
    (tag,) = fields.numbers(_NUMBER)
    status, message = fields.text(), fields.text()
    fields.end()
    return tag, status, message


def read_statistics(body: memoryview) -> tuple[int, dict[str, Any]]:
    """Return the tag of the question, and the engine's statistics."""
    fields = _Body(body)
    (tag,) = fields.numbers(_NUMBER)
    return tag, _json(fields)


def read_problem(body: memoryview) -> tuple[str, str]:
    """Return the kind of error of what this front end has done wrong, and the message."""
    fields = _Body(body)
    status, message = fields.text(), fields.text()
    fields.end()
    return status, message


def read_events(body: memoryview) -> list[Event]:
    """Return the events of a step."""
    fields = _Body(body)
    step, count = fields.numbers(_EVENTS)
    records = fields.bytes(count * _EVENT.size)
    (top_count,) = fields.numbers(_COUNT)
    tops = _TOP.iter_unpack(fields.bytes(top_count * _TOP.size))
    texts = _Body(fields.bytes(*fields.numbers(_COUNT)))
    fields.end()
    events = []
    new = tuple.__new__  # as Event._make does, without its check of the length
    for (
        kind,
        finish,
        own,
        sample,
        request,
        token,
        logprob,
        length,
        prompt,
        cached,
        tokens,
        waited,
        spent,
    ) in _EVENT.iter_unpack(records):
        top: list[tuple[int, float]] = [pair for _, pair in zip(range(own), tops, strict=False)] if own else []
        if own and len(top) != own:
            raise ProtocolError(f"events have more likeliest tokens than the {top_count} that there are")
        message = str(texts.bytes(length), errors="replace") if length else None
        before = (kind, request, sample, token, logprob, top, finish, step)
        events.append(new(Event, (*before, prompt, cached, tokens, waited, spent, message)))
    texts.end()
    if next(tops, None) is not None:
        raise ProtocolError(f"events have fewer likeliest tokens than the {top_count} that there are")
    return events


def read_mask_rows(body: memoryview) -> tuple[int, list[MaskRow]]:
    """Return the round and the rows of a question for masks."""
    fields = _Body(body)
    number, count = fields.numbers(_EVENTS)
    rows = []
    for _ in range(count):
        request, sample, kept, added = fields.numbers(_MASK_ROW)
        rows.append(MaskRow(request, sample, kept, struct.unpack(f"<{added}q", fields.bytes(8 * added))))
    fields.end()
    return number, rows


def read_tag(body: memoryview) -> int:
    """Return the tag of a ping's answer."""
    fields = _Body(body)
    (tag,) = fields.numbers(_NUMBER)
    fields.end()
    return tag


class Messages:
    """Divides a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
        """Give the kind and the body of each message that is whole now; a body is valid until the next one is taken."""
        self._data += data
        at = 0
        view = memoryview(self._data)
        try:
            while len(view) - at >= _HEADER.size:
                size, kind = _HEADER.unpack_from(view, at)
                if size > LARGEST_BODY:
                    raise ProtocolError(f"a message of kind {kind} has {size} bytes, may have {LARGEST_BODY}")
                if len(view) - at - _HEADER.size < size:
                    break
                at += _HEADER.size
                with view[at : at + size] as body:
                    yield kind, body
                at += size
        finally:
            view.release()
        del self._data[:at]
