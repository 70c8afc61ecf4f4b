# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Logits that stay on the device that computed them."""

from __future__ import annotations

import numpy as np

from .. import _runtime
from .sampling import Likeliest


class DeviceRow:
    """The logits after one token on a device, and the likeliest tokens by them in memory of the host.

    Attributes
    ----------
    likeliest : Likeliest
        The likeliest tokens, with the total at the sampler's temperature.
    """

    def __init__(self, tensor: _runtime.Tensor, row: int, likeliest: Likeliest, total: float) -> None:
        self.likeliest = likeliest
        self._tensor, self._row = tensor, row
        self._total = total  # at the temperature 1
        self._logits: np.ndarray | None = None

    def logits(self) -> np.ndarray:
        """Return all logits [vocabulary], which are copied from the device."""
        if self._logits is None:
            self._logits = self._tensor.rows(self._row, 1).numpy()[0]
        return self._logits

    def log_probability(self, token: int) -> float:
        """Return the natural logarithm of a token's probability at the temperature 1."""
        found = np.flatnonzero(self.likeliest.tokens == token)
        if found.size == 0 or self._logits is not None:
            return log_probability(self.logits(), token)
        values = self.likeliest.logits.astype(np.float64)
        return float(values[found[0]] - values[0] - np.log(self._total))


def log_probability(row: np.ndarray | DeviceRow, token: int) -> float:
    """Return the natural logarithm of a token's probability, given logits [vocabulary]."""
    if isinstance(row, DeviceRow):
        return row.log_probability(token)
    return _runtime.log_probability(np.ascontiguousarray(row, np.float32), token)
