# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans beside those of a solver that is not the planner's: HiGHS, on the model of `--test-placement-model`."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import highspy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin"
AGENTS = ROOT / "examples" / "agents"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"


def best_of(model: pathlib.Path) -> float:
    """The optimum of a model by HiGHS."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 1e-7)
    assert solver.readModel(str(model)) == highspy.HighsStatus.kOk
    solver.setOptionValue("user_objective_scale", 20)  # dollars for a request are smaller than tolerances
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return solver.getInfo().objective_function_value


@pytest.mark.parametrize("name", ["rag_chat", "react", "router", "speech_assistant", "text_to_sql"])
def test_plans_are_the_optimum_of_their_model(name: str, tmp_path: pathlib.Path) -> None:
    """Where no promise of a percentile binds, the model is all that there is to hold."""
    agent, model, plan = tmp_path / "agent.mlir", tmp_path / "model.lp", tmp_path / "plan.json"
    text = re.sub(r"p95_ms = \d+", "p95_ms = 80000000", (AGENTS / f"{name}.mlir").read_text())
    agent.write_text(re.sub(r"ttft_ms = \d+", "ttft_ms = 1000000", text))
    problem = tmp_path / "problem.mlir"
    problem.write_text(FLEET.read_text() + agent.read_text())
    with model.open("w") as output:
        passes = ["--plan-decompose", "--test-placement-model", "-o", os.devnull]
        subprocess.run([BIN / "intarsia-test-opt", problem, *passes], stdout=output, check=True)
    command = [BIN / "intarsia-plan", agent, f"--fleet={FLEET}", "--why=false", "--headroom=0", f"--json={plan}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    planned = json.loads(plan.read_text())
    assert planned["status"] == "optimal"
    # Calls of tools cost what they do, whatever the plan.
    assert best_of(model) == pytest.approx(planned["totals"]["dollars_per_request"], rel=2e-6)
