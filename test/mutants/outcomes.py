# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run a program within limits of time and memory, and say how it ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

#: How programs end, the worst last.
KINDS = ("taken", "refused", "upstream", "no message", "memory", "hang", "crash")
#: Those that nothing excuses.
BAD = KINDS[3:]

_CRASH = re.compile(
    r"AddressSanitizer|LeakSanitizer|runtime error:|Stack dump:|Traceback \(most recent|Assertion .* failed"
)
_MEMORY = re.compile(r"out of memory|bad_alloc|MemoryError|requested allocation size|allocator is out of memory")
_PARSER = re.compile(r"mlir::(?:detail::)?\w*Parser|mlir::parseSourceFile|(?:Lexer|AsmParser)\.cpp")


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    cpu_seconds: int
    memory_bytes: int  # address space; 0: no limit, as sanitizers need it
    wall_seconds: float = 0  # for those that wait; 0: 12 times the CPU time


@dataclass(frozen=True)
class Outcome:
    kind: str  # one of KINDS
    output: str
    seconds: float  # of CPU


def run(command: list[str], limits: Limits, environment: dict[str, str]) -> Outcome:
    """Run a command, with no input; 199 is what sanitizers end with where the environment asks them to."""
    memory = f"ulimit -v {limits.memory_bytes // 1024};" if limits.memory_bytes else ""
    shell = f'ulimit -c 0; ulimit -t {limits.cpu_seconds + 1}; {memory} exec "$@"'
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", shell, "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
        )
        expired = threading.Event()

        def end() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(limits.wall_seconds or 12 * limits.cpu_seconds, end)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(max(0, os.fstat(output.fileno()).st_size - 200_000))
        text = output.read().decode("utf-8", "replace")
    seconds = usage.ru_utime + usage.ru_stime
    hangs = expired.is_set() or seconds > limits.cpu_seconds or process.returncode == -signal.SIGXCPU
    return Outcome("hang" if hangs else _kind_of(process.returncode, text), text, seconds)


def _kind_of(code: int, text: str) -> str:
    if code < 0 or code in (134, 139, 199) or _CRASH.search(text):
        return "memory" if _MEMORY.search(text) else "crash"
    if code == 0:
        return "taken"
    return "refused" if text.strip() else "no message"


def is_upstream(outcome: Outcome, ir: Path, limits: Limits) -> bool:
    """Say whether a crash is one of MLIR's parser: its stack says so, or MLIR's own tool crashes on the same file."""
    frames = [line for line in outcome.output.splitlines() if re.match(r"\s*#?\d+ ", line)]
    ours = next((i for i, line in enumerate(frames) if "intarsia" in line.partition("(")[0]), len(frames))
    if any(_PARSER.search(line) for line in frames[:ours]):
        return True
    tool = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
    if tool is None:
        return False
    again = run([tool, "--allow-unregistered-dialect", str(ir), "-o", os.devnull], limits, dict(os.environ))
    return again.kind == "crash"
