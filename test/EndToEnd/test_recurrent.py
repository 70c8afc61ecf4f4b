# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers through the whole compiler, on processors, the reference and GPUs, against their formulas.

Hidden states leave remainders of panels and vectors on purpose, and batches those of register tiles.
"""

from __future__ import annotations

from dataclasses import replace

import intarsia
import numpy as np
import pytest
from programs import build, close, one_of_each_vendor, random_cases, with_threads
from random_numbers import RNG
from recurrences import CASES, GATES, Recurrence, some_activations

pytestmark = pytest.mark.cpu_only

#: Operands that are weights; others are arguments.
WEIGHTS = ("recurrent", "bias", "peepholes")
#: Beside those of the reference: several panels, rows and blocks of rows.
LARGER = {
    "wide": Recurrence("lstm", "bidirectional", 1, 7, 64, order=(0, 3, 1, 2)),
    "batch": Recurrence("lstm", batch=11, sequence=4, hidden=48, peepholes=True, lengths=(4, 1, 3, 2) + (4,) * 7),
    "blocks": Recurrence("gru", "bidirectional", 40, 3, 41, flags=("linear_before_reset", "sequence_first")),
    "two_passes": Recurrence("gru", "bidirectional", 5, 4, 37, order=(1, 2, 0)),
    "pair": Recurrence("gru", "reverse", 2, 4, 70, order=(1, 0, 2)),
    "plain": Recurrence("rnn", "bidirectional", 6, 5, 50, bias=False, states=False),
}
PROGRAMS = CASES | LARGER
ON_GPUS = ("lstm_all", "gru_torch", "gru_reverse", "rnn")


def function(name: str, case: Recurrence, stored: bool, dynamic: bool) -> str:
    """Write a layer as a function; with `stored` its weights are those of a file."""

    def tensor(shape: tuple[int, ...], key: str) -> str:
        wild = {"gates": (0, 1), "y0": (0, 1), "hidden": (1,), "cell": (1,), "y1": (1,), "y2": (1,), "lengths": (0,)}
        sizes = ("?" if dynamic and d in wild.get(key, ()) else str(size) for d, size in enumerate(shape))
        return f"tensor<{'x'.join(sizes)}x{'i64' if key == 'lengths' else 'f32'}>"

    named = ["batch", "steps"]
    steps = list(reversed(named)) if "sequence_first" in case.flags else named
    sizes = {"gates": [*steps, ""], "hidden": ["", "batch", ""], "cell": ["", "batch", ""], "lengths": ["batch"]}
    arguments, lines = [], []
    for key, shape in case.operands.items():
        if stored and key in WEIGHTS:
            lines.append(f'%{key} = nn.weight @weights["{name}.{key}"] : {tensor(shape, key)}')
            continue
        names = ", ".join(f'"{size}"' for size in sizes.get(key, []))
        symbols = f", nn.sizes = [{names}]" if dynamic and names else ""
        arguments.append(f'%{key}: {tensor(shape, key)} {{nn.name = "{key}"{symbols}}}')
    types = ", ".join(tensor(shape, key) for key, shape in case.operands.items())
    results = [tensor(shape, f"y{i}") for i, shape in enumerate(case.results)]
    listed = ", ".join(results)
    yielded = ", ".join(f'{kind} {{nn.name = "y{i}"}}' for i, kind in enumerate(results))
    values = ", ".join(f"%y{i}" for i in range(len(results)))
    body = "\n          ".join(lines)
    return f"""func.func @{name}({", ".join(arguments)}) -> ({yielded}) {{
          {body}
          {values} = {case.text({key: f"%{key}" for key in case.operands})} : ({types}) -> ({listed})
          return {values} : {listed} }}
        """


def check_all(tools, folder, cases: dict[str, Recurrence], target: str, stored=True, dynamic=False) -> None:
    values = {name: case.make() for name, case in cases.items()}
    weights = {
        f"{name}.{key}": value for name, of in values.items() for key, value in of.items() if stored and key in WEIGHTS
    }
    text = "".join(function(name, case, stored, dynamic) for name, case in cases.items())
    module = build(tools, folder, text, weights or None, target)
    for name, case in cases.items():
        inputs = [value for key, value in values[name].items() if not (stored and key in WEIGHTS)]
        found, expected = getattr(module, name)(*inputs), case.compute(values[name])
        for one, other in zip(found, expected, strict=True):
            # Sums of some 70 products around 1, whose error goes from step to step.
            close(one, other, 2.0**-24 * 16 * (case.hidden**0.5 + 8))


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64-v2"])
def test_recurrent(tools, tmp_path, target: str) -> None:
    check_all(tools, tmp_path, PROGRAMS, target)


def test_recurrent_dynamic(tools, tmp_path) -> None:
    programs = {
        name: case for name, case in PROGRAMS.items() if case.sequence and case.batch
    }  # calls have no size of 0
    check_all(tools, tmp_path, programs, "cpu", stored=False, dynamic=True)


def test_recurrent_on_the_reference(tools, tmp_path) -> None:
    check_all(tools, tmp_path, CASES, "reference")


@pytest.mark.parametrize("architecture", one_of_each_vendor("sm_90a", "gfx942"))
def test_recurrent_on_gpus(tools, tmp_path, architecture: str) -> None:
    check_all(tools, tmp_path, {name: CASES[name] for name in ON_GPUS}, f"emulated:{architecture}", dynamic=True)


def test_narrow(tools, tmp_path) -> None:
    """States are not rounded from step to step, only results are."""
    import ml_dtypes

    case = Recurrence("lstm", "bidirectional", 3, 6, 40, states=False)
    values = {key: value.astype(ml_dtypes.bfloat16) for key, value in case.make().items()}
    text = function("main", case, stored=True, dynamic=False).replace("f32>", "bf16>")
    weights = {f"main.{key}": value for key, value in values.items() if key in WEIGHTS}
    for one, other in zip(
        build(tools, tmp_path, text, weights).main(values["gates"]), case.compute(values), strict=True
    ):
        assert np.abs(one.astype(float) - other).max() <= 2.0**-8 * np.abs(other).max()


def test_only_one_result_is_read(tools, tmp_path) -> None:
    """Others are not stored."""
    case = Recurrence("lstm", hidden=9)
    text = function("main", case, stored=False, dynamic=False)
    y1 = "tensor<1x2x9xf32>"
    text = text.replace(text[text.index("-> (") : text.index("{\n")], f'-> ({y1} {{nn.name = "y1"}}) ')
    text = text[: text.index("return")] + f"return %y1 : {y1} }}"
    values = case.make()
    close(build(tools, tmp_path, text, None).main(*values.values()), case.compute(values)[1], 1e-5)


def test_batches_that_differ(tools, tmp_path) -> None:
    module = build(tools, tmp_path, function("main", CASES["gru_torch"], stored=False, dynamic=True), None)
    values = CASES["gru_torch"].make() | {"lengths": np.array([1, 2, 3])}
    with pytest.raises(intarsia.Error, match="batch"):
        module.main(*values.values())


def some_case(least: int) -> Recurrence:
    """Draw a layer with sizes of at least 0 or 1."""
    kind = str(RNG.choice(list(GATES)))
    direction = str(RNG.choice(["forward", "reverse", "bidirectional"]))
    sizes = [least, 1, 2, 3, 9], [least, 1, 2, 6], [1, 8, 31, 64, 100]
    batch, sequence, hidden = (int(RNG.choice(of)) for of in sizes)
    flags = [flag for flag in ("sequence_first",) if RNG.integers(2)]
    flags += [
        flag for flag in ({"lstm": "coupled", "gru": "linear_before_reset"}.get(kind),) if flag and RNG.integers(2)
    ]
    case = Recurrence(
        kind, direction, batch, sequence, hidden,
        order=tuple(int(i) for i in RNG.permutation(len(GATES[kind]))),
        clip=float(RNG.choice([0.5, 3.0])) if RNG.integers(2) else None, flags=tuple(flags),
        bias=bool(RNG.integers(2)), states=bool(RNG.integers(2)), peepholes=kind == "lstm" and bool(RNG.integers(2)),
        lengths=tuple(int(n) for n in RNG.integers(-1, sequence + 2, batch)) if RNG.integers(2) else (),
    )  # fmt: skip
    return replace(case, **some_activations(kind, case.directions)) if RNG.integers(2) else case


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"])
def test_random_recurrent(tools, tmp_path, monkeypatch, target: str) -> None:
    numbers = list(random_cases(monkeypatch, usual=3))
    for begin in range(0, len(numbers), 10):
        stored, dynamic = (bool(choice) for choice in RNG.integers(0, 2, 2))
        # Calls have no size of 0.
        cases = {f"f{number}": some_case(int(dynamic)) for number in numbers[begin : begin + 10]}
        with with_threads(int(RNG.integers(1, 5))):
            check_all(tools, tmp_path / str(begin), cases, target, stored, dynamic)
