# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Caches of a trained language model: whatever way tokens came into a cache, logits after them are the same bits."""

from __future__ import annotations

import threading
from pathlib import Path

import intarsia
import numpy as np
import pytest

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
PREFIX = np.random.default_rng(3).integers(2, 4096, 77).tolist()  # two full pages and a part
REST = PREFIX[::-1][:9]
OTHER = PREFIX[5:12]


@pytest.fixture(scope="module")
def module(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("cache") / "m.itx"
    tools.compile(MODEL, "-o", path)
    return intarsia.load(path)


@pytest.fixture(scope="module")
def exact(tools, tmp_path_factory):
    """Keys and values in f32: where sums are taken in another order, rounding to f16 would tell the difference loudly."""
    path = tmp_path_factory.mktemp("exact") / "m.itx"
    tools.compile(MODEL, "-o", path, "--kv=f32")
    return intarsia.load(path)


def alone(module, *chunks: list[int], outputs: int | None = None) -> np.ndarray:
    """Logits after every token of the last chunk, or the last of them, computed with nothing else in the cache."""
    cache = intarsia.Cache(module)
    sequence = cache.sequence()
    for chunk in chunks[:-1]:
        cache.step([(sequence, chunk, 0)])
    return cache.step([(sequence, chunks[-1], len(chunks[-1]) if outputs is None else outputs)])


def test_shared_pages_give_the_same_bits(module):
    cache = intarsia.Cache(module, sequences=3, pages=8)
    first = cache.sequence()
    assert cache.step([(first, PREFIX, 0)]).shape == (0, 4096)
    second, third = first.fork(), first.fork()
    assert cache.info["free_pages"] == 5
    assert np.array_equal(cache.step([(second, REST, len(REST))]), alone(module, PREFIX, REST))
    assert np.array_equal(cache.step([(first, OTHER, len(OTHER))]), alone(module, PREFIX, OTHER))
    # Some processors add up a matmul of one row in another order than one of several.
    assert np.array_equal(cache.step([(third, REST, 1)]), alone(module, PREFIX, REST, outputs=1))
    assert np.array_equal(cache.step([(first, REST, 1)]), alone(module, PREFIX, OTHER, REST, outputs=1))
    assert first.tokens == PREFIX + OTHER + REST
    assert first.length == len(first.tokens)


def test_chunks_of_a_prompt_are_the_prompt(exact):
    whole = alone(exact, PREFIX)
    assert np.abs(alone(exact, PREFIX[:20], PREFIX[20:]) - whole[20:]).max() <= 5e-5
    assert np.abs(alone(exact, PREFIX[:-1], PREFIX[-1:]) - whole[-1:]).max() <= 5e-5


def test_mixtures(exact):
    cache = intarsia.Cache(exact, sequences=2, pages=8)
    first, second = cache.sequence(), cache.sequence()
    cache.step([(first, PREFIX, 0)])
    logits = cache.step([(second, OTHER, len(OTHER)), (first, REST[:1], 1)])
    expected = np.concatenate([alone(exact, OTHER), alone(exact, PREFIX, REST[:1])])
    assert np.abs(logits - expected).max() <= 5e-5


def test_truncated_sequences(module):
    cache = intarsia.Cache(module, sequences=1, pages=4)
    sequence = cache.sequence()
    cache.step([(sequence, PREFIX, 0)])
    cache.step([(sequence, OTHER, 0)])
    assert sequence.truncate(len(PREFIX)) == len(PREFIX)
    assert np.array_equal(cache.step([(sequence, REST, len(REST))]), alone(module, PREFIX, REST))
    with pytest.raises(intarsia.InvalidArgumentError, match="has 86 tokens, it cannot be cut to 87"):
        sequence.truncate(87)


def test_saved_sequences(module, scratch):
    cache = intarsia.Cache(module, sequences=2, pages=3)
    sequence = cache.sequence()
    cache.step([(sequence, PREFIX, 0)])
    sequence.save(scratch / "prefix")
    with pytest.raises(intarsia.CacheFullError, match="3 more pages"):
        cache.restore(scratch / "prefix")
    del sequence
    again = intarsia.load(module.path)
    for restored_by in (cache, intarsia.Cache(again)):
        restored = restored_by.restore(scratch / "prefix")
        assert restored.tokens == PREFIX
        assert np.array_equal(restored_by.step([(restored, REST, len(REST))]), alone(module, PREFIX, REST))


def test_files_of_other_artifacts(module, exact, scratch):
    cache = intarsia.Cache(module)
    sequence = cache.sequence()
    cache.step([(sequence, PREFIX, 0)])
    sequence.save(scratch / "prefix")
    other = intarsia.Cache(exact)
    with pytest.raises(intarsia.InvalidArgumentError, match="with the artifact that it was made with only"):
        other.restore(scratch / "prefix")
    (scratch / "prefix").write_bytes((scratch / "prefix").read_bytes()[:-5])
    with pytest.raises(intarsia.CorruptError, match="is truncated"):
        cache.restore(scratch / "prefix")


def test_exhausted_and_evicted(module):
    cache = intarsia.Cache(module, sequences=3, pages=4)
    first, second = cache.sequence(), cache.sequence()
    cache.step([(first, PREFIX, 0)])
    cache.step([(second, OTHER, 0)])
    with pytest.raises(intarsia.CacheFullError, match=r"1 more pages .* are needed, 0 of 4 are free"):
        cache.step([(second, PREFIX[:30], 1)])
    # Nothing of it was applied, and both go on.
    assert np.array_equal(cache.step([(first, REST, len(REST))]), alone(module, PREFIX, REST))
    first.set_evictable(True)
    assert np.array_equal(cache.step([(second, PREFIX[:30], 30)]), alone(module, OTHER, PREFIX[:30]))
    assert first.evicted
    assert not second.evicted
    with pytest.raises(intarsia.Error, match="was evicted") as caught:
        cache.step([(first, [1], 1)])
    assert caught.value.status == "evicted"
    second.evict()
    ids = first.tokens
    assert first.truncate(0) == 0
    assert np.array_equal(cache.step([(first, ids, len(ids))]), alone(module, ids))


def test_memory(module):
    page = intarsia.Cache(module, pages=1).info["page_bytes"]
    assert intarsia.Cache.bytes_needed(module, pages=3) == 3 * page
    assert intarsia.Cache(module, memory=5 * page + 1).info["pages"] == 5
    with pytest.raises(intarsia.Error, match=rf"takes {(1 << 30) * page} bytes, \d+ are available") as caught:
        intarsia.Cache(module, pages=1 << 30)
    assert caught.value.status == "out of memory"


@pytest.mark.parametrize("name", ["sequences", "pages", "memory"])
def test_sizes_without_a_meaning(module, name):
    for value, message in ((-1, "at least 0"), (2**63, "at most"), (1.5, "a whole number"), (10**5000, "at most")):
        for make in (intarsia.Cache, intarsia.Cache.bytes_needed):
            with pytest.raises(intarsia.InvalidArgumentError, match=f"{name} is .*, must be {message}"):
                make(module, **{name: value})
    with pytest.raises(intarsia.InvalidArgumentError, match="cache is -1, must be at least 0"):
        intarsia.Generator(module, cache=-1)


def test_tokens_that_are_no_whole_numbers(module):
    cache = intarsia.Cache(module)
    sequence = cache.sequence()
    for ids in ([2**63], [1.5], [[1]], [[1], [1, 2]], ["1"]):
        with pytest.raises(intarsia.InvalidArgumentError, match="token ids are not a sequence of whole numbers"):
            cache.step([(sequence, ids, 1)])
    assert sequence.length == 0


def test_generators_go_on_after_saved_prompts(module, scratch):
    generator = intarsia.Generator(module)
    generator.save(scratch / "prefix", PREFIX)
    other = intarsia.Generator(module, cache=1 << 28)
    assert other.restore(scratch / "prefix") == PREFIX
    # The whole prompt is known but for the token whose logits are wanted, or a part of it; the text itself stays.
    known = 0
    for prompt, common in ((PREFIX + REST, 77), (PREFIX, 76), (PREFIX[:40] + REST, 40), (PREFIX + REST[::-1], 77)):
        (expected,) = generator.generate(prompt, max_tokens=8)
        assert other.generate(prompt, max_tokens=8)[0].ids == expected.ids
        known += common
        assert other.engine.stats()["cached_tokens"] == known
    assert np.array_equal(other.logits([PREFIX])[0], generator.logits([PREFIX])[0])


def test_generators_with_little_memory(module):
    page = intarsia.Cache(module, pages=1).info["page_bytes"]
    generator = intarsia.Generator(module, cache=4 * page)
    assert generator.cache_bytes([1, 33, 10**9]) == (1 + 2 + generator.context // 32) * page
    # Prompts that the cache has no room for together wait for one another.
    prompts = [PREFIX, PREFIX[::-1], OTHER, PREFIX[1:]]
    expected = [intarsia.Generator(module).generate(prompt, max_tokens=20)[0].ids for prompt in prompts]
    assert [result.ids for result in generator.generate(prompts, max_tokens=20)] == expected
    with pytest.raises(
        intarsia.CacheFullError,
        match=r"a prompt of 77 tokens and up to 60 more need 5 pages, the cache has 4 \(of 32 tokens\): give fewer",
    ):
        generator.generate([OTHER, PREFIX], max_tokens=60)
    assert generator.generate(OTHER, max_tokens=20)[0].ids == expected[2]
    assert generator.engine.stats()["free_pages"] == generator.engine.stats()["pages"] == 4
    with pytest.raises(intarsia.InvalidArgumentError, match="a cache of 10 bytes has no page"):
        intarsia.Generator(module, cache=10)


def test_streams_at_the_same_time(wordless_artifact):
    generator = intarsia.Generator(wordless_artifact)
    prompts = [PREFIX, OTHER]
    expected = [generator.generate(prompt, max_tokens=12)[0].ids for prompt in prompts]
    first, second = (generator.stream(prompt, max_tokens=12) for prompt in prompts)
    taken: list[list[int]] = [[], []]
    for _ in range(12):
        for ids, stream in zip(taken, (first, second), strict=True):
            ids += [token for token in [next(stream, None)] if token is not None]
    assert taken == expected

    results: dict[int, list[int]] = {}

    def work(number: int) -> None:
        results[number] = generator.generate(prompts[number % 2], max_tokens=12)[0].ids

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] for number in range(4)] == expected * 2
