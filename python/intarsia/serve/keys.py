# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""API keys: who may use the server, and how much."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..support.errors import InvalidArgumentError, NotFoundError
from .errors import RequestError, overloaded

#: The shortest key that is worth its name.
_LEAST_LETTERS = 8
_LIMITS = ("requests", "tokens", "streams")


@dataclass
class _Bucket:
    """An allowance for a minute, which fills again all the time; it may be overdrawn by the last one who takes."""

    per_minute: int
    level: float = field(init=False)
    filled: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.filled = float(self.per_minute), time.monotonic()

    def seconds_until_free(self) -> float:
        """Return how long it takes until something may be taken; 0: now."""
        now = time.monotonic()
        self.level = min(self.per_minute, self.level + (now - self.filled) * self.per_minute / 60)
        self.filled = now
        return max(0.0, (1 - self.level) * 60 / self.per_minute)

    def take(self, amount: int) -> None:
        """Take from the allowance."""
        self.level -= amount


class Key:
    """Someone who may use the server.

    Attributes
    ----------
    name : str
        What logs and the engine call the key: never the key itself.
    active : int
        Requests that are being answered.
    """

    def __init__(self, name: str, limits: Mapping[str, int]) -> None:
        self.name = name
        self.active = 0
        self._most_active = limits.get("streams")
        self._requests = _Bucket(limits["requests"]) if "requests" in limits else None
        self._tokens = _Bucket(limits["tokens"]) if "tokens" in limits else None

    @property
    def counts_tokens(self) -> bool:
        """True if the key has a limit of tokens."""
        return self._tokens is not None

    def enter(self) -> None:
        """Begin a request; refuse it over the limits of the key."""
        if self._most_active is not None and self.active >= self._most_active:
            raise overloaded(f"the key {self.name} has {self.active} requests under way, which is its limit")
        for bucket, what in ((self._requests, "requests"), (self._tokens, "tokens")):
            seconds = 0.0 if bucket is None else bucket.seconds_until_free()
            if seconds > 0:
                raise overloaded(
                    f"the key {self.name} has used its {bucket.per_minute} {what} of a minute", int(seconds) + 1
                )
        if self._requests is not None:
            self._requests.take(1)
        self.active += 1

    def leave(self) -> None:
        """End a request."""
        self.active -= 1

    def take_tokens(self, count: int) -> None:
        """Count tokens of prompts and answers."""
        if self._tokens is not None:
            self._tokens.take(count)


class Keys:
    """The keys of a server.

    Parameters
    ----------
    keys : iterable of (str, Key)
        The secrets and what they stand for; none: everybody may use the server.
    """

    def __init__(self, keys: Iterable[tuple[str, Key]] = ()) -> None:
        # Keys are found by a keyed hash: how long that takes says nothing of the keys.
        self._secret = secrets.token_bytes(32)
        self._keys = {self._digest(text.encode()): key for text, key in keys}
        self._anyone = Key("", {})

    @property
    def are_needed(self) -> bool:
        """True if a request needs a key."""
        return bool(self._keys)

    def find(self, headers: Mapping[str, str]) -> Key:
        """Return whose request it is.

        Raises
        ------
        RequestError
            The request has no key, or a wrong one.
        """
        if not self._keys:
            return self._anyone
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            given = headers.get("x-api-key", "")
        if not given:
            raise RequestError(
                "the request has no API key: send the header Authorization: Bearer KEY",
                status=401,
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        digest = self._digest(given.strip().encode("utf-8", "surrogateescape"))
        key = self._keys.get(digest)
        if key is None:
            raise RequestError(
                "the API key is wrong", status=401, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"}
            )
        return key

    def _digest(self, key: bytes) -> bytes:
        return hmac.new(self._secret, key, hashlib.sha256).digest()


def read_keys(file: Path, defaults: Mapping[str, int]) -> Keys:
    """Read a file of API keys: a key a line, with a name and limits behind it.

    ``sk-0123456789 name=alice requests=60 tokens=100000 streams=8``; ``#`` begins a comment.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"{file}: there is no such file", "not found") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{file}: is not UTF-8: {error}", "invalid argument") from error
    found: list[tuple[str, Key]] = []
    seen: set[str] = set()
    names: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{file}:{number}"
        if len(words[0]) < _LEAST_LETTERS:
            raise _error(f"{where}: the key has {len(words[0])} letters, must have at least {_LEAST_LETTERS}")
        if not (words[0].isascii() and words[0].isprintable()):
            raise _error(
                f"{where}: the key has letters other than those of ASCII, which clients send in headers in different "
                "ways: take letters, digits and dashes"
            )
        if words[0] in seen:
            raise _error(f"{where}: the key is in the file already")
        seen.add(words[0])
        name, limits = f"key{len(found) + 1}", dict(defaults)
        for word in words[1:]:
            setting, _, value = word.partition("=")
            if setting == "name" and value:
                name = value
            elif setting in _LIMITS and value.isdecimal() and int(value[:18]) > 0:
                limits[setting] = int(value[:18])
            else:
                raise _error(f"{where}: {setting} must be name=TEXT, or requests=, tokens= or streams= with a number")
        if name in names:
            raise _error(f"{where}: another key is named {name}")
        names.add(name)
        found.append((words[0], Key(name, limits)))
    if not found:
        raise _error(f"{file}: has no key")
    return Keys(found)


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
