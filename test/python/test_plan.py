# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of the example agents: their JSON against its schema, their sums, and what a simulation says of them."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import typing

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENTS = sorted((ROOT / "examples" / "agents").glob("*.mlir"))
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())


def plan(directory: pathlib.Path, agent: pathlib.Path, *flags: str, code: int = 0) -> dict[str, typing.Any]:
    """Plans an agent on the example fleet and returns its JSON, which is checked against the schema."""
    file = directory / "plan.json"
    command = [str(TOOL), str(agent), f"--fleet={FLEET}", f"--json={file}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    result = json.loads(file.read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    return result


def test_schema_is_one() -> None:
    """The schema itself is valid, and does not accept anything: else the tests below would not fail."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"version": 1, "status": "optimal", "objective": "", "unsure": [], "not_offered": []}, SCHEMA
        )


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.stem)
def test_examples_hold_their_promises(agent: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Each example has a plan whose figures keep its bounds, add up, and are what a simulation sees.

    The issue's bar for p95 against simulation is 15 %. The simulation has a service time for each number of busy slots
    where the plan has a mean, and is written apart from it; 18,000 requests are counted, whose p95 spreads by 1 to 2 %.
    """
    result = plan(tmp_path, agent, "--why=false", "--simulate=20000")
    assert result["status"] == "optimal"
    for of in result["agents"]:
        for name, bound in of["bounds"].items():
            assert bound is None or 0 < of[name] <= bound * (1 + 1e-6), name
        assert of["percentile"] == 0.95
        assert of["end_to_end_ms"] == pytest.approx(of["simulated"]["p95_ms"], rel=0.15)
    pieces = result["pieces"]
    assert sum(piece["dollars_per_hour"] for piece in pieces) == pytest.approx(result["totals"]["dollars_per_hour"])
    rate = sum(of["requests_per_second"] for of in result["agents"])
    hourly = result["totals"]["dollars_per_request"] * rate * 3600
    assert hourly == pytest.approx(result["totals"]["dollars_per_hour"])
    assert all(
        piece["outside"] or (piece["pool"] in {"fast", "cheap", "small"} and piece["devices"]) for piece in pieces
    )
    assert all(piece["outside"] or 0 < piece["utilization"] < 1 for piece in pieces)
    # A cache is read by the weights that wrote it.
    precisions = {piece["name"]: piece["precision"] for piece in pieces}
    for name, precision in precisions.items():
        if ".prefill" in name:
            assert precisions[name.replace(".prefill", ".decode")] == precision


def test_faster_costs_more(tmp_path: pathlib.Path) -> None:
    """Along the front dollars rise and milliseconds fall; the cheapest is the plan itself."""
    result = plan(tmp_path, ROOT / "examples" / "agents" / "speech_assistant.mlir", "--why=false", "--pareto=4")
    front = result["pareto"]
    assert len(front) > 1
    assert front[0]["dollars_per_request"] == pytest.approx(result["totals"]["dollars_per_request"], rel=1e-5)
    for one, other in itertools.pairwise(front):
        assert other["dollars_per_request"] > one["dollars_per_request"]
        assert other["latency_ms"] < one["latency_ms"]


def test_conflicts_are_written(tmp_path: pathlib.Path) -> None:
    """A promise that nothing holds: exit code 2, and the value that would do does."""
    agent = tmp_path / "agent.mlir"
    text = (ROOT / "examples" / "agents" / "rag_chat.mlir").read_text()
    agent.write_text(text.replace("tbt_ms = 50", "tbt_ms = 1"))
    result = plan(tmp_path, agent, code=2)
    assert result["status"] == "infeasible"
    (conflict,) = result["conflicts"]
    assert conflict["given"] == 1
    agent.write_text(text.replace("tbt_ms = 50", f"tbt_ms = {conflict['would_do'] * 1.001}"))
    assert plan(tmp_path, agent, "--why=false")["status"] == "optimal"
