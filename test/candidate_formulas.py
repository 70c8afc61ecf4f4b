# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Candidates for the next token in NumPy and float64, as dialects/Nn/Ops/Candidates/Candidates.td has them."""

from __future__ import annotations

import numpy as np


def candidates(logits: np.ndarray, temperatures: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and tokens [rows, count] and sums [rows, temperatures]; a stable sort keeps the order of equal ones."""
    exact = logits.astype(np.float64)
    order = np.where(np.isnan(exact), np.inf, np.where(np.isposinf(exact), 1e300, exact))
    tokens = np.argsort(-order, axis=1, kind="stable")[:, :count]
    largest = np.where(np.isneginf(exact).all(axis=1), 0, exact.max(axis=1))
    with np.errstate(invalid="ignore", over="ignore"):
        exponents = (exact - largest[:, None])[:, None, :] / temperatures.astype(np.float64)[:, :, None]
        sums = np.exp(exponents).sum(axis=2)
    return np.take_along_axis(logits, tokens, axis=1), tokens, sums


def program(vocabulary: int, count: int, temperatures: int = 2) -> str:
    """Text of a module whose function `main` finds candidates."""
    types = f"tensor<?x{vocabulary}xf32>, tensor<?x{temperatures}xf32>"
    results = f"tensor<?x{count}xf32>, tensor<?x{count}xi32>, tensor<?x{temperatures}xf32>"
    return f"""
      func.func @main(%l: tensor<?x{vocabulary}xf32> {{nn.name = "logits", nn.sizes = ["rows", ""]}},
                      %t: tensor<?x{temperatures}xf32> {{nn.name = "temperatures", nn.sizes = ["rows", ""]}})
          -> (tensor<?x{count}xf32> {{nn.name = "values"}}, tensor<?x{count}xi32> {{nn.name = "tokens"}},
              tensor<?x{temperatures}xf32> {{nn.name = "sums"}}) {{
        %v, %i, %s = nn.candidates %l, %t {{count = {count} : i64}} : ({types}) -> ({results})
        return %v, %i, %s : {results}
      }}"""


def special_logits(rows: int, vocabulary: int, random: np.random.Generator) -> np.ndarray:
    """Logits of at least 9 rows, of which the first have ties, infinities and NaN."""
    logits = (4 * random.standard_normal((rows, vocabulary))).astype(np.float32)
    logits[1] = np.round(logits[1])  # ties
    logits[2] = 1
    logits[3, vocabulary // 2], logits[4] = np.nan, -np.inf
    logits[5, : vocabulary - 1] = -np.inf
    logits[6] = np.where(random.random(vocabulary) < 0.5, 0.0, -0.0)
    logits[7, -1] = -np.nan
    logits[8, vocabulary // 3] = np.inf
    return logits


def check(actual: tuple[np.ndarray, ...], logits: np.ndarray, temperatures: np.ndarray, tolerance: float) -> None:
    """Compare results with those in float64: values and tokens are exact, sums as close as the tolerance says."""
    values, tokens, sums = candidates(logits, temperatures, actual[1].shape[1])
    np.testing.assert_array_equal(actual[1], tokens)
    np.testing.assert_array_equal(actual[0], values)
    np.testing.assert_allclose(actual[2], sums, rtol=tolerance, atol=0)
