# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planner's choice of a mixed-integer solver: the output names it, and plans do not depend on it."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENT = ROOT / "examples" / "agents" / "rag_chat.mlir"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"


def library() -> str:
    """The library that highspy brings, which is among the requirements of these tests."""
    spec = importlib.util.find_spec("highspy")
    assert spec is not None, "`make setup` installs highspy"
    assert spec.origin is not None
    return str(pathlib.Path(spec.origin).parent / "libhighs.so.1")


def run(highs: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plans with INTARSIA_HIGHS as given."""
    return subprocess.run(
        [str(TOOL), str(AGENT), f"--fleet={FLEET}", "--why=false", *flags],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "INTARSIA_HIGHS": highs},
    )


def loader_has_highs() -> bool:
    try:
        ctypes.CDLL("libhighs.so.1")
    except OSError:
        return False
    return True


def test_solvers_agree_and_are_named(tmp_path: pathlib.Path) -> None:
    """Both plan the same; the table, the JSON and the page say which it was."""
    objectives = {}
    for solver, name in (("cbc", "CBC 2."), ("highs", "HiGHS 1.")):
        file, page = tmp_path / "plan.json", tmp_path / "plan.html"
        done = run(library(), f"--solver={solver}", f"--json={file}", f"--report={page}", "--sensitivity=false")
        assert done.returncode == 0, done.stderr
        plan = json.loads(file.read_text())
        assert plan["status"] == "optimal"
        assert plan["mixed_integer"]["solver"].startswith(name)
        programs = plan["mixed_integer"]["programs"]
        assert programs > 0
        line = f"ixed-integer programs: {programs}, by {plan['mixed_integer']['solver']}"
        assert f"m{line}\n" in done.stdout
        assert f"M{line}." in page.read_text()
        objectives[solver] = plan["totals"]["dollars_per_request"]
    assert objectives["highs"] == pytest.approx(objectives["cbc"], rel=2e-6)


def test_a_name_of_no_library_is_an_error(tmp_path: pathlib.Path) -> None:
    """It says what was looked for and what to try; CBC needs no such name."""
    nowhere = tmp_path / "libhighs.so.1"
    done = run(str(nowhere), "--solver=highs")
    assert done.returncode == 1
    for part in ("INTARSIA_HIGHS", str(nowhere), "pip install 'highspy>=1.15'", "--solver=cbc"):
        assert part in done.stderr
    assert run(str(nowhere), "--solver=cbc").returncode == 0


def test_without_the_library() -> None:
    """If HiGHS is neither named nor installed, asking for it is an error."""
    if loader_has_highs():
        pytest.skip("libhighs.so.1 is installed on this system")
    done = run("", "--solver=highs")
    assert done.returncode == 1
    for part in ("libhighs.so.1", "INTARSIA_HIGHS", "pip install 'highspy>=1.15'", "--solver=cbc"):
        assert part in done.stderr
