# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sampling rules of the runtime, each against its definition, and against NumPy's."""

from __future__ import annotations

import dataclasses
import inspect

import intarsia
import numpy as np
import pytest
from intarsia import InvalidArgumentError, Sampling, _runtime
from intarsia.generation.generator import GenerationKeywords
from intarsia.generation.sampling import DEVICE_ERROR, Likeliest, SamplingKeywords
from sampling_reference import Reference, draw

LOGITS = np.log(np.array([0.4, 0.1, 0.3, 0.15, 0.05]))
NONE = np.array([], np.int64)
#: Of probabilities: logits are in single precision.
TOLERANCE = 1e-6


def probabilities(**rules: float) -> np.ndarray:
    return Sampling(**rules).probabilities(LOGITS, NONE)


def test_keywords_are_the_fields():
    """What editors complete in calls of `Generator` is what the options are."""
    fields = {field.name: field.type for field in dataclasses.fields(Sampling)}
    assert {name: each.__forward_arg__ for name, each in SamplingKeywords.__annotations__.items()} == fields
    assert intarsia.Sampling is intarsia.SamplingOptions is Sampling
    method = inspect.signature(intarsia.Generator._start)
    own = {name: each.__forward_arg__ for name, each in GenerationKeywords.__annotations__.items()}
    keywords = {each.name: each.annotation for each in method.parameters.values() if each.kind is each.KEYWORD_ONLY}
    assert own == {**fields, **keywords}
    for name in ("generate", "generate_async", "stream", "stream_async", "start", "chat", "chat_async"):
        shown = inspect.signature(getattr(intarsia.Generator, name)).parameters
        assert {each for each, parameter in shown.items() if parameter.kind is parameter.KEYWORD_ONLY} >= set(own)
        assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in shown.values())


def test_temperature():
    np.testing.assert_allclose(probabilities(temperature=1.0), [0.4, 0.1, 0.3, 0.15, 0.05], TOLERANCE)
    squared = np.array([0.4, 0.1, 0.3, 0.15, 0.05]) ** 2
    np.testing.assert_allclose(probabilities(temperature=0.5), squared / squared.sum(), TOLERANCE)
    np.testing.assert_array_equal(probabilities(), [1, 0, 0, 0, 0])


def test_top_k():
    np.testing.assert_allclose(probabilities(temperature=1.0, top_k=2), [4 / 7, 0, 3 / 7, 0, 0], TOLERANCE)
    np.testing.assert_allclose(probabilities(temperature=1.0, top_k=9), [0.4, 0.1, 0.3, 0.15, 0.05], TOLERANCE)


def test_top_k_of_equal_tokens_keeps_the_lower_ones():
    logits = np.array([1.0, 3.0, 2.0, 2.0, 2.0])
    for top_k in (2, 3):
        chosen = Sampling(temperature=1.0, top_k=top_k).probabilities(logits, NONE)
        np.testing.assert_array_equal(chosen.nonzero()[0], [1, 2, 3][:top_k])


def test_top_p():
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.6), [4 / 7, 0, 3 / 7, 0, 0], TOLERANCE)
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.39), [1, 0, 0, 0, 0], TOLERANCE)
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.71).nonzero()[0], [0, 2, 3])


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
def test_top_p_of_a_large_vocabulary(spread):
    logits = (np.random.default_rng(2).standard_normal(20000) * spread).astype(np.float32)
    everything = np.exp(logits.astype(np.float64))
    everything /= everything.sum()
    for top_p in (0.1, 0.9, 0.999):
        chosen = Sampling(temperature=1.0, top_p=top_p).probabilities(logits, NONE)
        count = np.count_nonzero(chosen)
        likeliest = np.sort(everything)[::-1][:count]
        # The sum of all is in single precision.
        assert likeliest.sum() >= top_p - TOLERANCE > likeliest[:-1].sum() - 2 * TOLERANCE
        np.testing.assert_allclose(np.sort(chosen)[::-1][:count], likeliest / likeliest.sum(), TOLERANCE)
        assert chosen[everything.argmax()] == chosen.max()


