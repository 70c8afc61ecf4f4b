# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/completions`: texts that are continued."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from .answers import CONTENT, Answer, LoggedToken, Piece, Usage, shown_logprob
from .chat_request import TextOptions
from .choices import ChoiceWriter
from .errors import RequestError
from .exchange import Exchange, endpoint, send_run
from .fields import Fields, check_ids, shown
from .formats import read_content_form
from .models import ServedModel
from .text_options import FORMS, NAMES, WITHOUT_EFFECT, read_asked_form, read_options

_NAMES = NAMES | FORMS | WITHOUT_EFFECT | {"prompt", "echo", "logprobs", "best_of", "suffix", "add_special_tokens"}
#: vLLM and OpenAI give five; more are as cheap.
_MOST_LOGPROBS = 20
#: Longer texts are encoded in a thread: the event loop would wait a millisecond and more for them (measured).
_MOST_LETTERS_INLINE = 2000


def routes() -> list[Route]:
    """Return the routes of this interface."""
    return [Route("/v1/completions", endpoint(complete), methods=["POST"])]


async def complete(exchange: Exchange) -> Response:
    """Continue texts."""
    body = await exchange.body()
    model = exchange.language_model(body)
    fields = Fields(body)
    fields.check_names(_NAMES, not exchange.server.options.ignores_unknown)
    fields.refuse(("suffix",), "is not supported: the model continues texts, it does not fill them in")
    has_echo = fields.flag("echo")
    # Who evaluates a text asks for no new token.
    is_measured_only = has_echo and fields.raw("max_tokens") == 0
    read = Fields({**body, "max_tokens": 1}) if is_measured_only else fields
    options = read_options(read, model.vocabulary, model.temperature)
    best_of = fields.whole("best_of", options.samples, 1)
    if best_of != options.samples:
        raise fields.error("best_of", f"is {best_of}, only n ({options.samples}) is supported", "unsupported_parameter")
    if is_measured_only:
        options.max_tokens = 0
    elif options.max_tokens is None:
        options.max_tokens = 16  # OpenAI's default
    options.logprobs = fields.whole("logprobs", None, 0, _MOST_LOGPROBS)
    prompts = await read_prompts(exchange, model, fields, "prompt", fields.flag("add_special_tokens", True))
    if len(prompts) * options.samples > exchange.server.options.max_prompts:
        raise fields.error("prompt", f"and n ask for more than {exchange.server.options.max_prompts} texts")
    prompt_logprobs = options.logprobs if has_echo else None
    form = read_content_form(read_asked_form(fields))
    more: dict[str, Any] = {"prompt_logprobs": prompt_logprobs, "param": "prompt"}
    if form is not None:
        more["constraint"] = await exchange.in_thread(lambda: form.alone(model))
    requests = [exchange.engine_request(model, ids, options, **more) for ids in prompts]
    samples = [
        sample for number, ids in enumerate(prompts) for sample in model.samples(ids, options, number * options.samples)
    ]
    writer = CompletionWriter(model, options, prompts, has_echo)
    return await send_run(exchange, model, options, requests, samples, writer, writer.prompt_logged)


async def read_prompts(
    exchange: Exchange, model: Any, fields: Fields, name: str, add_special_tokens: bool = True
) -> list[list[int]]:
    """Return the token ids of a field with a text, texts, ids, or lists of ids."""
    value = fields.raw(name)
    if value is None:
        raise fields.error(name, "is missing")
    if isinstance(value, str):
        values: list[Any] = [value]
    elif not isinstance(value, list):
        raise fields.error(name, f"is {shown(value)}, must be a text, token ids, or a list of those")
    else:
        values = [value] if value and type(value[0]) is int else value
    if not values or values == [[]]:
        raise fields.error(name, "is empty")
    most = exchange.server.options.max_prompts
    if len(values) > most:
        raise fields.error(name, f"has {len(values)} elements, may have {most} (--max-prompts)")
    for number, one in enumerate(values):
        where = name if len(values) == 1 else f"{name}[{number}]"
        if isinstance(one, list) and one:
            check_ids(where, one, model.vocabulary)
        elif not isinstance(one, str):
            raise RequestError(f"{where} is {shown(one)}, must be a text or token ids", where)

    def encode() -> list[list[int]]:
        return [
            model.prompts.encode(one, name, add_special_tokens=add_special_tokens) if isinstance(one, str) else one
            for one in values
        ]

    letters = sum(len(one) for one in values if isinstance(one, str))
    encoded = encode() if letters <= _MOST_LETTERS_INLINE else await exchange.in_thread(encode)
    for number, ids in enumerate(encoded):
        if not ids:
            where = name if len(values) == 1 else f"{name}[{number}]"
            raise RequestError(f"{where} has no tokens", where)
    return encoded


