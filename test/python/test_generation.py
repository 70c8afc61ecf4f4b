# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of `Generator.generate`, texts beside others, and calls that are interrupted."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.generation.arguments import texts_to_stop
from intarsia.generation.engine import CANCELLED

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
PROMPTS = ["violin (noun):", "run (verb):", "red (adjective):", "slowly (adverb):"]
PACKAGE = str(Path(intarsia.__file__).parent)


@pytest.fixture(scope="module")
def generator(glossary_artifact):
    return intarsia.Generator(glossary_artifact, tokenizer=MODEL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "1"}, "temperature is '1', must be a number"),
        ({"top_k": 40.0}, "top_k is 40.0, must be a whole number"),
        ({"seed": 1.5}, "seed is 1.5, must be a whole number"),
        ({"seed": -(2**63) - 1}, "seed is -9223372036854775809, must be at least -9223372036854775808"),
        ({"max_tokens": 0}, "max_tokens is 0, must be at least 1"),
        ({"max_tokens": 2.0}, "max_tokens is 2.0, must be a whole number"),
        ({"stop": [1]}, r"stop is \[1\], must be texts that are not empty"),
        ({"stop": ""}, "stop is '', must be texts that are not empty"),
        ({"stop": ["x" * 10**5, 1]}, "stop is .'xxx.*…, must be texts"),
        ({"stop": 5}, "stop is of type int, must be texts"),
        ({"regex": "\udcff"}, "regex has half of a surrogate pair"),
        ({"regex": "(a{1000}){1000}"}, "regex: lexer error"),
        ({"json_schema": {"uniqueItems": True}}, "json_schema: these keywords .* #: uniqueItems"),
    ],
)
def test_options_are_checked_before_anything_is_computed(generator, options, message):
    steps = generator.engine.stats()["steps"]
    for begin in (generator.generate, generator.stream):
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            begin("violin", **options)
    assert generator.engine.stats()["steps"] == steps


def test_stops_may_be_any_iterable():
    for stop in (["b", "a", "b"], ("b", "a"), {"b": 1, "a": 2}, iter(["b", "a"]), (one for one in "ba")):
        assert texts_to_stop(stop) == ["b", "a"]
    for wrong, shown in ((["a", 1], r"\['a', 1\]"), ([""], r"\[''\]")):
        with pytest.raises(intarsia.InvalidArgumentError, match=f"stop is {shown}, must be texts that are not empty"):
            texts_to_stop(iter(wrong))


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (None, "prompts are of type NoneType, must be a text"),
        (5, "prompts are of type int"),
        (b"violin", "prompts are of type bytes"),
        ({"a": 1}, "prompts are of type dict"),
        ([[]], "a prompt is empty"),
        (["a", 5], "token ids are not a sequence"),
        ("\ud800", "the tokenizer cannot encode the text"),
    ],
)
def test_prompts_that_are_none(generator, prompts, message):
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        generator.generate(prompts)


def test_no_prompts_give_no_texts(generator):
    assert generator.generate([]) == []
    assert generator.generate(np.array([], np.int64)) == []
    assert generator.generate([], regex="a", draft=None, temperature=1.0) == []


def test_seeds_of_64_bits(generator):
    texts = {
        seed: generator.generate("violin", 8, temperature=2.0, seed=seed)[0].ids for seed in (-1, -2, 1, 2**63 - 1)
    }
    assert len({tuple(ids) for ids in texts.values()}) == 4
    assert generator.generate("violin", 8, temperature=2.0, seed=-1)[0].ids == texts[-1]


def test_options_as_an_object_and_as_keywords(generator):
    sampling = intarsia.SamplingOptions(temperature=1.5, top_k=40, seed=3)
    expected = generator.generate("violin", 8, temperature=1.5, top_k=40, seed=3)
    assert generator.generate("violin", 8, sampling=sampling) == expected
    assert generator.generate("violin", 8, sampling=sampling, seed=4) != expected
    assert generator.generate("violin", 8, sampling=sampling, temperature=0.0) == generator.generate("violin", 8)
    with pytest.raises(TypeError, match="'temprature'"):
        generator.generate("violin", temprature=1.0)
    with pytest.raises(TypeError, match="sampling is of type dict, must be SamplingOptions"):
        generator.stream("violin", sampling={"temperature": 1.0})
    for name, given in (("logit_bias", {4096: 1.0}), ("stop_tokens", [4096])):
        with pytest.raises(intarsia.InvalidArgumentError, match=f"{name} has token 4096, .* 0 to 4095"):
            generator.generate("violin", **{name: given})


@pytest.mark.parametrize("draft", [False, True])
def test_where_texts_end(generator, glossary_artifact, draft):
    """Tokens that end a text are as if they were forbidden until there are enough others."""
    drafted = {"draft": glossary_artifact} if draft else {}
    (plain,) = generator.generate("violin (noun):", 200)
    most = len(plain.ids) + 5
    (longer,) = generator.generate("violin (noun):", most, min_tokens=most, **drafted)
    (banned,) = generator.generate("violin (noun):", most, logit_bias={plain.end_token: float("-inf")}, **drafted)
    assert longer.ids == banned.ids
    assert (longer.finish_reason, len(longer.ids)) == ("length", most)
    assert longer.ids[: len(plain.ids)] == plain.ids
    (kept,) = generator.generate("violin (noun):", 200, min_tokens=len(plain.ids), **drafted)
    assert (kept.ids, kept.finish_reason) == (plain.ids, "end")
    (short,) = generator.generate("violin (noun):", 200, stop_tokens=[plain.ids[6]], **drafted)
    at = plain.ids.index(plain.ids[6])
    assert (short.ids, short.finish_reason, short.end_token) == (plain.ids[:at], "end", plain.ids[6])
    # A form that is complete ends before.
    (form,) = generator.generate("violin", 20, regex="ab", min_tokens=9)
    assert (form.text, form.finish_reason) == ("ab", "end")
    (none,) = generator.generate("violin", 20, regex="ab", min_tokens=9, stop_tokens=range(4096))
    assert (none.ids, none.finish_reason) == ([], "end")


