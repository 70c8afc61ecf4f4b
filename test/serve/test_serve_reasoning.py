# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reasoning, families by their templates, histories with calls, and readers of text that follows no form."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from intarsia.serve.answers import Answer, Form
from intarsia.serve.errors import RequestError
from intarsia.serve.families import FAMILIES, family_of
from intarsia.serve.families.family import Tool, Wanted, separate_calls
from intarsia.serve.readers import TextReader, Thinking
from intarsia.serve.reasoning import at_the_end, effort_variables, switch_variables, thinking_of
from intarsia.support.errors import InvalidArgumentError
from test_serve_tools import MODELS, TOOLS, asked, model

TEST = Path(__file__).resolve().parents[1]
THINK = Thinking("<think>", "</think>")


def template_of(name: str) -> str:
    return (TEST / f"{MODELS[name][0]}.jinja").read_text()


def answer_of(reader: object, text: str, reason: str = "stop", step: int = 1000) -> Answer:
    answer = Answer()
    for begin in range(0, len(text), step):
        answer.add(reader.read(text[begin : begin + step]))
    pieces, answer.finish_reason = reader.finish(reason)
    answer.add(pieces)
    return answer


def test_families_are_known_by_their_templates():
    assert {name: family_of(template_of(name)).name for name in MODELS} == {
        "hermes": "hermes",
        "hermes in letters": "hermes",
        "thinking": "hermes",
        "llama": "llama",
        "mistral": "mistral",
        "mistral-named": "mistral",
        "harmony": "harmony",
        "gemma": "gemma",
        "xml": "xml",
        "generic": "generic",
    }
    # Tags for parameters are another form than JSON between tags.
    assert family_of("{{ tools }}<tool_call>f<arg_key>a</arg_key>").name == "generic"
    # A template that writes declarations of tools in the form in which Llama writes calls.
    assert family_of("""'{"name": ' + tool.name + ', "parameters": ' + (tool.parameters | tojson)""").name == "generic"


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "is_open", "reasoning", "content"),
    [
        ("<think>\n a \n</think>\n\nb\n", False, "a", "b\n"),
        ("\n a <b> \n</think>\n\n b", True, "a <b>", "b"),
        (" \n<think>a</think>b", False, "a", "b"),
        ("b <think>a</think>", False, "", "b <think>a</think>"),
        ("<thin", False, "", "<thin"),
        ("  b", False, "", "  b"),
        ("<think></think>", False, "", ""),
        ("<think>cut </thin", False, "cut </thin", ""),
        ("cut", True, "cut", ""),
        ("", True, "", ""),
    ],
)
def test_reasoning_is_apart(text, is_open, reasoning, content, step):
    thinking = Thinking("<think>", "</think>", is_open)
    for reason in ("stop", "length"):
        answer = answer_of(TextReader(thinking, None, str), text, reason, step)
        assert (answer.reasoning, answer.content, answer.finish_reason) == (reasoning, content, reason)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_channels(step):
    family = family_of(template_of("harmony"))
    text = (
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"a": "<|end|>"}'
    )
    wanted = Wanted([Tool("weather", {})])
    answer = answer_of(family.reader(wanted, None, None), text, "stop", step)
    assert (answer.reasoning, answer.content, answer.finish_reason) == ("One.\n\nTwo.", "I look.", "tool_calls")
    assert [(call.name, call.arguments) for call in answer.calls] == [("weather", '{"a": "<|end|>"}')]
    text = "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Done"
    answer = answer_of(family.reader(Wanted(), None, None), text, "length", step)
    assert (answer.reasoning, answer.content, answer.finish_reason) == ("One.", "Done", "length")
    assert answer_of(family.reader(Wanted(), None, None), "plain <text>", "stop", step).content == "plain <text>"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_readers_take_any_text(family):
    """What no grammar holds is read somehow, without an error, and the same whole and in pieces."""
    parts = [
        *(
            "<tool_call>",
            "</tool_call>",
            "[TOOL_CALLS]",
            "[ARGS]",
            "[CALL_ID]",
            "<|tool_call>",
            "<tool_call|>",
            '<|"|>',
        ),
        *(
            "<think>",
            "</think>",
            "<|channel|>",
            "analysis",
            "final",
            "commentary",
            "<|message|>",
            "<|end|>",
            "<|start|>",
        ),
        *("assistant", " to=functions.f", "<|python_tag|>", '{"name": "f", "arguments": ', '{"name":"f","parameters":'),
        *("<function=f>", "<function=", "<parameter=a>", "<parameter=", "\n</parameter>", "</function>"),
        *(
            '{"a": "\\""}',
            "}",
            "{",
            "[",
            "]",
            '"',
            ",",
            ":",
            " ",
            "\n",
            "call:f{",
            "a",
            "<",
            "|",
            "é",
            "<|constrain|>json",
        ),
    ]
    chosen = random.Random(family.name)
    for _ in range(300):
        text = "".join(chosen.choices(parts, k=chosen.randint(0, 12)))
        for tools in ([], [Tool("f", {})]):
            for thinking in (None, THINK, Thinking("<think>", "</think>", True)):
                whole = answer_of(family.reader(Wanted(tools), thinking, None), text)
                pieces = answer_of(family.reader(Wanted(tools), thinking, None), text, step=1)
                for call in [*whole.calls, *pieces.calls]:
                    call.id = ""
                assert whole == pieces, text


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [("<|assistant|>", False), ("…<think>\n", True), ("…<think>", True), ("…<think>\n\n</think>\n\n", None)],
)
def test_prompts_may_begin_the_reasoning_or_end_it(prompt, is_open):
    found = at_the_end(THINK, prompt)
    assert found is None if is_open is None else found.is_open == is_open
    assert at_the_end(None, prompt) is None


SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
OWN = "{% set thinking = message.thinking %}{{ thinking }}<think></think>"
SET = "{% if not enable_thinking is defined %}{% set enable_thinking = true %}{% endif %}{{ enable_thinking }}"


@pytest.mark.parametrize(
    ("template", "effort", "variables"),
    [
        ("{{ reasoning_effort }}", "high", {"reasoning_effort": "high"}),
        ("{{ reasoning_effort }}", "xhigh", "knows low, medium, high"),
        ("{{ reasoning_effort }}", "none", "has no variable for"),
        ("{% if reasoning_effort in ('none', 'max', 'high') %}{% endif %}", "none", {"reasoning_effort": "none"}),
        (SWITCH, "none", {"enable_thinking": False}),
        (SWITCH, "low", {"enable_thinking": True}),
        (SET, "none", {"enable_thinking": False}),
        ("{% set thinking = thinking | default(false) %}{{ thinking }}", "high", {"thinking": True}),
        (OWN, "high", "has no variable for"),
        (OWN, "none", "has no variable for"),
        ("{{ messages }}", "none", {}),
        ("{{ messages }}", "low", "has no variable for"),
        ("{% if %}", "low", "has no variable for"),
        (SWITCH, "much", "must be one of none, minimal, low"),
        (SWITCH, None, {}),
    ],
)
def test_effort(template, effort, variables):
    if isinstance(variables, str):
        with pytest.raises(RequestError, match=variables) as caught:
            effort_variables(template, effort, {})
        assert caught.value.param == "reasoning_effort"
    else:
        assert effort_variables(template, effort, {}) == variables
    assert effort_variables(SWITCH, "low", {"enable_thinking": False}) == {}
    assert switch_variables(SWITCH, False) == {"enable_thinking": False}
    assert switch_variables("{{ messages }}", True) == switch_variables(SWITCH, None) == {}
    assert thinking_of(SWITCH, None) == THINK


def test_effort_in_prompts():
    _, prompt = asked(model("harmony"), reasoning_effort="high")
    assert "Reasoning: high" in prompt
    for thinks in (True, False):
        form, prompt = asked(model("thinking"), thinks=thinks)
        assert prompt.endswith("<think>\n" if thinks else "</think>\n\n")
        assert (form.make_reader is not None) == thinks
    with pytest.raises(RequestError, match="has no variable for"):
        asked(model("llama"), reasoning_effort="low")


def call(number: str, name: str = "weather", arguments: str = '{"place": "Ulm"}') -> dict:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


HISTORY = [
    {"role": "developer", "content": "Be short."},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "", "reasoning_content": "Two places.", "tool_calls": [call("a"), call("b")]},
    {"role": "tool", "tool_call_id": "b", "content": "sun"},
    {"role": "tool", "tool_call_id": "a", "content": "rain"},
    {"role": "assistant", "content": "Rain and sun."},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]