class CompletionWriter(ChoiceWriter):
    """Writes answers as `/v1/completions` has them.

    Parameters
    ----------
    prompts : sequence of list of int
        The prompts, which `has_echo` shows before what follows them.

    Attributes
    ----------
    prompt_logged : dict of list of LoggedToken
        Tokens of prompts but for their first ones, by the number of the prompt's first sample; the run fills it.
    """

    def __init__(
        self,
        model: ServedModel,
        options: TextOptions,
        prompts: Sequence[list[int]],
        has_echo: bool,
    ) -> None:
        super().__init__(model, options, "cmpl", "text_completion", "text_completion")
        self._prompts, self._has_echo = prompts, has_echo
        self.prompt_logged: dict[int, list[LoggedToken]] = {}
        self._behind = f',"logprobs":null,"finish_reason":null}}{self._tail}'
        self._offsets: dict[int, int] = {}
        self._silent = set(range(len(prompts) * options.samples)) if has_echo else set()  # whose prompt is to be sent

    def begin(self, usage: Usage) -> bytes:
        """Return nothing: each prompt is sent when its text begins, as its probabilities come just before that."""
        return b""

    def _echo(self, index: int) -> str:
        """Return the chunk of a prompt that is asked for, once."""
        if index not in self._silent:
            return ""
        self._silent.remove(index)
        return self._chunk(index, self._prompt_text(index), self._prompt_logprobs(index), None)

    def pieces(self, sample: int, pieces: Sequence[Piece], tokens: Sequence[LoggedToken]) -> bytes:
        """Return a chunk with the new text."""
        text = pieces[0].text if len(pieces) == 1 else "".join(piece.text for piece in pieces if piece.kind == CONTENT)
        echo = self._echo(sample)
        if not tokens:
            return f'{echo}{self._head}{{"index":{sample},"text":{encode_basestring(text)}{self._behind}'.encode()
        return (echo + self._chunk(sample, text, self._logprobs(sample, tokens), None)).encode()

    def end(self, sample: int, answer: Answer) -> bytes:
        """Return the chunk with the reason of the end."""
        return (self._echo(sample) + self._chunk(sample, "", None, answer.finish_reason, answer.stop)).encode()

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        prompt = self._prompt_logprobs(index) if self._has_echo else None
        before = self._prompt_text(index) if self._has_echo else ""
        logprobs = None
        if self._options.logprobs is not None:
            logprobs = self._logprobs(index, answer.tokens)
            if prompt is not None:
                logprobs = {name: prompt[name] + values for name, values in logprobs.items()}
        return {
            "index": index,
            "text": before + answer.content,
            "logprobs": logprobs,
            "finish_reason": answer.finish_reason,
            "stop_reason": answer.stop,
        }

    def _chunk(self, index: int, text: str, logprobs: Any, reason: str | None, stop: str | None = None) -> str:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        if reason is not None:
            choice["stop_reason"] = stop
        return self._written(choice)

    def _prompt(self, index: int) -> list[int]:
        return self._prompts[index // self._options.samples]

    def _prompt_text(self, index: int) -> str:
        return self._model.detokenizer.decode(self._prompt(index), skips_special=True)

    def _prompt_logprobs(self, index: int) -> dict[str, Any] | None:
        """Return the probabilities of the prompt's tokens; the first has none."""
        if self._options.logprobs is None:
            return None
        first = (index // self._options.samples) * self._options.samples
        logged = self.prompt_logged.get(first, [])
        tokens = [LoggedToken(self._prompt(index)[0], 0.0), *logged]
        found = self._logprobs(index, tokens)
        found["token_logprobs"][0] = found["top_logprobs"][0] = None
        return found

    def _logprobs(self, index: int, tokens: Sequence[LoggedToken]) -> dict[str, list[Any]]:
        """Return probabilities as the older interface has them, with the places of tokens in the text."""
        at = self._offsets.get(index, 0)
        names = [self._name(one.token) for one in tokens]
        offsets = []
        for name in names:
            offsets.append(at)
            at += len(name)
        self._offsets[index] = at
        return {
            "tokens": names,
            "token_logprobs": [shown_logprob(one.logprob) for one in tokens],
            "top_logprobs": [self._top(one) for one in tokens],
            "text_offset": offsets,
        }

    def _top(self, token: LoggedToken) -> dict[str, float]:
        top = {self._name(one): shown_logprob(value) for one, value in token.top[: self._options.logprobs]}
        return {self._name(token.token): shown_logprob(token.logprob), **top}

    def _name(self, token: int) -> str:
        """Return a token as text; one that is part of a letter by its bytes, as OpenAI does."""
        data = self._model.token_bytes[token]
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
