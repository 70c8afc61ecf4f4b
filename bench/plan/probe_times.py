#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares times that intarsia-plan predicts for this machine, as --probe measured it, with measured ones.

For each number of threads the machine is measured (some minutes), and a table is printed: first tokens of prompts, next
tokens of several sequences at once, and MiniLM, planned and measured, with the error of the plan. The language model has
random weights, and layers of a size between those that the probe measures; times do not depend on values of weights.
Measured times are medians of rounds, which alternate between all sizes.

usage: probe_times.py [--threads=1,2] [--precisions=int4,int8,f32] [--rounds=5] [--probe] [--work=build/bench/probe_times]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from carry_out import BUILD, EMBEDDER_FLOPS, ROOT, make_model, run

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 16,
    "vocab_size": 16384,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
PROMPTS = (16, 64, 256, 1024, 2048)
BATCHES = (1, 2, 4, 8)
CONTEXT, WRITTEN = 256, 32  # tokens before, and of, what is decoded
TEXTS = (16, 64, 128, 256)  # tokens of a text that MiniLM embeds
FORMATS = {"int4": ("int4", "stored"), "int8": ("int8", "stored"), "bf16": ("none", "bf16"), "f32": ("none", "f32")}

AGENT = """
agent.model @m {{shape = "{shape}", precisions = ["{precision}"]}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<{prompt} tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 86400000, ttft_ms = 1000000, tbt_ms = 10000, requests_per_second = 0.000001>}} {{
  %a = agent.llm @m(%q) produces <{written} tokens>
      {{label = "answer", place = #fleet.placement<@room::@all, batch = {batch}, precision = "{precision}", aggregated = false>}}
      : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
"""
EMBEDDER = """
agent.model @m {{flops_per_unit = {flops:.1f}, parameters = 22700000.0, precisions = ["{precision}"]}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<{prompt} tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 86400000, requests_per_second = 0.000001>}} {{
  %a = agent.infer @m(%q) produces <1 tokens> {{label = "answer"}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
"""
FLEET = """
fleet.system @room {{
  fleet.device @here {{file = "{device}"}}
  fleet.pool @all of @here count 16 price #fleet.rental<dollars_per_hour = 0.1>
}}
"""


def planned(work: Path, text: str, **figures: object) -> dict[str, dict[str, float]]:
    """Return the pieces of a plan by their kind."""
    (work / "ask.mlir").write_text((text + FLEET).format(**figures))
    run(
        BUILD / "bin" / "intarsia-plan", work / "ask.mlir", f"--json={work / 'ask.json'}", "--why=false",
        "--headroom=0", capture=True,
    )  # fmt: skip
    return {piece["kind"]: piece for piece in json.loads((work / "ask.json").read_text())["pieces"]}