def test_probabilities_of_the_likeliest_tokens(generator):
    prompt = generator.encode("violin (noun):")
    (result,) = generator.generate([prompt], 5, temperature=1.0, seed=1, logprobs=3)
    logits = generator.logits([prompt + result.ids])[0].astype(np.float64)[len(prompt) - 1 : -1]
    logprobs = (
        logits
        - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
        - logits.max(1, keepdims=True)
    )
    assert [list(each) for each in result.top_logprobs] == np.argsort(-logits, 1, kind="stable")[:, :3].tolist()
    for row, token, logprob, likeliest in zip(logprobs, result.ids, result.logprobs, result.top_logprobs, strict=True):
        assert logprob == pytest.approx(row[token], abs=1e-4)
        assert list(likeliest.values()) == pytest.approx(row[list(likeliest)], abs=1e-4)
    assert generator.generate([prompt], 5)[0].top_logprobs == []


def test_bytes_and_special_tokens(generator):
    (result,) = generator.generate("violin (noun):", 200)
    assert result.finish_reason == "end"
    assert result.end_token in generator._texts.ends
    assert b"".join(map(generator.token_bytes, result.ids)).decode() == result.text
    assert generator.token_bytes(result.end_token) == b"</s>"
    (shown,) = generator.generate([[*generator.encode("violin"), result.end_token]], 20, skip_special_tokens=False)
    assert shown.ids
    with pytest.raises(intarsia.InvalidArgumentError, match="token is 4096, must be at most 4095"):
        generator.token_bytes(4096)


@pytest.mark.parametrize("flags", [(), ("--quantize=int4",), ("--target=cpu:x86-64-v3", "--kv=int8")])
def test_a_prompt_alone_and_beside_others(tools, flags):
    """A seeded text has the same tokens whatever is beside it, and whatever is known of its beginning."""
    artifact = tools.artifact(MODEL, *flags)
    fresh = intarsia.Generator(artifact, tokenizer=MODEL, kept_tokens=0)
    warm = intarsia.Generator(artifact, tokenizer=MODEL)
    system = "A dictionary of short definitions, one a line, as they are learned in school. " * 2
    prompts = [f"{system}{word} ({kind}):" for word in ("violin", "run", "oak", "blue") for kind in ("noun", "verb")]
    warm.generate(system, 1)
    for seed in range(4):
        asked = prompts[seed:] + prompts[:seed]
        sampled = {"temperature": 1.0, "seed": seed}
        (alone,) = fresh.generate(asked[0], 30, **sampled)
        for model, others in ((fresh, asked), (warm, asked), (warm, asked[:1])):
            assert model.generate(others, 30, **sampled)[0].ids == alone.ids
    encoded = [fresh.encode(prompt) for prompt in prompts]
    np.testing.assert_array_equal(fresh.logits(encoded[:1])[0], fresh.logits(encoded)[0])


class Interrupts:
    """Raises KeyboardInterrupt at one of the lines that the package runs."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            # Python takes signals after calls: never between the last line of a block and the end of its `with`.
            if linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
                return self
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("drafted", [False, True])
def test_interrupted_calls_leave_a_generator_that_goes_on(glossary_artifact, drafted):
    """A text after a call that was interrupted anywhere is the one without it, and all memory comes back."""
    generator = intarsia.Generator(glossary_artifact, tokenizer=MODEL, cache=1 << 24)
    drafts = {"draft": intarsia.Generator(glossary_artifact, tokenizer=MODEL)} if drafted else {}
    calls = [(PROMPTS[:2], 30), ([PROMPTS[0] * 12, PROMPTS[0] * 12 + " a", PROMPTS[1]], 30)]
    expected = [[result.ids for result in generator.generate(prompts, count, **drafts)] for prompts, count in calls]
    counting = Interrupts(10**9)
    sys.settrace(counting)
    try:
        generator.generate(*calls[1], **drafts)
    finally:
        sys.settrace(None)
    lines = 10**9 - counting.left
    random = np.random.default_rng(8)
    interrupted = 0
    for line in random.integers(1, lines, 30).tolist():
        previous = sys.gettrace()
        sys.settrace(Interrupts(line))
        try:
            generator.generate(*calls[int(random.integers(2))], **drafts)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(previous)
        which = int(random.integers(2))
        assert [result.ids for result in generator.generate(*calls[which], **drafts)] == expected[which]
    assert interrupted > 15
    stats = generator.engine.stats()
    assert stats["free_pages"] == stats["pages"]
    assert (stats["running"], stats["waiting"]) == (0, 0)
    assert stats["finished"][CANCELLED] > 5
