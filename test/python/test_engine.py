# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines from Python, with a model that computes nothing."""

from __future__ import annotations

import select
import threading
import time

import intarsia
import numpy as np
import pytest
from intarsia.generation.engine import (
    CANCELLED,
    END,
    FAILED,
    FINISHED,
    LENGTH,
    TOKEN,
    Engine,
    EventQueue,
    Mock,
    Request,
)

MOCK = Mock(vocabulary=512, context=256, page_tokens=16, seed=3)


def texts_of(events_from: Engine | EventQueue, count: int) -> dict[int, list[int]]:
    """Return the texts of so many requests by their numbers."""
    texts: dict[int, list[int]] = {}
    while count:
        for event in events_from.poll(20.0):
            if event.kind == TOKEN:
                texts.setdefault(event.request, []).append(event.token)
            elif event.kind == FINISHED:
                count -= 1
    return texts


def test_many_prompts_with_a_common_beginning():
    """All pairs of 16,000 prompts took 48 s. What they have in common is computed once."""
    with Engine(MOCK) as engine:
        begin = time.process_time()
        count = 20000
        prompts = [[7] * 96 + [i % 500, i // 500] for i in range(count)]
        for prompt in prompts:
            engine.submit(Request(prompt, max_tokens=1))
        texts = texts_of(engine, count)
        assert time.process_time() - begin < 20
        stats = engine.stats()
        # One or both of their own tokens.
        assert 98 + count - 1 <= stats["prompt_tokens"] - stats["cached_tokens"] <= 98 + 2 * (count - 1)
        number = engine.submit(Request(prompts[77], max_tokens=1))
        assert texts_of(engine, 1)[number] == texts[78]


def test_callers_in_threads_have_queues_of_their_own():
    with Engine(MOCK, sequences=4) as engine:
        prompts = [[i, i + 1, 5 * i] for i in range(12)]
        alone = []
        for prompt in prompts:
            engine.submit(Request(prompt, max_tokens=20))
            alone += texts_of(engine, 1).values()
        found: dict[int, list[list[int]]] = {}

        def work(number: int) -> None:
            queue = engine.queue()
            for _ in range(3):
                engine.submit(Request(prompts[number], max_tokens=20), queue)
            select.select([queue], [], [], 20.0)
            found[number] = list(texts_of(queue, 3).values())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {number: [text] * 3 for number, text in enumerate(alone)}
        assert engine.poll() == []


def test_requests_end_with_their_queue():
    with Engine(Mock(step_seconds=0.001), sequences=2) as engine:
        closed, dropped = engine.queue(), engine.queue()
        for queue in (closed, dropped):
            for _ in range(5):
                engine.submit(Request([1, 2]), queue)
        closed.close()
        with pytest.raises(intarsia.InvalidArgumentError, match="the queue of events is closed"):
            closed.poll()
        del queue, dropped
        engine.submit(Request([3], max_tokens=2))
        texts_of(engine, 1)
        stats = engine.stats()
        assert (stats["running"], stats["waiting"], stats["finished"][CANCELLED]) == (0, 0, 10)
        assert stats["free_pages"] == stats["pages"]


class Form:
    """What a constraint is to an engine: texts of even tokens that end after five, or fail after two."""

    ends = frozenset()

    def __init__(self, fails: bool) -> None:
        self.fails, self.count = fails, 0

    def copy(self) -> Form:
        return Form(self.fails)

    @property
    def is_complete(self) -> bool:
        return self.count == 5

    def accept(self, token: int) -> bool:
        assert token % 2 == 0
        self.count += 1
        if self.fails and self.count == 2:
            raise ValueError("after two tokens nothing fits")
        return self.is_complete

    def fill(self, bits: np.ndarray) -> None:
        bits[:] = 0x55555555


def test_a_form_that_fails_ends_its_text_alone():
    with Engine(MOCK) as engine:
        queue = engine.queue()
        numbers = {
            engine.submit(Request([i], max_tokens=9, samples=2, constraint=Form(i % 2 == 1)), given): i
            for i in range(6)
            for given in (None, queue)
        }
        free = engine.submit(Request([9], max_tokens=9))
        ends = {}
        while len(ends) < 2 * len(numbers) + 1:
            for event in engine.poll(0.01) + queue.poll(0.01):
                if event.kind == FINISHED:
                    ends[event.request, event.sample] = (event.finish, event.tokens, event.message)
        assert ends.pop((free, 0)) == (LENGTH, 9, None)
        for (number, _), end in ends.items():
            expected = (FAILED, 2, "after two tokens nothing fits") if numbers[number] % 2 else (END, 5, None)
            assert end == expected
        assert not engine._masked
        assert not queue._masked


def test_a_form_whose_queue_is_closed_is_forgotten():
    with Engine(Mock(step_seconds=0.001)) as engine:
        queue = engine.queue()
        for _ in range(3):
            engine.submit(Request([1], constraint=Form(False)), queue)
        del queue
        number = engine.submit(Request([1], max_tokens=9, constraint=Form(False)))
        assert len(texts_of(engine, 1)[number]) == 5
        assert not engine._masks._requests
