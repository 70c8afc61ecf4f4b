# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of functions, response formats and reasoning of each family of models.

No model is asked: tokens are drawn at random from those that the form of an answer allows.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import intarsia
import jsonschema
import numpy as np
import pytest
import tokenizers
from intarsia.generation.constrained import Grammars
from intarsia.serve.answers import CALL, Answer, Form
from intarsia.serve.chat_request import AskedForm, ChatRequest
from intarsia.serve.formats import plan_of
from intarsia.serve.grammar import FormCompiler
from intarsia.text.encoding import encode
from intarsia.text.text_stream import Detokenizer

TEST = Path(__file__).resolve().parents[1]
MODEL = TEST.parent / "examples" / "glossary"
END = 1
#: Of each family: the template, the tokens that are special, other added tokens, tokens that end an answer.
MODELS = {
    "hermes": (
        "python/chat/chatml-tools",
        ["<|im_start|>", "<|im_end|>"],
        ["<tool_call>", "</tool_call>", "<think>", "</think>"],
    ),
    "hermes in letters": ("python/chat/chatml-tools", ["<|im_start|>", "<|im_end|>"], []),
    "thinking": (
        "serve/chat/thinking",
        ["<|im_start|>", "<|im_end|>"],
        ["<tool_call>", "</tool_call>", "<think>", "</think>"],
    ),
    "llama": ("python/chat/headers", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"], []),
    "mistral": ("serve/chat/mistral", ["[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"], []),
    "mistral-named": (
        "serve/chat/mistral-named",
        ["[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
        [],
    ),
    "harmony": (
        "serve/chat/harmony",
        ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"],
        [],
    ),
    "gemma": (
        "serve/chat/gemma",
        ["<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>", "<|tool_response>"],
        [],
    ),
    "xml": ("serve/chat/xml", ["<|im_start|>", "<|im_end|>"], ["<tool_call>", "</tool_call>"]),
    "generic": ("serve/chat/plain", ["<|im_start|>", "<|im_end|>"], []),
}
MARKERS = (
    "</think>",
    "<tool_call>",
    "[TOOL_CALLS]",
    "<|tool_call>",
    "[/THINK]",
    "<channel|>",
    "<|channel|>",
    '<|"|>',
    " to",
    "<|end|>",
    "<|message|>",
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather at a place",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "maxLength": 12},
                "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
                "unit": {"enum": ["°C", "K", None, 3]},
                "near": {"$ref": "#/$defs/point"},
                "exact": {"type": ["boolean", "null"]},
            },
            "required": ["place"],
            "additionalProperties": False,
            "$defs": {
                "point": {
                    "type": "object",
                    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                    "required": ["x", "y"],
                    "additionalProperties": False,
                }
            },
        },
    },
}
NOW = {"type": "function", "function": {"name": "weather_now"}}
TOOLS = [WEATHER, NOW]
SCHEMAS = {
    "weather": WEATHER["function"]["parameters"],
    "weather_now": {"type": "object", "maxProperties": 0},
}
CHOICES = {
    "none": "none",
    "auto": "auto",
    "required": "required",
    "named": {"type": "function", "function": {"name": "weather"}},
    "allowed": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "weather_now"}}]},
    },
}


@cache
def model(name: str) -> Any:
    """Return a model as the server has it, without an engine."""
    template, special, others = MODELS[name]
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in others])
    vocabulary = tokenizer.get_vocab_size()
    ends = [END, *(tokenizer.token_to_id(text) for text in ("<|call|>", "<|return|>") if text in special)]
    grammars = Grammars(tokenizer, vocabulary, ends)
    return SimpleNamespace(
        name=name,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        ends=frozenset(ends),
        chat_template=intarsia.ChatTemplate(
            {"default": (TEST / f"{template}.jinja").read_text()}, {"bos_token": "<s>", "eos_token": "</s>"}
        ),
        grammars=grammars,
        forms=FormCompiler(grammars, tokenizer, vocabulary),
        detokenizer=Detokenizer(tokenizer),
        markers={tokenizer.token_to_id(text) for text in MARKERS},
        closing={tokenizer.token_to_id(text) for text in ('"', "}", "]", '"}', '":', ":")},
    )