@pytest.mark.parametrize("name", MODELS)
def test_histories(name):
    _, prompt = asked(model(name), messages=HISTORY, tools=TOOLS)
    for word in ("Weather?", "Ulm", "sun", "rain", "Rain and sun.", "And now?", "weather_now"):
        assert word in prompt, prompt
    assert "{'type'" not in prompt
    assert '\\"place\\"' not in prompt
    if name in ("hermes", "llama", "generic"):  # the template knows no developer
        assert "developer" not in prompt
        assert "Be short.\n\nBe kind." in prompt
    if name in ("llama", "harmony"):  # one call a message, each result behind its call
        assert prompt.index("Ulm") < prompt.index("rain") < prompt.rindex('{"place"') < prompt.index("sun")


def test_calls_are_separated_from_one_another():
    messages = [
        {"role": "assistant", "content": "I look.", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
        {"role": "user", "content": "?"},
    ]
    separated = separate_calls(messages)
    shown = [(m["role"], m.get("content"), [c["id"] for c in m.get("tool_calls", ())]) for m in separated]
    assert shown == [
        ("assistant", "I look.", ["a"]),
        ("assistant", None, ["b"]),
        ("tool", "2", []),
        ("tool", "3", []),
        ("user", "?", []),
    ]


def test_identifiers_that_mistral_takes():
    family = family_of(template_of("mistral"))
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call("call_0123456789"), call("abcdefghi")]},
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "1"},
    ]
    shown, _ = family.chat(messages, None, "")
    first, second = (one["id"] for one in shown[0]["tool_calls"])
    assert len(first) == 9
    assert second == "abcdefghi"
    assert shown[1]["tool_call_id"] == first
    assert messages[1]["tool_call_id"] == "call_0123456789"


def test_functions_without_a_place_in_the_template_are_in_the_first_message():
    family = family_of("")
    question = [{"role": "user", "content": "Weather?"}]
    shown, tools = family.chat(question, TOOLS, "{{ raise_exception('System role not supported') }}")
    assert tools is None
    assert [one["role"] for one in shown] == ["user"]
    assert shown[0]["content"].index("weather_now") < shown[0]["content"].index("Weather?")


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "custom", "custom": {}}, "tools[0].type"),
        ({"type": "function"}, "tools[0].function"),
        ({"type": "function", "function": {"name": ""}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "ü"}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "a" * 129}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "a", "description": 1}}, "tools[0].function.description"),
        ({"type": "function", "function": {"name": "a", "parameters": []}}, "tools[0].function.parameters"),
        ({"type": "function", "function": {"name": "a", "strict": 1}}, "tools[0].function.strict"),
        (
            {"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}},
            "tools[0].function.parameters",
        ),
        (
            {"type": "function", "function": {"name": "a", "strict": True, "parameters": {"not": {}}}},
            "tools[0].function.parameters",
        ),
    ],
    ids=range(10),
)
def test_tools_that_are_refused(tool, param):
    with pytest.raises(RequestError) as caught:
        asked(model("llama"), tools=[tool])
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("some", "tool_choice"),
        ({"type": "function"}, "tool_choice.function.name"),
        ({"type": "function", "function": {"name": "nobody"}}, "tool_choice.function.name"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": []}}, "tool_choice.allowed_tools"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]}},
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
        ({"type": "custom"}, "tool_choice"),
    ],
    ids=range(7),
)
def test_choices_that_are_refused(choice, param):
    with pytest.raises(RequestError) as caught:
        asked(model("llama"), tools=TOOLS, tool_choice=choice)
    assert caught.value.param == param
    with pytest.raises(RequestError, match="two tools have the name"):
        asked(model("llama"), tools=[TOOLS[0], TOOLS[0]])
    with pytest.raises(RequestError, match="there are no tools"):
        asked(model("llama"), tool_choice="required")
    with pytest.raises(RequestError, match="there are 200 tools, there may be 128"):
        asked(model("llama"), tools=TOOLS * 100)


def test_what_gemma_s_form_cannot_hold():
    parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a$"}}}
    function = {"name": "f", "parameters": parameters}
    form, _ = asked(model("gemma"), tools=[{"type": "function", "function": function}])
    assert form.dropped == ("f: pattern",)
    with pytest.raises(RequestError, match="the strict function 'f' have pattern"):
        asked(model("gemma"), tools=[{"type": "function", "function": {**function, "strict": True}}])


