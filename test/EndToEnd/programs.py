# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small programs as text: compiled, loaded, and compared with what NumPy computes in float64."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import intarsia
import numpy as np
import pytest
from safetensors.numpy import save_file

SCHEDULES = ("lockstep", "greedy", "greedy-reversed")


#: Schedules are tested on one architecture of each vendor, and with `make test-slow` on all.
SCHEDULED = ("sm_90a", "gfx942")


def one_of_each_vendor(*architectures: str, always: tuple[str, ...] = SCHEDULED) -> list[pytest.param]:
    """Give architectures as parameters, of which those that are not tested always are slow."""
    return [pytest.param(one, marks=() if one in always else pytest.mark.slow) for one in architectures]


def one_of_each_family(models: Iterable[str], *always: str) -> list[pytest.param]:
    """Give names of models as parameters. Other devices than the CPU compute those that are named always, the others
    with `make test-slow` (the marker `cpu_is_enough`)."""
    models = list(models)
    assert set(always) <= set(models)
    return [pytest.param(one, marks=() if one in always else pytest.mark.cpu_is_enough) for one in models]


def in_turn(
    cases: Iterable[object], architectures: Iterable[str], always: Sequence[tuple[object, str]] = ()
) -> list[pytest.param]:
    """Give all pairs of a case and an architecture as parameters: each case with at least one architecture of each
    vendor and each architecture with at least one case, in turn, and those that are always tested. The other pairs are
    slow."""
    cases, vendors = list(cases), {}
    for one in architectures:
        vendors.setdefault(one.startswith("sm_"), []).append(one)
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            one,
            marks=()
            if (case, one) in always
            or any(
                (number - turn) % len(cases) == 0 and (place - turn) % len(those) == 0
                for turn in range(max(len(cases), len(those)))
            )
            else pytest.mark.slow,
        )
        for number, case in enumerate(cases)
        for those in vendors.values()
        for place, one in enumerate(those)
    ]


def random_cases(monkeypatch: pytest.MonkeyPatch, usual: int) -> Iterator[int]:
    """Give the numbers of a test's random shapes, with each schedule of the emulated GPU in turn.

    INTARSIA_RANDOM_SHAPES says how many; `make test-slow` asks for 200.
    """
    for number in range(int(os.environ.get("INTARSIA_RANDOM_SHAPES", usual))):
        monkeypatch.setenv("ITX_EMULATED_SCHEDULE", SCHEDULES[number % len(SCHEDULES)])
        yield number


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Let calls use so many threads, then as many as before: three of them share rows unevenly."""
    intarsia.set_threads(count)
    try:
        yield
    finally:
        intarsia.set_threads(0)


def skip_unless_this_cpu_has(target: str) -> None:
    """Skip a test whose target names features, cpu:LEVEL+FEATURE, that this processor lacks."""
    level, *features = target.split("+")
    # The level x86-64-v4 of the psABI; every machine that runs these tests has the levels below it.
    if level.endswith("x86-64-v4"):
        features += ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
    missing = set(features) - set(intarsia.devices()[0]["features"])
    if missing:
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")


def build(
    tools, folder: Path, text: str, weights: dict[str, np.ndarray] | None = None, target: str = "cpu", *flags: str
):
    """Compile the text of a module; its archive @weights holds the given tensors."""
    skip_unless_this_cpu_has(target)
    folder.mkdir(parents=True, exist_ok=True)
    if weights:
        save_file({name: np.ascontiguousarray(value) for name, value in weights.items()}, folder / "w.safetensors")
        text = 'nn.archive @weights {file = "w.safetensors"}\n' + text
    (folder / "m.mlir").write_text(text)
    tools.compile(folder / "m.mlir", "-o", folder / "m.itx", f"--target={target}", *flags)
    return intarsia.load(folder / "m.itx")


class Launch(NamedTuple):
    """A function of a GPU's kernel: threads of a block, blocks, and why it is used, which few functions say."""

    function: str
    threads: int
    blocks: int
    why: str


