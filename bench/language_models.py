#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures language models at four bits against llama.cpp and OpenVINO: prefill, decode, decode of several sequences.

The model is a Llama of 1.1 billion random weights (the shape of TinyLlama). llama.cpp makes its own files of it, Q4_0
and Q4_K_M; OpenVINO's are built as its tools do (harness/openvino_llama.py). Ours is the Hugging Face directory with
--quantize, or the same GGUF file that llama.cpp reads (against q4_k_m, or everywhere with --ours=file). Decoding of one
sequence is also compared with the machine's read bandwidth. Markdown to standard output, Markdown and JSON to
build/bench. On a build of `make bench`:

    pip install -r bench/requirements.txt -r bench/requirements-language-models.txt
    python bench/language_models.py [--pairs=12] [--quantize=int4] [--peers=q4_0,openvino-int4] [--tasks=prefill]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import llama, machine
from harness.artifact import stored_bytes
from harness.measures import comparison_text
from harness.program import ROOT, NotMeasuredError, add_options, compile_model, report, some_of
from harness.ratios import alternate
from harness.report import table
from harness.workers import Worker

NAME = "llama-1.1b"


@dataclass(frozen=True)
class Peer:
    """Another engine with its own file; `reads_ours`: ours can be compiled from that file."""

    engine: str
    file: str
    reads_ours: bool = False


PEERS = {
    "q4_0": Peer("llama.cpp", f"{NAME}-q4_0.gguf", reads_ours=True),
    "q4_k_m": Peer("llama.cpp", f"{NAME}-q4_k_m.gguf", reads_ours=True),
    "q8_0": Peer("llama.cpp", f"{NAME}-q8_0.gguf", reads_ours=True),
    "tq1_0": Peer("llama.cpp", f"{NAME}-tq1_0.gguf", reads_ours=True),
    "tq2_0": Peer("llama.cpp", f"{NAME}-tq2_0.gguf", reads_ours=True),
    "openvino-int4": Peer("openvino", f"{NAME}-openvino-int4.xml"),
    "openvino-int4-bf16": Peer("openvino-bf16", f"{NAME}-openvino-int4.xml"),
}
# Formats that --quantize cannot make, or whose scales it chooses otherwise: ours uses the peer's file.
ALWAYS_FROM_FILE = {"q4_k_m", "tq1_0", "tq2_0"}
TASKS = {  # tokens of the prompts, sequences
    "prefill": (512, 1),
    "decode": (128, 1),
    "decode of 8": (128, 8),
}
# Quantization changes the logits of a deep model with random weights a lot: two methods for four bits have a cosine of
# 0.6 with each other (0.93 if they round by the same rule) and 0.7 to 0.8 with the exact logits. Another model has a
# cosine near zero.
LEAST_COSINE = 0.4
# With the same quantized weights only the rounding of activations differs.
LEAST_COSINE_OF_ONE_FILE = 0.95
# An archive that exceeds its source file by this factor holds dequantized weights.
MOST_GROWTH = 1.25


def make_models(cache: Path, peers: list[str]) -> None:
    """Makes the models that are missing in `cache`."""
    folder, plain = cache / NAME, cache / f"{NAME}-f16.gguf"
    if not (folder / "model.safetensors").exists():
        print("==> Making a Llama of 1.1 billion weights", file=sys.stderr, flush=True)
        llama.write_directory(folder, llama.BILLION, llama.random_weights(llama.BILLION))
    missing = {PEERS[peer].file: peer for peer in peers if not (cache / PEERS[peer].file).exists()}
    for file, peer in missing.items():
        print(f"==> Making {file}", file=sys.stderr, flush=True)
        if PEERS[peer].engine != "llama.cpp":
            from harness.openvino_llama import make_openvino

            make_openvino(folder, cache / file)
            continue
        if not plain.exists():
            from safetensors.numpy import load_file

            llama.write_gguf(plain, llama.BILLION, load_file(folder / "model.safetensors"))
        llama.quantize_gguf(plain, cache / file, peer)
    plain.unlink(missing_ok=True)


