#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damages models, GGUF files, artifacts, IR and agents a little, and says what becomes of each.

A mutant is refused with a message, or taken and then run. What crashes, takes more than --cpu-seconds, asks for more than
--memory-gb, says nothing, or computes something else than transformers is kept in --keep with its commands, and makes the
exit code 1; crashes of MLIR's own parser are counted apart. The same --seed makes the same mutants.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from outcomes import BAD, KINDS, Limits, Outcome, is_upstream, run
from sources import HERE, SOURCE, SOURCES, Bench, Job, Make

NOT_COMPARED = "not compared"
COMPARED = ("agree", "differ", "refused", "not finite")


@dataclass
class Result:
    """How a mutant ended: with the outcome of its last command, whose number says how far it came."""

    name: str
    folder: Path
    job: Job
    step: int
    outcome: Outcome
    comparison: str = NOT_COMPARED

    @property
    def is_bad(self) -> bool:
        return self.outcome.kind in BAD or self.comparison == "differ"


def examine(make: Make, name: str, seed: int, bench: Bench, limits: Limits, folder: Path) -> Result:
    """Make one mutant and run its commands until one does not take it."""
    folder.mkdir(parents=True)
    job = make(random.Random(f"{seed}/{name}"), folder)
    step, outcome = 0, run(job.commands[0], limits, bench.environment)
    while outcome.kind == "taken" and step + 1 < len(job.commands):
        step += 1
        outcome = run(job.commands[step], limits, bench.environment)
    if outcome.kind == "crash" and step == 0 and job.ir and is_upstream(outcome, job.ir, limits):
        outcome = Outcome("upstream", outcome.output, outcome.seconds)
    result = Result(name, folder, job, step, outcome)
    if outcome.kind in ("refused", "taken") and not (outcome.kind == "taken" and job.model):
        shutil.rmtree(folder)
    return result


def compare_all(results: list[Result], python: str) -> None:
    """Fill in how the results of models compare with those of transformers."""
    left = [result for result in results if result.outcome.kind == "taken" and result.job.model]
    while left:
        lines = "".join(f"{result.job.model} {result.job.results}\n" for result in left)
        command = [python, str(HERE / "compare.py")]
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        answers = done.stdout.splitlines()
        for result, answer in zip(left, answers, strict=False):
            result.comparison = next(kind for kind in COMPARED if answer.startswith(kind))
            (result.folder / "comparison.txt").write_text(answer + "\n")
        if len(answers) < len(left):  # transformers itself crashed
            left[len(answers)].comparison = "refused"
        left = left[len(answers) + 1 :]


def keep(result: Result, kept: Path) -> None:
    """Keep what is needed to see it again."""
    target = kept / f"{'differ' if result.comparison == 'differ' else result.outcome.kind}-{result.name}".replace(
        " ", "-"
    )
    shutil.copytree(result.folder, target, dirs_exist_ok=True)
    commands = "\n".join(shlex.join(command) for command in result.job.commands[: result.step + 1])
    (target / "commands.txt").write_text(commands.replace(str(result.folder), str(target)) + "\n")
    (target / "output.txt").write_text(f"{result.outcome.seconds:.1f} s of CPU\n{result.outcome.output}")


def table(results: dict[str, list[Result]], can_compare: bool) -> str:
    """Return how many mutants of each kind ended how."""
    lines = [f"{'':10}{'mutants':>8}{'ran':>8}" + "".join(f"{kind:>12}" for kind in KINDS[1:]) + f"{'longest':>10}"]
    for name, each in results.items():
        counts = Counter(result.outcome.kind for result in each)
        longest = max((result.outcome.seconds for result in each), default=0)
        lines.append(
            f"{name:10}{len(each):8}{counts['taken']:8}"
            + "".join(f"{counts[kind]:12}" for kind in KINDS[1:])
            + f"{longest:8.1f} s"
        )
    called = sum(result.step > 0 and result.outcome.kind == "refused" for each in results.values() for result in each)
    lines.append(
        f"\n{called} of those that are refused are compiled or listed, and refused when they are loaded or called."
    )
    if not can_compare:
        lines.append("Models are not compared with transformers: torch and transformers are not installed.")
    else:
        compared = Counter(result.comparison for result in results.get("models", ()))
        lines.append("Beside transformers: " + ", ".join(f"{compared[kind]} {kind}" for kind in COMPARED) + ".")
    lines.append("GGUF files and IR are run where they are taken; their results are not compared.")
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--count", type=int, default=1000, help="mutants of each kind (default: %(default)s)")
    add("--first", type=int, default=0, help="the number of the first one (default: %(default)s)")
    add("--kinds", nargs="+", choices=SOURCES, default=list(SOURCES), help="default: all of them")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=os.cpu_count(), help="mutants at a time (default: %(default)s)")
    add("--cpu-seconds", type=int, default=5, help="of one command (default: %(default)s)")
    add("--memory-gb", type=int, default=8, help="address space of one command; 0: any (default: %(default)s)")
    build = Path(os.environ.get("INTARSIA_BUILD_DIR", SOURCE / "build" / "dev"))
    add("--build", type=Path, default=build, help="default: %(default)s")
    add("--keep", type=Path, help="folder for what is found (default: mutants in the build folder)")
    add("--python", default=sys.executable, help="one with torch and transformers (default: the one that runs this)")
    return parser.parse_args()


def can_import(python: str) -> bool:
    """Say whether a Python has what results are compared with."""
    if python == sys.executable:
        return all(find_spec(name) for name in ("torch", "transformers"))
    return subprocess.run([python, "-c", "import torch, transformers"], stderr=subprocess.DEVNULL).returncode == 0


def main() -> int:
    options = _parse()
    kept = options.keep or options.build / "mutants"
    shutil.rmtree(kept, ignore_errors=True)
    limits = Limits(options.cpu_seconds, options.memory_gb << 30)
    packages = os.pathsep.join([str(options.build / "python"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": packages, "PYTHONWARNINGS": "ignore", "OPENBLAS_NUM_THREADS": "1"}
    can_compare = can_import(options.python)
    results: dict[str, list[Result]] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        for kind in options.kinds:
            folder = Path(temporary) / kind
            folder.mkdir()
            bench = Bench(options.build, folder, environment)
            make = SOURCES[kind](bench)
            with ThreadPoolExecutor(options.jobs) as pool:
                waiting = [
                    pool.submit(examine, make, f"{kind}-{i}", options.seed, bench, limits, folder / "mutants" / str(i))
                    for i in range(options.first, options.first + options.count)
                ]
                results[kind] = [one.result() for one in waiting]
            if can_compare:
                compare_all(results[kind], options.python)
            for result in results[kind]:
                if result.is_bad or result.outcome.kind == "upstream":
                    keep(result, kept)
    print(table(results, can_compare))
    bad = [result for each in results.values() for result in each if result.is_bad]
    for result in bad:
        what = "differ" if result.comparison == "differ" else result.outcome.kind
        last = next((line for line in reversed(result.outcome.output.splitlines()) if line.strip()), "")
        print(f"{result.name}: {what}: {last[:160]}")
    if bad:
        print(f"{len(bad)} mutants are kept in {kept}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
