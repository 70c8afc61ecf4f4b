# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers of tests: the same ones whichever tests run before, and in whichever process.

`conftest.py` seeds the generator with the name of each test and of each fixture before it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

RNG = np.random.default_rng(0)


@contextmanager
def seeded_by(name: str) -> Iterator[None]:
    """Seed the generator with a name; at the end it goes on as it was."""
    outer = RNG.bit_generator.state
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    RNG.bit_generator.state = np.random.PCG64(int.from_bytes(digest, "little")).state
    try:
        yield
    finally:
        RNG.bit_generator.state = outer


def normal(*shape: int, dtype: np.typing.DTypeLike = np.float32) -> np.ndarray:
    """Return values of the standard normal distribution."""
    return RNG.standard_normal(shape).astype(dtype)
