# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model, alone or as one of the ranks of a world: ranks.py ARTIFACT INPUTS.npz RESULTS.npz.

A language model gets texts of different lengths together, and then a token of each at a time, ten times. Other
models are called once. The results of rank R are written to RESULTS.npz.R, those of a model that is not split to
RESULTS.npz.0.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import intarsia
import numpy as np

DECODED = 10


def results_of(artifact: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what the model gives for the inputs: ``ids`` [texts, tokens] of a language model, or those of `main`."""
    # Ranks of a test may have unlike devices.
    devices = [name for name in os.environ.get("ITX_TEST_DEVICES", "").split(",") if name]
    module = intarsia.load(artifact, devices=devices[int(os.environ["ITX_WORLD_RANK"])] if devices else ())
    if "step" not in module.functions:
        outputs = module.main(**inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return {f"output{number}": np.asarray(output, np.float32) for number, output in enumerate(outputs)}
    ids = inputs["ids"]
    sequences, pages = len(ids), 4
    state = intarsia.make_state(module.step, pages=sequences * pages, sequences=sequences)
    table = np.arange(sequences * pages).reshape(sequences, pages)
    lengths = [ids.shape[1] - DECODED - 3 * number for number in range(sequences)]
    logits = []

    def step(rows: list[tuple[int, int, int]]) -> None:
        positions = [np.arange(first, last) for _, first, last in rows]
        given = {
            "input_ids": np.concatenate([ids[s, first:last] for s, first, last in rows]),
            "positions": np.concatenate(positions),
            "sequences": np.repeat([s for s, _, _ in rows], [last - first for _, first, last in rows]),
            "page_table": table,
        }
        logits.append(np.array(module.step(**given, output_tokens=np.arange(len(given["input_ids"])), **state)))

    step([(s, 0, length) for s, length in enumerate(lengths)])
    for number in range(DECODED):
        step([(s, length + number, length + number + 1) for s, length in enumerate(lengths)])
    return {"logits": np.concatenate(logits)}


def free_port() -> int:
    """Return a port that nobody listens at, below those that the system gives to connections."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def address_of_hosts(folder: Path) -> dict[str, str]:
    """Return the variables of a new world whose ranks are on several hosts, all of them this machine."""
    port = free_port()
    token = folder / "token"
    token.write_text(uuid.uuid4().hex)
    return {"ITX_WORLD_ADDRESS": f"tcp:localhost:{port}", "ITX_WORLD_TOKEN_FILE": str(token)}


def start_ranks(command: list, world: int, folder: Path, hosts: str = "", **variables: str) -> list[subprocess.Popen]:
    """Start a Python program as so many ranks.

    ``hosts`` has a letter for each rank's host: ranks with different ones exchange data by TCP.
    """
    environment = os.environ | {
        "ITX_WORLD_SIZE": str(world),
        "ITX_WORLD_ADDRESS": f"local:test-{uuid.uuid4().hex}",
        "ITX_WORLD_DEADLINE_S": "60",
        "ITX_THREADS": "1",
    }
    if hosts:
        environment |= address_of_hosts(folder)
    environment |= variables
    ranks = []
    for rank in range(world):
        own = {"ITX_WORLD_RANK": str(rank)} | ({"ITX_WORLD_HOST": hosts[rank]} if hosts else {})
        ranks.append(
            subprocess.Popen([sys.executable, *command], env=environment | own, stderr=subprocess.PIPE, text=True)
        )
    return ranks


def run_ranks(
    program: str, artifact: Path, inputs: Path, results: Path, world: int, hosts: str = "", **variables: str
) -> list[dict]:
    """Run a program as the ranks of a world, and return the arrays that each has written to RESULTS.RANK.npz."""
    ranks = start_ranks([program, artifact, inputs, results], world, results.parent, hosts, **variables)
    messages = [process.communicate(timeout=120)[1] for process in ranks]
    assert all(process.returncode == 0 for process in ranks), "\n".join(messages)
    return [dict(np.load(f"{results}.{rank}.npz")) for rank in range(world)]


def run_world(
    artifact: Path, inputs: Path, results: Path, world: int, hosts: str = "", devices: str = ""
) -> list[dict[str, np.ndarray]]:
    """Run a split model as so many processes, on a device each if `devices` names them; return the results of each."""
    variables = {"ITX_TEST_DEVICES": devices} if devices else {}
    return run_ranks(__file__, artifact, inputs, results, world, hosts, **variables)


if __name__ == "__main__":
    here = Path(sys.argv[3])
    np.savez(
        f"{here}.{os.environ.get('ITX_WORLD_RANK', '0')}", **results_of(Path(sys.argv[1]), dict(np.load(sys.argv[2])))
    )
