# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checked fields of a request; null is the same as a field that is not there."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from .errors import RequestError

#: Letters of a value that are shown.
_MOST_SHOWN = 60
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Fields:
    """The fields of an object in a request.

    Parameters
    ----------
    values : dict
        The object.
    where : str
        What is before the names of its fields in messages, such as ``"messages[0]."``.
    """

    def __init__(self, values: dict[str, Any], where: str = "") -> None:
        self.values, self.where = values, where

    def __contains__(self, name: str) -> bool:
        """Return True if a field has a value."""
        return self.values.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return a field as it is; None: it is not there."""
        return self.values.get(name)

    def error(self, name: str, message: str, code: str | None = None) -> RequestError:
        """Return the error of a field; the message goes on behind its name."""
        return RequestError(f"{self.where}{name} {message}", f"{self.where}{name}", code=code)

    def text(self, name: str, default: str | None = None, most: int | None = None) -> str | None:
        """Return a text."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(name, f"is {shown(value)}, must be a text")
        if most is not None and len(value) > most:
            raise self.error(name, f"has {len(value)} letters, may have {most}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"is {shown(value)}, must be true or false")
        return value

    def whole(self, name: str, default: int | None, least: int = INT64_MIN, most: int = INT64_MAX) -> int | None:
        """Return a whole number; 40.0 is one."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"is {shown(value)}, must be a whole number")
        if not least <= value <= most:
            raise self.error(name, f"is {shown(value)}, must be {_between(least, most)}")
        return value

    def real(self, name: str, default: float | None, least: float, most: float) -> float | None:
        """Return a number."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(name, f"is {shown(value)}, must be a number")
        if not least <= value <= most:  # also of no number
            raise self.error(name, f"is {shown(value)}, must be from {least:g} to {most:g}")
        return float(value)

    def one_of(self, name: str, default: str | None, choices: Collection[str]) -> str | None:
        """Return one of some words."""
        value = self.text(name, default)
        if value is not None and value not in choices:
            raise self.error(name, f"is {shown(value)}, must be one of {', '.join(choices)}")
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """Return an object."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, f"is {shown(value)}, must be an object")
        return value

    def list(self, name: str, most: int | None = None) -> Sequence[Any] | None:
        """Return a list."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(name, f"is {shown(value)}, must be a list")
        if most is not None and len(value) > most:
            raise self.error(name, f"has {len(value)} elements, may have {most}")
        return value

    def objects(self, name: str, most: int | None = None) -> list[Fields] | None:
        """Return a list of objects."""
        values = self.list(name, most)
        if values is None:
            return None
        for number, value in enumerate(values):
            if not isinstance(value, dict):
                raise self.error(f"{name}[{number}]", f"is {shown(value)}, must be an object")
        return [Fields(value, f"{self.where}{name}[{number}].") for number, value in enumerate(values)]

    def inner(self, name: str) -> Fields | None:
        """Return the fields of an object in a field."""
        value = self.object(name)
        return None if value is None else Fields(value, f"{self.where}{name}.")

    def texts(self, name: str, most: int, most_letters: int) -> list[str]:
        """Return some texts: one, or a list of them. None is empty."""
        value = self.values.get(name)
        if value is None:
            return []
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise self.error(name, f"is {shown(value)}, must be a text or a list of texts")
        if len(values) > most:
            raise self.error(name, f"has {len(values)} texts, may have {most}")
        for one in values:
            if not one:
                raise self.error(name, "has an empty text")
            if len(one) > most_letters:
                raise self.error(name, f"has a text of {len(one)} letters, may have {most_letters}")
        return list(dict.fromkeys(values))

    def token_ids(self, name: str, vocabulary: int, most: int) -> list[int]:
        """Return a list of token ids."""
        values = self.list(name, most) or []
        check_ids(f"{self.where}{name}", values, vocabulary)
        return list(values)

    def refuse(self, names: Collection[str], why: str) -> None:
        """Refuse fields that have a value."""
        for name in names:
            if name in self:
                raise self.error(name, why, code="unsupported_parameter")

    def check_names(self, known: Collection[str], is_strict: bool) -> None:
        """Refuse fields that nobody knows: a client that sends one expects something of it."""
        for name, value in self.values.items():
            if name not in known and value is not None and is_strict:
                raise RequestError(
                    f"the field {self.where}{name[:_MOST_SHOWN]} is unknown; the server ignores such fields with "
                    "--ignore-unknown-fields",
                    f"{self.where}{name[:_MOST_SHOWN]}",
                    code="unknown_parameter",
                )


def check_ids(where: str, values: Sequence[Any], vocabulary: int) -> None:
    """Refuse what are no token ids of the model."""
    if all(type(value) is int and 0 <= value < vocabulary for value in values):
        return
    for number, value in enumerate(values):
        if type(value) is not int:
            raise RequestError(f"{where}[{number}] is {shown(value)}, must be a token id", f"{where}[{number}]")
        if not 0 <= value < vocabulary:
            raise RequestError(
                f"{where}[{number}] is token {shown(value)}, the model has the tokens 0 to {vocabulary - 1}",
                f"{where}[{number}]",
            )


def shown(value: Any) -> str:
    """Return a value as a text that is short enough for a message: long ones by their type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "no finite number"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _MOST_SHOWN else f"a text of {len(value)} letters"
    return f"a list of {len(value)} elements" if isinstance(value, list) else "an object"


def _between(least: int, most: int) -> str:
    if most == INT64_MAX:
        return f"at least {least}"
    return f"from {least} to {most}"
