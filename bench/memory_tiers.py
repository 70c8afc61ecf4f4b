#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures decoding of a language model that is larger than the memory it may use, against llama.cpp (as root).

Each engine runs in a cgroup of its own that limits memory: anonymous memory and pages of files together. llama.cpp maps
its file, so that the kernel decides what stays; what it would lay out anew, in memory that cannot be dropped, it leaves as
it is in the file: else it is killed for lack of memory. Ours is loaded with the same number as its limit of memory. The page
cache forgets both files first, because pages that are there already belong to no limited cgroup. The drive is read by as
many threads as ours reads with, in the same rounds.

The model is that of language_models.py: a Llama of 1.1 billion random weights.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from harness.program import ROOT, add_options, report
from harness.ratios import Comparison, alternate
from harness.report import table
from harness.workers import Worker
from language_models import NAME, PEERS, Session, least_cosine, make_models

READ_BYTES = 1 << 20
READERS = 4


@contextmanager
def memory_cgroup(name: str, limit: int) -> Iterator[Path]:
    """Make a cgroup, of version 1 or 2, whose processes have so many bytes of memory, and none to swap to."""
    root = Path("/sys/fs/cgroup")
    is_second = (root / "cgroup.controllers").exists()
    group = (root if is_second else root / "memory") / f"bench-{name}-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(str(limit))
        swap = group / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
        yield group
    finally:
        for _ in range(100):  # until the processes are gone
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def forget(path: Path) -> None:
    """Let the page cache forget a file."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drive_rate(path: Path, most: int = 512 << 20) -> float:
    """Return the bytes a second that direct reads of a file give."""
    size = min(path.stat().st_size, most) // READ_BYTES * READ_BYTES
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    next_offset = iter(range(0, size, READ_BYTES))
    lock = threading.Lock()

    def read() -> None:
        buffer = mmap.mmap(-1, READ_BYTES)
        while True:
            with lock:
                offset = next(next_offset, None)
            if offset is None:
                return
            os.preadv(descriptor, [buffer], offset)

    threads = [threading.Thread(target=read) for _ in range(READERS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    os.close(descriptor)
    return size / seconds


def start(session: Session, name: str, engine: str, model: Path, group: Path, memory: int) -> Worker:
    """Start an engine inside a cgroup."""
    arguments = session.arguments
    command: list[str | Path] = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", sys.executable]
    command += [ROOT / "bench/language_model_worker.py", engine, model, "decode", "--tokens=32"]
    command += [f"--threads={arguments.threads}", f"--memory={memory}"]
    log = arguments.work / "log" / f"memory-{name.replace(' ', '-')}.log"
    return Worker(name, command, log, arguments.threads, {"PYTHONPATH": str(arguments.build / "python")})


def measure(session: Session, peer: str, factor: float) -> dict[str, Any]:
    """Measure ours against the peer with the memory of the artifact's weights divided by the factor."""
    arguments = session.arguments
    name, artifact = session.ours(peer)
    weights, file = artifact.with_suffix(".safetensors"), arguments.cache / PEERS[peer].file
    limit = int(weights.stat().st_size / factor)
    for path in (weights, file):
        forget(path)
    rates: list[float] = []
    with (
        memory_cgroup("ours", limit) as our_group,
        memory_cgroup("peer", limit) as their_group,
        start(session, f"ours {name}", "intarsia", artifact, our_group, limit) as ours,
        start(session, f"llama.cpp {peer}", "llama.cpp", file, their_group, limit) as other,
    ):
        cosine = least_cosine(*(logits(session, worker) for worker in (ours, other)))
        comparison = Comparison(ours.name, other.name)
        for _ in range(arguments.pairs):
            rates.append(drive_rate(weights))
            one = alternate(ours, [other], 1, round_ms=3000, least=3)[0]
            comparison.ours_ms += one.ours_ms
            comparison.peer_ms += one.peer_ms
        memory = ours.ask("memory")["memory"]
        peak = peak_bytes(our_group)
    read = memory["weight_bytes"] - memory["kept_bytes"]
    possible = statistics.median(rates) / read
    row = comparison.to_json()
    row |= {"limit": limit, "peak": peak, "cosine": cosine, "rate": statistics.median(rates), "memory": memory}
    return row | {"weights": weights.stat().st_size, "of_possible": 1e3 / row["ours_ms"] / possible, "peer": peer}


def peak_bytes(group: Path) -> int:
    """Return the most memory that a cgroup had."""
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        if (group / name).exists():
            return int((group / name).read_text())
    return 0


def logits(session: Session, worker: Worker) -> np.ndarray:
    """Return the logits of the worker's last call, [1, vocabulary]."""
    path = session.arguments.work / "logits.f32"
    worker.save(path)
    return np.fromfile(path, "<f4").reshape(1, -1)


def render(rows: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    header = (
        "weights, MB",
        "memory, MB",
        "stay, MB",
        "drive, GB/s",
        "ours, tokens/s",
        "peer, tokens/s",
        "ratio",
        "of what the drive allows",
        "logits' cosine",
    )
    cells = [
        (
            f"{row['weights'] / 1e6:.0f}",
            f"{row['limit'] / 1e6:.0f}",
            f"{row['memory']['kept_bytes'] / 1e6:.0f}",
            f"{row['rate'] / 1e9:.2f}",
            f"{1e3 / row['ours_ms']:.2f}",
            f"{1e3 / row['peer_ms']:.2f} ({row['peer']})",
            f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]",
            f"{100 * row['of_possible']:.0f} %",
            f"{row['cosine']:.3f}",
        )
        for row in rows
    ]
    return table(header, cells)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quantize", default="int4", help="format of our weights")
    parser.add_argument("--peer", choices=("q4_0", "q4_k_m"), default="q4_0")
    parser.add_argument("--factor", type=float, default=1.5, help="weights of ours by memory (default: %(default)s)")
    add_options(parser, pairs=7)
    arguments = parser.parse_args()
    arguments.ours = "directory"
    described = machine.describe()
    machine.use_cores(arguments.threads)
    make_models(arguments.cache, [arguments.peer])
    rows = [measure(Session(arguments), arguments.peer, arguments.factor)]
    print(json.dumps(rows[0]["memory"]), file=sys.stderr)
    report(
        arguments, described, "memory_tiers", f"{NAME} in less memory than it has weights", render(rows), {"rows": rows}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
