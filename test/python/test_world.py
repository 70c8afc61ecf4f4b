# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that exchange NumPy arrays; sums are compared with NumPy's."""

import os
import re
import secrets
import shutil
import subprocess
import sys

import intarsia
import numpy as np
import pytest

PROGRAM = """
import numpy as np, intarsia, sys
world = intarsia.World()
arrays = [np.random.default_rng(rank).standard_normal((3, 1000)).astype(np.float32) for rank in range(world.size)]
total = arrays[0]
for other in arrays[1:]:
    total = total + other
own = arrays[world.rank]
assert (world.all_reduce(own) == total).all()
assert (world.all_reduce(own, "max") == np.maximum.reduce(arrays)).all()
parts = [array[: rank + 1] for rank, array in enumerate(arrays)]
assert (world.all_gather(parts[world.rank]) == np.concatenate(parts)).all()
rows = [np.random.default_rng(9 + rank).standard_normal((2 * world.size, 5)) for rank in range(world.size)]
largest = np.maximum.reduce(rows)[2 * world.rank : 2 * world.rank + 2]
assert (world.reduce_scatter(rows[world.rank], "max") == largest).all()
assert (world.reduce_scatter(own[:1].repeat(world.size, axis=0)) == sum(a[:1] for a in arrays)).all()
sent = [[arrays[a][: (a + 2 * b) % 4] for b in range(world.size)] for a in range(world.size)]
for other, part in enumerate(world.all_to_all(sent[world.rank])):
    assert (part == sent[other][world.rank]).all() and part.shape == sent[other][world.rank].shape
for wrong in (lambda: world.reduce_scatter(np.ones(world.size + 1)), lambda: world.all_to_all([own]), lambda: world.all_reduce(own, "min")):
    try:
        wrong()
        raise SystemExit("taken")
    except ValueError:
        pass
assert (world.broadcast(own, root=1) == arrays[1]).all()
pair = world.group([1, 0])
if pair.rank == 0:
    pair.send(own)
if pair.rank == 1:
    assert (pair.receive(own.shape, own.dtype) == arrays[1]).all()
assert pair.rank == [1, 0, -1, -1][world.rank]
world.barrier()
if "die" in sys.argv and world.rank == 1:
    sys.exit(7)
if "die" in sys.argv:
    try:
        world.all_reduce(own)
    except intarsia.Error as error:
        assert error.status == "rank lost" and "rank 1 (process" in str(error), error
        print("lost")
print(repr(world))
"""


def start(size: int, *arguments: str) -> list[subprocess.CompletedProcess]:
    """Run the program as all ranks of a world."""
    address = f"local:{secrets.token_hex(8)}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            env={
                **os.environ,
                "ITX_WORLD_SIZE": str(size),
                "ITX_WORLD_RANK": str(rank),
                "ITX_WORLD_ADDRESS": address,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    results = []
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        results.append(subprocess.CompletedProcess(rank.args, rank.returncode, out, err))
    return results


def test_exchanges():
    for rank, done in enumerate(start(3)):
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"<intarsia rank {rank} of a world of 3>\n"


def test_rank_that_ends():
    first, second = start(2, "die")
    assert second.returncode == 7, second.stderr
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("lost\n")


@pytest.mark.skipif(not shutil.which("mpirun"), reason="OpenMPI is not installed")
def test_mpirun():
    command = ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # mpirun may write the end of a line after text of another rank.
    assert sorted(re.findall("<.*?>", done.stdout)) == [f"<intarsia rank {rank} of a world of 2>" for rank in range(2)]


def test_refusals():
    with pytest.raises(intarsia.NotFoundError, match="was not started as a rank of a world"):
        intarsia.World()
    with pytest.raises(intarsia.InvalidArgumentError, match="rank 2 of a world of 2"):
        intarsia.World(2, 2, "local:x")
    with pytest.raises(intarsia.Error, match=r"rank 0 of the world of 2 did not come within 0.1 s"):
        intarsia.World(2, 1, "local:nobody-listens-here", deadline_s=0.1)
    alone = intarsia.World(1, 0)
    with pytest.raises(ValueError, match="'sum', 'max' and 'sum-int8'"):
        alone.all_reduce([1.0], "mean")
    with pytest.raises(intarsia.Error, match="ranks cannot reduce i8"):
        alone.all_reduce(np.ones(2, np.int8))
