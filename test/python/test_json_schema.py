# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemas, expressions and grammars as users give them: what is written is valid, the rest is refused at once.

No model is asked: tokens are drawn at random from those that a form allows.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import intarsia
import jsonschema
import numpy as np
import pytest
import tokenizers
from intarsia.generation.constrained import Constraint, Grammars
from intarsia.generation.json_schema import prepare_schema

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
END = 1


@pytest.fixture(scope="module")
def tokenizer() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.fixture(scope="module")
def grammars(tokenizer) -> Grammars:
    return Grammars(tokenizer, 4096, [END])


def kind(name: str, **more: object) -> dict:
    return {
        "type": "object",
        "properties": {"kind": {"const": name}, **more},
        "required": ["kind"],
        "additionalProperties": False,
    }


NULLS = {"type": "object", "additionalProperties": {"type": "null"}}
#: Schemas as pydantic writes them, and others with keywords that llguidance has not.
TAKEN = {
    "union by a tag": {
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "discriminator": {"propertyName": "kind"},
        "$defs": {"Cat": kind("cat", lives={"type": "integer"}), "Dog": kind("dog")},
    },
    "union of types": {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}, {"type": "null"}]},
    "union of constants": {"oneOf": [{"const": number, "title": "n"} for number in range(80)]},
    "optional": {
        **kind("x", value={"oneOf": [{"type": "integer"}, {"type": "null"}]}),
        "required": ["kind", "value"],
    },
    "names by list": {**NULLS, "propertyNames": {"enum": ["a", "b"]}},
    "names by pattern": {**NULLS, "propertyNames": {"pattern": "^a[a-z]{0,3}$"}, "maxProperties": 2},
    "names by length": {**NULLS, "propertyNames": {"minLength": 2, "maxLength": 3}, "maxProperties": 2},
    "names by reference": {**NULLS, "propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["a", 1]}}},
    "names by a reference with a title": {
        **NULLS,
        "propertyNames": {"$ref": "#/$defs/n", "title": "Name"},
        "maxProperties": 2,
        "$defs": {"n": {"type": ["null", "string"], "pattern": "^a{1,3}$"}},
    },
    "list that may repeat": {"type": "array", "items": {"type": "integer"}, "uniqueItems": False, "maxItems": 3},
    "required by required": {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
        "additionalProperties": False,
    },
    "required by nothing": {**kind("x"), "dependentRequired": {}},
    "nothing else": {"type": "object", "properties": {"a": {"type": "null"}}, "unevaluatedProperties": False},
    "keywords that say nothing": {"type": "null", "minContains": 3, "then": False, "not": False},
    "a format of another library": {"type": "string", "format": "file-path", "maxLength": 3},
    "booleans": {**kind("x", a=True, b=False), "properties": {"kind": {"const": "x"}, "b": False}},
    "unused definitions": {"type": "null", "$defs": {"a": {"not": {"type": "null"}}}},
}


def write(constraint: Constraint, tokenizer: tokenizers.Tokenizer, random: np.random.Generator) -> str | None:
    """Return a text of random tokens, or None if it does not end soon; tokens that close something are preferred."""
    ids: list[int] = []
    for _ in range(150):
        allowed = np.isfinite(constraint.restrict(np.zeros(4096, np.float32))).nonzero()[0].tolist()
        closing = [token for token in allowed if tokenizer.decode([token]) in ('"', "}", "]", '"}', '":', ":")]
        token = int(random.choice(closing if closing and random.random() < 0.6 else allowed))
        complete = constraint.accept(token)
        ids += [] if token == END else [token]
        if complete:
            return tokenizer.decode(ids)
    return None


@pytest.mark.parametrize("name", TAKEN)
def test_texts_are_valid_by_the_schema_as_it_was_given(grammars, tokenizer, name):
    validator = jsonschema.Draft202012Validator(TAKEN[name])
    start = grammars.constraint(TAKEN[name], None, None)
    random = np.random.default_rng(0)
    texts = [write(start.copy(), tokenizer, random) for _ in range(12)]
    ended = [text for text in texts if text is not None]
    assert len(ended) > 6
    for text in ended:
        validator.validate(json.loads(text))