def test_min_p():
    np.testing.assert_allclose(probabilities(temperature=1.0, min_p=0.3).nonzero()[0], [0, 2, 3])


def test_repetition_penalty():
    logits = np.array([2.0, -2.0, 1.0])
    scores = Sampling(temperature=1.0, repetition_penalty=2.0).probabilities(logits, np.array([0, 1, 1]))
    expected = np.exp([1.0, -4.0, 1.0])
    np.testing.assert_allclose(scores, expected / expected.sum(), TOLERANCE)


def test_frequencies_are_probabilities():
    random = np.random.default_rng(0)
    chosen = [_runtime.draw_token(probabilities(temperature=1.0), random.random()) for _ in range(20000)]
    counts = np.bincount(chosen, minlength=5)
    # Four standard deviations of the commonest.
    np.testing.assert_allclose(counts / 20000, [0.4, 0.1, 0.3, 0.15, 0.05], atol=4 * (0.4 * 0.6 / 20000) ** 0.5)


def test_what_has_no_probability_is_never_drawn():
    highest = float(np.nextafter(1, 0))
    # The order of the sum may give more than the running sum: a draw by the former would go past the end.
    values = np.concatenate([np.random.default_rng(3).random(5000), [0.0]])
    assert _runtime.draw_token(values / values.sum(), highest) < 5000
    assert _runtime.draw_token(np.array([0.0, 2.0, 0.0]), highest) == 1


RULES = {
    "temperature": {"temperature": 1.3},
    "cold": {"temperature": 0.2},
    "nearly greedy": {"temperature": 1e-40},
    "greedy": {},
    "top_k": {"temperature": 1.0, "top_k": 64},
    "top_k beyond the candidates": {"temperature": 1.0, "top_k": 65},
    "top_p": {"temperature": 0.8, "top_p": 0.9},
    "min_p": {"temperature": 1.0, "min_p": 0.05},
    "all": {"temperature": 0.7, "top_k": 50, "top_p": 0.95, "min_p": 0.01},
}


def rows(count: int):
    """Logits of vocabularies of several sizes, with few and with many likely tokens, some with ties."""
    random = np.random.default_rng(5)
    for number in range(count):
        logits = random.uniform(0.1, 6) * random.standard_normal((40, 3000, 20000)[number % 3])
        yield (np.round(logits) if number % 4 == 0 else logits).astype(np.float32), float(random.random())


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_number_means_the_token_in_whose_share_it_lies(rules):
    """The shares of the probabilities, sorted and summed in float64, lie side by side, the largest first."""
    sampling = Sampling(**rules)
    for logits, number in rows(100):
        chosen = sampling.probabilities(logits, NONE)
        order = np.argsort(-logits, kind="stable")
        ends = np.cumsum(chosen[order])
        if np.abs(ends - number).min() > 1e-6:  # sums of single precision may be on the other side
            assert sampling.choose(logits, NONE, number) == order[np.searchsorted(ends, number, side="right")]


def changed_rows(count: int):
    """Give rows with texts before them, of which some tokens were generated."""
    random = np.random.default_rng(6)
    for logits, number in rows(count):
        context = random.integers(logits.size, size=random.integers(30))
        yield logits, context, number, int(random.integers(context.size + 1))


PENALTIES = {
    "none": {},
    "repetition": {"repetition_penalty": 1.4},
    "presence and frequency": {"presence_penalty": 0.8, "frequency_penalty": -0.3},
    "bias": {"logit_bias": {3: 2.5, 11: float("-inf"), 39: -0.25}},
    "all": {"repetition_penalty": 0.8, "presence_penalty": -0.4, "frequency_penalty": 0.2, "logit_bias": {7: 4.0}},
}


