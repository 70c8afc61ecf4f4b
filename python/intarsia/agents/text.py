# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Print numbers, names and attributes as IR."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def shortest(figure: float) -> str:
    """Return the shortest text that the dialect reads as this number: 400, 0.35, 1.0e-06."""
    if float(figure).is_integer() and abs(figure) < 1e15:
        return str(int(figure))
    return real(figure)


def real(figure: float) -> str:
    """Return a number as IR writes a float: always with a point."""
    result = repr(float(figure))
    return result if "." in result else result.replace("e", ".0e")


def quoted(string: str) -> str:
    """Return a string as IR writes it."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in string.encode()
    )
    return f'"{escaped}"'


def symbol(name: str) -> str:
    """Return the name of a symbol as IR refers to it."""
    return f"@{name}" if re.fullmatch(r"[A-Za-z_][\w$.]*", name, re.ASCII) else f"@{quoted(name)}"


def attributes(options: Mapping[str, Any]) -> str:
    """Return an attribute dictionary without entries that are None; the empty text if none is left.

    The one element of a tuple is printed unchanged: a symbol, or the text of another attribute.
    """
    entries = []
    for name in sorted(options):
        value = options[name]
        if value is True:
            entries.append(name)
        elif value is not None:
            entries.append(f"{name} = {_attribute(value)}")
    return f" {{{', '.join(entries)}}}" if entries else ""


def _attribute(value: Any) -> str:
    if isinstance(value, tuple):
        return str(value[0])
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_attribute(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_attribute(each) for each in value)}]"
    return str(int(value))


def location(file: str, line: int) -> str:
    """Return a location as IR appends it."""
    return f" loc({quoted(file)}:{line}:1)"
