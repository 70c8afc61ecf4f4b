# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums over the tokens of a calibration text: second moments of what linears multiply."""

from __future__ import annotations

import numpy as np

from .. import _runtime
from ..support.errors import InvalidArgumentError

#: Of the mean of the diagonal of second moments, added to it (GPTQ, arXiv 2210.17323, section 3.3).
DAMPING = 0.01


class Moments:
    """Sums of products of the inputs of one linear, with x those of the quantized model and y those of the exact one.

    Factors are rounded to bf16 where the processor multiplies it, which is twice as fast; sums are in f32.
    """

    def __init__(self, name: str, features: int) -> None:
        self.name = name
        self.tokens = 0
        self._squares = np.zeros((features, features), np.float32)  # xᵀ x, of which the lower triangle is summed
        self._crossed: np.ndarray | None = None  # (y - x)ᵀ x

    @property
    def features(self) -> int:
        """The features of the input."""
        return len(self._squares)

    def add(self, rows: np.ndarray, exact: np.ndarray | None = None) -> None:
        """Add tokens: x [tokens, features] of f32, and y where it differs."""
        self.tokens += len(rows)
        _add_products(self._squares, rows, None)
        if exact is not None:
            if self._crossed is None:
                self._crossed = np.zeros_like(self._squares)
            with np.errstate(invalid="ignore"):  # mean() says where
                difference = exact - rows
            _add_products(self._crossed, difference, rows)

    def mean(self) -> np.ndarray:
        """Return the mean of x xᵀ over tokens, [features, features] of f32.

        Raises
        ------
        InvalidArgumentError
            A feature of an input was not finite, or too large to be squared.
        """
        wrong = np.flatnonzero(~np.isfinite(np.diagonal(self._squares)))
        if wrong.size:
            raise InvalidArgumentError(
                f"the input of {self.name} has NaN, infinity or numbers beyond 1e19 in feature {wrong[0]} on the "
                f"calibration text ({wrong.size} of {len(self._squares)} features): is the model damaged?",
                "invalid argument",
            )
        lower = np.tril(self._squares)
        lower += np.tril(lower, -1).T
        lower /= self.tokens
        return lower

    def change(self, weights: list[np.ndarray]) -> list[np.ndarray]:
        """Return what weights [outputs, features] gain if their outputs for x are to be near those for y.

        The weight w' with the least |x w' - y w|² is w + w (y - x)ᵀ x (xᵀ x)⁻¹, by the normal equations; what is
        inverted is damped.
        """
        assert self._crossed is not None
        damped = self.mean().astype(np.float64)
        damped[np.diag_indices_from(damped)] += DAMPING * np.trace(damped) / len(damped)
        outputs = sum(len(weight) for weight in weights)
        scale = np.float32(1 / self.tokens)
        if outputs > len(damped):  # fewer right-hand sides
            factor = np.linalg.solve(damped, self._crossed.T.astype(np.float64)).T.astype(np.float32) * scale
            return [weight @ factor for weight in weights]
        products = np.concatenate([weight @ self._crossed for weight in weights])
        change = np.linalg.solve(damped, products.T.astype(np.float64)).T.astype(np.float32) * scale
        return np.split(change, np.cumsum([len(weight) for weight in weights])[:-1])


def _add_products(sums: np.ndarray, left: np.ndarray, right: np.ndarray | None) -> None:
    """Add leftᵀ right to sums; without `right` the lower triangle of leftᵀ left."""
    if _runtime.has_products():
        _runtime.add_products(sums, np.ascontiguousarray(left), None if right is None else np.ascontiguousarray(right))
    else:
        sums += left.T @ (left if right is None else right)