@pytest.mark.parametrize("penalties", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_the_runtime_chooses_as_numpy(rules, penalties):
    """Numbers and limits right at the border of a token's share may fall on either side of it."""
    ours, theirs = Sampling(**rules, **penalties), Reference(**rules, **penalties)
    compared = 0
    for logits, context, number, generated in changed_rows(30):
        wanted = theirs.probabilities(logits, context, generated)
        found = ours.probabilities(logits, context, generated)
        kept = [int(np.count_nonzero(each > 1e-30)) for each in (found, wanted)]
        if kept[0] != kept[1]:
            # Another token at the end of what top_p keeps, or with the least logit of those that min_p keeps.
            assert abs(kept[0] - kept[1]) == 1
            continue
        tolerance = 4 * TOLERANCE
        if penalties and ours.temperature > 0.1:  # scores with penalties are rounded to single precision
            tolerance += float(np.spacing(np.abs(logits).max()) / ours.temperature)
        np.testing.assert_allclose(found, wanted, tolerance, 1e-12)
        ends = np.cumsum(np.sort(wanted)[::-1])
        if np.abs(ends - number).min() > TOLERANCE:
            compared += 1
            chosen = ours.choose(logits, context, number, generated)
            # Of equally likely tokens either may be first.
            expected = theirs.choose(logits, context, number, generated)
            assert chosen == expected or wanted[chosen] == pytest.approx(wanted[expected], rel=1e-5)
    assert compared > 25


def test_draws_are_those_of_numpy():
    random = np.random.default_rng(9)
    for size in (1, 7, 5000):
        values = random.random(size) ** 8
        for number in random.random(50):
            assert _runtime.draw_token(values, number) == draw(values, number)


def test_logarithms_of_probabilities():
    for logits, number in rows(30):
        exact = logits.astype(np.float64)
        token = int(number * logits.size)
        wanted = exact[token] - exact.max() - np.log(np.exp(exact - exact.max()).sum())
        assert _runtime.log_probability(logits, token) == pytest.approx(wanted, rel=TOLERANCE, abs=TOLERANCE)


def test_texts_of_other_vocabularies_are_refused():
    for context in ([5], [-1]):
        with pytest.raises(InvalidArgumentError, match="a token of the context is not in the vocabulary"):
            Sampling(repetition_penalty=2.0).choose(LOGITS, context, 0.5)
    with pytest.raises(InvalidArgumentError, match="logit_bias is for token 5"):
        Sampling(logit_bias={5: 1.0}).probabilities(LOGITS, NONE)
    with pytest.raises(InvalidArgumentError, match="more tokens are generated"):
        Sampling().choose(LOGITS, [1], 0.5, 2)
    with pytest.raises(InvalidArgumentError, match="there are no logits"):
        Sampling().choose(NONE, NONE, 0.5)
    with pytest.raises(InvalidArgumentError, match="the likeliest tokens"):
        Sampling().choose_candidate(Likeliest(NONE, NONE, 1.0, 0.0, 5), 0.5)


def on_a_device(logits: np.ndarray, sampling: Sampling, count: int = 64, error: float = 0.0) -> Likeliest:
    """Return what a device says of a row, with a total that is off by some share of what it may be off by."""
    tokens = np.argsort(-logits, kind="stable")[:count]
    exact = logits.astype(np.float64)
    total = np.exp((exact - exact.max()) / sampling.runtime.divisor).sum() * (1 + error * DEVICE_ERROR)
    return Likeliest(tokens.astype(np.int32), logits[tokens], float(total), DEVICE_ERROR, logits.size)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_candidates_decide_the_same_or_nothing(rules):
    sampling = Sampling(**rules)
    decided = 0
    for logits, number in rows(300):
        token = sampling.choose(logits, NONE, number)
        for error in (-0.9, 0.9):
            candidate = sampling.choose_candidate(on_a_device(logits, sampling, error=error), number)
            assert candidate in (None, token)
            decided += candidate is not None
    assert decided > (0 if rules.get("top_k") == 65 else 250)


def test_candidates_that_an_error_could_change_decide_nothing():
    """A number right at the end of a token's share, by the total and by a limit of top_p."""
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))
    plain, nucleus = Sampling(temperature=1.0), Sampling(temperature=1.0, top_p=0.75)
    assert plain.choose_candidate(on_a_device(logits, plain), 0.5 + DEVICE_ERROR / 4) is None
    assert plain.choose_candidate(on_a_device(logits, plain), 0.5 - DEVICE_ERROR * 4) == 0
    assert plain.choose_candidate(on_a_device(logits, plain), 0.5 + DEVICE_ERROR * 4) == 1
    assert nucleus.choose_candidate(on_a_device(logits, nucleus), 0.1) is None
    assert Sampling(temperature=1.0, top_p=0.74).choose_candidate(on_a_device(logits, plain), 0.1) == 0


