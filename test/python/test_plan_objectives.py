# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The energy of a request of an agent without a rate, against the watts of data sheets."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"

AGENT = """agent.model @llama {shape = "llama-3.1-8b", precisions = ["bf16"]}
agent.graph @ask(%question: !agent.text {agent.size = #agent.amount<1000 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000>} {
  %answer = agent.llm @llama(%question) produces <200 tokens> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %answer : !agent.text
}
fleet.system @hall attributes {grams_per_kilowatt_hour = 360.0} {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.device @l4 {catalogue = "nvidia/l4"}
  fleet.pool @dear of @h100 count 8 per_node 8 price #fleet.rental<dollars_per_hour = 0.5>
  fleet.pool @lean of @l4 count 8 per_node 8 price #fleet.rental<dollars_per_hour = 2.0>
  fleet.link @dear to @lean {gigabytes_per_second = 50.0, microseconds = 10.0}
}
"""
# NVIDIA's data sheets: H100 SXM and L4.
WATTS = {"dear": 700.0, "lean": 72.0}
DOLLARS_PER_HOUR = {"dear": 0.5, "lean": 2.0}


def plan(directory: pathlib.Path, objective: str) -> dict[str, typing.Any]:
    """Plan the agent for an objective."""
    agent, file = directory / "agent.mlir", directory / "plan.json"
    agent.write_text(AGENT)
    command = [str(TOOL), str(agent), f"--objective={objective}", "--why=false", f"--json={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return typing.cast("dict[str, typing.Any]", json.loads(file.read_text()))


def device_seconds(result: dict[str, typing.Any]) -> list[tuple[str, float]]:
    """Pool and time on devices of each execution; each task runs once, a prefill of an aggregate on its decode's devices."""
    hosts = {piece["pool"]: piece for piece in result["pieces"] if piece["devices"]}
    found = []
    for piece in result["pieces"]:
        on = piece if piece["devices"] else hosts[piece["pool"]]
        found.append((piece["pool"], piece["milliseconds"] / 1000 * on["devices"] / on["replicas"]))
    return found


def test_energy_without_a_rate(tmp_path: pathlib.Path) -> None:
    """A request alone takes its devices' watts for its time; the best for that is another plan than the cheapest."""
    plans = {objective: plan(tmp_path, objective) for objective in ("cost", "energy", "carbon")}
    joules = {}
    for objective, result in plans.items():
        used = device_seconds(result)
        joules[objective] = sum(WATTS[pool] * seconds for pool, seconds in used)
        totals = result["totals"]
        assert joules[objective] > 10
        assert totals["joules_per_request"] == pytest.approx(joules[objective], rel=1e-6)
        dollars = sum(DOLLARS_PER_HOUR[pool] * seconds / 3600 for pool, seconds in used)
        assert totals["dollars_per_request"] == pytest.approx(dollars, rel=1e-6)
    assert joules["energy"] < 0.9 * joules["cost"]
    assert plans["energy"]["totals"]["dollars_per_request"] > 1.1 * plans["cost"]["totals"]["dollars_per_request"]
    assert joules["carbon"] == pytest.approx(joules["energy"], rel=1e-6)


# Searches take fractions of a millisecond beside an answer of seconds: more devices for them gain next to nothing.
SEARCH = """agent.model @minilm {parameters = 2.27e7}
agent.model @llama {shape = "llama-3.1-8b", precisions = ["bf16"]}
agent.index @kb {vectors = 400000, dimension = 384, chunk_tokens = 100, embedder = @minilm}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000, requests_per_second = 2>} {
  %f = agent.retrieve @kb(%q) {top_k = 4 : i64, label = "find"} : (!agent.text) -> !agent.text
  %a = agent.llm @llama(%f) produces <300 tokens, p95 = 700> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @hall {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @fast of @h100 count 8 per_node 8 price #fleet.rental<dollars_per_hour = 2.99>
}
"""


def searched(directory: pathlib.Path, *flags: str) -> tuple[str, dict[str, typing.Any]]:
    """Plan the search; return what is printed, and the JSON."""
    agent, file = directory / "agent.mlir", directory / "plan.json"
    agent.write_text(SEARCH)
    command = [str(TOOL), str(agent), "--why=false", f"--json={file}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(file.read_text())


def test_a_thousandth_of_the_time_is_not_worth_any_price(tmp_path: pathlib.Path) -> None:
    """Among plans within the room of the fastest the cheapest is taken; without room the fastest is."""
    _, fastest = searched(tmp_path, "--objective=latency", "--latency-room=0")
    printed, near = searched(tmp_path, "--objective=latency")
    _, nearer = searched(tmp_path, "--objective=latency", "--latency-room=0.05")
    ms = {name: plan["agents"][0]["end_to_end_ms"] for name, plan in [("0", fastest), ("1", near), ("50", nearer)]}
    cost = {name: plan["totals"]["dollars_per_hour"] for name, plan in [("0", fastest), ("1", near), ("50", nearer)]}
    # Percentiles lie on grids, whose distance is a thousandth.
    assert ms["1"] <= 1.001 * ms["0"] * (1 + 1e-3)
    assert ms["50"] <= 1.05 * ms["0"] * (1 + 1e-3)
    assert cost["0"] >= 1.1 * cost["1"]
    assert cost["1"] >= cost["50"]
    assert "is faster by more than 0.1%" in printed or "out of time" in printed


def test_a_front_that_was_cut_says_so(tmp_path: pathlib.Path) -> None:
    """No point dominates another or the plan shown, and costs that differ are printed with different figures."""
    for seconds, complete in (("60", True), ("0.4", False)):
        printed, result = searched(tmp_path, "--pareto=5", f"--time-limit={seconds}")
        front = result["pareto"]
        shown = (result["totals"]["dollars_per_request"], result["agents"][0]["end_to_end_ms"])
        for one in front:
            point = (one["dollars_per_request"], one["latency_ms"])
            assert not (point[0] <= shown[0] * (1 + 1e-9) and point[1] < shown[1] * (1 - 1e-6))
        costs = [one["dollars_per_request"] for one in front]
        assert costs == sorted(costs)
        table = printed[printed.index("cost against latency") :].splitlines()[2 : 2 + len(front)]
        assert len({line.split()[0] for line in table}) == len({f"{cost:.4g}" for cost in costs})
        assert result["pareto_complete"] or "out of time: there may be faster plans" in printed
        assert not complete or result["pareto_complete"]
