# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that are refused: each by the field that is wrong, before anything is computed."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from serve_client import Client, served, writes

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
PLAIN = {"model": "tiny", "prompt": "Hi", "max_tokens": 4}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(writes("ok"), context=64, max_body_bytes=100_000) as client:
        yield client
        # None of all this has left anything, and the server goes on.
        assert client.json(CHAT, HELLO)["choices"][0]["message"]["content"] == "ok"
        assert client.is_idle()


WRONG_FIELDS: list[tuple[str, Any, str]] = [
    *((name, value, name) for name in ("temperature", "top_p", "presence_penalty") for value in ("1", [], {}, True, 9, -9)),
    *((name, value, name) for name in ("n", "max_tokens", "max_completion_tokens") for value in ("1", 1.5, 0, -1, 2**63)),
    *((name, value, name) for name in ("stream", "logprobs", "ignore_eos", "parallel_tool_calls") for value in (1, "yes")),
    ("seed", 2**63, "seed"), ("seed", -(2**63) - 1, "seed"), ("seed", "7", "seed"),
    ("top_k", -2, "top_k"), ("top_k", 1.5, "top_k"), ("min_p", 1.5, "min_p"), ("repetition_penalty", 0, "repetition_penalty"),
    ("stop", 7, "stop"), ("stop", [""], "stop"), ("stop", ["a", 1], "stop"), ("stop", ["x" * i for i in range(1, 30)], "stop"),
    ("logit_bias", [1], "logit_bias"), ("logit_bias", {"a": 1}, "logit_bias"), ("logit_bias", {"9999": 1}, "logit_bias"),
    ("logit_bias", {"1": 101}, "logit_bias.1"), ("logit_bias", {"1": "x"}, "logit_bias.1"),
    ("stream_options", {"include_usage": True}, "stream_options"), ("stream_options", 1, "stream_options"),
    ("top_logprobs", 3, "top_logprobs"), ("top_logprobs", 99, "top_logprobs"),
    ("messages", [], "messages"), ("messages", "Hi", "messages"), ("messages", ["Hi"], "messages[0]"),
    ("messages", [{"role": "user"}], "messages[0].content"), ("messages", [{"content": "a"}], "messages[0].role"),
    ("messages", [{"role": "boss", "content": "a"}], "messages[0].role"),
    ("messages", [{"role": "user", "content": 7}], "messages[0].content"),
    ("messages", [{"role": "user", "content": ["a"]}], "messages[0].content[0]"),
    ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
    ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ("messages", [{"role": "user", "content": "a", "mood": "good"}], "messages[0].mood"),
    ("messages", [{"role": "tool", "content": "a"}], "messages[0].tool_call_id"),
    ("tools", [{"type": "function"}], "tools[0].function"), ("tools", 7, "tools"), ("tools", [{"type": "x"}], "tools[0].type"),
    ("tools", [{"type": "function", "function": {"name": "a b"}}], "tools[0].function.name"),
    ("tool_choice", "auto", "tool_choice"), ("tool_choice", "sometimes", "tool_choice"), ("tool_choice", 7, "tool_choice"),
    ("response_format", "json", "response_format"), ("response_format", {"type": "xml"}, "response_format.type"),
    ("reasoning_effort", "huge", "reasoning_effort"), ("chat_template_kwargs", [], "chat_template_kwargs"),
    ("cache_salt", 7, "cache_salt"), ("priority", "high", "priority"), ("min_tokens", 99, "max_tokens"),
    ("functions", [{}], "functions"), ("audio", {}, "audio"), ("modalities", ["audio"], "modalities"),
    ("chat_template", "{{ 1 }}", "chat_template"), ("frobnicate", 1, "frobnicate"), ("model", 7, "model"),
    ("stop_token_ids", [9999], "stop_token_ids[0]"), ("stop_token_ids", [True], "stop_token_ids[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "param"), WRONG_FIELDS, ids=[f"{n}-{v!r:.20}" for n, v, _ in WRONG_FIELDS])
def test_wrong_field_of_a_chat(client: Client, name: str, value: Any, param: str) -> None:
    if (name, param) == ("min_tokens", "max_tokens"):
        error = client.error(CHAT, {**HELLO, "min_tokens": 9, "max_tokens": 3})
        assert error["param"] == "min_tokens"
        return
    error = client.error(CHAT, {**HELLO, name: value})
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"), ({"prompt": 7}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt"),
        ({"prompt": {}}, "prompt"), ({"prompt": [1, "a"]}, "prompt[1]"), ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [10**30]}, "prompt[0]"), ({"prompt": [[1], [-1]]}, "prompt[1][0]"), ({"prompt": ""}, "prompt"),
        ({"suffix": "x"}, "suffix"), ({"best_of": 3}, "best_of"), ({"logprobs": 21}, "logprobs"), ({"echo": 1}, "echo"),
        ({"logprobs": True}, "logprobs"), ({"max_tokens": 0}, "max_tokens"), ({"messages": []}, "messages"),
    ],
)  # fmt: skip
def test_wrong_field_of_a_completion(client: Client, fields: dict[str, Any], param: str) -> None:
    assert client.error(COMPLETION, {**PLAIN, **fields})["param"] == param


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None), (b"{", None), (b"[]", None), (b"7", None), (b'{"model": "tiny"} x', None), (b"\xff\xfe", None),
        (b'{"model": "tiny", "prompt": "\xc3"}', None), (b'{"model": "a", "model": "b"}', "model"),
        (b'{"model": "tiny", "temperature": NaN}', "temperature"), (b'{"model": "tiny", "temperature": 1e999}', "temperature"),
        (b'{"model": "tiny", "temperature": -Infinity}', "temperature"), (b'{"model": "tiny", "stop": [NaN]}', None),
        (b'{"model": "tiny", "logit_bias": {"1": 1e999}}', "1"), (b'{"model": "tiny", "prompt": "a\x00b"}', None),
        (b'{"model": "tiny", "prompt": "a\\u0000b"}', "prompt"), (b'{"model": "tiny", "prompt": "a\\ud800b"}', "prompt"),
        (b'{"model": "tiny", "messages": [{"role": "user", "content": "\\udc00"}]}', "messages[0].content"),
        (b'{"model": "tiny", "metadata": {"a\\ud800": 1}}', "metadata"),
        (b'{"model": "tiny", "seed": ' + b"9" * 5000 + b"}", None),
        (b'{"model": "tiny", "x": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", None),
        (b'{"model": "tiny", "x": ' + b"[" * 100 + b"]" * 100 + b"}", None),
        (b'{"x": ' + b'{"x": ' * 10_000 + b"1" + b"}" * 10_001, None),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_wrong_json(client: Client, body: bytes, param: str | None) -> None:
    error = client.error(COMPLETION, body)
    assert error["param"] == param


def test_body_over_the_limit(client: Client) -> None:
    body = b'{"model": "tiny", "prompt": "' + b"a" * 2_000_000 + b'"}'
    assert client.error(CHAT, body, 413)["code"] == "request_too_large"
    # Who does not say how much will come is stopped where it is too much.
    parts = (body[begin : begin + 50_000] for begin in range(0, len(body), 50_000))
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.request("POST", CHAT, parts, {"content-type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_prompt_over_the_context_has_both_numbers(client: Client) -> None:
    for path, body, param in ((COMPLETION, {**PLAIN, "prompt": [1] * 64}, "prompt"),
                              (CHAT, {"model": "tiny", "messages": [{"role": "user", "content": "x" * 61}]}, "messages")):  # fmt: skip
        error = client.error(path, body)
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert error["message"].count("64") == 2
    error = client.error(COMPLETION, {**PLAIN, "prompt": [1] * 60, "max_tokens": 5})
    assert (error["code"], error["param"]) == ("context_length_exceeded", "max_tokens")
    assert "60" in error["message"]
    assert "64" in error["message"]
    assert len(client.engine.submitted) == 0 or len(client.engine.submitted[-1].prompt) < 60
    client.json(COMPLETION, {**PLAIN, "prompt": [1] * 60, "max_tokens": 4})


def test_request_that_needs_more_pages_than_there_are() -> None:
    with served(writes("ok"), engine={"pages": 2}) as client:
        error = client.error(COMPLETION, {**PLAIN, "prompt": [1] * 40})
        assert "3 pages, there are 2" in error["message"]
        client.json(COMPLETION, PLAIN)


def test_what_there_is_not(client: Client) -> None:
    assert client.error("/v1/nothing", None, 404)["type"] == "not_found_error"
    assert client.error(CHAT, None, 405)["type"] == "invalid_request_error"
    assert client.error("/v1/models/other", None, 404)["code"] == "model_not_found"
    assert client.error(CHAT, {**HELLO, "model": "other"}, 404)["param"] == "model"
    assert client.error("/v1/embeddings", {"model": "tiny", "input": "a"})["param"] == "model"
    assert client.error(CHAT, b"a=1", 415, headers={"content-type": "application/x-www-form-urlencoded"})


def test_unknown_fields_may_be_ignored() -> None:
    with served(writes("ok"), ignores_unknown=True) as client:
        client.json(CHAT, {**HELLO, "frobnicate": 1})


def test_templates_that_explode_are_refused_in_time() -> None:
    template = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with served(writes("ok"), template=template) as client:
        error = client.error(CHAT, HELLO)
        assert error["param"] == "messages"
        assert "processor time" in error["message"]
        client.json(COMPLETION, PLAIN)


def test_bombs_do_not_hold_up_others() -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    template = f"{{% if messages[0].content == 'bomb' %}}{loops}{{% endif %}}{{{{ messages[0].content }}}}"
    bombs = {
        "template": {**HELLO, "messages": [{"role": "user", "content": "bomb"}]},
        "regex": {**HELLO, "guided_regex": "((a{100}){100}){100}"},
        "grammar": {**HELLO, "guided_grammar": "\n".join([f'r{n}: "a" r{n + 1} | r{n + 1} "b"' for n in range(3000)])},
    }
    with served(writes("ok"), template=template) as client:
        client.json(CHAT, {**HELLO, "guided_regex": "ok"})  # what is made once
        answers: dict[str, tuple[int, float]] = {}

        def explode(name: str) -> None:
            started = time.monotonic()
            status, _, _ = client.send(CHAT, bombs[name])
            answers[name] = status, time.monotonic() - started

        threads = [threading.Thread(target=explode, args=[name]) for name in bombs]
        for thread in threads:
            thread.start()
        longest = 0.0
        while any(thread.is_alive() for thread in threads):
            started = time.monotonic()
            client.json(COMPLETION, PLAIN)
            longest = max(longest, time.monotonic() - started)
        assert {name: status for name, (status, _) in answers.items()} == dict.fromkeys(bombs, 400)
        # Each may take a second of a processor (5 s of wall time on a machine with four times as much to do).
        assert max(seconds for _, seconds in answers.values()) < 15, answers
        assert longest < 1, longest


def test_model_without_a_template_is_not_for_chats() -> None:
    with served(writes("ok"), template=None) as client:
        assert client.error(CHAT, HELLO)["code"] == "no_chat_template"


def test_template_s_own_words_are_in_the_message() -> None:
    with served(writes("ok"), template="{{ raise_exception('only users speak') }}") as client:
        assert "only users speak" in client.error(CHAT, HELLO)["message"]
