# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The time of calls in one process."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(call: Callable[[], object], seconds: float) -> float:
    """Return the milliseconds of a call, the mean over `seconds`. The first call is not counted."""
    call()
    count, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        call()
        count += 1
    return elapsed / count * 1e3
