# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measure the artifacts of a deployment in processes of their own, at the sizes that its plan was made for."""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..generation.cache import Cache
from ..runtime.module import Module, load
from ..support.checks import check_form, parse_json
from ..support.errors import InvalidArgumentError
from . import hand_over

VERSION = 1
CHUNK = 512
"""Tokens of a prompt in one call."""
MOST_SEQUENCES = 32
"""Larger batches are not measured: their caches may not fit."""
DECODE_STEPS = 16
ROUNDS = 5
TIMEOUT = 120.0
WAIT = 3600.0
"""Seconds in which the prompts of the other process are measured."""

Entry = dict[str, Any]

#: What is read of deployment.json.
_FIGURES = dict.fromkeys(("new_tokens", "cached_tokens", "written_tokens", "input_units"), int | float)
_PIECE = {
    "name": str,
    "kind": str,
    "aggregated": bool,
    "batch": range(1, 1 << 31),
    "work": _FIGURES,
    "tasks": [{"graph": str, "task": str}],
}
_MANIFEST = {
    "plan": {"file": str},
    "pools": [{"name": str, "artifacts": [{"file": str, "model": str, "world": int, "pieces": [_PIECE]}]}],
}


def measure(folder: Path, show: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure every piece that an artifact of a deployment runs.

    Parameters
    ----------
    folder : Path
        What ``intarsia-compile --plan`` has written.
    show : callable
        Shows what is measured.

    Returns
    -------
    dict
        The profile that ``intarsia-plan --compare`` reads: medians in milliseconds over rounds after one that does not
        count.

    Raises
    ------
    InvalidArgumentError
        The folder is no deployment, or of artifacts that several processes run together.
    """
    manifest = _read(folder)
    pieces = []
    for pool in manifest["pools"]:
        for artifact in pool["artifacts"]:
            if artifact["world"] != 1:
                raise InvalidArgumentError(
                    f"{artifact['file']}: {artifact['world']} processes run it together: what a pool measures is one "
                    "process, plan with degrees of 1",
                    "invalid argument",
                )
            pieces += [
                {**piece, "file": str(folder / artifact["file"]), "model": artifact["model"], "pool": pool["name"]}
                for piece in artifact["pieces"]
            ]
    entries: list[Entry] = []
    for piece in pieces:
        if piece["kind"] not in ("prefill", "decode"):
            show(piece["name"])
            entries += _in_process(_encoder, piece)
    for decode in pieces:
        if decode["kind"] == "decode":
            # Both are tasks of one user's task: "answer.prefill" and "answer.decode".
            prefill = _prefill_of(decode, pieces)
            show(f"{prefill['name']}, {decode['name']}")
            entries += _language_model(prefill, decode)
    machine = {"processor": platform.processor() or platform.machine(), "threads": len(os.sched_getaffinity(0))}
    return {"version": VERSION, "plan": manifest["plan"], "machine": machine, "entries": entries}


def _read(folder: Path) -> dict[str, Any]:
    file = folder / "deployment.json"
    try:
        manifest = parse_json(str(file), file.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(
            f"{file}: {error.strerror}: intarsia-compile --plan makes a deployment", "invalid argument"
        ) from error
    if manifest.get("version") != 1 or "pools" not in manifest:
        raise InvalidArgumentError(f"{file}: is no deployment of this version: compile again", "invalid argument")
    check_form(f"{file}: it", manifest, {"pools": [{"artifacts": [{"pieces": [dict]}]}]})
    if any("work" not in piece for pool in manifest["pools"] for each in pool["artifacts"] for piece in each["pieces"]):
        raise InvalidArgumentError(
            f"{file}: does not say what its pieces compute, as deployments of earlier versions did not: plan and "
            "compile again",
            "invalid argument",
        )
    check_form(f"{file}: it", manifest, _MANIFEST)
    return manifest


def _prefill_of(decode: Entry, pieces: list[Entry]) -> Entry:
    def tasks(piece: Entry) -> set[tuple[str, str]]:
        return {(task["graph"], task["task"].rsplit(".", 1)[0]) for task in piece["tasks"]}

    for piece in pieces:
        if piece["kind"] == "prefill" and piece["model"] == decode["model"] and tasks(piece) & tasks(decode):
            return piece
    raise InvalidArgumentError(f"'{decode['name']}': the deployment has no prefill for it", "invalid argument")


def _entry(piece: str, figure: str, batch: int, seconds: list[float]) -> Entry:
    return {
        "piece": piece,
        "figure": figure,
        "batch": batch,
        "milliseconds": statistics.median(seconds) * 1e3,
        "rounds": len(seconds),
    }


def _rounds(work: Callable[[], object], rounds: int = ROUNDS, least_seconds: float = 0.2) -> list[float]:
    """Return the seconds of some rounds after one that does not count."""
    seconds: list[float] = []
    for number in range(1000):
        start = time.perf_counter()
        work()
        if number:
            seconds.append(time.perf_counter() - start)
            if len(seconds) >= rounds and sum(seconds) >= least_seconds:
                break
    return seconds


# ---- Processes


def _run(worker: Callable[..., list[Entry]], result: Connection, arguments: tuple[Any, ...]) -> None:
    try:
        result.send(worker(*arguments))
    except BaseException as error:  # the parent reports it
        result.send(f"{type(error).__name__}: {error}")


def _start(worker: Callable[..., list[Entry]], *arguments: object) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(worker, theirs, arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _finish(process: Any, result: Connection, name: str) -> list[Entry]:
    try:
        got = result.recv()
    except EOFError:
        got = "it ended without a result"
    process.join()
    if isinstance(got, str):
        raise InvalidArgumentError(f"{name}: {got}", "invalid argument")
    return got


def _in_process(worker: Callable[..., list[Entry]], piece: Entry) -> list[Entry]:
    return _finish(*_start(worker, piece), piece["name"])


# ---- Workers


def _encoder(piece: Entry) -> list[Entry]:
    module = load(piece["file"])
    tokens = max(1, round(piece["work"]["input_units"]))
    entries = []
    for batch in sorted({1, piece["batch"]}):
        ids = np.full((batch, tokens), 5, np.int64)
        entries.append(_entry(piece["name"], "execution", batch, _rounds(lambda ids=ids: module.main(input_ids=ids))))
    return entries


def _ids(count: int, vocabulary: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocabulary, count).tolist()


def _append(cache: Cache, sequence: Any, ids: list[int], *, output: bool) -> np.ndarray:
    """Append tokens in chunks; return the logits after the last one."""
    logits = np.empty((0, 0), np.float32)
    for begin in range(0, len(ids), CHUNK):
        chunk = ids[begin : begin + CHUNK]
        logits = cache.step([(sequence, chunk, int(output and begin + CHUNK >= len(ids)))])
    return logits


def _sizes(piece: Entry) -> tuple[int, int]:
    work = piece["work"]
    return max(1, round(work["new_tokens"])), round(work["cached_tokens"])


def _open(module: Module, sequences: int, tokens: int) -> Cache:
    page = Cache(module, pages=1).info["page_tokens"]
    return Cache(module, sequences=sequences, pages=sequences * math.ceil(tokens / page))


def _measure_prompts(cache: Cache, sequence: Any, piece: Entry) -> list[float]:
    """Time the new tokens of a prompt until its first token is known; leaves the prompt in the cache."""
    new, cached = _sizes(piece)
    vocabulary = cache.info["vocabulary"]
    _append(cache, sequence, _ids(cached, vocabulary, 1), output=False)
    ids = _ids(new, vocabulary, 2)
    seconds = []
    for number in range(ROUNDS + 1):
        sequence.truncate(cached)
        start = time.perf_counter()
        int(_append(cache, sequence, ids, output=True)[-1].argmax())
        if number:
            seconds.append(time.perf_counter() - start)
    return seconds


def _prefill_worker(piece: Entry, copies: int, first: int, address: str) -> list[Entry]:
    """Measure prompts, then send the last one's cache `copies` times.

    The receiver takes memory from the system for the `first` copies, which are not counted: a process that serves has
    it already.
    """
    module = load(piece["file"])
    cache = _open(module, 1, sum(_sizes(piece)))
    sequence = cache.sequence()
    entries = [_entry(piece["name"], "first_token", 1, _measure_prompts(cache, sequence, piece))]
    with hand_over.accepted(address, TIMEOUT) as connection:
        seconds = []
        for _ in range(copies):
            start = time.perf_counter()
            sequence.send(connection, TIMEOUT)
            seconds.append(time.perf_counter() - start)
    entries.append(_entry(piece["name"], "hand_over", 1, seconds[first:]))
    return entries


def _measure_steps(cache: Cache, sequences: list[Any], piece: Entry, batches: list[int]) -> list[Entry]:
    """Time steps at half of the tokens that are written, as the plan counts them."""
    written = max(1, round(piece["work"]["written_tokens"]))
    vocabulary = cache.info["vocabulary"]
    for number, sequence in enumerate(sequences):
        _append(cache, sequence, _ids(written // 2, vocabulary, 3 + number), output=False)
    entries = []
    for batch in batches:
        chosen = sequences[:batch]
        lengths = [sequence.length for sequence in chosen]
        tokens = [5] * batch
        seconds = []
        for number in range(2 * DECODE_STEPS + 1):
            start = time.perf_counter()
            logits = cache.step([(sequence, [token], 1) for sequence, token in zip(chosen, tokens, strict=True)])
            tokens = logits.argmax(axis=1).tolist()
            if number:
                seconds.append(time.perf_counter() - start)
            if number % DECODE_STEPS == 0:
                for sequence, length in zip(chosen, lengths, strict=True):
                    sequence.truncate(length)
        entries.append(_entry(piece["name"], "next_token", batch, seconds))
    return entries


def _batches(decode: Entry) -> list[int]:
    return sorted({1, decode["batch"]} if decode["batch"] <= MOST_SEQUENCES else {1})


def _tokens_of(decode: Entry, prefill: Entry) -> int:
    return sum(_sizes(prefill)) + max(1, round(decode["work"]["written_tokens"])) // 2 + 2 * DECODE_STEPS


def _decode_worker(decode: Entry, prefill: Entry, copies: int, address: str) -> list[Entry]:
    """Receive sequences and continue them."""
    module = load(decode["file"])
    batches = _batches(decode)
    cache = _open(module, max(batches), _tokens_of(decode, prefill))
    sequences: list[Any] = []
    # The other process waits for it once its prompts are measured.
    with hand_over.connected(address, WAIT) as connection:
        for _ in range(copies):
            if len(sequences) == max(batches):
                sequences.pop()
            sequences.append(cache.receive(connection, TIMEOUT))
    return _measure_steps(cache, sequences, decode, batches)


def _aggregated_worker(decode: Entry, prefill: Entry) -> list[Entry]:
    """Prompts and steps in one process."""
    module = load(decode["file"])
    batches = _batches(decode)
    cache = _open(module, max(batches), _tokens_of(decode, prefill))
    first = cache.sequence()
    entries = [_entry(prefill["name"], "first_token", 1, _measure_prompts(cache, first, prefill))]
    ids = first.tokens
    sequences = [first]
    for _ in range(1, max(batches)):
        sequences.append(cache.sequence())
        _append(cache, sequences[-1], ids, output=False)
    return entries + _measure_steps(cache, sequences, decode, batches)


def _language_model(prefill: Entry, decode: Entry) -> list[Entry]:
    if decode["aggregated"]:
        return _finish(*_start(_aggregated_worker, decode, prefill), decode["name"])
    warm = max(_batches(decode))
    copies = warm + ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/hand-over"
        first = _start(_prefill_worker, prefill, copies, warm, address)
        second = _start(_decode_worker, decode, prefill, copies, address)
        return _finish(*first, prefill["name"]) + _finish(*second, decode["name"])
