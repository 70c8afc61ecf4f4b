# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model, alone or as one of the ranks of a world: ranks.py ARTIFACT INPUTS.npz RESULTS.npz.

A language model gets texts of different lengths together, and then a token of each at a time, ten times. Other
models are called once. The results of rank R are written to RESULTS.npz.R, those of a model that is not split to
RESULTS.npz.0.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import traceback
import uuid
from functools import cache
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


def environments(world: int, folder: Path, hosts: str = "", **variables: str) -> list[dict[str, str]]:
    """Return the environment of each rank of a new world.

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
    return [
        environment | {"ITX_WORLD_RANK": str(rank)} | ({"ITX_WORLD_HOST": hosts[rank]} if hosts else {})
        for rank in range(world)
    ]


def start_ranks(command: list, world: int, folder: Path, hosts: str = "", **variables: str) -> list[subprocess.Popen]:
    """Start a Python program as so many ranks."""
    return [
        subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True)
        for environment in environments(world, folder, hosts, **variables)
    ]


@cache
def forker() -> subprocess.Popen:
    """Return a process that has imported what ranks need, and forks them: half of a rank's time was that."""
    return subprocess.Popen(
        [sys.executable, __file__, "--fork"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def fork_worlds() -> None:
    """For each line of the input, fork the ranks that it describes, and print how each ended."""
    import pytest  # noqa: F401 (programs of ranks are tests)

    for line in sys.stdin:
        ranks = [fork_rank(**rank) for rank in json.loads(line)]
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]), flush=True)


def fork_rank(command: list[str], environment: dict[str, str], messages: str) -> int:
    """Fork a process that runs a Python program, and return its number."""
    if process := os.fork():
        return process
    code = 1
    try:
        signal.alarm(120)
        file = os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_ranks(
    program: str, artifact: Path, inputs: Path, results: Path, world: int, hosts: str = "", **variables: str
) -> list[dict]:
    """Run a program as the ranks of a world, and return the arrays that each has written to RESULTS.RANK.npz."""
    command = [str(part) for part in (program, artifact, inputs, results)]
    messages = [Path(f"{results}.{rank}.messages") for rank in range(world)]
    ranks = [
        {"command": command, "environment": environment, "messages": str(path)}
        for environment, path in zip(environments(world, results.parent, hosts, **variables), messages, strict=True)
    ]
    process = forker()
    print(json.dumps(ranks), file=process.stdin, flush=True)
    codes = json.loads(process.stdout.readline())
    assert not any(codes), f"ended with {codes}:\n" + "\n".join(path.read_text() for path in messages)
    return [dict(np.load(f"{results}.{rank}.npz")) for rank in range(world)]


def run_world(
    artifact: Path, inputs: Path, results: Path, world: int, hosts: str = "", devices: str = ""
) -> list[dict[str, np.ndarray]]:
    """Run a split model as so many processes, on a device each if `devices` names them; return the results of each."""
    variables = {"ITX_TEST_DEVICES": devices} if devices else {}
    return run_ranks(__file__, artifact, inputs, results, world, hosts, **variables)


if __name__ == "__main__" and sys.argv[1] == "--fork":
    fork_worlds()
elif __name__ == "__main__":
    here = Path(sys.argv[3])
    np.savez(
        f"{here}.{os.environ.get('ITX_WORLD_RANK', '0')}", **results_of(Path(sys.argv[1]), dict(np.load(sys.argv[2])))
    )
