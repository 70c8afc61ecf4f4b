# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The client libraries of others against a server whose models write random tokens (random_server.py).

They are no packages of the other tests: ``pip install openai anthropic litellm langchain-openai pydantic pytest`` into an
environment of its own, start ``random_server.py PORT`` in the other one, and run ``check_clients.py PORT`` in it.
"""

from __future__ import annotations

import asyncio
import enum
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Literal, Optional, Union

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network for prices otherwise

import anthropic
import httpx
import langchain_openai
import litellm
import openai
from pydantic import BaseModel, Field

URL = f"http://127.0.0.1:{sys.argv[1]}"
OPENAI = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0, timeout=60)
ANTHROPIC = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0, timeout=60)

HELLO: list[Any] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Weather in Ulm?"}]


class Unit(enum.Enum):
    """What temperatures are in."""

    CELSIUS = "C"
    KELVIN = "K"


class Point(BaseModel):
    """A place."""

    x: float
    y: float


class Cat(BaseModel):
    """One of a union by a tag."""

    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    """The other one."""

    kind: Literal["dog"]


class Report(BaseModel):
    """What clients make a schema of."""

    place: str = Field(max_length=10, description="Where")
    unit: Unit
    days: list[int] = Field(max_length=3)
    near: Optional[Point] = None  # noqa: UP045
    pet: Union[Cat, Dog] = Field(discriminator="kind")  # noqa: UP007


PARAMETERS = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "maxLength": 10},
        "days": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["place", "days"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Weather", "parameters": PARAMETERS, "strict": True},
    },
    {"type": "function", "function": {"name": "now"}},
]
NAMED: Any = {"type": "function", "function": {"name": "weather"}}
CASES: list[tuple[str, Callable[[str], Any]]] = []


def case(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """Add a function to the cases."""
    CASES.append((check.__name__, check))
    return check


def refusal(error: type[Exception], call: Callable[..., Any], **arguments: Any) -> Any:
    """Return the body of the error that a call ends with."""
    try:
        call(**arguments)
    except error as caught:
        return caught.body
    raise AssertionError(f"{error.__name__} is not raised for {arguments}")


def is_call(name: str, arguments: str) -> bool:
    """Return True if a call is one of TOOLS."""
    value = json.loads(arguments)
    return name == "now" or (set(value) == {"place", "days"} and 0 <= value["days"] <= 9)


@case
def openai_chat(model: str) -> None:
    answer = OPENAI.chat.completions.create(model=model, messages=HELLO, max_tokens=40, seed=1, temperature=0)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@case
def openai_stream(model: str) -> None:
    arguments: dict[str, Any] = {"model": model, "messages": HELLO, "max_tokens": 40, "seed": 1}
    whole = OPENAI.chat.completions.create(**arguments)
    text, usage, reasons = "", None, []
    for chunk in OPENAI.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == whole.choices[0].message.content
    assert usage == whole.usage
    assert reasons == [whole.choices[0].finish_reason]


@case
def openai_samples_and_logprobs(model: str) -> None:
    answer = OPENAI.chat.completions.create(
        model=model, messages=HELLO, max_tokens=8, n=3, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert all(len(choice.logprobs.content) > 0 for choice in answer.choices)


@case
def openai_calls(model: str) -> None:
    for choice in ("required", NAMED, "auto", "none"):
        for parallel in (True, False):
            answer = OPENAI.chat.completions.create(
                model=model, messages=HELLO, tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel
            ).choices[0]
            calls = answer.message.tool_calls or []
            assert all(is_call(call.function.name, call.function.arguments) for call in calls)
            assert choice != "none" or not calls
            if choice in ("required", NAMED):
                assert answer.finish_reason == "tool_calls"
                assert calls
            assert parallel or len(calls) <= 1
            assert len({call.id for call in calls}) == len(calls)


@case
def openai_streamed_calls(model: str) -> None:
    with OPENAI.chat.completions.stream(
        model=model, messages=HELLO, tools=TOOLS, tool_choice="required", stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert final.finish_reason == "tool_calls"
    assert all(is_call(call.function.name, call.function.arguments) for call in final.message.tool_calls)


@case
def openai_history_with_calls(model: str) -> None:
    call = {
        "id": "call_123",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"place":"Ulm","days":1}'},
    }
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "call_456"}]},
        {"role": "tool", "tool_call_id": "call_123", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_456", "content": [{"type": "text", "text": "sun"}]},
    ]
    answer = OPENAI.chat.completions.create(model=model, messages=messages, tools=TOOLS, tool_choice="none")
    assert answer.choices[0].message.content is not None


@case
def openai_parsed_format(model: str) -> None:
    answer = OPENAI.chat.completions.parse(model=model, messages=HELLO, response_format=Report)
    assert isinstance(answer.choices[0].message.parsed, Report)
    text = OPENAI.chat.completions.create(
        model=model, messages=HELLO, response_format={"type": "json_object"}, max_tokens=99
    )
    assert text.choices[0].finish_reason == "length" or json.loads(text.choices[0].message.content) is not None


@case
def openai_allowed_tools(model: str) -> None:
    allowed: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    answer = OPENAI.chat.completions.create(model=model, messages=HELLO, tools=TOOLS, tool_choice=allowed)
    assert {call.function.name for call in answer.choices[0].message.tool_calls} == {"weather"}


@case
def openai_errors(model: str) -> None:
    for error, arguments in (
        (openai.NotFoundError, {"model": "nobody"}),
        (openai.BadRequestError, {"temperature": 9}),
        (openai.BadRequestError, {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
        (
            openai.BadRequestError,
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}}},
        ),
    ):
        given = {"model": model, "messages": HELLO, **arguments}
        assert refusal(error, OPENAI.chat.completions.create, **given)["message"]


@case
def openai_leaves_a_stream(model: str) -> None:
    stream = OPENAI.chat.completions.create(model=model, messages=HELLO, stream=True)
    next(iter(stream))
    stream.close()


@case
def openai_many_at_once(model: str) -> None:
    async def all_of_them() -> None:
        client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0, timeout=60)
        requests = (client.chat.completions.create(model=model, messages=HELLO, max_tokens=20) for _ in range(16))
        assert len(await asyncio.gather(*requests)) == 16

    asyncio.run(all_of_them())


@case
def openai_completion(model: str) -> None:
    answer = OPENAI.completions.create(model=model, prompt=["a", "b"], max_tokens=4)
    assert len(answer.choices) == 2
    pieces = OPENAI.completions.create(model=model, prompt="a", max_tokens=4, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces)


@case
def openai_models(model: str) -> None:
    assert model in {one.id for one in OPENAI.models.list()}
    assert OPENAI.models.retrieve(model).id == model


@case
def openai_response(model: str) -> None:
    answer = OPENAI.responses.create(model=model, input="Hello", instructions="Be short.", store=False)
    assert answer.status == "completed"
    assert answer.output_text
    again: list[Any] = [{"role": "user", "content": "Hello"}, *(item.to_dict() for item in answer.output)]
    assert OPENAI.responses.create(model=model, input=[*again, {"role": "user", "content": "And?"}]).output_text


@case
def openai_streamed_response(model: str) -> None:
    with OPENAI.responses.stream(model=model, input=HELLO) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text
    assert events[-1].type == "response.completed"


@case
def openai_response_with_calls(model: str) -> None:
    tools: list[Any] = [{"type": "function", **tool["function"]} for tool in TOOLS]
    with OPENAI.responses.stream(model=model, input="Ulm?", tools=tools, tool_choice="required") as stream:
        events = list(stream)
        final = stream.get_final_response()
    calls = [item for item in final.output if item.type == "function_call"]
    assert calls
    assert all(is_call(call.name, call.arguments) for call in calls)
    done = [event.arguments for event in events if event.type == "response.function_call_arguments.done"]
    assert done == [call.arguments for call in calls]
    history: list[Any] = [{"role": "user", "content": "Ulm?"}, *(item.to_dict() for item in final.output)]
    history += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    assert OPENAI.responses.create(model=model, input=history, tools=tools, tool_choice="none").output_text is not None


@case
def openai_parsed_response(model: str) -> None:
    answer = OPENAI.responses.parse(model=model, input="Ulm?", text_format=Report)
    assert isinstance(answer.output_parsed, Report)


@case
def openai_response_errors(model: str) -> None:
    for arguments in (
        {"previous_response_id": "resp_1"},
        {"store": True},
        {"input": []},
        {"tools": [{"type": "web_search"}]},
    ):
        given = {"model": model, "input": "a", **arguments}
        body = refusal(openai.BadRequestError, OPENAI.responses.create, **given)
        assert body["param"].startswith(next(iter(arguments)))


@case
def anthropic_message(model: str) -> None:
    answer = ANTHROPIC.messages.create(
        model=model, max_tokens=50, system="Short.", messages=[{"role": "user", "content": "Hi"}]
    )
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.content[-1].type == "text"
    assert answer.usage.input_tokens > 0


ANTHROPIC_TOOLS: list[Any] = [{"name": "weather", "description": "Weather", "input_schema": PARAMETERS}]


@case
def anthropic_stream(model: str) -> None:
    with ANTHROPIC.messages.stream(model=model, max_tokens=50, messages=[{"role": "user", "content": "Hi"}]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "".join(block.text for block in final.content if block.type == "text")
    assert final.usage.output_tokens > 0
    assert final.usage.input_tokens > 0


@case
def anthropic_calls(model: str) -> None:
    for choice in (
        {"type": "any"},
        {"type": "tool", "name": "weather"},
        {"type": "any", "disable_parallel_tool_use": True},
    ):
        arguments: dict[str, Any] = {
            "model": model,
            "max_tokens": 32_000,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Ulm?"}]}],
            "tools": ANTHROPIC_TOOLS,
            "tool_choice": choice,
        }
        with ANTHROPIC.messages.stream(**arguments) as stream:
            streamed = stream.get_final_message()
        for answer in (ANTHROPIC.messages.create(**arguments), streamed):
            calls = [block for block in answer.content if block.type == "tool_use"]
            assert answer.stop_reason == "tool_use"
            assert calls
            assert all(set(call.input) == {"place", "days"} for call in calls)
            assert len(calls) == 1 or "disable_parallel_tool_use" not in choice
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "rain"}]} for call in calls
    ]
    messages = [
        *arguments["messages"],
        {"role": "assistant", "content": streamed.content},
        {"role": "user", "content": results},
    ]
    arguments.update(messages=messages, tool_choice={"type": "none"})
    assert ANTHROPIC.messages.create(**arguments).stop_reason in ("end_turn", "max_tokens")


@case
def anthropic_counts_tokens(model: str) -> None:
    messages: Any = [{"role": "user", "content": "Hi"}]
    count = ANTHROPIC.messages.count_tokens(model=model, messages=messages, tools=ANTHROPIC_TOOLS)
    assert count.input_tokens > 5


@case
def anthropic_thinking(model: str) -> None:
    ANTHROPIC.messages.create(
        model=model,
        max_tokens=2000,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[{"role": "user", "content": "Hi"}],
    )


@case
def anthropic_errors(model: str) -> None:
    for error, arguments in (
        (anthropic.NotFoundError, {"model": "nobody"}),
        (anthropic.BadRequestError, {"extra_body": {"temperature": 2}}),
        (anthropic.BadRequestError, {"messages": []}),
        (anthropic.BadRequestError, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ):
        given = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **arguments}
        body = refusal(error, ANTHROPIC.messages.create, **given)
        assert body["type"] == "error"
        assert body["error"]["type"] in ("not_found_error", "invalid_request_error")


@case
def litellm_chat_and_stream(model: str) -> None:
    for name, base in (
        (f"openai/{model}", f"{URL}/v1"),
        (f"hosted_vllm/{model}", f"{URL}/v1"),
        (f"anthropic/{model}", URL),
    ):
        arguments: dict[str, Any] = {
            "model": name,
            "api_base": base,
            "api_key": "none",
            "messages": HELLO,
            "max_tokens": 30,
        }
        answer = litellm.completion(**arguments)
        assert answer.choices[0].message.content is not None
        reasons = []
        for chunk in litellm.completion(**arguments, stream=True):
            reasons += [choice.finish_reason for choice in chunk.choices if choice.finish_reason]
        assert len(reasons) == 1


@case
def litellm_calls(model: str) -> None:
    for name, base in ((f"openai/{model}", f"{URL}/v1"), (f"anthropic/{model}", URL)):
        for stream in (False, True):
            answer = litellm.completion(
                model=name,
                api_base=base,
                api_key="none",
                messages=HELLO,
                tools=TOOLS[:1],
                tool_choice="required",
                parallel_tool_calls=False,
                max_tokens=500,
                stream=stream,
            )
            if stream:
                answer = litellm.stream_chunk_builder(list(answer))
            calls = answer.choices[0].message.tool_calls
            assert calls
            assert all(is_call(call.function.name, call.function.arguments) for call in calls)


@case
def litellm_response(model: str) -> None:
    answer = litellm.responses(model=f"openai/{model}", api_base=f"{URL}/v1", api_key="none", input="Hi")
    assert answer.status == "completed"


@case
def langchain_chat(model: str) -> None:
    for more in ({}, {"use_responses_api": True}):
        chat = langchain_openai.ChatOpenAI(model=model, base_url=f"{URL}/v1", api_key="none", max_retries=0, **more)
        assert chat.invoke("Hi").content is not None
        pieces = list(chat.stream("Hi"))
        assert any(piece.usage_metadata for piece in pieces) or not more
        bound = chat.bind_tools(TOOLS[:1], tool_choice="weather")
        assert bound.invoke("Ulm?").tool_calls[0]["name"] == "weather"
        gathered: Any = None
        for piece in bound.stream("Ulm?"):
            gathered = piece if gathered is None else gathered + piece
        assert set(gathered.tool_calls[0]["args"]) == {"place", "days"}
        for method in ("json_schema", "function_calling"):
            assert isinstance(chat.with_structured_output(Report, method=method).invoke("Ulm?"), Report)


@case
def raw_events_end(model: str) -> None:
    body = {"model": model, "messages": HELLO, "stream": True, "max_tokens": 5}
    with httpx.stream("POST", f"{URL}/v1/chat/completions", json=body) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


def main() -> int:
    """Run all cases with all models; print those that fail."""
    models = [one.id for one in OPENAI.models.list()]
    wanted = sys.argv[2:]
    failures = 0
    for name, check in CASES:
        if wanted and not any(part in name for part in wanted):
            continue
        failed = []
        for model in models:
            try:
                check(model)
            except Exception as error:
                failed.append(model)
                if len(failed) == 1 or wanted:
                    frame = traceback.extract_tb(error.__traceback__)
                    where = next((one.lineno for one in frame if one.filename == __file__ and one.name == name), 0)
                    print(f"    {name}, {model}, line {where}: {type(error).__name__}: {str(error)[:500]}")
        failures += bool(failed)
        print(
            f"{name}: {f'fails with {len(failed)} of {len(models)}: ' + ', '.join(failed) if failed else 'ok'}",
            flush=True,
        )
    print(f"{failures} of {len(CASES)} cases fail")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
