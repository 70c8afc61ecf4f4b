#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the small language model of this folder and lets it write a few dictionary entries.

Steps: compile the Hugging Face directory, open the artifact with its tokenizer, stream the text of each entry, print
how fast it came.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import intarsia

MODEL = Path(__file__).resolve().parent
ENTRIES = ["violin (noun):", "compiler (noun):", "slowly (adverb):", "to intarsiate (verb):"]


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/demo/glossary.itx"), help="the artifact to write")
    options = parser.parse_args()

    options.output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    module = intarsia.compile(MODEL, output=options.output)
    print(f"Compiled in {time.perf_counter() - started:.2f} s: {os.path.relpath(options.output)}")
    generator = intarsia.Generator(module)
    print("A language model of six million parameters makes up dictionary entries:\n")
    tokens, seconds = 0, 0.0
    for entry in ENTRIES:
        print(f"  {entry}", end="", flush=True)
        started = time.perf_counter()
        for text in generator.stream(entry, max_tokens=48, temperature=0.7, seed=7):
            print(text, end="", flush=True)
            tokens += 1
        seconds += time.perf_counter() - started
        print()
    print(f"\n{tokens / seconds:.0f} pieces of text a second ({intarsia.threads()} threads)")
    print("\nWhat to try next:")
    command = f'generate {os.path.relpath(options.output)} "run (verb):"'
    print(f"  PYTHONPATH=build/dev/python .venv/bin/python -m intarsia {command}")
    command = f"serve {os.path.relpath(options.output)}"
    print(f"  PYTHONPATH=build/dev/python .venv/bin/python -m intarsia {command}    # and open http://127.0.0.1:8000/")


if __name__ == "__main__":
    main()
