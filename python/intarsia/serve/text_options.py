# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read the fields that chats and completions have in common."""

from __future__ import annotations

from typing import Any

from .chat_request import AskedForm, TextOptions
from .fields import INT64_MIN, Fields

#: OpenAI takes four; more are of use, but each costs time at every token.
MOST_STOPS = 16
MOST_STOP_LETTERS = 512
_MOST_BIASES = 1024
MOST_SAMPLES = 128
MOST_LOGPROBS = 20

#: Fields of both interfaces that this module reads.
NAMES = frozenset(
    {
        *("model", "max_tokens", "n", "stop", "stream", "stream_options", "seed", "logit_bias", "temperature", "top_p"),
        *("presence_penalty", "frequency_penalty", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"),
        *("stop_token_ids", "include_stop_str_in_output", "skip_special_tokens", "priority", "cache_salt"),
    }
)
#: Fields that ask for a form of the text.
FORMS = frozenset(
    {"response_format", "structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice"}
)
#: Fields that say nothing about the answer.
WITHOUT_EFFECT = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
        *("prompt_cache_retention", "verbosity", "request_id"),
    }
)


def read_options(fields: Fields, vocabulary: int, temperature: float = 1.0) -> TextOptions:
    """Return the options of a request.

    Parameters
    ----------
    temperature : float
        That of a request that names none.
    """
    options = TextOptions()
    sampling: dict[str, Any] = {"temperature": fields.real("temperature", temperature, 0.0, 2.0)}
    top_p = fields.real("top_p", 1.0, 0.0, 1.0)
    sampling["top_p"] = top_p if top_p else 1e-9  # 0: the likeliest token alone
    top_k = fields.whole("top_k", 0, -1)
    sampling["top_k"] = 0 if top_k == -1 else min(top_k, vocabulary)  # vLLM writes -1 for all
    sampling["min_p"] = fields.real("min_p", 0.0, 0.0, 1.0)
    sampling["repetition_penalty"] = fields.real("repetition_penalty", 1.0, 1e-9, 1e9)
    for name in ("presence_penalty", "frequency_penalty"):
        sampling[name] = fields.real(name, 0.0, -2.0, 2.0)
    sampling["seed"] = fields.whole("seed", None, INT64_MIN)
    sampling["logit_bias"] = _logit_bias(fields, vocabulary)
    sampling["min_tokens"] = fields.whole("min_tokens", 0, 0)
    options.sampling = sampling
    options.max_tokens = fields.whole("max_tokens", None, 1)
    options.samples = fields.whole("n", 1, 1, MOST_SAMPLES)
    options.stops = fields.texts("stop", MOST_STOPS, MOST_STOP_LETTERS)
    options.stop_tokens = fields.token_ids("stop_token_ids", vocabulary, 256)
    options.shows_stop = fields.flag("include_stop_str_in_output")
    options.skips_special_tokens = fields.flag("skip_special_tokens", True)
    options.ignores_end = fields.flag("ignore_eos")
    options.priority = fields.whole("priority", 0, -(2**31), 2**31 - 1)
    options.salt = fields.text("cache_salt", "", most=256)
    options.is_stream = fields.flag("stream")
    stream = fields.inner("stream_options")
    if stream is not None:
        if not options.is_stream:
            raise fields.error("stream_options", "is only allowed with stream: true")
        options.has_usage = stream.flag("include_usage")
        stream.flag("include_obfuscation")  # padding against guesses by length; there is none here
        stream.flag("continuous_usage_stats")
    if options.max_tokens is not None and sampling["min_tokens"] > options.max_tokens:
        raise fields.error("min_tokens", f"is {sampling['min_tokens']}, max_tokens {options.max_tokens}")
    return options


def _logit_bias(fields: Fields, vocabulary: int) -> dict[int, float]:
    given = fields.inner("logit_bias")
    if given is None:
        return {}
    if len(given.values) > _MOST_BIASES:
        raise fields.error("logit_bias", f"has {len(given.values)} tokens, may have {_MOST_BIASES}")
    biases = {}
    for name in given.values:
        if not name.isdecimal() or not name.isascii() or len(name) > 18 or int(name) >= vocabulary:
            raise fields.error("logit_bias", f"has the key {name[:40]!r}, must be a token id of 0 to {vocabulary - 1}")
        value = given.real(name, None, -100.0, 100.0)
        if value is not None:
            biases[int(name)] = value
    return biases


def read_asked_form(fields: Fields) -> AskedForm:
    """Return the form that OpenAI's `response_format` asks for, or vLLM's structured outputs of now and before."""
    response_format = fields.inner("response_format")
    if response_format is not None:
        response_format.one_of("type", None, ("text", "json_object", "json_schema"))
        if "type" not in response_format:
            raise response_format.error("type", "is missing")
    given, where = dict(fields.object("structured_outputs") or {}), "structured_outputs."
    for name in ("json", "regex", "grammar", "choice"):
        if f"guided_{name}" in fields:
            given[name] = fields.raw(f"guided_{name}")
            where = "guided_"
    given = {name: value for name, value in given.items() if value is not None}
    return AskedForm(None if response_format is None else response_format.values, given or None, where)
