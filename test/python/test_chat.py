# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates against what transformers makes of them (make_chat_goldens.py), and chats with a model."""

from __future__ import annotations

import contextlib
import datetime
import json
from pathlib import Path

import intarsia
import pytest
from intarsia._chat import open_chat_template
from intarsia._files import Files

CHAT = Path(__file__).resolve().parent / "chat"
MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
CASES = json.loads((CHAT / "cases.json").read_text())
GOLDENS = json.loads((CHAT / "goldens.json").read_text())
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("name", sorted({golden["template"] for golden in GOLDENS}))
def test_as_transformers(name):
    template = intarsia.ChatTemplate({"default": (CHAT / name).read_text()}, CASES["special_tokens"])
    compared = 0
    for golden in GOLDENS:
        if golden["template"] != name:
            continue
        chat = CASES["chats"][golden["chat"]]
        settings = {k: CASES[k] if k in ("documents", "tools") else v for k, v in golden["settings"].items()}
        if golden["text"] is None:
            with pytest.raises(intarsia.InvalidArgumentError, match="the chat template refuses these messages"):
                template.render(chat, **settings)
        else:
            assert template.render(chat, **settings) == golden["text"], (golden["chat"], golden["settings"])
            compared += 1
    assert compared >= 10


def test_the_templates_own_message_is_shown():
    template = intarsia.ChatTemplate({"default": (CHAT / "turns.jinja").read_text()}, CASES["special_tokens"])
    with pytest.raises(intarsia.InvalidArgumentError, match="Roles must take turns: user, assistant"):
        template.render(CASES["chats"]["two users"])


def test_date_of_today():
    template = intarsia.ChatTemplate({"default": "{{ strftime_now('%Y-%m-%d') }}"})
    before = datetime.date.today()
    assert before.isoformat() <= template.render(HELLO) <= datetime.date.today().isoformat()


def test_templates_by_name():
    template = intarsia.ChatTemplate({"default": "one", "tool_use": "two", "rag": "three"})
    assert template.render(HELLO) == "one"
    assert template.render(HELLO, tools=CASES["tools"]) == "two"
    assert template.render(HELLO, template="rag") == "three"
    assert template.render(HELLO, template="{{ messages[0].content }}!") == "Hello!"
    with pytest.raises(intarsia.InvalidArgumentError, match="no chat template is the default one; name one of rag"):
        intarsia.ChatTemplate({"rag": "three"}).render(HELLO)


@pytest.mark.parametrize(
    "text",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ namespace(__init__=1) }}",
        "{% set n = namespace() %}{% set n._x = 1 %}",
        "{{ dict.__class__.__base__ }}",
        "{{ namespace.__init__.__globals__['json'] }}",
        "{% for i in range(999999999) %}{% endfor %}",
    ],
)
def test_templates_cannot_reach_out(text):
    with pytest.raises(intarsia.InvalidArgumentError, match="the chat template refuses"):
        intarsia.ChatTemplate({"default": text}).render(HELLO)


def test_objects_are_not_shown_to_templates():
    template = intarsia.ChatTemplate({"default": "{{ messages[0].content }} {{ x.write_text is defined }}"})
    assert template.render([{"role": "user", "content": CHAT}], x=CHAT) == "<PosixPath> False"


def test_wrong_templates_and_messages():
    with pytest.raises(intarsia.InvalidArgumentError, match="the chat template is wrong at line 2: "):
        intarsia.ChatTemplate({"default": "\n{% for %}"}).render(HELLO)
    template = intarsia.ChatTemplate({"default": "x"})
    with pytest.raises(intarsia.InvalidArgumentError, match="a chat has no messages"):
        template.render([])
    with pytest.raises(intarsia.InvalidArgumentError, match="message 1 is of type str, must be a mapping"):
        template.render([*HELLO, "Hello"])
    with pytest.raises(intarsia.InvalidArgumentError, match=r"a tool is of type .*, must be the JSON schema"):
        template.render(HELLO, tools=[print])


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 10000 + "1" + ")" * 10000 + " }}",
        "{% if x %}" * 2000 + "{% endif %}" * 2000,
        "{% for x in y %}" * 25 + "{% endfor %}" * 25,
        "{{ " + "-" * 20000 + "1 }}",
        "{{ 'a'" + " ~ 'a'" * 20000 + " }}",
    ],
    ids=["parentheses", "conditions", "loops", "signs", "concatenations"],
)
def test_deep_templates_end_or_are_refused(text):
    with contextlib.suppress(intarsia.InvalidArgumentError):
        intarsia.ChatTemplate({"default": text}).render(HELLO)


