# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speculative decoding: texts are what they are without a draft model, or have the same distribution."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
import tokenizers
from intarsia import Sampling
from safetensors import deserialize
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "examples" / "glossary"
LLAMA = ROOT / "test" / "EndToEnd" / "decoders" / "llama"
PROMPTS = ["violin (noun):", "run (verb):", "slowly (adverb):"]


def noisy(tools, model: Path, folder: Path, noise: float) -> Path:
    """Compile a model whose weights are off by a part of their size, so that it proposes much of what it should."""
    copy = folder / "model"
    shutil.copytree(model, copy)
    types = {"F32": np.float32, "BF16": ml_dtypes.bfloat16}
    random = np.random.default_rng(0)
    weights = {}
    # Tensors come in another order in each process.
    for name, tensor in sorted(deserialize((copy / "model.safetensors").read_bytes()), key=lambda item: item[0]):
        value = np.frombuffer(tensor["data"], types[tensor["dtype"]]).astype(np.float32).reshape(tensor["shape"])
        weights[name] = value
        if value.ndim == 2:
            weights[name] += noise * value.std() * random.standard_normal(value.shape, np.float32)
    save_file(weights, copy / "model.safetensors")
    config = json.loads((copy / "config.json").read_text()) | {"dtype": "float32"}
    (copy / "config.json").write_text(json.dumps(config))
    tools.compile(copy, "-o", folder / "noisy.itx")
    return folder / "noisy.itx"


@pytest.fixture(scope="module")
def generator(glossary_artifact):
    return intarsia.Generator(glossary_artifact, tokenizer=GLOSSARY)


@pytest.fixture(scope="module")
def draft(tools, tmp_path_factory):
    return intarsia.Generator(noisy(tools, GLOSSARY, tmp_path_factory.mktemp("draft"), 0.3), tokenizer=GLOSSARY)


@pytest.fixture(scope="module")
def tiny(tools, tmp_path_factory):
    """Give a model of 99 tokens and a context of 64, and its draft."""
    folder = tmp_path_factory.mktemp("tiny")
    tools.compile(LLAMA, "-o", folder / "llama.itx")
    return intarsia.Generator(folder / "llama.itx"), intarsia.Generator(noisy(tools, LLAMA, folder, 0.4))


def counted(generator: intarsia.Generator, prompts, max_tokens: int, **options) -> tuple[list, dict[str, int]]:
    """Return texts, and by how much the engine's counters have grown."""
    before = generator.engine.stats()
    results = generator.generate(prompts, max_tokens, **options)
    after = generator.engine.stats()
    return results, {name: after[name] - before[name] for name in ("steps", "draft_tokens", "accepted_tokens")}


@pytest.mark.parametrize("draft_tokens", [1, 3, 8])
def test_greedy_text_is_the_same(generator, draft, draft_tokens):
    expected = generator.generate(PROMPTS, 60)
    results, counts = counted(generator, PROMPTS, 60, draft=draft, draft_tokens=draft_tokens)
    for result, other in zip(results, expected, strict=True):
        assert (result.ids, result.text, result.finish_reason) == (other.ids, other.text, other.finish_reason)
        np.testing.assert_allclose(result.logprobs, other.logprobs, atol=5e-3)
    # Some of what is proposed stays, and some does not; otherwise this shows nothing.
    longest = max(len(result.ids) for result in expected)
    assert longest / (draft_tokens + 1) < counts["steps"] < longest
    assert 0 < counts["accepted_tokens"] < counts["draft_tokens"]


def test_streams_and_single_texts_are_the_same(generator, draft):
    (expected,) = generator.generate(PROMPTS[0], 40)
    pieces = list(generator.stream(PROMPTS[0], 40, draft=draft))
    assert "".join(pieces) == expected.text
    stop = expected.text.split()[3]
    (stopped,) = generator.generate(PROMPTS[0], 40, stop=stop, draft=draft)
    (plain,) = generator.generate(PROMPTS[0], 40, stop=stop)
    assert (stopped.ids, stopped.text, stopped.finish_reason) == (plain.ids, plain.text, "stop")
    for count in (1, 2, 3, 5):
        assert generator.generate(PROMPTS[0], count, draft=draft)[0].ids == expected.ids[:count]