def test_the_schema_true_allows_every_value(grammars, tokenizer):
    for schema in (True, "true", {}):
        text = write(grammars.constraint(schema, None, None), tokenizer, np.random.default_rng(3))
        assert text is None or json.loads(text) is not Ellipsis


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "#: uniqueItems"),
        ({"properties": {"a": {"contains": {"type": "null"}}}}, "#/properties/a: contains"),
        ({"if": {"type": "null"}, "then": {"type": "null"}}, "#: if, #: then"),
        ({"anyOf": [{"not": {"const": 1}}]}, "#/anyOf/0: not"),
        ({"dependentRequired": {"a": ["b"]}}, "#: dependentRequired"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"propertyNames": {"format": "date"}}}}, r"#/\$defs/a: propertyNames"),
        (
            {"propertyNames": {"$ref": "#/$defs/n", "maxLength": 2}, "$defs": {"n": {"pattern": "^a+$"}}},
            "#: propertyNames",
        ),
        ({"propertyNames": {"type": "null", "pattern": "a"}}, "#: propertyNames"),
        ({"propertyNames": {"type": ["null"], "enum": ["a"]}}, "#: propertyNames"),
        (
            {"propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "null", "minLength": 2}}},
            "#: propertyNames",
        ),
        ({"allOf": [{}], "unevaluatedProperties": False}, "#: unevaluatedProperties"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, r"#: oneOf \(a value may be valid by several"),
        # A tag that may be absent, and one with the same value twice.
        ({"oneOf": [{**kind("a"), "required": []}, {**kind("b"), "required": []}]}, "#: oneOf"),
        ({"oneOf": [kind("a"), kind("b"), kind("a")]}, "#: oneOf"),
        ({"oneOf": [{"const": 1}, {"const": 1.0}]}, "#: oneOf"),
    ],
)
def test_keywords_that_cannot_be_held_are_named(grammars, schema, places):
    with pytest.raises(intarsia.InvalidArgumentError, match=f"json_schema: these keywords cannot be held .* {places}"):
        grammars.constraint(schema, None, None)


ENDLESS = {"$ref": "#/$defs/endless"}
LOOPS = [
    {"$ref": "#/$defs/endless"},
    {"allOf": [ENDLESS, {"type": "object"}]},
    {"anyOf": [ENDLESS, {"$ref": "#/$defs/other"}]},
    {"type": "object", "properties": {"a": ENDLESS}, "required": ["a"]},
    {"type": "array", "items": ENDLESS, "minItems": 1},
    {"type": "array", "prefixItems": [{}, ENDLESS], "minItems": 2},
]


@pytest.mark.parametrize("number", range(len(LOOPS)))
def test_values_that_contain_themselves_without_an_end(grammars, tokenizer, number):
    """A grammar would begin such a value behind a key, and then allow no token."""
    definitions = {"endless": LOOPS[number], "other": LOOPS[number], "null": {"type": "null"}}
    for schema in (ENDLESS, {"type": "object", "properties": {"kind": ENDLESS}, "required": ["kind"]}):
        with pytest.raises(intarsia.InvalidArgumentError, match=r"json_schema: no text follows it: #.* \(\$ref\)"):
            grammars.constraint({**schema, "$defs": definitions}, None, None)
    # Where the value need not be, it is not.
    schema = {
        "type": "object",
        "properties": {
            "no": ENDLESS,
            "list": {"type": "array", "items": ENDLESS},
            "map": {"type": "object", "additionalProperties": ENDLESS},
            "pair": {"type": "array", "prefixItems": [{"type": "null"}, ENDLESS], "items": False},
            "one": {"anyOf": [ENDLESS, {"$ref": "#/$defs/null"}]},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }
    start = grammars.constraint(schema, None, None)
    random = np.random.default_rng(number)
    texts = [write(start.copy(), tokenizer, random) for _ in range(12)]
    values = [json.loads(text) for text in texts if text is not None]
    assert len(values) > 6
    assert not any("no" in value or value.get("list") or value.get("map") for value in values)


def test_values_that_contain_themselves_with_an_end(grammars, tokenizer):
    tree = {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}
    tree |= {"required": ["left"], "additionalProperties": False}
    start = grammars.constraint({"$ref": "#/$defs/tree", "$defs": {"tree": tree}}, None, None)
    text = write(start, tokenizer, np.random.default_rng(1))
    assert text is None or "left" in json.loads(text)


def test_a_user_may_take_one_of_for_any_of(grammars):
    grammars.constraint(
        {"oneOf": [{"type": "integer"}, {"type": "number"}], "x-guidance": {"coerce_one_of": True}}, None, None
    )


def chain(count: int, rule: str, last: str) -> str:
    return "\n".join([*(rule.format(i, i + 1) for i in range(count)), last])


def references(count: int) -> dict:
    chained = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"type": "null"}]} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**chained, f"d{count}": {"type": "integer"}}}