class Size:
    """A number in an expression of sizes; `@` is what MLIR writes as ceildiv."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __neg__(self) -> Size:
        return Size(-self.value)

    def __add__(self, other: Size) -> Size:
        return Size(self.value + other.value)

    def __sub__(self, other: Size) -> Size:
        return Size(self.value - other.value)

    def __mul__(self, other: Size) -> Size:
        return Size(self.value * other.value)

    def __floordiv__(self, other: Size) -> Size:
        return Size(self.value // other.value)

    def __matmul__(self, other: Size) -> Size:
        return Size(-(-self.value // other.value))

    def __mod__(self, other: Size) -> Size:
        return Size(self.value % other.value)


def between_norm_and(text: str, op: str, features: int, depth: int) -> str:
    """Return a program of one linear with a norm of the weight "g" before it, and an elementwise op behind it."""
    text = text.replace(
        "  %y = nn.linear %x",
        f'  %g = nn.weight @weights["g"] : tensor<{depth}xf32>\n'
        f"  %n = nn.rms_norm %x, %g {{epsilon = 1.0e-5 : f32}} : (tensor<?x{depth}xf32>, tensor<{depth}xf32>) -> "
        f"tensor<?x{depth}xf32>\n  %z = nn.linear %n",
    )
    return text.replace("  return", f"  %y = {op} %z : tensor<?x{features}xf32>\n  return")


def launches(tools, program: Path, target: str, *sizes: int, flags: Iterable[str] = ()) -> list[Launch]:
    """Return the functions of a program's kernels with the blocks that they have for their sizes, s0, s1, …"""
    named = {f"s{number}": size for number, size in enumerate(sizes)}
    lowered = program.with_suffix(".lowered.mlir")
    tools.compile(program, "-o", lowered, f"--target={target}", "--stop-after=lower", *flags)
    found = []
    for line in tools.run("intarsia-opt", lowered, "--target-emit-kernels").stdout.splitlines():
        if function := re.search(r"gpu\.func @(itx_k\d+_\d+)\(", line):
            grid, threads = (
                re.search(r'itx\.grid = "([^"]*)"', line)[1],
                re.search(r"size = array<i32: (\d+),", line)[1],
            )
            for word, operator in (("floordiv", "//"), ("ceildiv", "@"), ("mod", "%")):
                grid = grid.replace(word, operator)
            grid = re.sub(r"\w+", lambda name: f"Size({named.get(name[0], name[0])})", grid)
            why = re.search(r'itx\.why = "([^"]*)"', line)
            blocks = eval(grid, {"Size": Size}).value
            found.append(Launch(function[1], int(threads), blocks, why[1] if why else ""))
    return found


# Features with which a quarter of the multiprocessors (lib/Target/GPU/Architecture.cpp) have a tile of 128 columns, the
# last one a ragged one: more than 128 rows are multiplied by large tiles then.
LARGE_FEATURES = {
    architecture: 128 * (-(-multiprocessors // 4) - 1) + 3
    for architecture, multiprocessors in {
        "sm_80": 108, "sm_89": 142, "sm_90a": 132, "sm_120a": 188, "gfx90a": 104, "gfx942": 304, "gfx950": 256,
        "gfx1100": 96, "gfx1201": 64,
    }.items()
}  # fmt: skip
LARGE_ROWS = 130


def assert_large(tools, folder: Path, architecture: str, *flags: str) -> None:
    """The function behind all others that multiply, which has large tiles, is the only one of these that has blocks."""
    functions = launches(tools, folder / "m.mlir", f"emulated:{architecture}", LARGE_ROWS, flags=flags)
    assert functions[-1].blocks >= 2 * -(-LARGE_FEATURES[architecture] // 128)
    # What quantizes rows comes first.
    assert [one.blocks for one in functions[bool(flags) : -1]] == [0] * (len(functions) - 1 - bool(flags))


def by_turns(sizes: Iterable[tuple], cases: Iterable[object], always: object = None) -> list[pytest.param]:
    """Give all pairs of a size and a case as parameters. Each case has one of the sizes, in turn, and the case that is
    named has all of them. The other pairs are slow."""
    sizes = list(sizes)
    return [
        pytest.param(
            *size,
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if number % len(sizes) == turn or case == always else pytest.mark.slow,
        )
        for turn, size in enumerate(sizes)
        for number, case in enumerate(cases)
    ]


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert actual.shape == expected.shape
    error = np.abs(actual.astype(np.float64) - expected)
    assert np.isfinite(actual).all()
    assert error.size == 0 or error.max() <= tolerance, f"off by {error.max():.3e}, at most {tolerance:.1e}"


def matmul_error(x: np.ndarray, weight: np.ndarray, slack: int = 8) -> float:
    """Bound of a float32 matmul's error: (depth + slack) roundings of the sum of magnitudes (Higham, section 3.5)."""
    return 2.0**-24 * (x.shape[-1] + slack) * float((np.abs(x) @ np.abs(weight)).max())