def test_the_draft_may_be_the_model_itself(generator, glossary_artifact):
    expected = generator.generate(PROMPTS[1], 41)[0].ids
    same = intarsia.Generator(glossary_artifact, tokenizer=GLOSSARY)
    (result,), counts = counted(generator, PROMPTS[1], 41, draft=same)
    assert result.ids == expected
    # All that is proposed stays: five tokens a step.
    assert counts["steps"] <= 2 + -(-len(expected) // 5)
    assert counts["accepted_tokens"] == counts["draft_tokens"]
    # Also where tokens are drawn, but for the last bits of logits that were computed in steps of other sizes.
    _, counts = counted(generator, PROMPTS, 50, draft=same, temperature=1.0, seed=2, min_tokens=50)
    assert counts["accepted_tokens"] >= 0.98 * counts["draft_tokens"] > 80


def test_repetition_penalty_and_constraints(generator, draft):
    for rules in (
        {"repetition_penalty": 1.5},
        {"regex": "(an?|the) [a-z]{2,9}( of [a-z]{2,9}){0,2};"},
        {"json_schema": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 3}},
    ):
        results = generator.generate(PROMPTS, 50, draft=draft, **rules)
        expected = generator.generate(PROMPTS, 50, **rules)
        assert [result.ids for result in results] == [result.ids for result in expected], rules
    sampled = generator.generate(PROMPTS, 60, draft=draft, temperature=2.0, seed=1, **rules)
    assert all(2 <= len(json.loads(result.text)) <= 3 for result in sampled)
    assert sampled == generator.generate(PROMPTS, 60, draft=draft, temperature=2.0, seed=1, **rules)


def test_until_the_context_ends(tiny):
    model, draft = tiny
    prompts = [[3] * (model.context - 9), [5, 6, 7], [3] * model.context]
    expected = model.generate(prompts, 200)
    assert [len(result.ids) for result in expected] == [10, model.context - 2, 1]
    results = model.generate(prompts, 200, draft=draft, draft_tokens=6)
    assert [result.ids for result in results] == [result.ids for result in expected]


def test_a_draft_with_a_shorter_context(tools, tiny, tmp_path):
    shutil.copytree(LLAMA, tmp_path / "short")
    config = json.loads((LLAMA / "config.json").read_text()) | {"max_position_embeddings": 20}
    (tmp_path / "short" / "config.json").write_text(json.dumps(config))
    tools.compile(tmp_path / "short", "-o", tmp_path / "short.itx")
    model, _ = tiny
    short = intarsia.Generator(tmp_path / "short.itx")
    assert short.context < model.context
    prompts = [[1, 2, 3], list(range(19)), list(range(20)), list(range(30))]
    expected = [result.ids for result in model.generate(prompts, 30)]
    assert [result.ids for result in model.generate(prompts, 30, draft=short)] == expected


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the statistic's distance from its mean in standard deviations; rare outcomes are one."""
    expected = probabilities * counts.sum()
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    kept = expected > 1e-6
    freedom = kept.sum() - 1
    return float((((observed - expected)[kept] ** 2 / expected[kept]).sum() - freedom) / (2 * freedom) ** 0.5)


def joint_probabilities(model: intarsia.Generator, prompt: list[int], rules: Sampling, length: int) -> dict:
    """Return the probability of each text of so many tokens."""
    texts = {(): 1.0}
    for _ in range(length):
        rows = model.logits([[*prompt, *text] for text in texts])
        longer = {}
        for (text, probability), row in zip(texts.items(), rows, strict=True):
            after = rules.probabilities(row[-1], np.array([*prompt, *text]))
            longer |= {(*text, int(token)): probability * after[token] for token in after.nonzero()[0]}
        texts = longer
    return texts


def test_distribution_of_texts(tiny):
    """Texts of four tokens: two steps of the model, caches of both rewound in between."""
    model, draft = tiny
    prompt, count = [7, 40, 3], 6000
    rules = {"temperature": 2.0, "top_k": 4, "repetition_penalty": 1.1}
    expected = joint_probabilities(model, prompt, Sampling(**rules), 4)
    assert sum(expected.values()) == pytest.approx(1.0)
    seen = dict.fromkeys(expected, 0)
    total = dict.fromkeys(("draft_tokens", "accepted_tokens"), 0)
    for seed in range(count // 250):
        results, counts = counted(model, [prompt] * 250, 4, seed=seed, draft=draft, draft_tokens=2, **rules)
        for result in results:
            seen[tuple(result.ids)] += 1
        total = {name: total[name] + counts[name] for name in total}
    # Some of what is proposed stays, and some does not.
    assert 0.05 < total["accepted_tokens"] / total["draft_tokens"] < 0.9
    counts = np.array([*seen.values()])
    assert chi_square(counts, np.array([*expected.values()])) < 4
    # The test knows another distribution from the right one.
    other = joint_probabilities(model, prompt, Sampling(**(rules | {"temperature": 1.1})), 4)
    assert chi_square(counts, np.array([other.get(text, 0.0) for text in seen])) > 10


def test_drafts_that_do_not_fit(tools, generator, glossary_artifact, tiny, tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="a generator cannot be its own draft"):
        generator.generate("violin", draft=generator)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"the draft .*llama\.itx has 99 tokens, the model .* 4096"):
        generator.generate("violin", draft=tiny[0])
    changed = json.loads((GLOSSARY / "tokenizer.json").read_text())
    vocabulary = changed["model"]["vocab"]
    by_id = {token: name for name, token in vocabulary.items()}
    vocabulary[by_id[4000]], vocabulary[by_id[4001]] = 4001, 4000
    other = intarsia.Generator(glossary_artifact, tokenizer=tokenizers.Tokenizer.from_str(json.dumps(changed)))
    message = f"token 4000 is {by_id[4001]!r} for the draft .* and {by_id[4000]!r} for the model"
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        generator.generate("violin", draft=other)
    with pytest.raises(intarsia.NotFoundError, match=r"none\.itx"):
        generator.generate("violin", draft=tmp_path / "none.itx")
    with pytest.raises(intarsia.InvalidArgumentError, match="draft_tokens is 0, must be at least 1"):
        generator.generate("violin", draft_tokens=0)


