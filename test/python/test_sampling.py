# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sampling rules, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from intarsia import Sampling
from intarsia._sampling import draw

LOGITS = np.log(np.array([0.4, 0.1, 0.3, 0.15, 0.05]))
NONE = np.array([], np.int64)


def probabilities(**rules: float) -> np.ndarray:
    return Sampling(**rules).probabilities(LOGITS, NONE)


def test_temperature():
    np.testing.assert_allclose(probabilities(temperature=1.0), [0.4, 0.1, 0.3, 0.15, 0.05])
    squared = np.array([0.4, 0.1, 0.3, 0.15, 0.05]) ** 2
    np.testing.assert_allclose(probabilities(temperature=0.5), squared / squared.sum())
    np.testing.assert_array_equal(probabilities(), [1, 0, 0, 0, 0])


def test_top_k():
    np.testing.assert_allclose(probabilities(temperature=1.0, top_k=2), [4 / 7, 0, 3 / 7, 0, 0])
    np.testing.assert_allclose(probabilities(temperature=1.0, top_k=9), [0.4, 0.1, 0.3, 0.15, 0.05])


def test_top_p():
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.6), [4 / 7, 0, 3 / 7, 0, 0])
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.39), [1, 0, 0, 0, 0])
    np.testing.assert_allclose(probabilities(temperature=1.0, top_p=0.71).nonzero()[0], [0, 2, 3])


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
def test_top_p_of_a_large_vocabulary(spread):
    logits = np.random.default_rng(2).standard_normal(20000) * spread
    everything = np.exp(logits) / np.exp(logits).sum()
    for top_p in (0.1, 0.9, 0.999):
        chosen = Sampling(temperature=1.0, top_p=top_p).probabilities(logits, NONE)
        count = np.count_nonzero(chosen)
        likeliest = np.sort(everything)[::-1][:count]
        assert likeliest.sum() >= top_p - 1e-12 > likeliest[:-1].sum() - 1e-9
        np.testing.assert_allclose(np.sort(chosen)[::-1][:count], likeliest / likeliest.sum())
        assert chosen[everything.argmax()] == chosen.max()


def test_min_p():
    np.testing.assert_allclose(probabilities(temperature=1.0, min_p=0.3).nonzero()[0], [0, 2, 3])


def test_repetition_penalty():
    logits = np.array([2.0, -2.0, 1.0])
    scores = Sampling(temperature=1.0, repetition_penalty=2.0).probabilities(logits, np.array([0, 1, 1]))
    expected = np.exp([1.0, -4.0, 1.0])
    np.testing.assert_allclose(scores, expected / expected.sum())


def test_frequencies_are_probabilities():
    random = np.random.default_rng(0)
    chosen = [draw(probabilities(temperature=1.0), random) for _ in range(20000)]
    counts = np.bincount(chosen, minlength=5)
    # Four standard deviations of the commonest.
    np.testing.assert_allclose(counts / 20000, [0.4, 0.1, 0.3, 0.15, 0.05], atol=4 * (0.4 * 0.6 / 20000) ** 0.5)


def test_what_has_no_probability_is_never_drawn():
    class Highest:
        def random(self) -> float:
            return float(np.nextafter(1, 0))

    # The sum in pairs is above the running sum: a draw by the former would go past the end.
    values = np.concatenate([np.random.default_rng(3).random(5000), [0.0]])
    assert draw(values / values.sum(), Highest()) < 5000
    assert draw(np.array([0.0, 2.0, 0.0]), Highest()) == 1
