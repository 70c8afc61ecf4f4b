# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the loss of embeddings is computed, and what it is measured on."""

from __future__ import annotations

import numpy as np
import pytest
from make_quantized_models import CALIBRATION_SENTENCES, MEASURED_SENTENCES, sentences
from quantized_encoders import loss


def test_nothing_is_measured_on_what_peers_are_calibrated_with():
    measured, calibrated = sentences(held_out=True), sentences(held_out=False)
    assert len(set(measured)) == MEASURED_SENTENCES
    assert len(set(calibrated)) == CALIBRATION_SENTENCES
    assert not set(measured) & set(calibrated)


def test_loss():
    reference = np.random.default_rng(0).standard_normal((20, 8))
    same = loss(3 * reference, reference)
    assert same["mean_cosine"] == pytest.approx(1)
    assert same["spearman"] == pytest.approx(1)
    # A right angle in one row of two; the only pair keeps no order.
    turned = loss(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]))
    assert turned["mean_cosine"] == pytest.approx(2 / 3)
    assert turned["least_cosine"] == pytest.approx(0)
    # Cosines of pairs: 0.707, 0.949, 0.894 instead of 0.707, 0.316, 0.894: ranks 1 3 2 instead of 2 1 3.
    assert turned["spearman"] == pytest.approx(-0.5)
