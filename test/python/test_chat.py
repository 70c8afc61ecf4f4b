# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates against what transformers makes of them (make_chat_goldens.py), and chats with a model."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import signal
from pathlib import Path

import intarsia
import pytest
from intarsia.runtime.files import Files
from intarsia.text.chat import check_variables, open_chat_template
from intarsia.text.chat_process import _Process, renderer

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
        # transformers prints Python's list where a template does not read parts.
        if golden["text"] is None or "[{'type': 'text'" in golden["text"]:
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


def test_long_messages_of_a_template_are_cut():
    template = intarsia.ChatTemplate({"default": "{{ raise_exception('x' * 100000) }}"})
    with pytest.raises(intarsia.InvalidArgumentError, match=r"refuses these messages: x{1000} … \(100000 letters\)$"):
        template.render(HELLO)


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
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_templates_cannot_reach_out(text):
    with pytest.raises(intarsia.InvalidArgumentError, match="the chat template refuses"):
        intarsia.ChatTemplate({"default": text}).render(HELLO)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes longer than 0.2 s"),
        (
            "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(99) }}",
            "takes longer than 0.2 s",
        ),
        ("{{ lipsum(n=100000) }}", "takes longer than 0.2 s of processor time"),
        ("{{ 9**(9**9) }}", "takes longer than 0.2 s of processor time"),
        ("{{ 'a' * 300000000 }}", "takes more than 256 MiB of memory"),  # constant-folded where it is compiled
        ("{{ '%1000000000d' | format(1) }}", "takes more than 256 MiB of memory"),
        ("{{ '{:1000000000}'.format(1) }}", "takes more than 256 MiB of memory"),
        (
            "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "takes (more than 256 MiB of memory|longer than)",
        ),
        ("{% for i in range(99999) %}{{ '%1000d' | format(i) }}{% endfor %}", "is longer than 16777216 letters"),
    ],
)
def test_templates_without_an_end_are_ended(text, message, monkeypatch):
    if "0.2 s" in message:
        monkeypatch.setattr("intarsia.text.chat_process.PROCESSOR_SECONDS", 0.2)
        renderer.end()  # the next process has the new limit
    with pytest.raises(intarsia.InvalidArgumentError, match=f"the chat template .*{message}"):
        intarsia.ChatTemplate({"default": text}).render(HELLO)
    renderer.end()
    monkeypatch.undo()
    assert intarsia.ChatTemplate({"default": "{{ messages[0].content }}"}).render(HELLO) == "Hello"


def test_what_templates_leave_is_bounded():
    template = intarsia.ChatTemplate({"default": "{{ messages[0].content }}"})
    template.render(HELLO)
    process = renderer._process
    status = Path(f"/proc/{process._process.pid}/status")

    def resident_kilobytes() -> int:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read_text())[1])

    before = resident_kilobytes()
    for number in range(300):
        assert template.render(HELLO, template=f"{{{{ messages[0].content }}}}{number}") == f"Hello{number}"
    assert renderer._process is process
    assert resident_kilobytes() < before + 8192


def test_memory_that_earlier_templates_left_is_no_reason_to_refuse(monkeypatch):
    template = intarsia.ChatTemplate({"default": "{{ messages[0].content }}"})
    template.render(HELLO)
    first, ask = renderer._process, _Process.ask
    monkeypatch.setattr(_Process, "ask", lambda own, request: (b"M", "") if own is first else ask(own, request))
    assert template.render(HELLO) == "Hello"
    assert renderer._process is not first


def test_the_process_of_templates_is_replaced():
    template = intarsia.ChatTemplate({"default": "{{ messages[0].content }}"})
    assert template.render(HELLO) == "Hello"
    first = renderer._process
    os.kill(first._process.pid, signal.SIGKILL)
    first._process.wait()
    assert template.render(HELLO) == "Hello"
    assert renderer._process is not first
    # A child of this process has one of its own.
    child = os.fork()
    if child == 0:
        os._exit(0 if template.render(HELLO) == "Hello" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert template.render(HELLO) == "Hello"


def test_an_interrupt_while_a_template_is_rendered(monkeypatch):
    """The reply to the interrupted request is not taken for that of the next one."""
    template = intarsia.ChatTemplate({"default": "{{ messages[0].content }}"})
    template.render(HELLO)

    def interrupted(*arguments: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_Process, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            template.render([{"role": "user", "content": "interrupted"}])
    assert template.render(HELLO) == "Hello"


@pytest.mark.parametrize("name", ["bos_token", "pad_token", "raise_exception", "range", "loop", "_x", "a b", 5])
def test_variables_replace_nothing_of_a_template(name):
    template = intarsia.ChatTemplate({"default": "{{ bos_token }}"}, {"bos_token": "<s>"})
    with pytest.raises(intarsia.InvalidArgumentError, match=f"the template variable {name!r} has "):
        template.render(HELLO, **{str(name): "x"}) if name != 5 else check_variables({5: 1}, {})


def parts_of(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ messages[0].content }}", "one\ntwo"),
        ("{{ messages[0].content | trim }}", "one\ntwo"),
        ("{{ '<' + messages[0].content + '>' }}", "<one\ntwo>"),
        ("{{ messages[0].content | tojson }}", '"one\\ntwo"'),
        ("{% if messages[0].content is string %}{{ messages[0].content }}{% endif %}", "one\ntwo"),
        ("{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}", "[one][two]"),
        ("{{ messages[0].content[1].text }}", "two"),
        ("{{ messages[0].content | map(attribute='text') | join('+') }}", "one+two"),
    ],
)
def test_contents_in_parts(text, shown):
    messages = [{"role": "user", "content": parts_of("one", "two")}]
    assert intarsia.ChatTemplate({"default": text}).render(messages) == shown
    # A string stays one, beside parts in other messages.
    mixed = "{% for m in messages %}" + text.replace("messages[0]", "m") + ";{% endfor %}"
    if "for part in" not in text and "[1]" not in text and "map" not in text:
        both = [*messages, {"role": "user", "content": "x"}]
        assert intarsia.ChatTemplate({"default": mixed}).render(both).startswith(f"{shown};")


