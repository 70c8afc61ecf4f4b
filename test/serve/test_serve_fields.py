# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every field of every route gets values of other types: each is taken, or refused by name."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from intarsia.serve import chat, completions, messages, responses, tokens
from serve_client import Client, served, writes

HELLO = [{"role": "user", "content": "Hi"}]
CHAT = {"model": "tiny", "messages": HELLO, "max_tokens": 2}
MESSAGE = {"model": "tiny", "messages": HELLO, "max_tokens": 2}
#: Each route with a request that it answers, and the names of its fields.
ROUTES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "/v1/chat/completions": (CHAT, chat._NAMES),
    "/v1/completions": ({"model": "tiny", "prompt": "Hi", "max_tokens": 2}, completions._NAMES),
    "/v1/responses": (
        {"model": "tiny", "input": "Hi", "max_output_tokens": 2},
        responses._NAMES | responses._WITHOUT_EFFECT,
    ),
    "/v1/messages": (MESSAGE, messages._NAMES | messages._WITHOUT_EFFECT),
    "/v1/messages/count_tokens": (MESSAGE, messages._NAMES | messages._WITHOUT_EFFECT),
    "/tokenize": ({"model": "tiny", "prompt": "Hi"}, tokens._NAMES),
    "/detokenize": ({"model": "tiny", "tokens": [65]}, tokens._NAMES),
}
WRONG = [7, -1, 1.5, 10**30, "x", True, [], [7], [None], {}, {"a": 1}, [{"type": 7}], {"type": "x"}]
#: Nobody reads them, or what they hold is the client's.
ANY = {
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    *("verbosity", "request_id", "prompt_cache_options", "context_management", "betas", "inference_geo"),
    *("cache_control", "speed", "include_reasoning"),
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(writes("ok"), context=64) as client:
        yield client
        client.wait(client.is_idle)


def named(route: str, error: dict[str, Any]) -> str:
    """Return what an error says of the field that is wrong."""
    return error["message"] if route.startswith("/v1/messages") else str(error["param"])


def problems_of(client: Client, route: str, plain: dict[str, Any], names: set[str]) -> str:
    """Return which values of a route's fields are neither taken nor refused by name, a line each."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    problems = []
    for name in sorted(names):
        refused = 0
        for value in [None, *WRONG]:
            connection.request("POST", route, json.dumps({**plain, name: value}))
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
            if status == 200:
                continue
            refused += value is not None
            error = json.loads(data)["error"]
            is_expected = status == (404 if name == "model" and isinstance(value, str) else 400)
            if not is_expected or name not in named(route, error) or (value is None and name not in plain):
                problems.append((name, value, status, error))
        if not refused and name not in ANY and route.startswith("/v1"):
            problems.append((name, "is never refused"))
    connection.close()
    return "\n".join(map(str, problems))


@pytest.mark.parametrize("route", ROUTES)
def test_values_of_other_types(client: Client, route: str) -> None:
    assert problems_of(client, route, *ROUTES[route]) == ""


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "text",
    ['"a\\u0000b"', '"a\\ud800b"', '["\\udc00"]', '{"\\ud800": 1}', "NaN", "[-Infinity]", "1e999", '{"a": 1e999}', '{"a": 1, "a": 2}'],
)  # fmt: skip
def test_values_that_are_no_json(client: Client, route: str, text: str) -> None:
    plain, _ = ROUTES[route]
    for name in (next(name for name in plain if name != "model"), "metadata"):
        body = json.dumps({key: value for key, value in plain.items() if key != name})[:-1] + f', "{name}": {text}}}'
        status, _, data = client.send(route, body.encode())
        assert status == 400, data
        assert json.loads(data)["error"]["message"]
