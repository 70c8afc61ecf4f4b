# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Response formats: a text that is written is valid by the schema as it was given, the rest is refused by name.

The schemas are those of the JSON-Schema-Test-Suite and random ones; `jsonschema` judges texts of random tokens.
"""

from __future__ import annotations

import json
import random
import re
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from intarsia.generation.json_schema import close_objects
from intarsia.serve.errors import RequestError
from intarsia.support.errors import InvalidArgumentError
from random_schemas import Schemas
from test_serve_tools import TOOLS, asked, model, read, write

SUITE = json.loads((Path(__file__).resolve().parent / "json_schema_suite.json").read_text())["cases"]
ROOM = 120


def exact_multiple(validator: Any, divisor: float, value: Any, schema: Any) -> Any:
    """Floats are decimal numbers in JSON; jsonschema divides them in binary."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and (Fraction(repr(value)) / Fraction(repr(divisor))).denominator != 1:
        yield jsonschema.ValidationError(f"{value} is not a multiple of {divisor}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"multipleOf": exact_multiple})


def form_or_error(schema: Any) -> Any:
    """Return the form of a schema, or the error that refuses it."""
    try:
        return form_of_schema(schema)
    except RequestError as error:
        return error


def form_of_schema(schema: Any, name: str = "generic", **fields: Any) -> Any:
    format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return asked(model(name), response_format=format, **fields)[0]


def is_taken(form: Any, text: str) -> bool:
    """Return True if a form allows a whole text."""
    constraint = form.constraint.copy()
    try:
        for token in model("generic").tokenizer.encode(text, add_special_tokens=False).ids:
            constraint.accept(token)
    except InvalidArgumentError:
        return False
    return bool(constraint.allowed(model("generic").vocabulary)[1])


def check_texts(form: Any, schema: Any, seeds: range) -> int:
    """Return how many texts of random tokens end soon; all of them are valid by a schema."""
    generic, count = model("generic"), 0
    validator = Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for seed in seeds:
        ids, reason = write(generic, form, seed, ROOM)
        if reason == "stop":
            text = read(generic, form, ids, reason, None).content
            validator.validate(json.loads(text))
            count += 1
    return count


#: Words by which a message names what cannot be held: a keyword with its place, or what is wrong about it.
NAMED = re.compile(
    r"held while a text is written: #|Unimplemented keys: \[\"|\$ref leads out|Unknown format|schema is false"
    r"|patternProperty regexes .* are not disjoint|multipleOf|min/maxProperties only"
)


def test_the_suite():
    taken = texts = instances = valid = 0
    for case in SUITE:
        schema = case["schema"]
        form = form_or_error(schema)
        if isinstance(form, RequestError):
            assert (form.status, form.param) == (400, "response_format.json_schema.schema")
            assert NAMED.search(form.message), form.message
            continue
        taken += 1
        texts += check_texts(form, schema, range(2))
        for data, is_valid in case["instances"]:
            accepted = is_taken(form, json.dumps(data, ensure_ascii=False))
            assert is_valid or not accepted, (schema, data)
            instances += 1
            valid += accepted
    # What is valid may be refused: an order of properties, 1.0 for 1.
    assert (taken, len(SUITE)) >= (215, 375)
    assert texts > 350
    assert valid > 550, (instances, valid)


def test_random_schemas():
    taken = texts = 0
    for seed in range(150):
        schemas = Schemas(seed)
        schema = schemas.root()
        form = form_or_error(schema)
        if isinstance(form, RequestError):
            assert NAMED.search(form.message), (form.message, schema)
            assert not schemas.unheld or schemas.unheld[0] in form.message
            continue
        assert not schemas.unheld, schema
        taken += 1
        texts += check_texts(form, schema, range(3))
    assert taken > 100, taken
    assert texts > 100, texts


OPEN = {"properties": {"a": {"type": "null"}}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (OPEN, CLOSED),
        ({"items": OPEN, "$defs": {"b": OPEN}}, {"items": CLOSED, "$defs": {"b": CLOSED}}),
        (
            {"anyOf": [OPEN, {"$ref": "#/$defs/b", "title": "B"}], "$defs": {"b": {}}},
            {"anyOf": [CLOSED, {"$ref": "#/$defs/b", "title": "B"}], "$defs": {"b": {}}},
        ),
        # These may have more: they say so, name patterns, require others, or are joined to others.
        ({**OPEN, "additionalProperties": True}, None),
        ({**OPEN, "patternProperties": {"^b": {}}}, None),
        ({**OPEN, "required": ["a", "b"]}, None),
        ({**OPEN, "anyOf": [{"properties": {"b": {}}, "required": ["b", "c"]}]}, None),
        ({"allOf": [OPEN, {"properties": {"b": {}}, "required": ["b"]}]}, None),
        ({**OPEN, "$ref": "#/$defs/b", "$defs": {"b": {"properties": {"b": {}}, "required": ["b"]}}}, None),
        ({"type": "object"}, None),
    ],
    ids=range(10),
)
def test_objects_with_properties_have_no_others(schema, closed):
    result = json.loads(json.dumps(schema))
    close_objects(result)
    assert result == (schema if closed is None else closed)
    form_of_schema(schema)  # there are still texts