MANY = {f"p{i}": {"type": "string"} for i in range(3000)}


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"regex": "(a{1000}){1000}"}, "regex: lexer error: too many expressions"),
        ({"regex": "x(a{1000}){1000}"}, "regex: lexer error: too many expressions"),
        ({"regex": "ab" * 40000}, "regex has 80000 letters, may have 65536"),
        ({"regex": "\udcff"}, "regex has half of a surrogate pair at 0"),
        ({"regex": 5}, "regex is of type int, must be a text"),
        ({"regex": r"[^\s\S]"}, "regex: no text follows it"),
        ({"grammar": "start: start"}, "grammar: no text follows it"),
        ({"grammar": "start: \ud800"}, "grammar has half of a surrogate pair"),
        ({"json_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}}, "json_schema: no text follows"),
        ({"json_schema": {"type": "object", "properties": MANY}}, "json_schema: .*too many|json_schema: .*items"),
        ({"json_schema": {"multipleOf": 1000003}}, "is too large: it would take longer than a second"),
        ({"json_schema": {"multipleOf": 10**400}}, "is too large: it would take longer than a second"),
        ({"json_schema": {"required": [[]], "dependentRequired": {}}}, r"json_schema: .*'required' item"),
        ({"json_schema": {"required": {}, "dependentRequired": {}}}, "json_schema: .*'required'"),
        (
            {"json_schema": {"allOf": 5, "anyOf": [{}], "oneOf": [{"type": "string"}, {"type": "integer"}]}},
            "json_schema: #: allOf is a int, must be a list",
        ),
        ({"json_schema": f'{{"oneOf":[{{"const":{"[" * 900}{"]" * 900}}},{{"const":[]}}]}}'}, "nested too deep"),
        ({"json_schema": {"enum": list(range(10**6))}}, "json_schema has 7888900 letters, may have"),
        ({"json_schema": references(3000)}, "json_schema: .*items"),
        ({"json_schema": "[1]"}, "json_schema: is a list, must be an object or a boolean"),
        ({"json_schema": 5}, "json_schema: is a int, must be"),
        ({"json_schema": False}, "json_schema: the schema is false"),
        ({"json_schema": '{"const": NaN}'}, "json_schema: NaN is no JSON"),
        ({"json_schema": '{"items":' * 200 + "{}" + "}" * 200}, "json_schema: is nested deeper than 100"),
        ({"json_schema": '{"items":' * 100000}, "json_schema: is nested too deep"),
    ],
    ids=range(24),
)
def test_what_cannot_be_followed_is_refused_before_a_prompt_is_computed(grammars, form, message):
    forms = {"json_schema": None, "regex": None, "grammar": None, **form}
    with pytest.raises(intarsia.InvalidArgumentError, match=message) as caught:
        grammars.constraint(**forms)
    assert len(str(caught.value)) < 600  # llguidance's own messages hold the whole grammar


def test_rules_that_refer_to_one_another_do_not_exhaust_a_small_stack(grammars):
    """llguidance follows rules by recursion: on a stack of 8 MB, 3,000 of them ended the process."""
    results: list[Constraint] = []
    text = chain(3000, 'r{}: "a" r{}', 'r3000: "c"')
    before = threading.stack_size(256 * 1024)
    try:
        grammar = f"start: r0\n{text}"
        thread = threading.Thread(target=lambda: results.append(grammars.constraint(None, None, grammar)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert len(results) == 1


def test_alternatives_that_branch_without_an_end():
    """What tells alternatives apart looks at each of their own, which references multiply."""
    levels = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 40} for i in range(8)}
    alternatives = [{"$ref": "#/$defs/d0"}] * 40
    begin = time.process_time()
    with pytest.raises(intarsia.InvalidArgumentError, match="#: oneOf"):
        prepare_schema(json.dumps({"oneOf": alternatives, "$defs": {**levels, "d8": {"type": "integer"}}}))
    assert time.process_time() - begin < 3


@pytest.mark.parametrize("repeated", [1, 2])
def test_names_that_are_required_by_many(repeated):
    """Each name is looked at once, whatever requires it."""
    names = [f"p{i}" for i in range(8000)]
    dependent = dict.fromkeys(names[:20], names)
    begin = time.process_time()
    assert (
        prepare_schema(json.dumps({"required": names * repeated, "dependentRequired": dependent}))["required"] == names
    )
    assert time.process_time() - begin < 2


def test_large_schemas_that_are_no_burden_are_taken(grammars):
    grammars.constraint({"enum": [f"value {i}" for i in range(20000)]}, None, None)
    grammars.constraint({"type": "object", "properties": MANY, "required": list(MANY)}, None, None)
    grammars.constraint({"type": "integer", "multipleOf": 1000}, None, None)


def test_decimal_fractions_count_in_units_of_their_last_digit():
    assert prepare_schema('{"multipleOf": 0.01}') == {"multipleOf": 0.01}
    with pytest.raises(intarsia.InvalidArgumentError, match="is too large"):
        prepare_schema('{"multipleOf": 0.1234567}')
