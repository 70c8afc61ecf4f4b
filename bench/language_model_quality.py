#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the quality of quantized language models, their memory, and the time to the first token.

Perplexity of examples/glossary on its held-out text (defined in its README), beside llama.cpp's and OpenVINO's own
formats of the same weights; perplexity through the cache and memory of the kinds of keys and values; time to the first
token; resident memory of the model of language_models.py. Markdown to standard output, Markdown and JSON to build/bench.
On a build of `make bench`:

    pip install -r bench/requirements.txt -r bench/requirements-language-models.txt
    python bench/language_model_quality.py [--only=perplexity,cache,first_token,memory]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import llama, machine
from harness.artifact import stored_bytes
from harness.program import ROOT, add_options, compile_model, report, some_of
from harness.report import table
from harness.workers import Worker

GLOSSARY = ROOT / "examples/glossary"
TOKENS, WINDOWS = 192, 200
FORMATS = ("none", "int8", "nvfp4", "int4", "mxfp4")
PEERS = ("q8_0", "q4_0", "q4_k_m")
CACHES = ("f16", "int8", "fp8", "int4")
CACHE_TOKENS = 1024  # tokens whose memory is compared
PROMPT = 16  # tokens of the prompt before the first generated token
BILLION = "llama-1.1b"


def losses(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns -log p of tokens [n] by logits [n, vocabulary]."""
    logits = logits.astype(np.float64)
    largest = logits.max(-1, keepdims=True)
    totals = np.log(np.exp(logits - largest).sum(-1)) + largest[:, 0]
    return totals - logits[np.arange(len(tokens)), tokens]


def token_by_token(step: Callable[[np.ndarray, int], np.ndarray], windows: np.ndarray) -> float:
    """Returns the perplexity with all windows in one cache; step(tokens [windows], position) returns their logits."""
    sums = np.zeros(len(windows))
    for position in range(windows.shape[1] - 1):
        sums += losses(step(windows[:, position], position), windows[:, position + 1])
    return math.exp(sums.mean() / (windows.shape[1] - 1))


class Session:
    """Compiles models and makes the measured data."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        sys.path.insert(0, str(arguments.build / "python"))

    def compile(self, source: Path, name: str, *flags: str) -> Path:
        artifact = self.arguments.work / "quality" / f"{name}.itx"
        compile_model(self.arguments.build, source, artifact, *flags)
        return artifact

    def windows(self) -> np.ndarray:
        """Returns held-out text, [windows, tokens + 1]."""
        import intarsia

        generator = intarsia.Generator(self.compile(GLOSSARY, "glossary"), tokenizer=GLOSSARY)
        ids: list[int] = []
        for line in (GLOSSARY / "heldout.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n"):
            ids += generator.encode_document(line)
        return np.array([ids[at : at + TOKENS + 1] for at in range(0, WINDOWS * TOKENS, TOKENS)])

    def ggufs(self) -> Iterator[tuple[str, Path]]:
        """Makes the glossary model in llama.cpp's formats."""
        from safetensors.torch import load_file

        plain = self.arguments.work / "quality/glossary-f32.gguf"
        tensors = {name: value.float().numpy() for name, value in load_file(GLOSSARY / "model.safetensors").items()}
        llama.write_gguf(plain, llama.read_config(GLOSSARY), tensors)
        for format in PEERS:
            target = plain.with_name(f"glossary-{format}.gguf")
            llama.quantize_gguf(plain, target, format)
            yield format, target


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def llama_perplexity(model: Path, windows: np.ndarray, threads: int) -> float:
    """Returns the perplexity by llama.cpp, each window as a whole."""
    from language_model_worker import LlamaCpp

    settings = argparse.Namespace(model=str(model), tokens=TOKENS, batch=1, threads=threads)
    engine = LlamaCpp(settings)
    means = []
    for window in windows:
        engine.restart()
        engine.append([window[:-1].tolist()], every_token=True)
        means.append(losses(engine.logits(), window[1:]).mean())
    return math.exp(statistics.fmean(means))


def openvino_perplexity(model: Path, windows: np.ndarray, threads: int) -> float:
    """Returns the perplexity token by token: OpenVINO's model gives only the logits of the last token."""
    from language_model_worker import OpenVino

    engine = OpenVino(argparse.Namespace(model=str(model), tokens=TOKENS, batch=len(windows), threads=threads))
    engine.restart()

    def step(tokens: np.ndarray, position: int) -> np.ndarray:
        engine.length = position
        engine.append(tokens[:, None].tolist())
        return engine.logits()

    return token_by_token(step, windows)


def measure_perplexity(session: Session) -> list[dict[str, Any]]:
    """Measures our formats and the peers', with the bytes of their weights."""
    import intarsia

    windows, threads = session.windows(), session.arguments.threads
    rows: list[dict[str, Any]] = []

    def add(engine: str, format: str, size: int, perplexity: float) -> None:
        say(f"  {engine} {format}: {perplexity:.3f}, {size / 1e6:.2f} MB")
        rows.append({"engine": engine, "format": format, "bytes": size, "perplexity": perplexity})

    for format in FORMATS:
        artifact = session.compile(GLOSSARY, f"glossary-{format}", f"--quantize={format}", "--kv=f32")
        size = sum(stored_bytes(artifact.with_suffix(".safetensors")).values())
        add("ours", format, size, intarsia.Generator(artifact).perplexity(windows.tolist()))
    for format, file in session.ggufs():
        add("llama.cpp", format, file.stat().st_size, llama_perplexity(file, windows, threads))
    from harness.openvino_llama import make_openvino

    model = session.arguments.work / "quality/glossary-openvino.xml"
    make_openvino(GLOSSARY, model)
    size = model.with_suffix(".bin").stat().st_size
    add("openvino", "int4 (embedding and head int8)", size, openvino_perplexity(model, windows, threads))
    exact = rows[0]["perplexity"]
    return [row | {"increase": row["perplexity"] / exact - 1} for row in rows]


def measure_cache(session: Session) -> list[dict[str, Any]]:
    """Measures types of keys and values: memory of one sequence, and perplexity token by token through the cache."""
    import intarsia

    windows = session.windows()
    rows: list[dict[str, Any]] = []
    for kind in CACHES:
        module = intarsia.load(session.compile(GLOSSARY, f"glossary-kv-{kind}", f"--kv={kind}"))
        cache = intarsia.Cache(module, sequences=len(windows), pages=len(windows) * -(-TOKENS // 32))
        info = cache.info
        size = -(-CACHE_TOKENS // info["page_tokens"]) * info["page_bytes"] + info["sequence_bytes"]
        sequences = [cache.sequence() for _ in windows]

        def step(tokens: np.ndarray, position: int, cache: Any = cache, sequences: list[Any] = sequences) -> np.ndarray:
            return cache.step([(one, [int(token)], 1) for one, token in zip(sequences, tokens, strict=True)])

        rows.append({"kind": kind, "bytes": size, "perplexity": token_by_token(step, windows)})
        say(f"  {kind}: {rows[-1]['perplexity']:.4f}, {size} bytes")
    first = rows[0]
    return [
        row | {"memory": row["bytes"] / first["bytes"], "increase": row["perplexity"] / first["perplexity"] - 1}
        for row in rows
    ]


def start_first_token(session: Session, artifact: Path, tokens: int) -> Worker:
    command = [session.arguments.build / "bin/intarsia-bench-first-token", artifact, str(tokens)]
    return Worker("first token", command, session.arguments.work / "log/first-token.log", session.arguments.threads)


def measure_first_token(session: Session) -> list[dict[str, Any]]:
    """Measures the time to the first token: with a warm artifact, and in a new process with its files in memory."""
    rows = []
    for format in ("none", "int4"):
        artifact = session.compile(GLOSSARY, f"first-{format}", f"--quantize={format}")
        warm, fresh = [], []
        for _ in range(session.arguments.pairs):
            with start_first_token(session, artifact, PROMPT) as worker:
                fresh.append(worker.ready["load_ms"] + worker.ready["first_call_ms"])
                warm.append(statistics.median(worker.time(50, 10)))
        rows.append({"format": format, "warm_ms": warm, "fresh_ms": fresh})
        say(f"  {format}: {statistics.median(warm):.2f} ms, fresh process {statistics.median(fresh):.2f} ms")
    return rows


def measure_memory(session: Session) -> list[dict[str, Any]]:
    """Measures resident memory of the 1.1B shape after a prompt of 512 tokens, from C and from Python."""
    folder = session.arguments.cache / BILLION
    if not (folder / "model.safetensors").exists():
        llama.write_directory(folder, llama.BILLION, llama.random_weights(llama.BILLION))
    artifact = session.compile(folder, f"{BILLION}-int4", "--quantize=int4")
    archive = sum(path.stat().st_size for path in (artifact, artifact.with_suffix(".safetensors")))
    with start_first_token(session, artifact, 512) as worker:
        c = {key: worker.ready[key] for key in ("resident_bytes", "cache_bytes")}
    command = [
        sys.executable,
        "-m",
        "intarsia",
        "bench",
        "llm",
        str(artifact),
        f"--threads={session.arguments.threads}",
    ]
    command += ["--prefill=512", "--decode=8", "--rounds=1", "--json"]
    environment = os.environ | {"PYTHONPATH": str(session.arguments.build / "python")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    python = json.loads(done.stdout.splitlines()[-1])
    # Subtracts Python with its imports, which a server in Python has in any case.
    count = "import intarsia; print(open('/proc/self/statm').read().split()[1])"
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True, env=environment)
    python["interpreter_bytes"] = int(done.stdout) * os.sysconf("SC_PAGE_SIZE")
    rows = []
    for name, value in (("C", c | {"interpreter_bytes": 0}), ("Python", python)):
        kept = {key: value[key] for key in ("resident_bytes", "cache_bytes", "interpreter_bytes")}
        ratio = (value["resident_bytes"] - value["cache_bytes"]) / archive
        rows.append({"from": name, "archive_bytes": archive, "ratio": ratio, **kept})
        say(f"  {name}: {ratio:.3f}")
    return rows


MEASURES: dict[str, Callable[[Session], list[dict[str, Any]]]] = {
    "perplexity": measure_perplexity,
    "cache": measure_cache,
    "first_token": measure_first_token,
    "memory": measure_memory,
}


def render(results: dict[str, list[dict[str, Any]]]) -> str:
    parts = []
    if rows := results.get("perplexity"):
        header = ("engine", "format", "weights, MB", "perplexity", "increase")
        cells = [
            (
                row["engine"],
                row["format"],
                f"{row['bytes'] / 1e6:.2f}",
                f"{row['perplexity']:.3f}",
                f"{100 * row['increase']:.2f} %",
            )
            for row in rows
        ]
        parts.append(f"Perplexity of glossary-6m, {WINDOWS} windows.\n\n{table(header, cells)}")
    if rows := results.get("cache"):
        header = ("keys and values", f"bytes for {CACHE_TOKENS} tokens", "of f16", "perplexity", "increase")
        cells = [
            (
                row["kind"],
                str(row["bytes"]),
                f"{row['memory']:.3f}",
                f"{row['perplexity']:.4f}",
                f"{100 * row['increase']:.2f} %",
            )
            for row in rows
        ]
        parts.append(f"Token by token through the cache, weights exact.\n\n{table(header, cells)}")
    if rows := results.get("first_token"):
        header = ("weights", "warm, ms", "fresh process with loading, ms")
        cells = [
            (row["format"], f"{statistics.median(row['warm_ms']):.2f}", f"{statistics.median(row['fresh_ms']):.2f}")
            for row in rows
        ]
        parts.append(f"Glossary-6m, from a prompt of {PROMPT} tokens to the first one.\n\n{table(header, cells)}")
    if rows := results.get("memory"):
        header = (
            "1.1B int4, called from",
            "resident, MB",
            "cache, MB",
            "artifact and archive, MB",
            "without cache / them",
        )
        cells = [
            (
                row["from"],
                *(
                    f"{row[key] / 1e6:.1f}"
                    for key in ("resident_bytes", "cache_bytes", "interpreter_bytes", "archive_bytes")
                ),
                f"{row['ratio']:.3f}",
            )
            for row in rows
        ]
        parts.append(table(header, cells))
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures perplexity, memory and time to the first token.")
    names = ", ".join(MEASURES)
    parser.add_argument("--only", type=some_of(MEASURES), default=list(MEASURES), help=f"some of: {names}")
    add_options(parser, pairs=9)
    arguments = parser.parse_args()
    described = machine.describe()
    machine.use_cores(arguments.threads)
    session = Session(arguments)
    results = {}
    for name in arguments.only:
        say(f"==> {name.replace('_', ' ')}")
        results[name] = MEASURES[name](session)
    report(arguments, described, "language_model_quality", "Quality and memory", render(results), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
