# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The printed figures of simulations and of sampled errors are the computed ones."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENTS = ROOT / "examples" / "agents"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"


def run(agent: pathlib.Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plan an agent on the fleet of the examples."""
    command = [str(TOOL), str(agent), f"--fleet={FLEET}", "--why=false", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def checked(directory: pathlib.Path, agent: pathlib.Path, *flags: str) -> tuple[str, dict[str, typing.Any]]:
    """Return the printed plan, and the same as JSON."""
    file = directory / "plan.json"
    result = run(agent, f"--json={file}", *flags)
    assert result.returncode in (0, 2), result.stderr
    return result.stdout, json.loads(file.read_text())


def test_failures_are_counted_and_enough_of_them_asked_for(tmp_path: pathlib.Path) -> None:
    """Without failures nothing is said of their effect; with the number of requests that is named there are enough."""
    chat = AGENTS / "rag_chat.mlir"
    text, plan = checked(tmp_path, chat, "--failures=20:0.1", "--tighten", "--simulate=2000")
    few = plan["simulation"]
    assert few["expected_failures"] < 5
    assert f"{few['failures']} failures of replicas in" in text
    assert "the simulation, in which too few replicas fail, holds all promises" in text
    (requests,) = re.findall(r"too short to tell what failures do: --simulate=(\d+) would be long enough", text)
    assert few["requests_for_failures"] <= int(requests) < 1.2 * few["requests_for_failures"]
    text, plan = checked(tmp_path, chat, "--failures=20:0.1", f"--simulate={requests}")
    many = plan["simulation"]
    assert many["expected_failures"] >= 5
    assert many["failures"] > 0
    assert many["requests_for_failures"] is None
    assert "too short" not in text
    assert any(f"{many['failures']} failures of replicas in" in of for of in many["failure_texts"])
    text, plan = checked(tmp_path, chat, "--simulate=2000")
    assert "failures" not in text
    assert plan["simulation"]["expected_failures"] is None


def test_simulations_end(tmp_path: pathlib.Path) -> None:
    """Requests of very wide maps are refused with how much they ask for; of fewer the simulation is made."""
    agent = tmp_path / "agent.mlir"
    agent.write_text("""agent.tool @s takes <5 ms>
agent.graph @c(%q: !agent.text {agent.size = #agent.amount<600 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 90000, requests_per_second = 1>} {
  %all = agent.map(%item = %q) width <10000> each <6 tokens> {label = "parts"} : (!agent.text) -> !agent.text {
    %a = agent.invoke @s(%item) produces <1 tokens> {label = "s"} : (!agent.text) -> !agent.text
    agent.yield %a : !agent.text
  }
  agent.return %all : !agent.text
}
""")
    refused = run(agent, "--simulate=200000")
    assert refused.returncode == 1
    assert (
        "200000 requests have about 2e+09 executions, 1e+04 each, and a simulation is of 1e+09 at most; "
        "simulate fewer requests" in refused.stderr
    )
    assert run(agent, "--simulate=50").returncode == 0


def test_prices_are_asked_for_at_rates(tmp_path: pathlib.Path) -> None:
    """Without a rate the cost of a request includes no price, and the output says so."""
    agent = tmp_path / "agent.mlir"
    router = (AGENTS / "router.mlir").read_text()
    for rate in (True, False):
        agent.write_text(router if rate else router.replace(", requests_per_second = 40", ""))
        text, plan = checked(tmp_path, agent, "--sensitivity")
        assert any(of["figure"] == "price" for of in plan["sensitivity"]) == rate
        assert ("prices are not asked for: no agent has requests per second" in text) != rate
        assert ("end-to-end bound of @route, 15 s: below" in text) == (not rate or "; above" in text)


def test_costs_go_on_until_the_last_answer(tmp_path: pathlib.Path) -> None:
    """A burst costs the devices' hours until it is answered, divided by its requests."""
    burst = tmp_path / "burst.csv"
    burst.write_text("agent,milliseconds\n" + "".join(f"chat,{0.01 * i:.2f}\n" for i in range(20000)))
    text, plan = checked(tmp_path, AGENTS / "rag_chat.mlir", f"--arrivals={burst}")
    of = plan["simulation"]
    devices = plan["totals"]["dollars_per_hour"]  # nothing else costs here
    assert abs(of["dollars_per_request"] / (devices / 3600 * of["seconds"] / 20000) - 1) < 1e-6
    assert f"the last answer after {of['seconds']:.0f} s, " in text


def test_a_hardened_plan_is_best_for_what_it_was_made_for(tools) -> None:
    """A plan for slower times is not the cheapest of all, and is not called so."""
    made = "no plan of these candidates is better"
    for flags, expected in (
        ((), made),
        (("--report", "--confidence=0.9"), f"{made} for the stricter bounds or slower times it was made for"),
    ):
        planned = tools.plan("rag_chat", "--why=false", "--sensitivity=false", *flags)
        text, plan = planned.printed.read_text(), planned.figures()
        # On a busy machine the plan may have been found without being proven.
        assert (f"\n{expected}\n" in text) == (plan["status"] == "optimal")
        assert plan["hardened"] == bool(flags)


def test_a_probability_is_shown_as_it_was_asked_for(tmp_path: pathlib.Path) -> None:
    """Higher probabilities take more trials and keep all their digits; one that no trials can show is refused."""
    chat = tmp_path / "agent.mlir"
    text = (AGENTS / "rag_chat.mlir").read_text()
    # Promises that the first plan keeps as surely: another one takes as many trials.
    wide = text.replace("p95_ms = 12000", "p95_ms = 120000").replace("ttft_ms = 1000", "ttft_ms = 10000")
    wide = wide.replace("tbt_ms = 50", "tbt_ms = 500").replace("per_second = 20>", "per_second = 0.01>")
    assert len(wide) == len(text) + 5
    chat.write_text(wide)
    text, plan = checked(tmp_path, chat, "--confidence=0.9955")
    assert plan["confidence"]["trials"] == 667
    assert re.search(r"all together hold with [01]\.\d{4} ± 0\.\d{4}, .* the 0\.9955 that was asked for", text)
    refused = run(chat, "--confidence=0.9999")
    assert refused.returncode == 1
    assert "--confidence=0.9999: 0.999 at most: " in refused.stderr
