# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Perplexities by hand, against those that the package computes."""

from __future__ import annotations

import intarsia
import language_model_quality as quality
import numpy as np
import pytest


def test_losses():
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [1000.0, 0.0, 0.0, 0.0]], np.float32)
    np.testing.assert_allclose(quality.losses(logits, np.array([2, 1])), [np.log(4), 1000])


def test_token_by_token(glossary_artifact):
    windows = np.random.default_rng(1).integers(3, 4000, (3, 9))
    generator = intarsia.Generator(glossary_artifact)
    logits = [generator.logits([window[:-1].tolist()])[0] for window in windows]
    perplexity = quality.token_by_token(lambda tokens, position: np.stack([rows[position] for rows in logits]), windows)
    assert perplexity == pytest.approx(generator.perplexity(windows.tolist()), rel=1e-5)
    whole = [quality.losses(rows, window[1:]).mean() for rows, window in zip(logits, windows, strict=True)]
    assert perplexity == pytest.approx(np.exp(np.mean(whole)), rel=1e-9)