def test_objects_end():
    schema = {"type": "object", **OPEN}
    assert not is_taken(form_of_schema(schema), '{"a": null, "b": 1}')
    assert is_taken(form_of_schema(schema), '{"a": null}')


def is_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        ({"response_format": {"type": "json_object"}}, is_object),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, is_object),
        ({"structured": {"json": '{"type": "boolean"}'}}, lambda text: text in ("true", "false")),
        ({"structured": {"json_object": True}}, is_object),
        ({"structured": {"regex": "a/[bc]{2}\\/\n?"}}, lambda text: re.fullmatch("a/[bc]{2}/\n?", text)),
        ({"structured": {"choice": ["yes", 'no "\n/', "°"]}}, lambda text: text in ("yes", 'no "\n/', "°")),
        ({"structured": {"grammar": 'start: "x" /[0-9]/'}}, lambda text: re.fullmatch("x[0-9]", text)),
        ({"structured": {"grammar": 'root ::= "x" [0-9]'}}, lambda text: re.fullmatch("x[0-9]", text)),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("name", ["llama", "hermes", "thinking", "harmony", "gemma", "mistral-named"])
def test_forms_of_each_family(name, fields, check):
    """Behind reasoning, in a channel, or beside calls of functions: the content has the form."""
    for tools in (None, TOOLS):
        form, _ = asked(model(name), tools=tools, **fields)
        ended = 0
        for seed in range(8):
            ids, reason = write(model(name), form, seed, 150)
            answer = read(model(name), form, ids, reason, None)
            if reason == "stop" and not answer.calls and not (name == "harmony" and tools):
                assert check(answer.content), answer
                ended += 1
        assert tools or ended, "no text has ended"