def test_a_path_is_opened_once(generator, glossary_artifact):
    first = generator.generate("violin", 5, draft=str(glossary_artifact))
    opened = dict(generator._drafts)
    assert generator.generate("violin", 5, draft=glossary_artifact) == first
    assert generator._drafts == opened


def resized(tools, folder: Path, vocabulary: int) -> Path:
    """Compile the small model with another number of tokens; those that others lack are the likeliest."""
    model = folder / f"model{vocabulary}"
    shutil.copytree(LLAMA, model)
    weights = {}
    for name, tensor in deserialize((model / "model.safetensors").read_bytes()):
        types = {"F32": np.float32, "BF16": ml_dtypes.bfloat16}
        value = np.frombuffer(tensor["data"], types[tensor["dtype"]]).astype(np.float32).reshape(tensor["shape"])
        if value.shape[0] == 99:
            more = np.abs(np.resize(value, (vocabulary, *value.shape[1:])))
            value = np.concatenate([value, 9 * more])[:vocabulary]
        weights[name] = value
    save_file(weights, model / "model.safetensors")
    config = json.loads((model / "config.json").read_text()) | {"dtype": "float32", "vocab_size": vocabulary}
    (model / "config.json").write_text(json.dumps(config))
    tools.compile(model, "-o", folder / f"{vocabulary}.itx")
    return folder / f"{vocabulary}.itx"


@pytest.mark.parametrize("size", [96, 104])
def test_a_vocabulary_that_is_padded_otherwise(tools, tiny, tmp_path, size):
    """Tokens that the model or the draft does not have are never proposed."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(96)}, unk_token="w0"))
    model = intarsia.Generator(tiny[0].module, tokenizer=words)
    draft = intarsia.Generator(resized(tools, tmp_path, size), tokenizer=words)
    assert (model.vocabulary, draft.vocabulary) == (99, size)
    prompts = [[5, 6, 7], [40, 41], [9]]
    # One prompt has a token that the smaller draft cannot read: it has no proposals, and the others have.
    prompts.append([3, 98])
    bans = {"logit_bias": dict.fromkeys((96, 97, 98), float("-inf")), "min_tokens": 40}
    expected = model.generate(prompts, 40, **bans)
    results, counts = counted(model, prompts, 40, draft=draft, **bans)
    assert [result.ids for result in results] == [result.ids for result in expected]
    assert 0.5 * counts["draft_tokens"] < counts["accepted_tokens"]
    assert counts["accepted_tokens"] > (80 if size < 99 else 110)
    _, counts = counted(model, prompts[:3], 40, draft=draft, temperature=1.5, seed=1, min_tokens=40)
    assert counts["accepted_tokens"] > 20


def test_drafts_that_take_turns(tools, generator, draft, glossary_artifact):
    """A call with another draft waits for those with the one before, not for calls without any."""
    other = intarsia.Generator(glossary_artifact, tokenizer=GLOSSARY)
    expected = generator.generate(PROMPTS[1], 20)[0].ids
    plain = generator.stream(PROMPTS[0], 800, min_tokens=800)
    next(plain)
    for each in (draft, other, draft):
        stream = generator.stream(PROMPTS[2], 60, draft=each)
        next(stream)
        assert generator.generate(PROMPTS[1], 20, draft=draft)[0].ids == expected
        assert "".join(stream) in generator.generate(PROMPTS[2], 60)[0].text
    plain.close()
