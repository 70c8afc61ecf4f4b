#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serves a model that computes nothing, to measure what the server itself takes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from intarsia.generation.engine import Engine, Mock
from intarsia.generation.texts import ModelTexts
from intarsia.serve.logs import configure
from intarsia.serve.models import ServedModel
from intarsia.serve.server import Server
from intarsia.serve.worker import WorkerEngine
from intarsia.text.chat import ChatTemplate
from intarsia.text.tokenizer import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from serving.models import corpus, train_tokenizer

VOCABULARY, CONTEXT = 4096, 8192
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def main() -> int:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--step-ms", type=float, default=50.0, help="time of a step, whatever it computes")
    parser.add_argument("--sequences", type=int, default=1024, help="texts at a time")
    parser.add_argument("--in-process", action="store_true", help="the engine has no process of its own")
    options = parser.parse_args()
    configure("info")

    def make_engine() -> Engine | WorkerEngine:
        mock = Mock(VOCABULARY, CONTEXT, step_seconds=options.step_ms / 1000)
        kind = Engine if options.in_process else WorkerEngine
        return kind(mock, sequences=options.sequences, pages=options.sequences * CONTEXT // mock.page_tokens)

    tokenizer = train_tokenizer(VOCABULARY, corpus())
    texts = ModelTexts(Text(tokenizer, ChatTemplate({"default": TEMPLATE})), VOCABULARY)
    model = ServedModel("mock", texts, CONTEXT, make_engine)
    return Server([model]).run("127.0.0.1", options.port)


if __name__ == "__main__":
    sys.exit(main())
