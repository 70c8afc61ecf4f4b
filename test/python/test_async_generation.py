# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts that are generated at the same time, in event loops and threads: those that each call gives alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import intarsia
import pytest
from intarsia.generation.engine import CANCELLED

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
TEMPLATE = "{% for message in messages %}{{ message['content'] }} (noun):{% endfor %}"
PROMPTS = ["violin (noun):", "run (verb):", "red (adjective):", "slowly (adverb):"]


@pytest.fixture(scope="module")
def generator(glossary_artifact):
    return intarsia.Generator(glossary_artifact, tokenizer=MODEL, chat_template=TEMPLATE)


async def streamed(generator: intarsia.Generator, prompt: str, max_tokens: int, **options) -> str:
    return "".join([piece async for piece in generator.stream_async(prompt, max_tokens, **options)])


def test_several_at_once(generator, glossary_artifact):
    """Also with forms, stop strings and drafts beside one another."""
    options = [
        {},
        {"temperature": 1.0, "seed": 3},
        {"regex": "[a-z ]{20}"},
        {"draft": glossary_artifact, "draft_tokens": 3},
        {"stop": " of"},
    ]
    message = [{"role": "user", "content": "violin"}]
    expected = [generator.generate(PROMPTS, 30, **each) for each in options]
    streams = ["".join(generator.stream(PROMPTS[1], 30, **each)) for each in options]
    answer = generator.chat(message, 30)

    async def together():
        return await asyncio.gather(
            *(generator.generate_async(PROMPTS, 30, **each) for each in options),
            *(streamed(generator, PROMPTS[1], 30, **each) for each in options),
            generator.chat_async(message, 30),
        )

    steps = generator.engine.stats()["steps"]
    *results, chat = asyncio.run(together())
    # Drafts check several tokens in one step: the texts agree but for the last bits of logprobs.
    for given, wanted in zip(results[: len(options)], expected, strict=True):
        assert [(each.ids, each.text, each.finish_reason) for each in given] == [
            (each.ids, each.text, each.finish_reason) for each in wanted
        ]
    assert results[len(options) :] == streams
    assert chat.text == answer.text
    # They were computed together: alone, the longest text of each call takes 30 steps.
    assert generator.engine.stats()["steps"] - steps < 100


def test_cancelled_tasks_and_closed_iterators_end_their_requests(generator):
    before = generator.engine.stats()["finished"][CANCELLED]

    async def begin_and_leave():
        stream = generator.stream_async("violin (noun):", 800, min_tokens=800)
        await anext(stream)
        await stream.aclose()
        tasks = [
            asyncio.create_task(generator.generate_async(PROMPTS, 800, min_tokens=800)),
            asyncio.create_task(streamed(generator, "run (verb):", 800, min_tokens=800)),
        ]
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2

    asyncio.run(begin_and_leave())
    stream = generator.stream("violin (noun):", 800, min_tokens=800)
    next(stream)
    stream.close()
    generator.generate("red (adjective):", 2)
    stats = generator.engine.stats()
    assert stats["finished"][CANCELLED] - before == 1 + len(PROMPTS) + 1 + 1
    assert (stats["running"], stats["waiting"]) == (0, 0)
    assert stats["free_pages"] == stats["pages"]


def test_event_loops_and_threads_at_the_same_time(generator):
    expected = [generator.generate(prompt, 25)[0].ids for prompt in PROMPTS]
    found: dict[int, list] = {}

    def work(number: int) -> None:
        if number % 2:
            found[number] = [generator.generate(PROMPTS[number % 4], 25)[0].ids for _ in range(3)]
            return

        async def some() -> list:
            return await asyncio.gather(*(generator.generate_async(PROMPTS[number % 4], 25) for _ in range(3)))

        found[number] = [result.ids for (result,) in asyncio.run(some())]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [expected[number % 4]] * 3 for number in range(8)}


def test_errors_come_to_those_who_asked(generator):
    async def several():
        return await asyncio.gather(
            generator.generate_async("violin", 5),
            generator.generate_async("violin", 5, temperature=-1),
            generator.generate_async([0] * 2000, 5),
            return_exceptions=True,
        )

    good, cold, long = asyncio.run(several())
    assert good[0].ids == generator.generate("violin", 5)[0].ids
    assert isinstance(cold, intarsia.InvalidArgumentError)
    assert "a prompt has 2000 tokens" in str(long)
    generator = intarsia.Generator(generator.module, cache=1 << 20)
    pages = generator.engine.info["pages"]
    with pytest.raises(intarsia.CacheFullError, match=f"the cache has {pages} "):
        asyncio.run(generator.generate_async([[1, 2], [3] * 500], 500))
    assert len(asyncio.run(generator.generate_async([[1, 2], [3, 4]], 5))) == 2