def test_parts_that_are_no_texts():
    content = [*parts_of("what is it?"), {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [{"role": "user", "content": content}]
    walks = "{% for part in messages[0].content %}{{ part.type }} {% endfor %}"
    assert intarsia.ChatTemplate({"default": walks}).render(messages) == "text image_url "
    with pytest.raises(intarsia.InvalidArgumentError, match=r"message 0: part 1 is of type image_url, .* texts alone"):
        intarsia.ChatTemplate({"default": "{{ messages[0].content }}"}).render(messages)


@pytest.mark.parametrize("function", ["call.function", "call"])
@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("{} | tojson", '{"city": "Paris", "days": [1]}'),
        ("{}", '{"city":"Paris","days":[1]}'),
        ("'(' + {} + ')'", '({"city":"Paris","days":[1]})'),
        ("{}.city", "Paris"),
        ("{} | items | list | length", "2"),
        ("{} is mapping", "True"),
    ],
)
def test_arguments_that_are_json(function, expression, shown):
    arguments = '{"city":"Paris","days":[1]}'
    call = {"name": "f", "arguments": arguments}
    message = {"role": "assistant", "tool_calls": [{"type": "function", "function": call} if "." in function else call]}
    text = expression.format(f"{function}.arguments")
    template = intarsia.ChatTemplate(
        {"default": "{% for call in messages[0].tool_calls %}{{ " + text + " }}{% endfor %}"}
    )
    assert template.render([message]) == shown
    assert call["arguments"] == arguments  # the user's own object


@pytest.mark.parametrize("name", ["text", "_text", "value"])
def test_arguments_of_any_name(name):
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": f'{{"{name}": "x"}}'}}]}
    text = "{{ messages[0].tool_calls[0].function.arguments." + name + " }}"
    assert intarsia.ChatTemplate({"default": text}).render([message]) == "x"


@pytest.mark.parametrize("arguments", ["{", "5", '"x"', "[1]", "[" * 100000])
def test_arguments_that_are_no_object_stay_texts(arguments):
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    text = "{{ messages[0].tool_calls[0].function.arguments }}"
    assert intarsia.ChatTemplate({"default": text}).render([message]) == arguments


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
    for messages, message in (("Hello", "messages are of type str"), ({}, "messages are of type dict")):
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            template.render(messages)
    with pytest.raises(intarsia.InvalidArgumentError, match="tools are of type str, must be a list"):
        template.render(HELLO, tools="x")
    with pytest.raises(intarsia.InvalidArgumentError, match="template is of type int, must be a name or a text"):
        template.render(HELLO, template=5)
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
    assert generator.encode_chat(messages, template_variables=variables) == ids
    answer = generator.chat(messages, 12, template_variables=variables)
    assert answer == generator.generate(ids, 12)[0]
    assert "".join(generator.stream(generator.encode_chat(messages, template_variables=variables), 12)) == answer.text
    for name in ("messages", "tools", "template", "add_generation_prompt", "documents"):
        with pytest.raises(intarsia.InvalidArgumentError, match=f"the template variable '{name}' has a name"):
            generator.chat(messages, 12, template_variables={name: []})
    with pytest.raises(intarsia.InvalidArgumentError, match="template variables are of type list, must be a mapping"):
        generator.chat(messages, 12, template_variables=["x"])
    sampled = generator.chat(messages, 12, template_variables=variables, temperature=0.9, seed=3)
    assert sampled == generator.generate(ids, 12, temperature=0.9, seed=3)[0] != answer


def test_models_that_are_none_for_chats(glossary_artifact, wordless_artifact):
    with pytest.raises(intarsia.InvalidArgumentError, match="the model has no chat template: it continues texts"):
        intarsia.Generator(glossary_artifact, tokenizer=MODEL).chat(HELLO)
    with pytest.raises(intarsia.InvalidArgumentError, match="a chat needs a tokenizer"):
        intarsia.Generator(wordless_artifact, chat_template="x").chat(HELLO)
