# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server of completions that sleeps instead of computing.

A token takes STEP seconds, three times that while a prompt of 1,000 tokens or more is computed, twice that where a text
has a form, and a prompt 50 µs a token. The first token of a prompt says what goes wrong: 1 is refused, 2 breaks off after two tokens, 3 reports an error
in the stream, 4 ends early, 5 is written in pieces of 7 bytes with CRLF. `GET /cancelled` says how many clients left.

usage: fake_openai_server.py PORT
"""

from __future__ import annotations

import asyncio
import json
import sys

STEP = 0.004
LONG = 1000
state = {"long": 0, "cancelled": 0}


def answer(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)


async def complete(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict) -> None:
    prompt, count = body["prompt"], body["max_tokens"]
    assert body["stream"]
    assert body["ignore_eos"]
    assert body["model"] == "fake"
    kind = prompt[0]
    if kind == 1:
        return answer(writer, 400, {"error": {"message": "too long"}})
    state["long"] += len(prompt) >= LONG
    await asyncio.sleep(len(prompt) * 50e-6)
    state["long"] -= len(prompt) >= LONG
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(value: object) -> None:
        text = b"data: %s" % (value if isinstance(value, bytes) else json.dumps(value).encode())
        data = text + (b"\r\n\r\n" if kind == 5 else b"\n\n")
        size = 7 if kind == 5 else len(data)
        for at in range(0, len(data), size):
            part = data[at : at + size]
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()

    left = asyncio.create_task(reader.read(1))
    for index in range(count - (kind == 4)):
        if index:
            await asyncio.sleep(STEP * (3 if state["long"] else 1) * (2 if "structured_outputs" in body else 1))
        if left.done():
            state["cancelled"] += 1
            return None
        await chunk({"choices": [{"text": " héllo", "index": 0}], "usage": None})
        if index == 1 and kind == 2:
            return writer.close()
        if index == 1 and kind == 3:
            await chunk({"error": {"message": "out of pages"}})
    usage = {"completion_tokens": count - (kind == 4), "prompt_tokens_details": {"cached_tokens": len(prompt) // 2}}
    await chunk({"choices": [{"text": "", "finish_reason": "length"}]})
    await chunk({"choices": [], "usage": usage})
    await chunk(b"[DONE]")
    writer.write(b"0\r\n\r\n")
    left.cancel()
    return None


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Length:")), 0)
        body = await reader.readexactly(length)
        path = head.split()[1]
        if path == "/v1/completions":
            await complete(reader, writer, json.loads(body))
        else:
            values = {"/health": {}, "/v1/models": {"data": [{"id": "fake"}]}, "/cancelled": state["cancelled"]}
            answer(writer, 200, values[path])
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