class Session:
    """Compiles and starts engines."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self._refused: dict[str, str] = {}

    def ours(self, peer: str) -> tuple[str, Path]:
        """Returns name and artifact of our side against a peer.

        Raises
        ------
        NotMeasuredError
            The compiler has no kernel for the file's format, and stores dequantized values.
        """
        source, given = self.arguments.ours, PEERS[peer]
        if given.reads_ours and (source == "file" or (source == "auto" and peer in ALWAYS_FROM_FILE)):
            return peer, self._compile_file(peer, self.arguments.cache / given.file)
        format = self.arguments.quantize
        return format, self._compile(format, self.arguments.cache / NAME, f"--quantize={format}")

    def _compile_file(self, name: str, file: Path) -> Path:
        if name not in self._refused:
            artifact = self._compile(name, file)
            archive = artifact.with_suffix(".safetensors")
            stored, given = sum(stored_bytes(archive).values()), file.stat().st_size
            if stored <= MOST_GROWTH * given:
                return artifact
            self._refused[name] = f"ours takes {stored >> 20} MiB for the {given >> 20} MiB of {file.name}"
            artifact.unlink()
            archive.unlink()
        raise NotMeasuredError(self._refused[name])

    def _compile(self, name: str, source: Path, *flags: str) -> Path:
        artifact = self.arguments.work / f"{NAME}-{name}.itx"
        compile_model(self.arguments.build, source, artifact, *flags)
        return artifact

    def start(self, name: str, engine: str, model: Path, task: str) -> Worker:
        tokens, batch = TASKS[task]
        log = self.arguments.work / "log" / f"language-{task.replace(' ', '-')}-{name.replace(' ', '-')}.log"
        command = [sys.executable, ROOT / "bench/language_model_worker.py", engine, model, task.split()[0]]
        command += [f"--tokens={tokens}", f"--batch={batch}", f"--threads={self.arguments.threads}"]
        environment = {"PYTHONPATH": str(self.arguments.build / "python")}
        return Worker(name, command, log, self.arguments.threads, environment)

    def logits(self, worker: Worker, task: str) -> np.ndarray:
        path = self.arguments.work / "logits.f32"
        worker.save(path)
        return np.fromfile(path, "<f4").reshape(TASKS[task][1], -1)


def least_cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns the smallest cosine over the rows of the logits [batch, vocabulary] of two engines."""
    scale = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    return float(((ours * theirs).sum(-1) / scale).min())


def weight_bytes_of_a_token(tensors: dict[str, int]) -> int:
    """Returns the bytes that a decoding step reads of a packed archive: only a row of an embedding that is not tied."""
    tables = ("model.embed_tokens.weight", "token_embd.weight")
    has_head = any(name.startswith(("lm_head.weight", "output.weight")) for name in tensors)
    return sum(size for name, size in tensors.items() if not (has_head and name.startswith(tables)))


def measure_against_peer(session: Session, task: str, peer: str) -> dict[str, Any]:
    """Measures ours and a peer in alternating rounds."""
    name, artifact = session.ours(peer)
    given = PEERS[peer]
    title = f"llama.cpp {peer}" if given.engine == "llama.cpp" else peer
    with (
        session.start(f"ours {name}", "intarsia", artifact, task) as ours,
        session.start(title, given.engine, session.arguments.cache / given.file, task) as other,
    ):
        cosine = least_cosine(session.logits(ours, task), session.logits(other, task))
        if not cosine > (LEAST_COSINE_OF_ONE_FILE if name == peer else LEAST_COSINE):
            raise RuntimeError(f"{task}: {title} computes something else than ours, the logits' cosine is {cosine:.3f}")
        comparison = alternate(ours, [other], session.arguments.pairs, round_ms=400, least=1)[0]
        settings = {
            worker.name: {**worker.ready["settings"], "of": worker.ready["version"]} for worker in (ours, other)
        }
    print(f"  {comparison_text(comparison)}, cosine {cosine:.4f}", file=sys.stderr, flush=True)
    tokens, batch = TASKS[task]
    count = batch * (tokens if task == "prefill" else 1)
    return {"task": task, "tokens": count, "cosine": cosine, "engines": settings, **comparison.to_json()}