def test_candidates_without_a_total_decide_nothing():
    logits = np.array([1.0, np.nan], np.float32)
    likeliest = Likeliest(np.array([1, 0], np.int32), logits[[1, 0]], float("nan"), DEVICE_ERROR, 2)
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        assert sampling.choose_candidate(likeliest, 0.5) is None
        with pytest.raises(InvalidArgumentError, match="the largest logit is nan"):
            sampling.choose(logits, NONE, 0.5)


def test_presence_and_frequency_penalties():
    """OpenAI's formula: logit - count * frequency_penalty - (count > 0) * presence_penalty, of generated tokens."""
    logits = np.array([1.0, 2.0, 3.0, 4.0])
    context = [3, 0, 1, 2, 2]
    rules = Sampling(temperature=1.0, presence_penalty=0.5, frequency_penalty=0.25)
    for generated, expected in (
        (0, [1.0, 2.0, 3.0, 4.0]),
        (3, [1.0, 2.0 - 0.75, 3.0 - 1.0, 4.0]),
        (5, [1.0 - 0.75, 2.0 - 0.75, 3.0 - 1.0, 4.0 - 0.75]),
    ):
        powers = np.exp(expected)
        np.testing.assert_allclose(rules.probabilities(logits, context, generated), powers / powers.sum(), TOLERANCE)
    assert Sampling(presence_penalty=2.5).choose(logits, [3], 0.0, 1) == 2
    assert Sampling(frequency_penalty=-2.0).choose(logits, [1, 1], 0.0, 2) == 1


