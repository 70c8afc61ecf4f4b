#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzz the readers of a model's text: tokenizer.json and what lies beside it, tokenizer.gguf.json, chat templates.

Each input is a good folder with one file damaged. It must open, or be refused by an error of the package, within
seconds; a tokenizer that opens must encode and decode.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import intarsia
from intarsia.text.encoding import encode
from intarsia.text.gguf_tokenizer import read_gguf_json
from intarsia.text.tokenizer import Text, open_tokenizer

CORPUS = Path(__file__).parent / "corpus" / "tokenizer"
#: Seconds of processor time that one input may take.
LIMIT = 5.0
ODD: tuple[Any, ...] = (None, True, -1, 0, 2**31, 2**63, -(2**70), 1.5, 1e308, "", "\ud800", "a" * 300, [], {}, [[]])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return the container and the key of everything in a value."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            found += places(value[key])
    return found


def damaged(value: Any, draw: random.Random) -> Any:
    """Return a copy of JSON in which one to three things are replaced, removed, copied or nested."""
    root = [copy.deepcopy(value)]
    for _ in range(draw.randint(1, 3)):
        everything = places(root)
        container, key = draw.choice(everything)
        what = draw.randrange(5)
        if what == 0:
            container[key] = draw.choice(ODD)
        elif what == 1 and container is not root:
            del container[key]
        elif what == 2:
            other, other_key = draw.choice(everything)
            container[key] = copy.deepcopy(other.get(other_key) if isinstance(other, dict) else other[other_key])
        elif what == 3:
            container[key] = [container[key]]
        elif isinstance(container[key], str):
            text = list(container[key])
            text.insert(draw.randint(0, len(text)), draw.choice("{}[]%()\\\0\"'é▁ "))
            container[key] = "".join(text)
    return root[0]


def damaged_text(text: str, draw: random.Random) -> str:
    """Return the text with a part removed, repeated or replaced."""
    begin = draw.randrange(len(text) + 1)
    end = min(len(text), begin + draw.choice((0, 1, 5, 100)))
    middle = draw.choice(
        ("", text[begin:end] * draw.choice((2, 50)), draw.choice('[{"}],\\') * draw.choice((1, 70, 100000)))
    )
    return text[:begin] + middle + text[end:]


def use(text: Text) -> None:
    """Encode and decode, and show a conversation."""
    if text.tokenizer is not None:
        ids = encode(text.tokenizer, "An oceanic rock 12é \n")
        text.tokenizer.decode([*ids, 0])
    if text.chat_template is not None:
        text.chat_template.render([{"role": "user", "content": "x"}])


def try_one(seed: Path, folder: Path, draw: random.Random) -> None:
    """Damage one file of a seed and open it. Errors that are not ours propagate."""
    files = sorted(seed.iterdir())
    victim = draw.choice(files)
    for file in files:
        content = file.read_text()
        if file == victim:
            is_json = file.suffix == ".json" and draw.random() < 0.8
            content = json.dumps(damaged(json.loads(content), draw)) if is_json else damaged_text(content, draw)
        (folder / file.name).write_bytes(content.encode("utf-8", "surrogatepass"))
    try:
        if (folder / "tokenizer.gguf.json").exists():
            path = folder / "tokenizer.gguf.json"
            gguf = read_gguf_json(str(path), path.read_text(errors="replace"))
            use(Text(gguf.tokenizer, gguf.chat_template, gguf.document_end))
        else:
            use(open_tokenizer(folder))
    except intarsia.Error:
        pass


def main() -> int:
    """Fuzz for some seconds, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=float, nargs="?", default=30)
    parser.add_argument("--seed", type=int, help="of the one input to try again")
    arguments = parser.parse_args()
    seeds = sorted(CORPUS.iterdir())
    ends = time.monotonic() + arguments.seconds
    number = arguments.seed if arguments.seed is not None else 0
    while arguments.seed == number or (arguments.seed is None and time.monotonic() < ends):
        draw = random.Random(number)
        began = time.process_time()
        try:
            with tempfile.TemporaryDirectory() as folder:
                try_one(draw.choice(seeds), Path(folder), draw)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"error: --seed={number}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            if arguments.seed is not None:
                raise
            return 1
        if time.process_time() - began > LIMIT:
            print(f"error: --seed={number}: took {time.process_time() - began:.1f} s", file=sys.stderr)
            return 1
        number += 1
    print(f"fuzz-tokenizer: {number} inputs in {arguments.seconds:g} s, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