def measure_reading(session: Session, peer: str) -> dict[str, Any]:
    """Measures the bytes of weights that decoding reads a second, in rounds alternating with a loop that only reads.

    Both read the same file, in the same pages of the system's cache: their size alone changes the bandwidth by a third.
    """
    name, artifact = session.ours(peer)
    loop = session.arguments.build / "bin/intarsia-bench-peak"
    log = session.arguments.work / "log/language-read.log"
    threads = session.arguments.threads
    with (
        session.start(f"ours {name}", "intarsia", artifact, "decode") as ours,
        Worker("read", [loop, "read", str(threads), artifact.with_suffix(".safetensors")], log, threads) as peak,
    ):
        comparison = alternate(ours, [peak], session.arguments.pairs, round_ms=400, least=1)[0]
        size = weight_bytes_of_a_token(stored_bytes(artifact.with_suffix(".safetensors")))
        share, low, high = comparison.share(size, peak.ready["bytes"])
        speed = peak.ready["bytes"] / comparison.to_json()["peer_ms"] / 1e6
    row = {"ours": name, "bytes": size, "share": share, "low": low, "high": high, "peak_gbps": speed}
    print(f"  {name}: {100 * share:.1f} % of {speed:.1f} GB/s", file=sys.stderr, flush=True)
    return row | {"ms": comparison.to_json()["ours_ms"]}


def render(rows: list[dict[str, Any]], reading: list[dict[str, Any]], missing: list[str]) -> str:
    parts = []
    if rows:
        header = ("task", "ours", "peer", "ours, tokens/s", "peer, tokens/s", "ratio", "logits' cosine")
        cells = [
            (
                row["task"],
                row["ours"].removeprefix("ours "),
                row["peer"],
                *(f"{1e3 * row['tokens'] / row[key]:.1f}" for key in ("ours_ms", "peer_ms")),
                f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]",
                f"{row['cosine']:.3f}",
            )
            for row in rows
        ]
        parts.append(table(header, cells))
        engines = {name: settings for row in rows for name, settings in row["engines"].items()}
        lines = (
            f"- {name}: {', '.join(f'{k} {v}' for k, v in settings.items())}" for name, settings in engines.items()
        )
        parts.append("\n".join(lines) + "\n")
    if reading:
        header = ("decode of one sequence", "weights read, MB", "ms a token", "read bandwidth, GB/s", "of it")
        cells = [
            (
                row["ours"],
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['ms']:.2f}",
                f"{row['peak_gbps']:.1f}",
                f"{100 * row['share']:.0f} % [{100 * row['low']:.0f}, {100 * row['high']:.0f}]",
            )
            for row in reading
        ]
        parts.append(table(header, cells))
    if missing:
        parts.append("\n".join(f"- {line}" for line in missing) + "\n")
    return "\n".join(parts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures language models against llama.cpp and OpenVINO.")

    peers = ["q4_0", "q4_k_m", "openvino-int4", "openvino-int4-bf16"]
    add = parser.add_argument
    add("--quantize", default="int4", help="format of our weights")
    add("--ours", choices=("auto", "directory", "file"), default="auto", help="what ours is made of: the directory "
        "quantized by --quantize, or the peer's file where that is GGUF; auto: the file against q4_k_m")  # fmt: skip
    add("--peers", type=some_of(PEERS), default=peers, help=f"some of: {', '.join(PEERS)}")
    add("--tasks", type=some_of(TASKS), default=list(TASKS), help=f"some of: {', '.join(TASKS)}")
    add_options(parser, pairs=12)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    described = machine.describe()
    machine.use_cores(arguments.threads)
    make_models(arguments.cache, arguments.peers)
    session = Session(arguments)
    rows: list[dict[str, Any]] = []
    reading: dict[str, dict[str, Any]] = {}
    missing: list[str] = []
    for task in arguments.tasks:
        for peer in arguments.peers:
            print(f"==> {task}, {peer}", file=sys.stderr, flush=True)
            try:
                name, _ = session.ours(peer)
                rows.append(measure_against_peer(session, task, peer))
                if task == "decode" and name not in reading:
                    reading[name] = measure_reading(session, peer)
            except NotMeasuredError as error:
                missing.append(f"{task} against {peer} is not measured: {error}")
                print(f"  {error}", file=sys.stderr, flush=True)
    body = render(rows, list(reading.values()), missing)
    results = {"rows": rows, "reading": list(reading.values()), "not_measured": missing}
    report(arguments, described, "language_models", "Language models", body, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
