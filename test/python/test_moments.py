# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Second moments against NumPy in float64, and texts that are recognised again."""

from __future__ import annotations

import intarsia
import ml_dtypes
import numpy as np
import pytest
from intarsia import _runtime
from intarsia.quantization import moments, overlap
from intarsia.quantization.moments import DAMPING, Moments

needs_products = pytest.mark.skipif(not _runtime.has_products(), reason="the processor does not multiply bf16")


def rounded(rows: np.ndarray) -> np.ndarray:
    return rows.astype(ml_dtypes.bfloat16).astype(np.float64)


@needs_products
@pytest.mark.parametrize(("tokens", "left", "right"), [(1, 3, 5), (7, 17, 33), (1500, 100, 70), (1025, 48, 49)])
def test_products_are_those_of_rounded_rows(tokens, left, right):
    """Sums of f32 differ from exact ones by some units in the last place, ties of bf16 are rounded to even."""
    random = np.random.default_rng(tokens)
    x, y = (random.normal(size=(tokens, features)).astype(np.float32) for features in (left, right))
    x[0, :2] = 1 + 2.0**-8, 1 + 3 * 2.0**-8
    tolerance = {"rtol": 1e-5, "atol": 1e-5 * np.sqrt(tokens)}
    sums = np.ones((left, right), np.float32)
    _runtime.add_products(sums, x, y)
    np.testing.assert_allclose(sums, 1 + rounded(x).T @ rounded(y), **tolerance)
    sums = np.zeros((left, left), np.float32)
    _runtime.add_products(sums, x, None)
    np.testing.assert_allclose(np.tril(sums), np.tril(rounded(x).T @ rounded(x)), **tolerance)


@needs_products
def test_products_of_other_shapes_are_refused():
    rows = np.zeros((4, 3), np.float32)
    for sums, other in [((3, 4), rows), ((4, 3), rows), ((3, 3), np.zeros((5, 3), np.float32))]:
        with pytest.raises(ValueError, match="rows with equal tokens"):
            _runtime.add_products(np.zeros(sums, np.float32), rows, other)


@pytest.mark.parametrize("has_products", [True, False])
@pytest.mark.parametrize("outputs", [5, 40])
def test_weights_for_changed_inputs(monkeypatch, has_products, outputs):
    """The change is that of ridge regression: least squares with the damping as more rows."""
    if has_products and not _runtime.has_products():
        pytest.skip("the processor does not multiply bf16")
    monkeypatch.setattr(moments._runtime, "has_products", lambda: has_products)
    random = np.random.default_rng(0)
    exact = random.normal(size=(600, 20)).astype(np.float32)
    # Numbers of bf16, so that both ways sum the same products.
    changed = rounded(exact + 0.1 * random.normal(size=exact.shape)).astype(np.float32)
    exact = (changed + rounded(exact - changed)).astype(np.float32)
    weight = random.normal(size=(outputs, 20)).astype(np.float32)
    sums = Moments("linear", 20)
    for part in range(0, 600, 150):
        sums.add(changed[part : part + 150], exact[part : part + 150])
    x, y = changed.astype(np.float64), exact.astype(np.float64)
    np.testing.assert_allclose(sums.mean(), x.T @ x / 600, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(sums.mean(), sums.mean().T)
    damping = DAMPING * np.mean(np.diagonal(x.T @ x))
    rows = np.concatenate([x, np.sqrt(damping) * np.eye(20)])
    aims = np.concatenate([(y - x) @ weight.T, np.zeros((20, outputs))])
    expected = np.linalg.lstsq(rows, aims, rcond=None)[0].T
    first, second = sums.change([weight[:3], weight[3:]])
    np.testing.assert_allclose(np.concatenate([first, second]), expected, rtol=2e-4, atol=2e-5)
    assert np.abs(expected).max() > 0.05


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_inputs_that_are_not_finite(value):
    rows = np.ones((4, 6), np.float32)
    rows[2, 3] = value
    sums = Moments("model.layers.7.mlp.down_proj", 6)
    sums.add(rows)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"model.layers.7.mlp.down_proj .* in feature 3 on the"):
        sums.mean()


def test_texts_are_recognised():
    """By as much as they share, wherever it begins; other texts of the same words are not."""
    random = np.random.default_rng(0)
    text, other = random.integers(0, 50, (2, 20_000))
    description = overlap.describe(text[:16_384].reshape(-1, 512))
    assert overlap.share(text[:16_000], description) > 0.96  # but for passages over two windows
    assert overlap.share(other, description) == 0
    mixed = np.concatenate([other[:7_777], text[101:5_101], other[7_777:]])
    # 5,000 of 25,000 tokens; one passage in 16 is looked at, so that the share is found within some hundredths.
    assert overlap.share(mixed, description) == pytest.approx(0.2, abs=0.03)
    assert overlap.share(text[:10], description) == 0
    assert len(overlap.passages(text)) == pytest.approx(20_000 / 16, rel=0.1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"passages": 3}', '{"passages": "?"}', '{"passages": "AAA="}'])
def test_damaged_descriptions(text):
    with pytest.raises(intarsia.InvalidArgumentError, match=r"calibration\.json: is damaged"):
        overlap.share(range(100), text)