def asked(model: Any, **fields: Any) -> tuple[Form, str]:
    """Return the form of an answer, and the text of the prompt."""
    messages = fields.pop("messages", [{"role": "user", "content": "Weather in Ulm?"}])
    form = {name: fields.pop(name) for name in ("response_format", "structured") if name in fields}
    plan = plan_of(model, ChatRequest(model.name, messages, form=AskedForm(**form), **fields))
    prompt = model.chat_template.render(plan.messages, tools=plan.tools, **plan.variables)
    return plan.form(encode(model.tokenizer, prompt, add_special_tokens=False)), prompt


def next_token(model: Any, constraint: Any, chosen: random.Random) -> int:
    """Return a random token that a constraint allows; those that open or close something are preferred."""
    allowed = np.flatnonzero(np.isfinite(constraint.restrict(np.zeros(model.vocabulary)))).tolist()
    if chosen.random() < 0.1:
        ending = [token for token in allowed if token in model.ends]
        if ending:
            return ending[0]
    draw = chosen.random()
    for share, preferred in ((0.3, model.markers), (0.7, model.closing)):
        some = [token for token in allowed if token in preferred] if draw < share else []
        if some:
            return chosen.choice(some)
    return chosen.choice(allowed)


def write(model: Any, form: Form, seed: int, most: int = 150) -> tuple[list[int], str]:
    """Return tokens that follow a form, and why they end."""
    chosen = random.Random(seed)
    constraint = form.constraint.copy()
    ids: list[int] = []
    while len(ids) < most:
        token = next_token(model, constraint, chosen)
        complete = constraint.accept(token)
        if token in model.ends:
            return ids, "stop"
        ids.append(token)
        if complete:
            return ids, "stop"
    return ids, "length"


def read(model: Any, form: Form, ids: list[int], reason: str, chosen: random.Random | None) -> Answer:
    """Return the answer that tokens are, read as a whole or in pieces."""
    decoder = model.detokenizer.decoder([], not form.shows_special_tokens)
    texts = [text for text in [*map(decoder.add, ids), decoder.rest()] if text]
    if chosen is None:
        texts = ["".join(texts)]
    elif chosen.random() < 0.5:
        texts = list("".join(texts))
    answer = Answer()
    if form.make_reader is None:
        answer.content, answer.finish_reason = "".join(texts), reason
        return answer
    reader = form.make_reader()
    for text in texts:
        pieces = reader.read(text)
        assert all(piece.text or piece.kind == CALL for piece in pieces)
        answer.add(pieces)
    rest, answer.finish_reason = reader.finish(reason)
    answer.add(rest)
    return answer


def same(one: Answer, other: Answer) -> bool:
    """Return True if answers are equal but for the identifiers of calls, which are random."""
    calls = [[(call.name, call.arguments) for call in answer.calls] for answer in (one, other)]
    rest = [(answer.content, answer.reasoning, answer.finish_reason) for answer in (one, other)]
    return calls[0] == calls[1] and rest[0] == rest[1]


def check_calls(answer: Answer, names: set[str]) -> None:
    for number, call in enumerate(answer.calls):
        assert call.name in names
        if answer.finish_reason != "length" or number + 1 < len(answer.calls):
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "one"])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", MODELS)
def test_calls(name, choice, parallel):
    family = model(name)
    form, prompt = asked(family, tools=TOOLS, tool_choice=CHOICES[choice], parallel_tool_calls=parallel)
    assert "weather_now" in prompt
    names = {"named": {"weather"}, "allowed": {"weather_now"}, "none": set()}.get(choice, {"weather", "weather_now"})
    calls = 0
    for seed in range(6):
        ids, reason = write(family, form, seed)
        whole = read(family, form, ids, reason, None)
        pieces = read(family, form, ids, reason, random.Random(seed))
        assert same(whole, pieces), (whole, pieces)
        check_calls(whole, names)
        assert parallel or len(whole.calls) <= 1
        assert whole.finish_reason == ("tool_calls" if reason == "stop" and whole.calls else reason)
        if choice in ("required", "named") and reason == "stop":
            assert whole.calls
            assert not whole.content or name == "harmony"
        calls += len(whole.calls)
        ids = [call.id for call in whole.calls]
        assert len(set(ids)) == len(ids)
        assert all(len(one) == 9 for one in ids) or not name.startswith("mistral")
    assert (calls > 0) == (choice != "none") or choice in ("auto", "allowed"), calls
