# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Invalid values of the planner's flags are refused with the valid ones."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENT = ROOT / "examples" / "agents" / "rag_chat.mlir"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"


def execute(*flags: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Plan on the example fleet; the plan may fail."""
    command = [TOOL, AGENT, f"--fleet={FLEET}", "--why=false", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


WRONG = [
    ("--simulate=0", "a whole number above zero is expected"),
    ("--simulate=-5", "a whole number above zero is expected"),
    ("--simulate=1.5", "a whole number above zero is expected"),
    ("--simulate=many", "a whole number above zero is expected"),
    ("--simulate=nan", "a whole number above zero is expected"),
    ("--simulate=100000000000", "100000000 at most: the times of all requests are kept in memory"),
    ("--simulate=inf", "100000000 at most: the times of all requests are kept in memory"),
    ("--pareto=1e5", "100 at most: each is a plan of its own"),
    ("--time-limit=nan", "seconds above zero are expected"),
    ("--time-limit=-1", "seconds above zero are expected"),
    ("--time-limit=0", "seconds above zero are expected"),
    ("--time-limit=inf", "seconds above zero are expected"),
    ("--budget=-1", "dollars an hour are expected, zero or more"),
    ("--budget=nan", "dollars an hour are expected, zero or more"),
]
EMPTY = {
    "--time-limit": "seconds above zero are expected",
    "--budget": "dollars an hour are expected, zero or more",
    "--failures": "hours are expected: --failures=5000, or --failures=5000:0.5",
    **dict.fromkeys(("--fleet", "--efficiency", "--arrivals", "--previous", "--json"), "names no file"),
    **dict.fromkeys(("--report", "--explain", "-o"), "names no file"),
}


@pytest.mark.parametrize(("flag", "message"), WRONG, ids=[flag for flag, _ in WRONG])
def test_wrong_values(flag: str, message: str) -> None:
    """An invalid value is refused with the expected ones, and nothing is planned."""
    done = execute(flag)
    assert done.returncode == 1
    assert f"{flag}: {message}" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("flag", EMPTY)
def test_empty_values(flag: str) -> None:
    """An empty value is refused, whether it stands behind the flag's '=' or is an argument of its own."""
    done = execute(f"{flag}=")
    assert done.returncode == 1
    assert f"'{flag}=' has no value behind '='" in done.stderr
    done = execute(flag, "")
    assert done.returncode == 1
    assert f"{flag}=: {EMPTY[flag]}" in done.stderr
    assert done.stdout == ""


def test_whole_numbers_of_another_form(tmp_path: pathlib.Path) -> None:
    """1e3 is a thousand."""
    plan = tmp_path / "plan.json"
    assert execute("--simulate=1e3", f"--json={plan}").returncode == 0
    (agent,) = json.loads(plan.read_text())["agents"]
    assert agent["simulated"]["requests"] == 900


def test_a_budget_of_nothing() -> None:
    """A budget of zero is a limit like others, and the output names the value that would be enough."""
    done = execute("--budget=0")
    assert done.returncode == 2
    assert "nothing holds all that is asked" in done.stdout


@pytest.mark.parametrize("flags", [(AGENT,), (f"--fleet={FLEET}",), ("--json=x.json",), ("-o", "x.mlir")])
def test_a_probe_is_alone(flags: tuple[str | pathlib.Path, ...], tmp_path: pathlib.Path) -> None:
    """A probe refuses flags that it would ignore, and measures nothing."""
    done = subprocess.run(
        [TOOL, "--probe=here.yaml", *flags], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    name = str(flags[0]).split("=")[0]
    assert f"--probe measures this machine and plans nothing; leave '{name}' away" in done.stderr
    assert "measuring" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    """A missing folder is reported before anything is measured."""
    done = subprocess.run([TOOL, f"--probe={tmp_path}/none/here.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/none/here.yaml: cannot be written: folder '{tmp_path}/none'" in done.stderr
    assert "measuring" not in done.stderr


@pytest.mark.parametrize("seconds", ["1e-9", "0.01"])
def test_a_first_plan_whatever_the_time(seconds: str) -> None:
    """The heuristic finds a plan; the output says that better ones may exist."""
    begin = time.monotonic()
    done = execute(f"--time-limit={seconds}")
    assert done.returncode == 0, done.stdout
    assert "out of time: another plan may be better by" in done.stdout
    assert "of 12000 ms" in done.stdout
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--objektive=cost", "unknown flag '--objektive'; did you mean 'objective'?"),
        ("--time-limt=5", "unknown flag '--time-limt'; did you mean 'time-limit'?"),
        ("--qqqqqqqqqq", "unknown flag '--qqqqqqqqqq'; --help lists all"),
        ("--latency-room=0.1", "--latency-room=0.1: is about --objective=latency; leave it out"),
        ("--without=@fast:300", "--without=@fast:300: pool @fast has 64 devices, 300 cannot be lost"),
    ],
)
def test_flags_that_cannot_be_meant(flag: str, message: str) -> None:
    """One line says what is wrong."""
    done = execute(flag)
    assert done.returncode == 1
    assert done.stderr == f"intarsia-plan: error: {message}\n"