def rounds_ms(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of calls that give their own; the first round is not counted."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(-1, rounds):
        for name, call in calls.items():
            ms = call()
            if index >= 0:
                found[name].append(ms)
    return {name: statistics.median(values) for name, values in found.items()}


def timed(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def serve_decoder(artifact: Path, rounds: int) -> dict[str, float]:
    """Time prompts and steps."""
    import intarsia

    module = intarsia.load(artifact)
    page_tokens = next(f["page_tokens"] for f in module.manifest["functions"] if f.get("page_tokens"))
    pages = (PROMPTS[-1] + BATCHES[-1] * (CONTEXT + WRITTEN)) // page_tokens + 2 * (BATCHES[-1] + 1)
    cache = intarsia.Cache(module, sequences=BATCHES[-1] + 1, pages=pages)
    prompt, *others = [cache.sequence() for _ in range(BATCHES[-1] + 1)]
    ids = [index * 7919 % 251 for index in range(PROMPTS[-1])]

    def first(tokens: int) -> float:
        prompt.truncate(0)
        part = cache.prefill_tokens(tokens)
        parts = [ids[begin : min(begin + part, tokens)] for begin in range(0, tokens, part)]
        return timed(lambda: [cache.step([(prompt, of, int(of is parts[-1]))]) for of in parts])

    def following(batch: int) -> float:
        for sequence in others[:batch]:
            sequence.truncate(CONTEXT)
        return timed(
            lambda: [cache.step([(sequence, ids[:1], 1) for sequence in others[:batch]]) for _ in range(WRITTEN)]
        ) / WRITTEN  # fmt: skip

    for sequence in others:
        cache.step([(sequence, ids[:CONTEXT], 0)])
    calls = {f"first token, {tokens} tokens": lambda tokens=tokens: first(tokens) for tokens in PROMPTS}
    calls |= {f"next token, {batch} at once": lambda batch=batch: following(batch) for batch in BATCHES}
    return rounds_ms(calls, rounds)


def serve_embedder(artifact: Path, rounds: int) -> dict[str, float]:
    """Time texts."""
    import intarsia
    import numpy as np

    module = intarsia.load(artifact)
    texts = {tokens: np.full((max(1, tokens // 128), min(tokens, 128)), 5, np.int64) for tokens in TEXTS}
    names = [value.name for value in module.signature().inputs]

    def call(ids: np.ndarray) -> float:
        given = {name: np.ones_like(ids) if name == "attention_mask" else np.zeros_like(ids) for name in names}
        return timed(lambda: module.main(**(given | {"input_ids": ids})))

    calls = {f"MiniLM, {tokens} tokens": lambda ids=ids: call(ids) for tokens, ids in texts.items()}
    return rounds_ms(calls, rounds * 5)


def compare(model: Path, minilm: Path, precision: str, threads: int, arguments: argparse.Namespace) -> list[float]:
    """Print the rows of a precision, and return their errors."""
    work, device = arguments.work, arguments.work / f"here-{threads}.yaml"
    quantize, matmul = FORMATS[precision]
    rows: dict[str, float] = {}
    shape = model / "config.json"
    common = {"shape": shape, "precision": precision, "device": device, "written": WRITTEN, "flops": EMBEDDER_FLOPS}
    for tokens in PROMPTS:
        rows[f"first token, {tokens} tokens"] = planned(work, AGENT, **common, prompt=tokens, batch=1)["prefill"][
            "alone_ms"
        ]
    for batch in BATCHES:
        decode = planned(work, AGENT, **common, prompt=CONTEXT, batch=batch)["decode"]
        rows[f"next token, {batch} at once"] = decode["full_ms"] / (WRITTEN - 1)
    models = {"decoder": model}
    if precision in ("f32", "int8"):
        models["embedder"] = minilm
        for tokens in TEXTS:
            (piece,) = planned(work, EMBEDDER, **common, prompt=tokens).values()
            rows[f"MiniLM, {tokens} tokens"] = piece["alone_ms"]
    measured: dict[str, float] = {}
    for kind, directory in models.items():
        artifact = work / f"{kind}-{precision}.itx"
        run(
            BUILD / "bin" / "intarsia-compile", directory, "-o", artifact, f"--quantize={quantize}",
            f"--matmul-precision={matmul}", capture=True,
        )  # fmt: skip
        done = subprocess.run(
            [sys.executable, __file__, f"--serve-{kind}={artifact}", f"--rounds={arguments.rounds}"],
            env=os.environ | {"ITX_THREADS": str(threads)}, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        measured |= json.loads(done.stdout)
    errors = [rows[name] / measured[name] - 1 for name in rows]
    for name, error in zip(rows, errors, strict=True):
        print(
            f"| {threads} | {precision} | {name} | {rows[name]:.1f} | {measured[name]:.1f} | {error:+.0%} |", flush=True
        )
    return errors


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precisions", default="int4,int8,f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--probe", action="store_true", help="measure the machine again")
    parser.add_argument("--minilm", type=Path, help="directory of MiniLM (default: of the Python package)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench" / "probe_times")
    parser.add_argument("--serve-decoder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve-embedder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for served, serve in ((arguments.serve_decoder, serve_decoder), (arguments.serve_embedder, serve_embedder)):
        if served:
            print(json.dumps(serve(served, arguments.rounds)))
            return
    from make_models import find_minilm

    work = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    model = work / "llama-200m"
    make_model(CONFIG, model)
    minilm = arguments.minilm or find_minilm()
    print("| threads | precision | | planned (ms) | measured (ms) | error |\n|---:|---|---|---:|---:|---:|")
    errors: list[float] = []
    for threads in (int(count) for count in arguments.threads.split(",")):
        device = work / f"here-{threads}.yaml"
        if arguments.probe or not device.exists():
            subprocess.run(
                [BUILD / "bin" / "intarsia-plan", f"--probe={device}"],
                env=os.environ | {"ITX_THREADS": str(threads)}, check=True,
            )  # fmt: skip
        for precision in arguments.precisions.split(","):
            errors += compare(model, minilm, precision, threads, arguments)
    absolute = [abs(error) for error in errors]
    print(f"\n{len(errors)} times: median error {statistics.median(absolute):.0%}, largest {max(absolute):.0%}")


if __name__ == "__main__":
    main()
