# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose weights do not fit into the memory they may use give what they give with enough of it."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.commands.arguments import read_size

pytestmark = pytest.mark.cpu_only

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parent.parent / "examples" / "glossary"
EXPERTS = HERE / "decoders" / "mixtral"

# Loads an artifact with a limit (0: none) and writes what the model gives; prints the figures and the most memory that
# was the process's own, or the limit that the error for a smaller one names.
SCRIPT = """
import json, re, sys, threading, time
import intarsia, numpy as np
artifact, output, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]) or None
most = 0

def watch():
    global most
    while True:
        lines = open("/proc/self/status").read().splitlines()
        most = max(most, next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")))
        time.sleep(0.0005)

threading.Thread(target=watch, daemon=True).start()
try:
    generator = intarsia.Generator(artifact, memory=limit)
    logits = []
    cache = intarsia.Cache(generator.module, sequences=1, pages=8)
    sequence = cache.sequence()
    for ids in ([5, 9, 14, 3, 77, 21, 4], [8], [90], [31, 7]):
        logits.append(np.array(cache.step([(sequence, ids, len(ids))])))
except intarsia.Error as error:
    print(json.dumps({"least": int(re.search(r"allow at least (\\d+)", str(error))[1])}))
else:
    np.save(output, np.concatenate(logits))
    print(json.dumps({"limit": limit, "memory": generator.module.memory, "own": most}))
"""


def run_once(artifact: Path, folder: Path, limit: int) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(artifact), str(folder / "logits.npy"), str(limit)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run_with(artifact: Path, folder: Path, more: int) -> tuple[np.ndarray, dict]:
    """
    Run with the smallest limit and so many bytes more; with -1, without a limit.

    Each limit is tried in a process of its own: what one has used and freed would make the next need more than alone.
    """
    limit = 1 if more >= 0 else 0
    for _ in range(20):
        figures = run_once(artifact, folder, limit)
        if "least" in figures:
            limit = figures["least"]
        elif more > 0:
            limit, more = limit + more, 0
        else:
            break
    return np.load(folder / "logits.npy"), figures


@pytest.fixture(scope="module")
def glossary(tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    artifact = tmp_path_factory.mktemp("memory") / "glossary.itx"
    tools.run("intarsia-compile", GLOSSARY, "-o", artifact)
    return artifact


@pytest.mark.parametrize("more", [0, 500_000])
def test_less_memory_changes_nothing(glossary: Path, more: int, tmp_path: Path) -> None:
    expected, figures = run_with(glossary, tmp_path, -1)
    assert figures["memory"] is None
    logits, figures = run_with(glossary, tmp_path, more)
    np.testing.assert_array_equal(logits, expected)
    memory = figures["memory"]
    assert memory["kept_bytes"] < memory["weight_bytes"]
    assert memory["read_bytes"] > memory["weight_bytes"]  # some were read more often than once
    assert figures["own"] <= figures["limit"]


@contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """Make a cgroup whose processes have so many bytes of memory, of files too, and none to swap to."""
    root = Path("/sys/fs/cgroup")
    is_second = (root / "cgroup.controllers").exists()
    group = (root if is_second else root / "memory") / f"test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(str(limit))
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def test_the_limit_is_kept(tools, glossary: Path) -> None:
    """A process that has the memory it was promised to need, and no more, is not killed."""
    command = [str(tools.path("intarsia-run")), str(glossary), "--ids=5,9,14", "--max-tokens=6"]
    plain = subprocess.run(command, check=True, capture_output=True, text=True)
    limit = 1_000_000
    for _ in range(20):  # what loading needs, and then what calls need
        done = subprocess.run([*command, f"--memory={limit}"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        limit = int(re.search(r"allow at least (\d+)", done.stderr)[1]) + 500_000
    limit += 2_000_000  # heap and stacks of a process differ from run to run
    with memory_cgroup(limit) as group:
        inside = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *command, f"--memory={limit}"]
        limited = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert limited.returncode == 0, limited.stderr
        assert limited.stdout == plain.stdout
        # One that is above what the process can have is not what it gets.
        inside[-1] = "--memory=1TB"
        limited = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert limited.returncode == 0, limited.stderr
        assert limited.stdout == plain.stdout
        said = r"memory: (\d+) MB, all that this process can have \(--memory is 1000000 MB\); of \d+ MB of weights"
        assert int(re.search(said, limited.stderr)[1]) * 1e6 <= limit + 5e5


def test_weights_inside_the_artifact(tools, glossary: Path, tmp_path: Path) -> None:
    expected, _ = run_with(glossary, tmp_path, -1)
    artifact = tmp_path / "inside.itx"
    tools.run("intarsia-compile", GLOSSARY, "-o", artifact, "--embed-weights")
    logits, figures = run_with(artifact, tmp_path, 0)
    np.testing.assert_array_equal(logits, expected)
    assert figures["memory"]["kept_bytes"] < figures["memory"]["weight_bytes"]


def test_experts_are_read_when_they_are_chosen(tools, tmp_path: Path) -> None:
    artifact = tmp_path / "experts.itx"
    tools.run("intarsia-compile", EXPERTS, "-o", artifact)
    expected, _ = run_with(artifact, tmp_path, -1)
    logits, figures = run_with(artifact, tmp_path, 0)
    np.testing.assert_array_equal(logits, expected)
    assert figures["memory"]["expert_bytes"] > 0
    weights = intarsia.load(artifact).manifest["weights"]
    gathered = {weights["tensors"][number] for number in weights["gathered"]}
    assert any("experts" in name for name in gathered)
    assert any("embed" in name for name in gathered)
    assert not any("attn" in name or "norm" in name for name in gathered)


def test_a_limit_that_is_too_small(tools, glossary: Path) -> None:
    failed = tools.run("intarsia-run", glossary, "--memory=1MB", "--ids=1,2,3", check=False)
    error = failed.stderr
    assert failed.returncode == 1
    assert re.search(r"1000000 bytes of memory are too few: .* allow at least \d+", error), error
    with pytest.raises(intarsia.InvalidArgumentError, match="memory is 0, must be at least 1"):
        intarsia.load(glossary, memory=0)
    for size in ("much", "0", "1e3", "-1", "5XB", str(2**64), "9" * 400):
        failed = tools.run("intarsia-run", glossary, f"--memory={size}", "--ids=1,2,3", check=False)
        assert failed.returncode == 2
        assert f"error: --memory: '{size}' is no size from 1 B to 8 PiB, such as 6GB, 512MiB" in failed.stderr
        with pytest.raises(argparse.ArgumentTypeError, match="sizes are numbers with MB, GB, MiB or GiB: 700MB"):
            read_size(size)
    assert [read_size(size) for size in ("700MB", "1.5GiB", "0.5 kB", "2")] == [700_000_000, 3 << 29, 500, 2]


def test_the_command_takes_a_limit(tools, glossary: Path) -> None:
    plain = tools.run("intarsia-run", glossary, "--ids=5,9,14", "--max-tokens=4")
    limited = tools.run("intarsia-run", glossary, "--ids=5,9,14", "--max-tokens=4", "--memory=60MB")
    assert plain.stdout == limited.stdout
    assert re.search(r"memory: 60 MB; of \d+ MB of weights that all calls use \d+ MB stay in it", limited.stderr)
    assert not plain.stderr
