# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong before a server starts: names, keys, options."""

from __future__ import annotations

import argparse
import contextlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from intarsia.commands.serve import add_arguments, run
from intarsia.serve.errors import RequestError
from intarsia.serve.keys import Key, Keys, read_keys
from intarsia.serve.opening import model_names
from intarsia.support.errors import InvalidArgumentError, NotFoundError


def test_names_are_those_of_files_or_given() -> None:
    files = [Path("a/one.itx"), Path("b/two.itx")]
    assert model_names(files, []) == ["one", "two"]
    assert model_names(files, ["first"]) == ["first", "two"]


@pytest.mark.parametrize(
    ("files", "names", "message"),
    [
        (["a/m.itx", "b/m.itx"], [], "a/m.itx and b/m.itx are both named m"),
        (["a.itx", "b.itx"], ["x", "x"], "both named x"),
        (["a.itx"], ["x", "y"], "2 names are given for 1 models"),
        (["a.itx"], [""], "cannot be named"),
    ],
)
def test_names_that_are_wrong(files: list[str], names: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        model_names([Path(file) for file in files], names)


def test_keys_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nsk-0123456789 name=alice requests=2 # comment\n\nsk-abcdefghij tokens=10 streams=1\n")
    keys = read_keys(file, {"streams": 3})
    alice = keys.find({"authorization": "Bearer sk-0123456789"})
    assert alice.name == "alice"
    assert keys.find({"x-api-key": "sk-abcdefghij"}).name == "key2"
    with pytest.raises(RequestError) as refused:
        keys.find({"authorization": "Bearer sk-012345678"})
    assert refused.value.status == 401
    assert "sk-0" not in refused.value.message
    for _ in range(2):
        alice.enter()
    with pytest.raises(RequestError, match="2 requests of a minute"):
        alice.enter()


def test_keys_are_found_by_a_keyed_hash_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a comparison takes says nothing of a key: what is compared depends on a secret of the process."""
    hashed: list[bytes] = []

    def new(secret: bytes, message: bytes, digest: Any) -> hmac.HMAC:
        assert len(secret) == 32
        hashed.append(message)
        return made(secret, message, digest)

    made = hmac.new
    monkeypatch.setattr(hmac, "new", new)
    keys = Keys([("sk-0123456789", Key("alice", {})), ("sk-abcdefghij", Key("bob", {}))])
    other = Keys([("sk-0123456789", Key("alice", {}))])
    assert not set(keys._keys) & set(other._keys)
    assert all(len(digest) == 32 for digest in keys._keys)
    for given in ("sk-0123456789", "sk-0123456788", "sk-", "sk-schl\xfcssel"):
        hashed.clear()
        with contextlib.suppress(RequestError):
            keys.find({"authorization": f"Bearer {given}"})
        assert hashed == [given.encode()]  # once, however much of a key is right


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no key"),
        ("short", "has 5 letters"),
        ("sk-0123456789\nsk-schlüssel", ":2: the key has letters other than those of ASCII"),
        ("sk-0123456789\x07", ":1: the key has letters other than those of ASCII"),
        ("sk-0123456789\nsk-0123456789", ":2: the key is in the file already"),
        ("sk-0123456789 rate=3", ":1: rate must be"),
        ("sk-0123456789 tokens=-3", ":1: tokens must be"),
        ("sk-0123456789 name=a\nsk-1123456789 name=a", ":2: another key is named a"),
    ],
)
def test_files_of_keys_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message) as refused:
        read_keys(file, {})
    assert "0123456789" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a/m.itx", "b/m.itx"], "both named m"),
        (["m.itx", "--api-key-file=/nowhere/keys"], "/nowhere/keys: there is no such file"),
        (["m.itx", "--max-tokens-per-minute=5"], "need --api-key-file"),
        (["a.itx", "b.itx", "--tokenizer=t.json"], "--tokenizer=NAME=t.json with one of a, b"),
        (["a.itx", "b.itx", "--tokenizer=a=t.json", "--tokenizer=a=u.json"], "--tokenizer is given twice for a"),
        (["m.itx", "--temperature=3"], "--temperature is 3"),
        (["m.itx", "--max-seconds=0"], "--max-seconds is 0"),
        (["/nowhere/m.itx"], "/nowhere/m.itx"),
    ],
)
def test_command_lines_that_are_wrong(arguments: list[str], message: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises((InvalidArgumentError, NotFoundError), match=message):
        run(parser.parse_args(arguments))
