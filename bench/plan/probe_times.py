#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares times that intarsia-plan predicts for this machine, as --probe measured it, with measured ones.

Rounds of measuring the machine and of running models alternate, since a shared machine is at times slower for minutes:
the table has medians of the rounds of first tokens of prompts, next tokens of several sequences at once, and MiniLM, and
its last line also says how far single probes are from what ran just after them. The language model has random weights,
and layers of a size between those that the probe measures; times do not depend on values of weights.

usage: probe_times.py [--threads=1,2] [--precisions=int4,int8,f32] [--rounds=3] [--work=build/bench/probe_times]
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
}
PROMPTS = (16, 64, 256, 1024, 2048)
BATCHES = (1, 2, 4, 8)
CONTEXT, WRITTEN = 256, 32  # tokens before, and of, what is decoded
TEXTS = (16, 64, 128, 256)  # tokens of a text that MiniLM embeds
TURNS, TURN_MS = 3, 50  # of everything that is timed, which is repeated so long
FORMATS = {"int4": ("int4", "stored"), "int8": ("int8", "stored"), "bf16": ("none", "bf16"), "f32": ("none", "f32")}
EMBEDDED = ("f32", "int8")  # precisions that MiniLM is compiled in

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


def turns_ms(calls: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Return the median milliseconds of calls that give their own; the first turn is not counted."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(-1, TURNS):
        for name, call in calls.items():
            turn = [call()]
            while index >= 0 and sum(turn) < TURN_MS:
                turn.append(call())
            if index >= 0:
                found[name].append(statistics.median(turn))
    return {name: statistics.median(values) for name, values in found.items()}


def timed(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def serve_decoder(artifact: Path) -> dict[str, float]:
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
    return turns_ms(calls)


def serve_embedder(artifact: Path) -> dict[str, float]:
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
    return turns_ms(calls)


def model_of(work: Path, precision: str) -> tuple[Path, str]:
    """Return the language model of a precision and the type that its weights are stored in."""
    stored = "float32" if precision == "f32" else "bfloat16"
    return work / f"llama-200m-{stored}", stored


def compile_models(work: Path, minilm: Path, precisions: list[str]) -> None:
    """Write the artifacts of all precisions."""
    for precision in precisions:
        quantize, matmul = FORMATS[precision]
        model, stored = model_of(work, precision)
        make_model(CONFIG | {"torch_dtype": stored}, model)
        models = {"decoder": model} | ({"embedder": minilm} if precision in EMBEDDED else {})
        for kind, directory in models.items():
            run(
                BUILD / "bin" / "intarsia-compile", directory, "-o", work / f"{kind}-{precision}.itx",
                f"--quantize={quantize}", f"--matmul-precision={matmul}", capture=True,
            )  # fmt: skip


def predict(work: Path, device: Path, precision: str) -> dict[str, float]:
    """Return the milliseconds that plans have."""
    rows: dict[str, float] = {}
    shape = model_of(work, precision)[0] / "config.json"
    common = {"shape": shape, "precision": precision, "device": device, "written": WRITTEN, "flops": EMBEDDER_FLOPS}
    for tokens in PROMPTS:
        prefill = planned(work, AGENT, **common, prompt=tokens, batch=1)["prefill"]
        rows[f"first token, {tokens} tokens"] = prefill["alone_ms"]
    for batch in BATCHES:
        decode = planned(work, AGENT, **common, prompt=CONTEXT, batch=batch)["decode"]
        rows[f"next token, {batch} at once"] = decode["full_ms"] / (WRITTEN - 1)
    for tokens in TEXTS if precision in EMBEDDED else ():
        (piece,) = planned(work, EMBEDDER, **common, prompt=tokens).values()
        rows[f"MiniLM, {tokens} tokens"] = piece["alone_ms"]
    return rows


def measure(work: Path, precision: str, threads: int) -> dict[str, float]:
    """Return the milliseconds that models take."""
    rows: dict[str, float] = {}
    for kind in ("decoder", "embedder") if precision in EMBEDDED else ("decoder",):
        done = subprocess.run(
            [sys.executable, __file__, f"--serve-{kind}={work / f'{kind}-{precision}.itx'}"],
            env=os.environ | {"ITX_THREADS": str(threads)}, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        rows |= json.loads(done.stdout)
    return rows


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precisions", default="int4,int8,f32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minilm", type=Path, help="directory of MiniLM (default: of the Python package)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench" / "probe_times")
    parser.add_argument("--serve-decoder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve-embedder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for served, serve in ((arguments.serve_decoder, serve_decoder), (arguments.serve_embedder, serve_embedder)):
        if served:
            print(json.dumps(serve(served)))
            return
    from make_models import find_minilm

    work, precisions = arguments.work.resolve(), arguments.precisions.split(",")
    work.mkdir(parents=True, exist_ok=True)
    compile_models(work, arguments.minilm or find_minilm(), precisions)
    print("| threads | precision | | planned (ms) | measured (ms) | error |\n|---:|---|---|---:|---:|---:|")
    errors: list[float] = []
    single: list[float] = []
    for threads in (int(count) for count in arguments.threads.split(",")):
        rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(arguments.rounds):
            device = work / f"here-{threads}.yaml"
            subprocess.run(
                [BUILD / "bin" / "intarsia-plan", f"--probe={device}"],
                env=os.environ | {"ITX_THREADS": str(threads)}, check=True,
            )  # fmt: skip
            for precision in precisions:
                measured = measure(work, precision, threads)
                for name, ms in predict(work, device, precision).items():
                    rows.setdefault((precision, name), []).append((ms, measured[name]))
        for (precision, name), pairs in rows.items():
            predicted, measured = (statistics.median(values) for values in zip(*pairs, strict=True))
            single += [abs(one / other - 1) for one, other in pairs]
            errors.append(abs(predicted / measured - 1))
            error = predicted / measured - 1
            print(f"| {threads} | {precision} | {name} | {predicted:.1f} | {measured:.1f} | {error:+.0%} |", flush=True)
    print(
        f"\n{len(errors)} times: median error {statistics.median(errors):.0%}, largest {max(errors):.0%}; "
        f"single probes: median {statistics.median(single):.0%}, largest {max(single):.0%}"
    )


if __name__ == "__main__":
    main()
