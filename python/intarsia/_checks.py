# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checked conversions of arguments and file contents; an invalid one raises `InvalidArgumentError`."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._errors import InvalidArgumentError

#: The largest number of C's int64_t.
INT64_MAX = 2**63 - 1


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number that is within its bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _invalid(f"{name} is {value!r}, must be a whole number") from None
    if number < least:
        raise _invalid(f"{name} is {_shown(number)}, must be at least {least}")
    if most is not None and number > most:
        raise _invalid(f"{name} is {_shown(number)}, must be at most {most}")
    return number


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of a package written in Rust, which is not an `Exception`, into a `RuntimeError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the package that reads it panics: {error}") from error


def token_ids(ids: Any) -> np.ndarray:
    """Return token ids as int64 [tokens]. The runtime checks that the model has them."""
    try:
        array = np.asarray(ids)
    except (TypeError, ValueError, OverflowError):  # for example rows of different lengths
        raise _invalid("token ids are not a sequence of whole numbers of 64 bits") from None
    if array.size == 0 and array.ndim == 1:
        return array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.max() > INT64_MAX:
        raise _invalid("token ids are not a sequence of whole numbers of 64 bits")
    return array.astype(np.int64, copy=False)


def parse_json(where: str, text: str) -> dict[str, Any]:
    """Return the object that a JSON text holds; `where` is what messages call the text."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise _invalid(f"{where}: is nested too deep") from None
    except ValueError as error:  # not JSON, or a number with more digits than Python converts
        raise _invalid(f"{where}: {error}") from error
    if not isinstance(value, dict):
        raise _invalid(f"{where}: is a {type(value).__name__}, must be an object")
    return value


def _shown(number: int) -> str:
    """Return a number as a text that is short enough for a message; Python converts at most 4300 digits."""
    return str(number) if abs(number) < 10**20 else f"a number of {number.bit_length()} bits"


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
