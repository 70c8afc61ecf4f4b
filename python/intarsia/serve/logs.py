# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the server says of itself. Prompts, answers and keys are in no message."""

from __future__ import annotations

import logging
import traceback

log = logging.getLogger("intarsia.serve")


def log_exception(what: str, error: BaseException) -> None:
    """Log an error that should not be: its kind and place, not its message, which may quote a request."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " ← ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    log.error("%s: %s at %s", what, type(error).__name__, places)


def configure(level: str) -> None:
    """Write messages to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(level.upper())
    for name, least in (("uvicorn", "ERROR"), ("intarsia.worker", level.upper())):
        other = logging.getLogger(name)
        other.handlers[:] = [handler]
        other.propagate = False
        other.setLevel(least)
