# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checked conversions of arguments and file contents; an invalid one raises `InvalidArgumentError`."""

from __future__ import annotations

import json
import operator
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InvalidArgumentError, NotFoundError

#: The largest number of C's int64_t.
INT64_MAX = 2**63 - 1
#: The deepest JSON that is read, as in the tools (lib/Support/Nesting.h): what is made of a value recurses too.
DEEPEST_JSON = 64


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number that is within its bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _invalid(f"{name} is {brief(value)}, must be a whole number") from None
    if isinstance(value, bool):
        raise _invalid(f"{name} is {value}, must be a whole number")
    if number < least:
        raise _invalid(f"{name} is {_shown(number)}, must be at least {least}")
    if most is not None and number > most:
        raise _invalid(f"{name} is {_shown(number)}, must be at most {most}")
    return number


def real_number(name: str, value: Any, least: float, most: float) -> float:
    """Return a number that is within its bounds."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _invalid(f"{name} is {brief(value)}, must be a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the range of floats
        raise _invalid(f"{name} is {_shown(value)}, must be at most {most:g}") from None
    if not least <= number <= most:
        raise _invalid(f"{name} is {number}, must be from {least:g} to {most:g}")
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


def parse_json(where: str, text: str | bytes) -> dict[str, Any]:
    """Return the object that a JSON text holds; `where` is what messages call the text."""
    try:
        value = json.loads(text)
        is_deep = is_deeper(value, DEEPEST_JSON)
    except RecursionError:
        is_deep = True
    except ValueError as error:  # not JSON, not UTF-8, or a number with more digits than Python converts
        raise _invalid(f"{where}: {error}") from error
    if is_deep:
        raise _invalid(f"{where}: is nested too deep: more than {DEEPEST_JSON} levels")
    if not isinstance(value, dict):
        raise _invalid(f"{where}: is a {type(value).__name__}, must be an object")
    return value


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file of JSON."""
    try:
        return parse_json(str(file), file.read_bytes())
    except FileNotFoundError as error:
        raise NotFoundError(f"{file}: there is no such file", "not found") from error


def check_form(where: str, value: Any, form: Any) -> None:
    """Refuse a value of JSON that has another form; `where` is what messages call it.

    A form is a type, or a union of types; a range of whole numbers; a dictionary with the forms of keys that must be
    there, among others; or a list of the one form that all elements have.
    """
    if isinstance(form, dict):
        check_form(where, value, dict)
        for key, inner in form.items():
            if key not in value:
                raise _invalid(f"{where} has no '{key}'")
            check_form(f"{where}: {key}", value[key], inner)
    elif isinstance(form, list):
        check_form(where, value, list)
        for number, element in enumerate(value):
            check_form(f"{where}[{number}]", element, form[0])
    elif isinstance(form, range):
        if type(value) is not int or value not in form:
            raise _invalid(f"{where} is {_json(value)}, must be a whole number of {form.start} to {form.stop - 1}")
    elif not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
        name = getattr(form, "__name__", str(form))
        raise _invalid(f"{where} is {_json(value)}, must be {_FORMS.get(name, name)}")
    elif isinstance(value, str) and (found := control_character(value)):
        raise _invalid(f"{where} has the control character U+{ord(found):04X}")


_FORMS = {
    "dict": "an object",
    "list": "a list",
    "str": "a text",
    "bool": "true or false",
    "str | None": "a text or null",
    "int": "a whole number",
    "int | None": "a whole number or null",
    "int | float": "a number",
}


def control_character(text: str) -> str | None:
    """Return the first character of a text that ends a line, controls a terminal or is half of one, if there is any."""
    return next((one for one in text if unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs")), None)


def _json(value: Any) -> str:
    """Return a value as JSON that is short enough for a message."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def is_deeper(value: Any, levels: int) -> bool:
    """Return true if lists and objects are nested deeper than so many levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _shown(number: int) -> str:
    """Return a number as a text that is short enough for a message; Python converts at most 4300 digits."""
    return str(number) if abs(number) < 10**20 else f"a number of {number.bit_length()} bits"


def brief(value: Any) -> str:
    """Return a value as a text that is short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
