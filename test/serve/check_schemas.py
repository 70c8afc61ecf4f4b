# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that schemathesis makes of OpenAI's schemas: no answer is a 5xx, and none is outside of the schemas.

As for check_clients.py: ``pip install schemathesis`` elsewhere, then ``check_schemas.py PORT [EXAMPLES]``. What the random
requests ask for is mostly refused; each example is tried a second time with the fields that keep it from an answer
replaced.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

URL = f"http://127.0.0.1:{sys.argv[1]}"
EXAMPLES = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
FILE = Path(__file__).resolve().parent / "openapi.json"


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Say in JSON Schema what OpenAPI 3.0 says by a keyword of its own."""
    return {"anyOf": [schema, {"type": "null"}]} if schema.pop("nullable", False) else schema


DOCUMENT = json.loads(FILE.read_text(), object_hook=nullable)
#: What the answers of each path are valid by; the events of a stream.
PATHS = {
    "/chat/completions": ("CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"),
    "/completions": ("CreateCompletionResponse", "CreateCompletionResponse"),
    "/responses": ("Response", "ResponseStreamEvent"),
    "/embeddings": ("CreateEmbeddingResponse", ""),
}


def check(name: str, value: Any) -> None:
    """Refuse a value that is not valid by a schema."""
    jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})


def check_answer(path: str, answer: httpx.Response) -> str:
    """Refuse an answer that is none; return what kind it is."""
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        check("ErrorResponse", answer.json())
        return str(answer.status_code)
    whole, chunk = PATHS[path]
    if not answer.headers["content-type"].startswith("text/event-stream"):
        check(whole, answer.json())
        return "200"
    blocks = [block for block in answer.text.split("\n\n") if block]
    for block in blocks:
        (data,) = (line[6:] for line in block.split("\n") if line.startswith("data: "))
        if data != "[DONE]":
            value = json.loads(data)
            assert "error" not in value or value["error"] is None, value
            check(chunk, value)
    return "stream"


def made_easy(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a request of which more is computed: with a model that there is, and without what is refused by name."""
    known = {
        *("temperature", "top_p", "n", "seed", "presence_penalty", "frequency_penalty", "stream", "user", "metadata"),
        *("parallel_tool_calls", "max_tokens", "max_completion_tokens", "max_output_tokens", "instructions", "echo"),
        *(
            "prompt",
            "input",
            "messages",
            "tools",
            "tool_choice",
            "response_format",
            "text",
            "reasoning",
            "encoding_format",
        ),
    }
    easy = {key: value for key, value in body.items() if key in known}
    easy["model"] = MODELS[len(json.dumps(body)) % len(MODELS)]
    if isinstance(easy.get("n"), int):
        easy["n"] = easy["n"] % 4 + 1
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(easy.get(name), int):
            easy[name] = easy[name] % 40 + 1
    if path == "/responses":
        easy["input"] = easy["input"] if isinstance(easy.get("input"), str) else "Weather?"
        tools = easy.get("tools")
        tools = tools if isinstance(tools, list) else []
        easy["tools"] = [
            {**tool, "name": f"f{number}"} for number, tool in enumerate(tools) if tool.get("type") == "function"
        ]
        for name in ("tool_choice", "reasoning", "metadata"):
            easy.pop(name, None)
    return easy


MODELS: list[str] = [one["id"] for one in httpx.get(f"{URL}/v1/models").json()["data"]]
SEEN: Counter[tuple[str, str]] = Counter()


def failures_of(client: httpx.Client, operation: Any, examples: int) -> list[str]:
    """Send examples of an operation; return what is wrong about their answers."""
    failures: list[str] = []

    @seed(1)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        bodies = [case.body]
        if isinstance(case.body, dict):
            bodies.append(made_easy(operation.path, case.body))
        for body in bodies:
            try:
                data = json.dumps(body).encode()
            except (TypeError, ValueError):  # no JSON at all
                continue
            try:
                answer = client.post(operation.path[1:], content=data, headers={"content-type": "application/json"})
                SEEN[operation.path, check_answer(operation.path, answer)] += 1
            except Exception as error:
                failures.append(f"{operation.path}: {str(error)[:600]}\n    {data[:1000]!r}")

    send()
    return failures


def main() -> int:
    """Send the examples; print what came of them."""
    api = schemathesis.openapi.from_dict(json.loads(FILE.read_text()))
    client = httpx.Client(base_url=f"{URL}/v1", timeout=60)
    failures: list[str] = []
    operations = [one.ok() for one in api.get_all_operations()]
    operations = [one for one in operations if one.path in PATHS and one.method.upper() == "POST"]
    examples = EXAMPLES // len(operations) // 2
    for operation in operations:
        failures += failures_of(client, operation, examples)
    for (path, kind), count in sorted(SEEN.items()):
        print(f"{path}: {count} × {kind}")
    for failure in failures[:20]:
        print(failure)
    print(f"{sum(SEEN.values())} answers, {len(failures)} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
