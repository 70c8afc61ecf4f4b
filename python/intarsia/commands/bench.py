# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia bench``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path

import numpy as np

from ..deployment import measure
from ..generation.generator import Generator
from .arguments import add_model, add_threads, at_least, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what can be measured, and the flags of each."""
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    text = "tokens a second of prefill and decoding, medians over rounds"
    one = kinds.add_parser("llm", help=text, description=f"{text.capitalize()}.")
    one.set_defaults(measure=_bench_llm)
    add_model(one)
    one.add_argument("--prefill", type=at_least(1), default=512, help="tokens of each prompt (default: %(default)s)")
    one.add_argument("--decode", type=at_least(1), default=64, help="tokens generated after it (default: %(default)s)")
    one.add_argument("--batch", type=at_least(1), default=1, help="sequences at once (default: %(default)s)")
    one.add_argument("--rounds", type=at_least(1), default=3, help="rounds after a first that does not count")
    one.add_argument("--json", action="store_true", help="print one JSON object")

    one = kinds.add_parser(
        "deployment",
        help="the pieces of a plan, for intarsia-plan --compare",
        description="Measure the artifacts of a plan at the sizes that it was made for, prefill and decode in "
        "processes of their own.",
    )
    one.set_defaults(measure=_bench_deployment)
    one.add_argument("folder", type=Path, metavar="FOLDER", help="what intarsia-compile --plan has written")
    one.add_argument("-o", dest="output", type=Path, metavar="FILE", help="the profile (default: print it)")
    add_threads(one)


def run(options: argparse.Namespace) -> None:
    """Measure, and print the result."""
    options.measure(options)


def _bench_llm(options: argparse.Namespace) -> None:
    generator = Generator(options.artifact, memory=options.memory)
    random = np.random.default_rng(0)
    prompts = random.integers(0, generator.vocabulary, (options.batch, options.prefill)).tolist()
    prefill, decode = [], []
    with progress() as show:
        for round_number in range(options.rounds + 1):
            times = generator.measure(prompts, options.decode)
            if round_number:  # the first round loads weights into memory
                prefill.append(times[0])
                decode.append(times[1])
            show(f"round {round_number}/{options.rounds}")
    result = {
        "prefill_tokens_per_second": options.batch * options.prefill / statistics.median(prefill),
        "decode_tokens_per_second": options.batch * options.decode / statistics.median(decode),
        "resident_bytes": _resident_bytes(),
        "cache_bytes": generator.cache_bytes([options.prefill + options.decode] * options.batch),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"prefill {result['prefill_tokens_per_second']:10.1f} tokens/s  ({options.batch} x {options.prefill} tokens)")
    print(f"decode  {result['decode_tokens_per_second']:10.1f} tokens/s  ({options.batch} x {options.decode} tokens)")
    print(
        f"resident memory {result['resident_bytes'] / 1e6:.1f} MB, keys and values {result['cache_bytes'] / 1e6:.1f} MB"
    )


def _bench_deployment(options: argparse.Namespace) -> None:
    if options.threads:
        os.environ["ITX_THREADS"] = str(options.threads)  # of the processes that are started
    with progress() as show:
        profile = measure.measure(options.folder, lambda text: show(f"measuring {text}\x1b[K"))
    text = json.dumps(profile, indent=1) + "\n"
    if options.output is None:
        print(text, end="")
        return
    options.output.write_text(text)
    print(f"wrote {options.output}: intarsia-plan {profile['plan']['file']} --compare={options.output} compares it")


def _resident_bytes() -> int:
    """Return the resident memory of this process in bytes, as Linux counts it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