def test_compiled_forms_are_kept_and_bounded():
    forms = model("llama").forms
    before = forms.compile("text", 'start: "kept"')
    assert forms.compile("text", 'start: "kept"') is not before
    for number in range(80):
        forms.compile("text", f'start: "{number}"')
    assert len(forms._kept) <= 64
    assert forms._letters == sum(map(len, forms._kept))
    # A kept form is at its beginning, whatever was written by it before.
    first = forms.compile("text", 'start: "79"')
    token = model("llama").tokenizer.encode("79", add_special_tokens=False).ids[0]
    first.accept(token)
    forms.compile("text", 'start: "79"').accept(token)


def test_json_of_calls_is_told_as_it_is():
    """Deltas are the letters that the model has written, with their white space and escapes."""
    family = family_of(template_of("hermes"))
    arguments = '{ "a" : "\\u00e9}{\\"" ,\n "b":[{}] }'
    text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    answer = answer_of(family.reader(Wanted([Tool("f", {})]), None, None), text, step=1)
    assert [call.arguments for call in answer.calls] == [arguments]
    assert json.loads(arguments)


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_values_between_tags_are_json(step):
    family = family_of(template_of("xml"))
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "list": {"type": "array"},
            "word": {"enum": ["a", None, 3]},
            "unit": {"enum": ["a", None, 3]},
            "same": {"enum": ["3", 3]},
            "other": {"$ref": "#/$defs/other"},
        },
        "$defs": {"other": {"type": "string"}},
    }
    values = {
        "text": 'two\nlines "é" </param',
        "list": "[1, {}]",
        "word": "null",
        "unit": "a",
        "same": '"3"',
        "other": "null",
        "new": "1",
    }
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    text = f"Hm.\n<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>"
    answer = answer_of(family.reader(Wanted([Tool("f", schema)]), None, None), text, step=step)
    assert answer.content == "Hm."
    (only,) = answer.calls
    expected = {
        "text": values["text"],
        "list": [1, {}],
        "word": None,
        "unit": "a",
        "same": "3",
        "other": "null",
        "new": "1",
    }
    assert json.loads(only.arguments) == expected
    assert family.unheld(Tool("f", {"properties": {"a": {"type": "string", "format": "date"}}})) == ["format"]


def follow(form: Form, ids: list[int]) -> None:
    for token in ids:
        form.constraint.accept(token)


def test_an_answer_has_at_most_sixteen_calls():
    for count, is_taken in ((16, True), (17, False)):
        form, _ = asked(model("hermes"), tools=TOOLS[1:], tool_choice="required")
        text = '<tool_call>\n{"name": "weather_now", "arguments": {}}\n</tool_call>\n' * count
        ids = model("hermes").tokenizer.encode(text, add_special_tokens=False).ids
        if is_taken:
            follow(form, ids[:-1])
        else:
            with pytest.raises(InvalidArgumentError, match="the grammar does not allow token"):
                follow(form, ids)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "a<tool_call>"),
        ("hermes in letters", "a<tool_call>"),
        ("llama", '{"name": "weather_now", '),
        ("mistral", "a[TOOL_CALLS]"),
        ("mistral-named", "a[TOOL_CALLS]"),
        ("harmony", "<|channel|>commentary to=functions.weather_now"),
        ("gemma", "a<|tool_call>"),
        ("xml", "a<tool_call>"),
        ("generic", "a<tool_call>"),
    ],
)
def test_without_a_choice_a_call_is_impossible(name, text):
    ids = model(name).tokenizer.encode(text, add_special_tokens=False).ids
    follow(asked(model(name), tools=TOOLS, tool_choice="auto")[0], ids)
    with pytest.raises(InvalidArgumentError, match="the grammar does not allow token"):
        follow(asked(model(name), tools=TOOLS, tool_choice="none")[0], ids)


def test_special_tokens_that_are_no_markers_are_not_shown():
    form, _ = asked(model("mistral-named"))
    assert form.shows_special_tokens
    text = "[THINK]a[INST]b[/THINK][TOOL_CALLS]c[/INST]"
    answer = answer_of(form.make_reader(), text)
    assert (answer.reasoning, answer.content) == ("ab", "c")


def test_a_text_spells_no_marker_in_letters():
    """Where a marker is a token, letters do not begin a call that no grammar holds."""
    form, _ = asked(model("hermes"), tools=TOOLS)
    tokenizer = model("hermes").tokenizer
    ids = [tokenizer.encode(letter, add_special_tokens=False).ids[0] for letter in "see <tool_call>"]
    with pytest.raises(InvalidArgumentError, match="the grammar does not allow token"):
        follow(form, ids)
    follow(asked(model("hermes"), tools=TOOLS)[0], ids[:-1])