def test_deep_messages_are_refused():
    content: list[object] = []
    for _ in range(100000):
        content = [content]
    with pytest.raises(intarsia.InvalidArgumentError, match="refuses these messages: maximum recursion depth"):
        intarsia.ChatTemplate({"default": "x"}).render(HELLO, documents=content)
    while content:  # a list of lists is freed by recursion
        content = content[0]


def write(folder: Path, **files: object) -> None:
    for name, value in files.items():
        path = folder / name.replace("__", "/").replace("_jinja", ".jinja").replace("_json", ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_files_of_a_model(tmp_path):
    assert open_chat_template(Files(tmp_path)) is None
    token = {"__type": "AddedToken", "content": "</s>", "special": True}
    config = {"bos_token": "<s>", "eos_token": token, "pad_token": None, "chat_template": "{{ bos_token }}config"}
    write(tmp_path, tokenizer_config_json=config, special_tokens_map_json={"unk_token": {"content": "?"}})
    template = open_chat_template(Files(tmp_path))
    assert template.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "?"}
    assert template.render(HELLO) == "<s>config"

    config["chat_template"] = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    write(tmp_path, tokenizer_config_json=config)
    assert open_chat_template(Files(tmp_path)).templates == {"default": "a", "tool_use": "b"}

    write(tmp_path, chat_template_json={"chat_template": "legacy"})
    assert open_chat_template(Files(tmp_path)).render(HELLO) == "legacy"

    write(tmp_path, chat_template_jinja="file", additional_chat_templates__rag_jinja="rag")
    assert open_chat_template(Files(tmp_path)).templates == {"default": "file", "rag": "rag"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "tokenizer_config.json: Expecting"),
        ("[]", "tokenizer_config.json: is a list, must be an object"),
        ("[" * 100000, "tokenizer_config.json: is nested too deep"),
        ("[" + "9" * 5000 + "]", "tokenizer_config.json: Exceeds the limit"),
        ('{"chat_template": 5}', "chat_template is neither a text nor a list of names"),
        ('{"chat_template": [{"name": "default"}]}', "chat_template is neither a text nor a list of names"),
        ('{"chat_template": [{"name": 5, "template": "x"}]}', "chat_template is neither a text nor a list of names"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, message):
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        open_chat_template(Files(tmp_path))


def test_chat_is_generation_after_the_rendered_text(glossary_artifact):
    template = "{% for message in messages %}{{ message.content }}{% endfor %}{{ end }}"
    generator = intarsia.Generator(glossary_artifact, tokenizer=MODEL, chat_template=template)
    assert isinstance(generator.chat_template, intarsia.ChatTemplate)
    messages = [{"role": "user", "content": "violin"}, {"role": "user", "content": " (noun)"}]
    variables = {"end": ":"}
    # As transformers: the template has the last word on what a text begins with.
    ids = generator.tokenizer.encode("violin (noun):", add_special_tokens=False).ids
    assert generator.encode_chat(messages, **variables) == ids
    answer = generator.chat(messages, 12, template_variables=variables)
    assert answer == generator.generate(ids, 12)[0]
    assert "".join(generator.stream(generator.encode_chat(messages, **variables), 12)) == answer.text
    sampled = generator.chat(messages, 12, template_variables=variables, temperature=0.9, seed=3)
    assert sampled == generator.generate(ids, 12, temperature=0.9, seed=3)[0] != answer


def test_models_that_are_none_for_chats(glossary_artifact, wordless_artifact):
    with pytest.raises(intarsia.InvalidArgumentError, match="the model has no chat template: it continues texts"):
        intarsia.Generator(glossary_artifact, tokenizer=MODEL).chat(HELLO)
    with pytest.raises(intarsia.InvalidArgumentError, match="a chat needs a tokenizer"):
        intarsia.Generator(wordless_artifact, chat_template="x").chat(HELLO)
