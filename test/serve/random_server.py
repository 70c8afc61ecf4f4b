# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server of the models of `test_serve_tools`: they write random tokens that the form of the answer allows.

For clients in another process: ``random_server.py PORT``. A request without a form gets a text of letters.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from intarsia.generation.texts import ModelTexts
from intarsia.serve.models import ServedModel
from intarsia.serve.options import ServerOptions
from intarsia.serve.server import Server
from intarsia.text.tokenizer import Text
from serve_client import Client, running
from serve_fakes import FakeEngine
from test_serve_tools import MODELS, model, next_token

#: Markers in letters are never ended by random ones.
NAMES = tuple(name for name in MODELS if "letters" not in name)

LETTERS = "The parts of a picture are cut from woods of many colours. "


def served_model(name: str, engines: dict[str, FakeEngine], **engine: Any) -> ServedModel:
    """Return a model that writes random tokens, seeded by the prompt."""
    known = model(name)
    plain = known.tokenizer.encode(LETTERS, add_special_tokens=False).ids

    def script(request: Any, sample: int) -> Iterator[int]:
        chosen = random.Random(hash((tuple(request.prompt), sample)))
        if request.constraint is None:
            if name == "thinking":  # its template begins the reasoning
                yield known.tokenizer.token_to_id("</think>")
            yield from plain[: chosen.randint(1, len(plain))]
            yield min(request.ends, default=1)
            return
        constraint = request.constraint.copy()
        # An object may have more and more keys: a text that does not end is cut by max_tokens.
        for _ in range(400):
            token = next_token(known, constraint, chosen)
            yield token
            if constraint.accept(token) or token in known.ends:
                return

    def make_engine() -> FakeEngine:
        engines[name] = FakeEngine(script, **{"step_seconds": 0.0002, **engine})
        return engines[name]

    texts = ModelTexts(Text(known.tokenizer, known.chat_template), known.vocabulary, known.ends)
    return ServedModel(name, texts, 4096, make_engine)


@contextmanager
def served_randomly(names: Sequence[str] = NAMES, **options: Any) -> Iterator[tuple[Client, dict[str, FakeEngine]]]:
    """Give a server of models that write random tokens, and their engines."""
    engines: dict[str, FakeEngine] = {}
    server = Server([served_model(name, engines) for name in names], None, ServerOptions(**options))
    try:
        with running(server) as port:
            yield Client(server, port, []), engines
    finally:
        for one in engines.values():
            one.close()


def main() -> None:
    """Serve until a signal ends it."""
    engines: dict[str, FakeEngine] = {}
    Server([served_model(name, engines) for name in NAMES]).run("127.0.0.1", int(sys.argv[1]))


if __name__ == "__main__":
    main()
