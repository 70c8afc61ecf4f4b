# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chats, responses and messages over HTTP: answers are valid by OpenAI's schemas, and streams say what whole answers say.

The models write random tokens that the form of the answer allows (random_server.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from intarsia.serve.server import Server
from random_server import NAMES, served_model, served_randomly
from serve_client import Client, running
from serve_fakes import FakeEngine
from test_serve_tools import CHOICES, SCHEMAS, TOOLS


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Say in JSON Schema what OpenAPI 3.0 says by a keyword of its own."""
    if schema.pop("nullable", False):
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


OPENAPI = json.loads((Path(__file__).resolve().parent / "openapi.json").read_text(), object_hook=nullable)
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
QUESTION = [{"role": "user", "content": "Weather in Ulm?"}]
RESPONSE_TOOLS = [{"type": "function", **tool["function"]} for tool in TOOLS]
MESSAGE_TOOLS = [{"name": name, "description": "Weather", "input_schema": schema} for name, schema in SCHEMAS.items()]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Client, dict[str, FakeEngine]]]:
    with served_randomly() as (client, engines):
        yield client, engines


@pytest.fixture
def client(served: tuple[Client, dict[str, FakeEngine]]) -> Client:
    return served[0]


@cache
def validator(name: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{name}", "components": OPENAPI["components"]}
    return jsonschema.Draft202012Validator(schema)


def check(name: str, value: Any) -> None:
    validator(name).validate(value)


def sent_events(client: Client, path: str, body: dict[str, Any]) -> list[tuple[str | None, Any]]:
    """Return names and objects of a stream's events."""
    status, headers, data = client.send(path, {**body, "stream": True})
    assert status == 200, data
    assert headers["content-type"].startswith("text/event-stream")
    events = []
    for block in data.decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append((lines.get("event"), json.loads(lines["data"]) if lines["data"] != "[DONE]" else None))
    return events


def gathered_chat(events: list[tuple[str | None, Any]]) -> dict[str, Any]:
    """Return the message that the chunks of a stream make."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": [], "finish_reason": None}
    assert events.pop() == (None, None)
    for _, chunk in events:
        check("CreateChatCompletionStreamResponse", chunk)
        for choice in chunk["choices"]:
            assert message["finish_reason"] is None, "something comes after the end"
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(message["tool_calls"]):
                    assert set(call) == {"index", "id", "type", "function"}
                    message["tool_calls"].append((call["function"]["name"], ""))
                name, arguments = message["tool_calls"][call["index"]]
                message["tool_calls"][call["index"]] = (name, arguments + call["function"]["arguments"])
            message["finish_reason"] = choice["finish_reason"]
    return message


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", NAMES)
def test_chats(client, name, choice):
    body = {"model": name, "messages": QUESTION, "tools": TOOLS, "tool_choice": CHOICES[choice], "max_tokens": 150}
    whole = client.json(CHAT, body)
    check("CreateChatCompletionResponse", whole)
    (one,) = whole["choices"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in one["message"].get("tool_calls", ())]
    assert gathered_chat(sent_events(client, CHAT, body)) == {
        "content": one["message"]["content"] or "",
        "reasoning_content": one["message"].get("reasoning_content", ""),
        "tool_calls": calls,
        "finish_reason": one["finish_reason"],
    }
    if one["finish_reason"] == "tool_calls":
        for function, arguments in calls:
            jsonschema.validate(json.loads(arguments), SCHEMAS[function])


@pytest.mark.parametrize("name", ["thinking", "harmony", "mistral-named"])
def test_tokens_of_reasoning_are_counted(client, name):
    tokenizer = client.server.models[name].tokenizer
    counted = 0
    for number in range(6):
        body = {
            "model": name,
            "messages": [{"role": "user", "content": f"{number}?"}],
            "tools": TOOLS,
            "max_tokens": 100,
        }
        body["tool_choice"] = "required"
        whole = client.json(CHAT, body)
        text = whole["choices"][0]["message"].get("reasoning_content", "")
        count = whole["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert count == len(tokenizer.encode(text, add_special_tokens=False).ids)
        counted += count
        body["stream_options"] = {"include_usage": True}
        assert sent_events(client, CHAT, body)[-2][1]["usage"] == whole["usage"]
    assert counted


def output_of(response: dict[str, Any]) -> list[Any]:
    """Return what a response consists of, without identifiers."""
    return [
        (item["type"], item.get("name"), item.get("arguments"), [part["text"] for part in item.get("content", ())])
        for item in response["output"]
    ]


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
@pytest.mark.parametrize("name", NAMES)
def test_responses(client, name, choice):
    body = {"model": name, "input": QUESTION, "tools": RESPONSE_TOOLS, "tool_choice": choice, "max_output_tokens": 150}
    whole = client.json(RESPONSES, body)
    check("Response", whole)
    events = sent_events(client, RESPONSES, body)
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    for kind, event in events:
        assert kind == event["type"]
        check("ResponseStreamEvent", event)
        if kind == "response.output_item.added":
            assert event["output_index"] == len(items)
            items.append(event["item"])
            texts.append("")
        elif kind == "response.output_item.done":
            items[event["output_index"]] = event["item"]
        elif kind.endswith(".delta"):
            assert event["item_id"] == items[-1]["id"]
            texts[event["output_index"]] += event["delta"]
        elif kind.endswith(("_text.done", "arguments.done")):
            assert event.get("text", event.get("arguments")) == texts[-1]
    assert [kind for kind, _ in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1][1]
    assert last["type"] == f"response.{whole['status']}"
    assert last["response"]["output"] == items
    assert output_of(last["response"]) == output_of(whole)
    assert last["response"]["usage"] == whole["usage"]
    if whole["status"] == "incomplete":
        assert whole["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("choice", ["none", "auto", "any"])
@pytest.mark.parametrize("name", NAMES)
def test_messages(client, name, choice):
    choice = {"type": choice}
    body = {"model": name, "messages": QUESTION, "tools": MESSAGE_TOOLS, "tool_choice": choice, "max_tokens": 150}
    whole = client.json(MESSAGES, body)
    blocks: list[dict[str, Any]] = []
    ended = 0
    keys = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
    events = sent_events(client, MESSAGES, body)
    for kind, event in events:
        assert kind == event["type"]
        if kind == "content_block_start":
            assert event["index"] == len(blocks) == ended
            blocks.append({**event["content_block"], "partial_json": ""})
        elif kind == "content_block_delta":
            key = keys[event["delta"]["type"]]
            blocks[event["index"]][key] += event["delta"][key]
        elif kind == "content_block_stop":
            assert event["index"] == ended
            ended += 1
    assert [kind for kind, _ in (events[0], events[1], events[-2], events[-1])] == [
        *("message_start", "ping", "message_delta", "message_stop"),
    ]
    assert events[-2][1]["delta"] == {key: whole[key] for key in ("stop_reason", "stop_sequence")}
    assert events[-2][1]["usage"] == whole["usage"]
    assert events[0][1]["message"]["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    for block in blocks:
        is_cut = whole["stop_reason"] == "max_tokens" and block is blocks[-1]
        if block["type"] == "tool_use" and not (is_cut and len(whole["content"]) < len(blocks)):
            block["input"] = json.loads(block["partial_json"])
            jsonschema.validate(block["input"], SCHEMAS[block["name"]])
    assert whole["stop_reason"] in ("tool_use", "max_tokens") or choice != {"type": "any"}
    if whole["stop_reason"] == "tool_use":
        assert [one["type"] for one in blocks][-1] == "tool_use"
    shown = [(one.get("text"), one.get("thinking"), one.get("input"), one.get("name")) for one in whole["content"]]
    streamed = [(one.get("text"), one.get("thinking"), one.get("input"), one.get("name")) for one in blocks]
    if whole["stop_reason"] == "max_tokens":  # a call that is cut has no arguments
        assert streamed[: len(shown)] == shown
    else:
        assert streamed == shown
    count = client.json(
        "/v1/messages/count_tokens", {key: body[key] for key in ("model", "messages", "tools", "tool_choice")}
    )
    assert count["input_tokens"] == whole["usage"]["input_tokens"]


def test_prompts_are_the_same_by_each_interface(served):
    """History with calls, reasoning and results: the three forms of a conversation are one chat."""
    client, engines = served
    arguments = {"place": "Ulm", "days": [1]}
    calls = [
        {"id": name, "type": "function", "function": {"name": "weather", "arguments": json.dumps(arguments)}}
        for name in ("call00001", "call00002")
    ]
    chat = [
        {"role": "system", "content": "Be short."},
        *QUESTION,
        {"role": "assistant", "content": "I look.", "reasoning_content": "Ulm.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call00001", "content": "rain"},
        {"role": "tool", "tool_call_id": "call00002", "content": "sun"},
        {"role": "user", "content": "And now?"},
    ]
    items = [
        *QUESTION,
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Ulm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        *(
            {"type": "function_call", "call_id": call["id"], "name": "weather", "arguments": json.dumps(arguments)}
            for call in calls
        ),
        {"type": "function_call_output", "call_id": "call00001", "output": "rain"},
        {"type": "function_call_output", "call_id": "call00002", "output": [{"type": "input_text", "text": "sun"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]
    blocks = [
        *QUESTION,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Ulm.", "signature": ""},
                {"type": "text", "text": "I look."},
                *({"type": "tool_use", "id": call["id"], "name": "weather", "input": arguments} for call in calls),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call00001", "content": "rain"},
                {"type": "tool_result", "tool_use_id": "call00002", "content": [{"type": "text", "text": "sun"}]},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]
    tools = [
        {"type": "function", "function": {"name": "weather", "description": "W", "parameters": SCHEMAS["weather"]}}
    ]
    response_tools = [{"type": "function", **tools[0]["function"]}]
    message_tools = [{"name": "weather", "description": "W", "input_schema": SCHEMAS["weather"]}]
    for name in NAMES:
        client.json(CHAT, {"model": name, "messages": chat, "tools": tools, "max_tokens": 1})
        client.json(
            RESPONSES,
            {
                "model": name,
                "instructions": "Be short.",
                "input": items,
                "tools": response_tools,
                "max_output_tokens": 1,
            },
        )
        client.json(
            MESSAGES,
            {"model": name, "system": "Be short.", "messages": blocks, "tools": message_tools, "max_tokens": 1},
        )
        prompts = {tuple(request.prompt) for request in engines[name].submitted[-3:]}
        texts = {client.server.models[name].tokenizer.decode(list(one), skip_special_tokens=False) for one in prompts}
        assert len(prompts) == 1, texts
        (text,) = texts
        assert text.index("rain") < text.index("sun")
        assert all(word in text for word in ("Be short.", "weather", "Ulm", "And now?"))
        # Arguments are JSON, not JSON in a text of JSON.
        assert '\\"place\\"' not in text


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "nobody", "content": "a"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {"type": "string"}}]}, "tools[0].parameters"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"not": {}}}}}, "text.format.schema"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 100_000}, "max_output_tokens"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"n": 2}, "n"),
    ],
    ids=range(24),
)
def test_what_responses_refuse(client, body, param):
    error = client.error(RESPONSES, {"model": "llama", "input": "Hi", **body})
    assert error["param"] == param, error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"max_tokens": None}, "max_tokens is missing"),
        ({"messages": []}, "messages has no message"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type is"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].tool_use_id is",
        ),
        ({"temperature": 1.5}, "temperature is 1.5, must be from 0 to 1"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema is missing"),
        ({"tools": [{"name": "f", "input_schema": {"type": "array"}}]}, "tools[0].input_schema is a schema of 'array'"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type is"),
        ({"tool_choice": {"type": "any"}}, "tool_choice needs tools"),
        ({"mcp_servers": [{}]}, "mcp_servers is not supported"),
        ({"stop_sequences": [""]}, "stop_sequences has an empty text"),
    ],
    ids=range(11),
)
def test_what_messages_refuse(client, body, message):
    given = {"model": "llama", "max_tokens": 10, "messages": QUESTION, **body}
    answer = client.json(MESSAGES, given, 400)
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["message"].startswith(message), answer


def test_names_in_errors_of_responses(client):
    error = client.error(RESPONSES, {"model": "llama", "input": [{"role": "user", "content": [{"type": "x"}]}]})
    assert error["message"].startswith("input[0].content[0].type is")
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    history = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, call]
    error = client.error(RESPONSES, {"model": "llama", "input": history, "max_output_tokens": 10_000})
    assert "and max_output_tokens is 10000" in error["message"]
    error = client.error(RESPONSES, {"model": "llama", "input": "Hi", "reasoning": {"effort": "low"}})
    assert error["message"].startswith("reasoning.effort is low")


def test_limits_of_responses(client):
    whole = client.json(RESPONSES, {"model": "llama", "input": "Who?", "max_output_tokens": 1})
    cut = client.json(RESPONSES, {"model": "llama", "input": "Who are you?", "max_output_tokens": 1})
    assert {whole["status"], cut["status"]} >= {"incomplete"}
    assert "max_output_tokens" in (cut["incomplete_details"] or whole["incomplete_details"])["reason"]


def test_errors_of_messages_by_status(client):
    body = {"model": "nobody", "max_tokens": 10, "messages": QUESTION}
    assert client.json(MESSAGES, body, 404)["error"]["type"] == "not_found_error"


def test_stop_sequences_and_limits_of_messages(client):
    body = {"model": "llama", "max_tokens": 100, "messages": QUESTION}
    whole = client.json(MESSAGES, {**body, "stop_sequences": ["he"]})
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", "he")
    assert whole["content"] == [{"type": "text", "text": "T"}]
    assert client.json(MESSAGES, {**body, "max_tokens": 1})["stop_reason"] in ("max_tokens", "end_turn")
    # More than the context has room for.
    assert client.json(MESSAGES, {**body, "max_tokens": 32_000})["content"]


def test_keywords_that_are_not_held_are_told(client):
    parameters = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "maxItems": 1}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    body = {"model": "hermes", "messages": QUESTION, "tools": [tool], "max_tokens": 5}
    for stream in (False, True):
        status, headers, _ = client.send(CHAT, {**body, "stream": stream})
        assert status == 200
        assert headers["x-intarsia-not-held"] == "f: #/properties/a: uniqueItems"
    tool["function"]["strict"] = True
    error = client.error(CHAT, body)
    assert error["param"] == "tools[0].function.parameters"
    assert "#/properties/a: uniqueItems" in error["message"]
    tool["function"].update(strict=False, parameters={"type": "object", "properties": {"a": {"pattern": "(?=a)"}}})
    status, headers, _ = client.send(CHAT, body)
    assert status == 200
    assert headers["x-intarsia-not-held"].startswith("f: all of its parameters (form: ")


@pytest.mark.parametrize(("reasoning", "content"), [("", "Yes"), ("Yes, or no?\n\n", "Yes"), ("Hm", "No. Yes. No.")])
def test_logprobs_of_responses_leave_reasoning_out(reasoning, content):
    known = served_model("thinking", {})
    ids = [known.tokenizer.encode(text, add_special_tokens=False).ids for text in (reasoning, content)]
    tokens = [*ids[0], known.tokenizer.token_to_id("</think>"), *ids[1], min(known.ends)]
    known.supervisor._make = lambda: FakeEngine(lambda request, sample: iter(tokens), step_seconds=0.003)
    body = {"model": "thinking", "input": "Hi", "include": ["message.output_text.logprobs"]}
    with running(Server([known])) as port:
        client = Client(None, port, [])
        whole = client.json(RESPONSES, body)["output"][-1]["content"][0]
        assert whole["text"] == content
        assert "".join(one["token"] for one in whole["logprobs"]) == content
        (last,) = [event for kind, event in sent_events(client, RESPONSES, body) if kind == "response.completed"]
        assert last["response"]["output"][-1]["content"][0] == whole
        deltas = [event for kind, event in sent_events(client, RESPONSES, body) if kind == "response.output_text.delta"]
        assert "".join(one["token"] for event in deltas for one in event["logprobs"]) == content


def test_logprobs_of_responses(client):
    body = {"model": "llama", "input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    whole = client.json(RESPONSES, body)
    check("Response", whole)
    (part,) = whole["output"][0]["content"]
    assert "".join(one["token"] for one in part["logprobs"]) == part["text"]
    deltas = [event for kind, event in sent_events(client, RESPONSES, body) if kind == "response.output_text.delta"]
    assert "".join(one["token"] for event in deltas for one in event["logprobs"]) == part["text"]