NAME_OF = "response_format.json_schema"


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type", "must be text, json_object or json_schema"),
        ({"response_format": {"type": "json_schema"}}, NAME_OF, "is missing, or no object"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
            f"{NAME_OF}.name",
            "must be 1 to 64",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}},
            f"{NAME_OF}.schema",
            "a JSON schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"strict": 1}}},
            f"{NAME_OF}.strict",
            "true or false",
        ),
        (
            {"response_format": {"type": "json_object"}, "structured": {"regex": "a"}},
            "structured_outputs",
            "are both given",
        ),
        ({"structured": {"regex": "a", "json": {}}}, "structured_outputs", "regex and json, must have one of"),
        ({"structured": {"structural_tag": "a"}}, "structured_outputs.structural_tag", "is not supported"),
        ({"structured": {"choice": []}}, "structured_outputs.choice", "a list of 1 to 10000 texts"),
        ({"structured": {"choice": [1]}}, "structured_outputs.choice", "a list of 1 to 10000 texts"),
        ({"structured": {"regex": 1}}, "structured_outputs.regex", "must be a text"),
        ({"structured": {"regex": "[a"}}, "structured_outputs.regex", "unclosed character class"),
        ({"structured": {"regex": "(?=a)b"}}, "structured_outputs.regex", "look-around"),
        ({"structured": {"grammar": "start: start"}}, "structured_outputs.grammar", "no text follows it"),
        ({"structured": {"grammar": "root ::= ("}}, "structured_outputs.grammar", "structured_outputs.grammar: "),
        ({"structured": {"json": {"not": {}}}}, "structured_outputs.json", "#: not"),
        ({"structured": {"json": "{"}}, "structured_outputs.json", "Expecting"),
        ({"structured": {"json": {"$ref": "#/$defs/a"}}}, "structured_outputs.json", "$ref leads nowhere"),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("name", ["llama", "thinking"])
def test_what_is_refused(name, fields, param, message):
    with pytest.raises(RequestError, match=re.escape(message)) as caught:
        asked(model(name), **fields)
    assert (caught.value.status, caught.value.param) == (400, param)


NESTED: dict[str, Any] = {}
for _ in range(300):
    NESTED = {"items": NESTED}
MANY = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(4000)}}


@pytest.mark.parametrize(
    "fields",
    [
        {"structured": {"regex": "(a{1000}){1000}"}},
        {"structured": {"regex": "((a{100}){100}){100}"}},
        {
            "structured": {
                "grammar": "\n".join(
                    ["start: r0", *(f'r{n}: "a" r{n + 1} | r{n + 1} "b"' for n in range(3000)), 'r3000: "c"']
                )
            }
        },
        {"structured": {"json": NESTED}},
        {"structured": {"json": MANY}},
        {"structured": {"json": {"multipleOf": 1000003}}},
        {"structured": {"json": {"enum": list(range(400_000))}}},
        {
            "structured": {
                "json": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
            }
        },
        {"tools": [{"type": "function", "function": {"name": f"f{n}", "parameters": MANY}} for n in range(100)]},
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": NESTED}}]},
    ],
    ids=range(10),
)
def test_forms_that_explode_are_refused_soon(fields):
    model("llama").forms  # noqa: B018  (it is made before the time is taken)
    started = time.process_time()
    with pytest.raises(RequestError) as caught:
        asked(model("llama"), **fields)
    assert caught.value.status == 400
    assert time.process_time() - started < 2.5  # the bar is a second, on a machine that does nothing else


def damaged(schema: Any, chosen: random.Random) -> Any:
    """Return a schema in which a value, anywhere in it, has another type."""
    schema = json.loads(json.dumps(schema))
    places: list[tuple[Any, Any]] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        for key in part if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], (dict, list)):
                waiting.append(part[key])
    part, key = chosen.choice(places)
    part[key] = chosen.choice([None, True, False, 0, -1, 1.5, 10**30, "", "object", [], [[]], [None], {}, {"$ref": 5}])
    return schema


@pytest.mark.parametrize("name", ["hermes", "gemma", "xml"])
def test_damaged_schemas_are_taken_or_refused(name):
    """Another exception would be a 500."""
    taken = texts = 0
    for seed in range(250):
        chosen = random.Random(seed)
        schema = damaged(Schemas(seed).root(), chosen)
        tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": seed % 2 == 0}}
        try:
            form, _ = asked(model(name), tools=[tool], tool_choice="required")
        except RequestError:
            continue
        taken += 1
        ids, reason = write(model(name), form, seed, 60)
        answer = read(model(name), form, ids, reason, None)
        if reason == "stop":
            texts += 1
            assert all(isinstance(json.loads(call.arguments), dict) for call in answer.calls)
    assert taken > 40
    assert texts > 10
