# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recognise a text that a model was calibrated on, by hashes of its passages.

A passage is a run of 16 tokens. Of all passages those are kept whose hash is divisible by 16, which the same passage of
another text is too, wherever it begins (Manber, "Finding similar files in a large file system", USENIX 1994).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np

from ..support.checks import parse_json
from ..support.errors import InvalidArgumentError

#: The file of a model directory, and of an artifact made of it, with the hashes.
FILE = "calibration.json"
#: Tokens of a passage: long enough that texts of one kind seldom share one.
_PASSAGE = 16
#: One passage in so many is kept.
_KEPT = 16
#: The odd multipliers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)
#: Kept passages below which a share says nothing.
_FEWEST = 8


def passages(windows: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the hashes of the kept passages of windows [count, length], or of one text, sorted, of uint32."""
    rows = np.atleast_2d(np.asarray(windows, np.int64)).astype(np.uint64)
    if rows.shape[1] < _PASSAGE:
        return np.zeros(0, np.uint32)
    views = np.lib.stride_tricks.sliding_window_view(rows, _PASSAGE, 1)
    first, second = (np.uint64(number) for number in _MULTIPLIERS)
    hashes = np.zeros(views.shape[:2], np.uint64)
    for slot in range(_PASSAGE):  # unsigned arithmetic wraps around
        hashes = (hashes ^ views[..., slot]) * first
        hashes ^= hashes >> np.uint64(29)
    hashes *= second
    hashes ^= hashes >> np.uint64(32)
    return np.unique((hashes[hashes % np.uint64(_KEPT) == 0] // np.uint64(_KEPT)).astype(np.uint32))


def describe(windows: np.ndarray) -> str:
    """Return the file that keeps what a model was calibrated on."""
    hashes = base64.b64encode(passages(windows).astype("<u4").tobytes()).decode()
    return json.dumps({"tokens": int(windows.size), "passages": hashes}) + "\n"


def share(text: Sequence[int] | np.ndarray, description: bytes | str) -> float:
    """Return the share of a text, 0 to 1, that a model of this description was calibrated on.

    Raises
    ------
    InvalidArgumentError
        The description is damaged.
    """
    try:
        known = np.frombuffer(base64.b64decode(parse_json(FILE, description)["passages"], validate=True), "<u4")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"{FILE}: is damaged: {error}", "invalid argument") from error
    here = passages(text)
    return float(np.isin(here, known).mean()) if here.size >= _FEWEST else 0.0
