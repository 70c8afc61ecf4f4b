# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text within a JSON schema, a regular expression or a grammar, with a model that was trained on none of them."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

import intarsia
import jsonschema
import numpy as np
import pytest
import tokenizers
from intarsia.generation.constrained import Grammars, _on_a_large_stack

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
ENTRY = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "maxLength": 20},
        "kind": {"enum": ["noun", "verb", "adjective ≤ 1"]},
        "senses": {"type": "array", "items": {"$ref": "#/$defs/sense"}, "minItems": 1, "maxItems": 2},
        "rare": {"type": ["boolean", "null"]},
    },
    "required": ["word", "kind", "senses"],
    "additionalProperties": False,
    "$defs": {
        "sense": {
            "type": "object",
            "properties": {
                "gloss": {"type": "string", "minLength": 1, "maxLength": 30},
                "uses": {"type": "integer", "minimum": 3, "maximum": 40},
            },
            "required": ["gloss", "uses"],
            "additionalProperties": False,
        }
    },
}


@pytest.fixture(scope="module")
def generator(glossary_artifact):
    return intarsia.Generator(glossary_artifact, tokenizer=MODEL)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 5.0])
def test_every_text_is_valid(generator, temperature):
    prompts = ["violin (noun):", "run (verb):", "red (adjective):", "slowly (adverb):"]
    rules = {"temperature": temperature, "repetition_penalty": 1.2, "seed": 5}
    texts = generator.generate(prompts, 400, json_schema=ENTRY, **rules)
    for result in texts:
        assert result.finish_reason == "end", result.text
        jsonschema.validate(json.loads(result.text), ENTRY)
    if temperature:
        assert len({result.text for result in texts}) == len(texts)
    # Alone as in a batch, whole as in pieces.
    (alone,) = generator.generate(prompts[0], 400, json_schema=json.dumps(ENTRY), **rules)
    assert (alone.ids, alone.text) == (texts[0].ids, texts[0].text)
    pieces = list(generator.stream(prompts[0], 400, json_schema=ENTRY, **rules))
    assert "".join(pieces) == texts[0].text
    assert len(pieces) > 3


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"a": [1, "é"]}},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
        {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
        {"type": "number", "minimum": -1, "maximum": 1, "multipleOf": 0.25},
        {"type": "string", "format": "date"},
    ],
)
def test_schemas(generator, schema):
    for result in generator.generate(["a"] * 3, 100, json_schema=schema, temperature=2.0, seed=1):
        assert result.finish_reason == "end"
        jsonschema.validate(json.loads(result.text), schema)


def test_regex_and_grammar(generator):
    pattern = r"(yes|no), [a-z]{3,9}( and [a-z]{3,9})?\."
    for result in generator.generate(["why (noun):"] * 5, 60, regex=pattern, temperature=1.5, seed=2):
        assert result.finish_reason == "end"
        assert re.fullmatch(pattern, result.text)
    nested = 'start: "(" (start | "x") ")"'
    for result in generator.generate(["x"] * 5, 300, grammar=nested, temperature=1.0, seed=2):
        depth = result.text.count("(")
        assert result.finish_reason == "length" or result.text == "(" * depth + "x" + ")" * depth


def test_a_text_that_may_go_on_ends_where_the_model_ends_it(generator):
    # The model ends an entry with </s>, which is no part of the pattern.
    (free,) = generator.generate("violin (noun):", 60)
    (result,) = generator.generate("violin (noun):", 60, regex=r"[a-z ;,]*")
    assert result.finish_reason == free.finish_reason == "end"
    assert re.fullmatch(r"[a-z ;,]+", result.text)


def test_complete_text_needs_no_end(generator):
    (result,) = generator.generate("violin (noun):", 60, regex="abc")
    assert (result.text, result.finish_reason) == ("abc", "end")
    assert len(result.logprobs) == len(result.ids) <= 3
    # Cut short by the number of tokens, or by a stop string.
    (result,) = generator.generate("violin (noun):", 2, regex="[a-z]{50}")
    assert result.finish_reason == "length"
    (result,) = generator.generate("violin (noun):", 60, regex="one two three", stop=" three")
    assert (result.text, result.finish_reason) == ("one two", "stop")


def test_tokens_beyond_the_tokenizer_and_special_ones_are_left_out():
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    constraint = Grammars(tokenizer, 5000, [1]).constraint(None, "(?s:.{1,4})", None)
    allowed = np.isfinite(constraint.restrict(np.zeros(5000, np.float32))).nonzero()[0]
    assert len(allowed) > 1000
    assert allowed.max() < 4096
    assert not {0, 1} & set(allowed.tolist())
    again = constraint.copy()
    assert not constraint.accept(tokenizer.token_to_id("a"))
    # A copy has a position of its own.
    assert 1 in np.isfinite(constraint.restrict(np.zeros(5000))).nonzero()[0]
    assert 1 not in np.isfinite(again.restrict(np.zeros(5000))).nonzero()[0]
    with pytest.raises(intarsia.InvalidArgumentError, match="the grammar does not allow token 0"):
        again.accept(0)


@pytest.mark.parametrize(("free", "fits"), [(1024, 512), (100, 64), (10, None)])
def test_stacks_within_a_limit_of_memory(monkeypatch, free, fits):
    """`ulimit -v` may leave no room for a large stack."""
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if threading.stack_size() > free << 20:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = threading.stack_size()
    monkeypatch.setattr(threading.Thread, "start", limited)
    if fits is None:
        with pytest.raises(intarsia.Error, match=r"a stack of 64 MiB.*limit of memory \(ulimit -v\)"):
            _on_a_large_stack(threading.stack_size)
    else:
        assert _on_a_large_stack(lambda: "a result") == "a result"
    assert threading.stack_size() == before


def test_errors_on_another_stack_are_the_callers(capfd):
    with pytest.raises(ZeroDivisionError):
        _on_a_large_stack(lambda: 1 // 0)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"json_schema": "{"}, "json_schema: "),
        ({"json_schema": {"type": "object", "not": {"type": "null"}}}, "json_schema: .* be held .*: #: not"),
        ({"json_schema": {"enum": []}}, "json_schema: .*Unsatisfiable"),
        ({"regex": "[a"}, "regex: .*unclosed character class"),
        ({"grammar": "start: foo"}, 'grammar: .*unknown name: "foo"'),
        ({"regex": "a", "grammar": "start: /a/"}, "regex and grammar are given, a text follows one of them"),
    ],
)
def test_what_cannot_be_followed(generator, rules, message):
    with pytest.raises(intarsia.InvalidArgumentError, match=f"(?s){message}"):
        generator.generate("violin", **rules)


def test_what_is_needed(glossary_artifact, wordless_artifact, generator, monkeypatch):
    with pytest.raises(intarsia.InvalidArgumentError, match="what keeps a text in a form needs a tokenizer"):
        intarsia.Generator(wordless_artifact).generate([0, 1], regex="a")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    with pytest.raises(intarsia.InvalidArgumentError, match="llguidance cannot read the tokenizer: "):
        intarsia.Generator(glossary_artifact, tokenizer=words).generate([0, 1], regex="a")
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(intarsia.NotFoundError, match=r"pip install 'intarsia\[constrained\]'"):
        intarsia.Generator(glossary_artifact, tokenizer=MODEL).generate("violin", regex="a")
