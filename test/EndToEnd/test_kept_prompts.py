# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts that begin like earlier ones do not compute the beginning again, and are continued as without it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import intarsia
import numpy as np
import pytest
from ranks import start_ranks

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
#: Tokens of a page: quantized keys and values are cut at the ends of pages only.
PAGE = 32


@pytest.fixture(scope="module", params=["f32", "int8", "int4"])
def artifact(request, tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / f"{request.param}.itx"
    tools.compile(MODEL, "-o", path, f"--kv={request.param}")
    return path


def prompt(length: int, seed: int = 1) -> list[int]:
    return [int(id) for id in np.random.default_rng(seed).integers(5, 1000, length)]


def generated(
    generator: intarsia.Generator, prompts: Sequence[int] | Sequence[list[int]], max_tokens: int, **options
) -> tuple[list[list[int]], int]:
    """Return the texts of prompts, and how many tokens of the prompts were computed."""

    def computed() -> int:
        stats = generator.engine.stats()
        return stats["prompt_tokens"] - stats["cached_tokens"]

    before = computed()
    texts = [each.ids for each in generator.generate(prompts, max_tokens, **options)]
    return texts, computed() - before


def test_a_conversation_goes_on(artifact):
    keeping = intarsia.Generator(artifact)
    plain = intarsia.Generator(artifact, kept_tokens=0)
    text = prompt(150)
    for turn in range(4):
        (answer,), computed = generated(keeping, text, 10)
        assert ([answer], len(text)) == generated(plain, text, 10)
        # The last token of an answer may be in no cache yet.
        assert computed == 150 if turn == 0 else 12 <= computed <= 13 + PAGE
        text = text + answer + prompt(12, seed=turn)
    assert keeping.engine.stats()["kept_tokens"] <= len(text), "the longer text has the shorter one"


def test_branches_share_their_beginning(artifact):
    keeping = intarsia.Generator(artifact)
    plain = intarsia.Generator(artifact, kept_tokens=0)
    system = prompt(100)
    texts = [system + prompt(20, seed=seed) for seed in range(3)]
    expected = [generated(plain, text, 5)[0][0] for text in texts]
    for number, text in enumerate(texts):
        answers, computed = generated(keeping, text, 5)
        assert answers == expected[number : number + 1]
        assert computed == 120 if number == 0 else 20 <= computed <= 20 + PAGE
    answers, computed = generated(keeping, texts, 5)
    assert answers == expected
    assert computed <= 3 * PAGE, "all of them are known up to the last token"


def test_prompts_of_a_batch_share_their_beginning(artifact):
    """Several samples of one prompt compute it once, and a batch with a common beginning computes that once."""
    plain = intarsia.Generator(artifact, kept_tokens=0)
    system = prompt(100)
    texts = [system + prompt(20, seed=seed) for seed in range(3)] + [prompt(30, seed=9), system + prompt(20, seed=1)]
    expected = [generated(plain, text, 5)[0][0] for text in texts]
    answers, computed = generated(plain, texts, 5)
    assert answers == expected
    assert 120 + 30 + 2 * 20 <= computed <= 120 + 30 + 3 * (20 + PAGE)
    samples, computed = generated(plain, [texts[0]] * 6, 5, temperature=1.0, seed=3)
    assert 120 + 5 <= computed <= 120 + 5 * PAGE
    assert len({tuple(sample) for sample in samples}) > 1
    for number in (0, 1):
        alone, _ = generated(plain, [texts[1]] * number + [texts[0]], 5, temperature=1.0, seed=3)
        assert alone[number] == samples[number]


def test_what_is_kept_is_limited(artifact):
    generator = intarsia.Generator(artifact, kept_tokens=100)
    for seed in range(4):
        generator.generate(prompt(40, seed), max_tokens=4)
    assert 80 <= generator.engine.stats()["kept_tokens"] <= 100
    for seed, known in ((3, True), (2, True), (0, False)):
        _, computed = generated(generator, prompt(40, seed), 1)
        assert (computed < 40) == known, "the latest are kept"
    generator.generate(prompt(120), max_tokens=4)
    assert generator.engine.stats()["kept_tokens"] == 0
    # More prompts than run at a time wait, also where others are kept.
    generator = intarsia.Generator(artifact)
    for seed in range(70):
        generator.generate(prompt(6, seed), max_tokens=2)
    texts, _ = generated(generator, [prompt(6, seed) for seed in range(150)], 2)
    assert texts[:70:23] == [generated(generator, prompt(6, seed), 2)[0][0] for seed in range(0, 70, 23)]
    assert len(texts) == 150


def test_kept_texts_make_room(artifact):
    """A full cache forgets what is kept, or spills it, and serves new prompts as before."""
    probe = intarsia.Generator(artifact, kept_tokens=0)
    info = probe.engine.info
    bytes_of_two = 12 * info["page_bytes"] + info["sequences"] * info["sequence_bytes"]
    texts = [prompt(150, seed) for seed in range(4)]
    expected = [generated(probe, text, 8)[0][0] for text in texts]
    for spill in ({}, {"spill_memory": 1 << 30}):
        generator = intarsia.Generator(artifact, cache=bytes_of_two, kept_tokens=1000, **spill)
        assert generator.engine.info["pages"] == 12
        computed = []
        for text in [*texts, *texts]:
            answers, count = generated(generator, text, 8)
            assert answers == [expected[len(computed) % 4]]
            computed.append(count)
        assert computed[:4] == [150] * 4
        if spill:
            assert max(computed[4:]) <= PAGE
            assert generator.engine.stats()["moved_sequences"] >= 2
            assert generator.engine.cache().info["lost_sequences"] == 0
        else:
            assert sum(computed[4:]) >= 2 * 150 - 2 * PAGE
        assert generator.engine.stats()["free_pages"] == 12


def test_a_stream_that_is_left_early(artifact):
    generator = intarsia.Generator(artifact)
    text = prompt(80)
    stream = generator.stream(text, max_tokens=20)
    next(stream)
    stream.close()
    answers, computed = generated(generator, text, 5)
    assert answers == generated(intarsia.Generator(artifact, kept_tokens=0), text, 5)[0]
    assert computed <= PAGE


def test_batches_of_all_sequences(artifact):
    """Copies of a prompt compute it once, also when kept texts have taken many places."""
    generator = intarsia.Generator(artifact)
    for seed in range(64):
        generator.generate(prompt(5, seed), max_tokens=2)
    texts, computed = generated(generator, [prompt(100)] * 64, 2)
    assert len({tuple(each) for each in texts}) == 1
    assert 100 <= computed <= 100 + 63 * PAGE


def test_what_the_user_has_given_stays(artifact, tmp_path):
    """Restored texts are kept until the cache needs their memory, whatever else is generated."""
    writer = intarsia.Generator(artifact)
    texts = [prompt(600, seed) for seed in (1, 2)]
    for number, text in enumerate(texts):
        writer.save(tmp_path / str(number), text)
    reader = intarsia.Generator(artifact, kept_tokens=0)
    for number in range(2):
        assert reader.restore(tmp_path / str(number)) == texts[number]
    for _ in range(2):
        for text in texts:
            assert generated(reader, [*text, 7], 2)[1] <= 1 + PAGE
        assert generated(reader, prompt(50, seed=3), 2)[1] == 50
    assert reader.engine.stats()["kept_tokens"] == 0


def test_a_few_common_tokens_are_computed(artifact):
    """All prompts begin with the same token: that brings no text back."""
    generator = intarsia.Generator(artifact)
    first = prompt(60)
    generator.generate(first, max_tokens=2)
    assert generated(generator, first[:20] + prompt(30, seed=2), 2)[1] == 50


def test_beginnings_of_kept_texts(artifact):
    """A text that begins as a kept one keeps that, and makes it the latest one."""
    generator = intarsia.Generator(artifact, kept_tokens=120)
    text = prompt(80)
    (longer,), _ = generated(generator, text, 8)
    generator.generate(prompt(10, seed=2), max_tokens=2)
    kept = generator.engine.stats()["kept_tokens"]
    assert kept >= 80 + len(longer) - 1 + 10
    generator.generate(text, max_tokens=1)
    assert generator.engine.stats()["kept_tokens"] == kept
    generator.generate(prompt(25, seed=3), max_tokens=2)  # the other one goes
    assert generated(generator, [*text, *longer[:-1], 9], 1)[1] <= 2 + PAGE


def calls(artifact: str) -> list[list[int]]:
    """Return the texts of several calls, which are left early, end at a stop string or share a beginning."""
    generator = intarsia.Generator(artifact, tokenizer=MODEL)
    texts: list[list[int]] = []
    for number in range(12):
        text = prompt(70) + prompt(5, seed=number)
        texts += generated(generator, [text, text[:40]], 1 + number % 5, temperature=1.0, seed=number)[0]
        stream = generator.stream(text, max_tokens=500, min_tokens=500)
        texts.append([ord(letter) for letter in next(stream)])
        stream.close()
        whole = generator.generate(text, 20, min_tokens=20)[0].text
        stop = whole[len(whole) // 2 :][:2]
        texts.append(generator.generate(text, 20, min_tokens=20, stop=stop)[0].ids)
        texts.append([int(generator.logits([text[:10]])[0][-1].argmax())])
    return [*texts, [generator.engine.stats()["cached_tokens"]]]


@pytest.mark.parametrize("partition", ["tensor", "pipeline"])
def test_ranks_share_beginnings(tools, tmp_path, partition):
    """Rank 0 says which ones; the ranks' other exchanges come between their calls."""
    tools.compile(MODEL, "-o", tmp_path / "split.itx", "--world=2", f"--partition={partition}", "--kv=f32")
    with pytest.raises(intarsia.Error):
        intarsia.load(tmp_path / "split.itx")  # one process is no rank
    whole = tools.artifact(MODEL, "--kv=f32")
    expected = calls(str(whole))
    command = [__file__, tmp_path / "split.itx", tmp_path / "texts"]
    for number, rank in enumerate(start_ranks(command, 2, tmp_path)):
        assert rank.wait(timeout=100) == 0, rank.stderr.read()
        texts = json.loads((tmp_path / f"texts.{number}").read_text())
        assert texts[:-1] == expected[:-1]
        # How long a text is that was left early is a matter of time.
        assert texts[-1][0] > 12 * 100 or number > 0


def test_refusals(artifact, tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="kept_tokens"):
        intarsia.Generator(artifact, kept_tokens=-1)
    generator = intarsia.Generator(artifact, spill_folder=tmp_path / "missing")
    with pytest.raises(intarsia.InvalidArgumentError, match="missing: no file for sequences that leave the cache"):
        generator.generate(prompt(4), max_tokens=1)


if __name__ == "__main__":
    Path(f"{sys.argv[2]}.{os.environ['ITX_WORLD_RANK']}").write_text(json.dumps(calls(sys.argv[1])))
