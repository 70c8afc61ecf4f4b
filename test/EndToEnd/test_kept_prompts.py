# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts that begin like earlier ones do not compute the beginning again, and are continued as without it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.generation.batch import Batch

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"


@pytest.fixture(scope="module", params=["f32", "int8", "int4"])
def artifact(request, tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / f"{request.param}.itx"
    tools.compile(MODEL, "-o", path, f"--kv={request.param}")
    return path


@pytest.fixture
def computed(monkeypatch) -> list[int]:
    """The numbers of tokens that calls of the step function compute."""
    counts: list[int] = []
    step = Batch._step

    def counting(batch: Batch, rows: list) -> object:
        counts.append(sum(len(ids) for _, ids, _ in rows))
        return step(batch, rows)

    monkeypatch.setattr(Batch, "_step", counting)
    return counts


def prompt(length: int, seed: int = 1) -> list[int]:
    return [int(id) for id in np.random.default_rng(seed).integers(5, 1000, length)]


def test_a_conversation_goes_on(artifact, computed):
    keeping = intarsia.Generator(artifact)
    plain = intarsia.Generator(artifact, kept_tokens=0)
    text = prompt(150)
    for turn in range(4):
        computed.clear()
        answer = keeping.generate(text, max_tokens=10)[0].ids
        first = computed[0]
        assert answer == plain.generate(text, max_tokens=10)[0].ids
        # The last token of an answer may be in no cache yet. Quantized keys are cut at the ends of pages only.
        assert first == 150 if turn == 0 else 12 <= first <= 13 + 32
        text = text + answer + prompt(12, seed=turn)
    assert len(keeping._kept.texts) == 1, "the longer text has the shorter one"


def test_branches_share_their_beginning(artifact, computed):
    keeping = intarsia.Generator(artifact)
    plain = intarsia.Generator(artifact, kept_tokens=0)
    system = prompt(100)
    texts = [system + prompt(20, seed=seed) for seed in range(3)]
    expected = [each.ids for each in plain.generate(texts, max_tokens=5)]
    computed.clear()
    assert [keeping.generate(text, max_tokens=5)[0].ids for text in texts] == expected
    prefills = [count for count in computed if count > 5]
    assert prefills[0] == 120
    assert all(20 <= count <= 20 + 32 for count in prefills[1:])
    computed.clear()
    assert [each.ids for each in keeping.generate(texts, max_tokens=5)] == expected
    assert computed[0] <= 3 * 32, "all of them are known up to the last token"


def test_prompts_of_a_batch_share_their_beginning(artifact, computed):
    """Several samples of one prompt compute it once, and a batch with a common beginning computes that once."""
    plain = intarsia.Generator(artifact, kept_tokens=0)
    system = prompt(100)
    texts = [system + prompt(20, seed=seed) for seed in range(3)] + [prompt(30, seed=9), system + prompt(20, seed=1)]
    expected = [plain.generate(text, max_tokens=5)[0].ids for text in texts]
    computed.clear()
    assert [each.ids for each in plain.generate(texts, max_tokens=5)] == expected
    prefill = sum(computed) - sum(count for count in computed if count <= 5)
    assert 120 + 30 + 2 * 20 <= prefill <= 120 + 30 + 3 * (20 + 32)
    computed.clear()
    samples = plain.generate([texts[0]] * 6, max_tokens=5, temperature=1.0, seed=3)
    assert computed[0] == 120
    assert 5 <= computed[1] <= 5 * 32
    assert len({tuple(sample.ids) for sample in samples}) > 1
    alone = [
        plain.generate([texts[1]] * number + [texts[0]], max_tokens=5, temperature=1.0, seed=3) for number in (0, 1)
    ]
    assert alone[0][0].ids == samples[0].ids
    assert alone[1][1].ids == samples[1].ids


def test_what_is_kept_is_limited(artifact):
    generator = intarsia.Generator(artifact, kept_tokens=100)
    for seed in range(4):
        generator.generate(prompt(40, seed), max_tokens=4)
    kept = [text.tokens for text in generator._kept.texts]
    assert [tokens[:40] for tokens in kept] == [prompt(40, 2), prompt(40, 3)], "the latest"
    assert sum(map(len, kept)) <= 100
    generator.generate(prompt(120), max_tokens=4)
    assert generator._kept.texts == []
    # A cache for few sequences gives up what it keeps before it refuses.
    generator = intarsia.Generator(artifact)
    for seed in range(70):
        generator.generate(prompt(6, seed), max_tokens=2)
    assert len(generator._kept.texts) <= 64
    assert len(generator.generate([prompt(6, seed) for seed in range(60)], max_tokens=2)) == 60


def test_kept_texts_make_room(artifact, computed):
    """A full cache forgets what is kept, or spills it, and serves new prompts as before."""
    info = intarsia.Cache(intarsia.load(artifact), pages=1).info
    bytes_of_two = 12 * info["page_bytes"] + 64 * info["sequence_bytes"]
    texts = [prompt(150, seed) for seed in range(4)]
    expected = [intarsia.Generator(artifact, kept_tokens=0).generate(text, max_tokens=8)[0].ids for text in texts]
    for spill in ({}, {"spill_memory": 1 << 30}):
        generator = intarsia.Generator(artifact, cache=bytes_of_two, kept_tokens=1000, **spill)
        for _ in range(2):
            computed.clear()
            assert [generator.generate(text, max_tokens=8)[0].ids for text in texts] == expected
        prefills = [count for count in computed if count > 1]
        if spill:
            assert all(count <= 32 for count in prefills)
            assert generator._kept.cache.info["spilled_sequences"] >= 2
            assert generator._kept.cache.info["lost_sequences"] == 0
        else:
            assert prefills.count(150) >= 2


def test_a_stream_that_is_left_early(artifact, computed):
    generator = intarsia.Generator(artifact)
    text = prompt(80)
    stream = generator.stream(text, max_tokens=20)
    next(stream)
    stream.close()
    computed.clear()
    assert (
        generator.generate(text, max_tokens=5)[0].ids
        == intarsia.Generator(artifact, kept_tokens=0).generate(text, max_tokens=5)[0].ids
    )
    assert computed[0] <= 32


def test_batches_of_all_sequences(artifact, computed):
    """A fork needs no more sequences than the prompts have, also when kept texts have taken all of them."""
    generator = intarsia.Generator(artifact)
    for seed in range(64):
        generator.generate(prompt(5, seed), max_tokens=2)
    computed.clear()
    assert len({tuple(each.ids) for each in generator.generate([prompt(100)] * 64, max_tokens=2)}) == 1
    assert computed[0] == 100


def test_what_the_user_has_given_stays(artifact, computed, tmp_path):
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
            computed.clear()
            reader.generate([*text, 7], max_tokens=2)
            assert computed[0] <= 33
    reader.generate(prompt(50), max_tokens=2)
    assert sorted(kept.tokens[:600] for kept in reader._kept.texts) == sorted(texts)


def test_a_few_common_tokens_are_computed(artifact, computed):
    """All prompts begin with the same token: that brings no text back."""
    generator = intarsia.Generator(artifact)
    first = prompt(60)
    generator.generate(first, max_tokens=2)
    computed.clear()
    generator.generate(first[:20] + prompt(30, seed=2), max_tokens=2)
    assert computed[0] == 50


def test_beginnings_of_kept_texts(artifact):
    generator = intarsia.Generator(artifact)
    text = prompt(80)
    longer = generator.generate(text, max_tokens=8)[0]
    generator.generate(prompt(10, seed=2), max_tokens=2)
    generator.generate(text, max_tokens=1)
    assert [kept.tokens[:80] == text for kept in generator._kept.texts] == [False, True]
    assert len(generator._kept.texts[1].tokens) >= 80 + len(longer.ids) - 1


def test_ranks_keep_nothing(tools, tmp_path):
    tools.compile(MODEL, "-o", tmp_path / "m.itx", "--world=2")
    program = "import intarsia, sys; print(intarsia.Generator(sys.argv[1], kept_tokens=100))"
    with pytest.raises(intarsia.Error):
        intarsia.load(tmp_path / "m.itx")  # one process is no rank
    command = [sys.executable, "-c", program, tmp_path / "m.itx"]
    environment = os.environ | {"ITX_WORLD_SIZE": "2", "ITX_WORLD_ADDRESS": f"local:test-{uuid.uuid4().hex}"}
    ranks = [
        subprocess.Popen(command, env=environment | {"ITX_WORLD_RANK": rank}, stderr=subprocess.PIPE, text=True)
        for rank in ("0", "1")
    ]
    for rank in ranks:
        assert "is split over ranks, which do not all keep the same texts" in rank.communicate(timeout=60)[1]


def test_refusals(artifact, tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="kept_tokens"):
        intarsia.Generator(artifact, kept_tokens=-1)
    generator = intarsia.Generator(artifact, spill_folder=tmp_path / "missing")
    with pytest.raises(intarsia.InvalidArgumentError, match="missing: no file for sequences that leave the cache"):
        generator.generate(prompt(4), max_tokens=1)
