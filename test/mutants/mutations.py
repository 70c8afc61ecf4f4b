# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damage text, JSON and bytes a little."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

#: Where counters, sizes and offsets go wrong.
NUMBERS = (
    *(0, 1, 2, 3, 7, 31, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, -2, -(2**31), -(2**63)),
)
FRACTIONS = (0.5, -0.0, 1e-45, 1e308, float("inf"), float("nan"))
_TOKEN = re.compile(r'"[^"\n]*"|[\w.$#@%!-]+|[^\S\n]+|\n|[^\w\s]')
_NUMBER = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?)?")
_TYPES = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "index", "none")


def some_number(dice: random.Random, old: float) -> Any:
    """Return a number beside another one, or one from where numbers go wrong."""
    return dice.choice((old + 1, old - 1, old * 2, -old, old // 2, dice.choice(NUMBERS), dice.choice(FRACTIONS)))


def mutate_text(dice: random.Random, text: str) -> str:
    """Return IR with a number, a word or a line changed, left out, doubled or in another place."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        text = dice.choice((*[_change_number] * 4, _change_token, _change_token, _change_line))(dice, text)
    return text


def _change_number(dice: random.Random, text: str) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = dice.choice(found)
    number = some_number(dice, float(one[0]) if "." in one[0] else int(one[0]))
    return text[: one.start()] + str(number) + text[one.end() :]


def _change_token(dice: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    if len(words) < 2:
        return text
    one, other = dice.choice(words), dice.choice(words)
    kind = dice.randrange(5)
    if kind == 0:
        tokens[one], tokens[other] = tokens[other], tokens[one]
    elif kind == 1:
        tokens[one] = ""
    elif kind == 2:
        tokens[one] *= 2
    elif kind == 3:
        tokens[one] = tokens[other]
    else:
        kinds = [i for i in words if tokens[i] in _TYPES or re.fullmatch(r"[\d?x]*x(i\d+|b?f\d+)", tokens[i])]
        one = dice.choice(kinds or words)
        tokens[one] = re.sub(r"(i\d+|b?f\d+|index)$", dice.choice(_TYPES), tokens[one])
    return "".join(tokens)


def _change_line(dice: random.Random, text: str) -> str:
    lines = text.split("\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        del lines[one:]
    return "\n".join(lines)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, item in inner for found in _paths(item, (*path, key))]


def mutate_json(dice: random.Random, value: Any) -> Any:
    """Return a JSON value with some of what it holds changed, left out, doubled or in another place."""
    value = copy.deepcopy(value)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        paths = _paths(value)
        if not paths:
            return value
        *parents, last = dice.choice(paths)
        holder = value
        for key in parents:
            holder = holder[key]
        _change_item(dice, holder, last)
    return value


def _change_item(dice: random.Random, holder: Any, key: Any) -> None:
    old = holder[key]
    kind = dice.randrange(10)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = dice.choice((None, True, False, 0, 1, -1, 0.5, "", "x", [], {}, [old], {"x": old}))
    elif kind == 2 and isinstance(holder, list):
        holder.insert(dice.randrange(len(holder) + 1), old)
    elif kind == 2:
        holder[str(key) + dice.choice(("s", "_", "\u0000", ""))] = holder.pop(key)
    elif kind == 3:
        other = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[key], holder[other] = holder[other], old
    elif isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, (int, float)):
        holder[key] = some_number(dice, old)
    elif isinstance(old, str) and old:
        at = dice.randrange(len(old))
        holder[key] = dice.choice((old[:at], old[:at] + dice.choice('x/.\0é"') + old[at:], old * 2, old.upper()))
    elif isinstance(old, list) and dice.randrange(2):
        dice.shuffle(old)


def mutate_bytes(dice: random.Random, data: bytes, end: int | None = None) -> bytes:
    """Return bytes with some of those before `end` changed: bits, 8 bytes that may be a length, parts of the file."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        limit = max(1, min(len(changed), end or len(changed)))
        at = dice.randrange(limit)
        dice.choice((_flip, _set_length, _set_length, _move, _cut))(dice, changed, at)
    return bytes(changed)


def _flip(dice: random.Random, data: bytearray, at: int) -> None:
    if at < len(data):
        data[at] ^= 1 << dice.randrange(8)


def _set_length(dice: random.Random, data: bytearray, at: int) -> None:
    code, size = dice.choice((("<I", 4), ("<Q", 8)))
    if at + size <= len(data):
        old = struct.unpack_from(code, data, at)[0]
        number = dice.choice((old + 1, old - 1, old * 2, dice.choice(NUMBERS)))
        struct.pack_into(code, data, at, number % 2 ** (8 * size))


def _move(dice: random.Random, data: bytearray, at: int) -> None:
    count = dice.choice((1, 4, 8, 24))
    part = data[at : at + count]
    change: Callable[[], None] = dice.choice(
        (
            lambda: data.__delitem__(slice(at, at + count)),
            lambda: data.__setitem__(slice(at, at), part),
            lambda: data.__setitem__(slice(at, at), bytes(count)),
        )
    )
    change()


def _cut(dice: random.Random, data: bytearray, at: int) -> None:
    if dice.randrange(2):
        del data[at:]
    else:
        data += bytes(dice.choice((1, 8, 4096)))


def split_safetensors(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a safetensors file and its data."""
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join_safetensors(header: Any, data: bytes) -> bytes:
    """Return the bytes of a safetensors file."""
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def mutate_safetensors(dice: random.Random, data: bytes) -> bytes:
    """Return a safetensors file with damage in its header, in its data, or with two tensors exchanged."""
    header, tensors = split_safetensors(data)
    kind = dice.randrange(6)
    if kind == 0:
        return mutate_bytes(dice, data, len(data) - len(tensors))
    if kind == 1:
        return mutate_bytes(dice, data)
    names = [name for name in header if name != "__metadata__"]
    if kind == 2:
        one, other = dice.choice(names), dice.choice(names)
        header[one], header[other] = header[other], header[one]
    elif kind == 3:
        header[dice.choice(names)]["dtype"] = dice.choice(("F32", "F16", "BF16", "F64", "I64", "I32", "U8", "F8_E4M3"))
    elif kind == 4:
        header[dice.choice(names)]["shape"].reverse()
    else:
        header = mutate_json(dice, header)
    return join_safetensors(header, tensors)