def test_biases_come_before_penalties():
    logits = np.array([1.0, 2.0, 3.0])
    rules = Sampling(temperature=1.0, logit_bias={0: 3.0, 2: float("-inf")}, repetition_penalty=2.0)
    powers = np.exp([2.0, 2.0])  # (1 + 3) / 2, 2
    np.testing.assert_allclose(rules.probabilities(logits, [0]), [*(powers / powers.sum()), 0], TOLERANCE)
    assert Sampling(logit_bias={0: 100}).choose(logits, NONE, 0.0) == 0
    assert Sampling(logit_bias={0: 1}).runtime.needs_all_logits
    assert not Sampling(logit_bias={}).runtime.needs_all_logits
    assert len({Sampling(logit_bias={1: 1}), Sampling(logit_bias={1: 1})}) == 1


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"temperature": float("inf")}, "temperature is inf, must be from 0 to 1e"),
        ({"temperature": float("nan")}, "temperature is nan, must be"),
        ({"temperature": 1e39}, "temperature is 1e"),
        ({"temperature": 10**400}, "temperature is a number of 1329 bits, must be at most"),
        ({"temperature": -0.1}, "temperature is -0.1, must be from 0"),
        ({"temperature": "1"}, "temperature is '1', must be a number"),
        ({"temperature": None}, "temperature is None, must be a number"),
        ({"temperature": True}, "temperature is True, must be a number"),
        ({"temperature": 1j}, "temperature is 1j, must be a number"),
        ({"top_k": 40.0}, "top_k is 40.0, must be a whole number"),
        ({"top_k": 1.5}, "top_k is 1.5, must be a whole number"),
        ({"top_k": "40"}, "top_k is '40', must be a whole number"),
        ({"top_k": True}, "top_k is True, must be a whole number"),
        ({"top_k": -1}, "top_k is -1, must be at least 0"),
        ({"top_p": 0}, "top_p is 0.0, must be above 0"),
        ({"top_p": 1.01}, "top_p is 1.01, must be from 0 to 1"),
        ({"top_p": [1]}, "top_p is .1., must be a number"),
        ({"min_p": 1.5}, "min_p is 1.5, must be from 0 to 1"),
        ({"repetition_penalty": 1e-320}, "repetition_penalty is 1e-320, must be from 1e-09 to 1e"),
        ({"presence_penalty": float("nan")}, "presence_penalty is nan, must be"),
        ({"frequency_penalty": "1"}, "frequency_penalty is '1', must be a number"),
        ({"logit_bias": [1]}, "logit_bias is of type list, must be a mapping"),
        ({"logit_bias": {"1": 1}}, "a token of logit_bias is '1', must be a whole number"),
        ({"logit_bias": {-1: 1}}, "a token of logit_bias is -1, must be at least 0"),
        ({"logit_bias": {1: float("nan")}}, "logit_bias of token 1 is nan"),
        ({"stop_tokens": 1}, "stop_tokens is of type int, must be token ids"),
        ({"stop_tokens": [1.5]}, "a token of stop_tokens is 1.5, must be a whole number"),
        ({"min_tokens": -1}, "min_tokens is -1, must be at least 0"),
        ({"logprobs": 21}, "logprobs is 21, must be at most 20"),
        ({"seed": 1.5}, "seed is 1.5, must be a whole number"),
        ({"stop": [""]}, "stop is .*, must be texts that are not empty"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0.0, must be"),
        ({"repetition_penalty": "x" * 100000}, "repetition_penalty is 'xx"),
    ],
)
def test_rules_are_checked_by_name(rules, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Sampling(**rules)
    assert len(str(caught.value)) < 200


def test_rules_may_be_numbers_of_numpy():
    rules = Sampling(temperature=np.float32(0.5), top_k=np.int64(3), top_p=np.float64(0.5), min_p=np.int32(0))
    assert rules == Sampling(temperature=0.5, top_k=3, top_p=0.5, min_p=0.0)


@pytest.mark.parametrize("temperature", [0.0, 1e-40, 1e-9, 1.0, 1e9])
@pytest.mark.parametrize("penalty", [1e-9, 1.0, 1e9])
def test_tokens_that_a_form_forbids_are_never_drawn(temperature, penalty):
    random = np.random.default_rng(1)
    for rules in ({}, {"top_k": 20}, {"top_p": 0.999}, {"min_p": 1e-9}, {"top_k": 5, "top_p": 0.9}):
        sampling = Sampling(temperature=temperature, repetition_penalty=penalty, **rules)
        for number in (0.0, 0.3, float(np.nextafter(1, 0))):
            logits = (30 * random.standard_normal(50)).astype(np.float32)
            allowed = random.choice(50, 3, replace=False)
            restricted = np.where(np.isin(np.arange(50), allowed), logits, -np.inf).astype(np.float32)
            context = random.integers(50, size=10)
            assert sampling.choose(restricted, context, number) in allowed
            assert set(sampling.probabilities(restricted, context).nonzero()[0]) <= set(allowed)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_allow_no_token_are_refused(temperature):
    """The model itself may have said -∞ for the tokens that a form allows."""
    logits = np.full(5, -np.inf, np.float32)
    for call in (lambda rules: rules.choose(logits, NONE, 0.5), lambda rules: rules.probabilities(logits, NONE)):
        with pytest.raises(InvalidArgumentError, match="the largest logit is -inf: no token can be drawn"):
            call(Sampling(temperature=temperature))
