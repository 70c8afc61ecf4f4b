# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that are said to be enough are, the time limit holds, and a front agrees with the plan above it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import resource
import subprocess
import time
import typing

import pytest
from intarsia import agent as agents

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENTS = ROOT / "examples" / "agents"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"


def run(agent: pathlib.Path, fleet: pathlib.Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plan an agent on a fleet."""
    command = [str(TOOL), str(agent), f"--fleet={fleet}", "--why=false", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def would_do(text: str, of: str) -> str:
    """Return the figure that is said to be enough instead of one."""
    (found,) = re.findall(re.escape(of) + r"; (\S+) .*would do", text)
    return typing.cast("str", found)


@pytest.mark.parametrize(
    "name",
    [
        "speech_assistant",
        "rag_chat",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("map_reduce_summary", "router")),
    ],
)
def test_a_budget_that_would_do_does(name: str) -> None:
    """The dollars that are printed are enough, and a thousandth less is not."""
    agent = AGENTS / f"{name}.mlir"
    refused = run(agent, FLEET, "--budget=0.1")
    assert refused.returncode == 2
    budget = would_do(refused.stdout, "$0.1000 an hour at most")
    assert budget.startswith("$")
    assert run(agent, FLEET, f"--budget={budget[1:]}").returncode == 0
    less = float(budget[1:]) * (1 - 1e-3)
    assert run(agent, FLEET, f"--budget={less}", "--time-limit=10").returncode == 2


@pytest.mark.slow
def test_bounds_and_devices_that_would_do_do(tmp_path: pathlib.Path) -> None:
    """Milliseconds, watts and devices that are said to be enough are, each instead of the requested bound."""
    agent, fleet = tmp_path / "agent.mlir", tmp_path / "fleet.mlir"
    chat, hall = (AGENTS / "rag_chat.mlir").read_text(), FLEET.read_text()
    fleet.write_text(hall)
    for bound, value, shown in (
        ("tbt_ms", "1", "1.000 ms between tokens at most"),
        ("ttft_ms", "20", "first output after 20.000 ms at most"),
        ("p95_ms", "900", "end-to-end in 900.000 ms at most"),
    ):
        agent.write_text(re.sub(rf"{bound} = \d+", f"{bound} = {value}", chat))
        refused = run(agent, fleet)
        assert refused.returncode == 2, bound
        enough = would_do(refused.stdout, shown)
        agent.write_text(re.sub(rf"{bound} = \d+", f"{bound} = {enough}", chat))
        assert run(agent, fleet).returncode == 0, (bound, enough)
    agent.write_text(chat)
    fleet.write_text(hall.replace("fleet.system @dc {", "fleet.system @dc attributes {power_cap_kilowatts = 0.1} {"))
    refused = run(agent, fleet)
    watts = would_do(refused.stdout, "100.00 W at most")
    fleet.write_text(
        hall.replace(
            "fleet.system @dc {", f"fleet.system @dc attributes {{power_cap_kilowatts = {float(watts) / 1e3}}} {{"
        )
    )
    assert run(agent, fleet).returncode == 0, watts


def test_pools_that_share_no_pool_are_all_named(tmp_path: pathlib.Path) -> None:
    """A conflict of tasks that must be apart says which."""
    agent = tmp_path / "agent.mlir"
    agent.write_text("""agent.model @m {parameters = 1.0e8}
agent.graph @g(%a: !agent.text {agent.size = #agent.amount<50 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 6000, requests_per_second = 2>} {
  %b = agent.infer @m(%a) produces <3 tokens> {label = "one", together = "t",
    place = #fleet.placement<@dc::@fast>} : (!agent.text) -> !agent.text
  %c = agent.infer @m(%b) produces <3 tokens> {label = "two", together = "t",
    place = #fleet.placement<@dc::@cheap>} : (!agent.text) -> !agent.text
  %d = agent.infer @m(%c) produces <3 tokens> {label = "three", together = "t"} : (!agent.text) -> !agent.text
  agent.return %d : !agent.text
}
""")
    refused = run(agent, FLEET)
    assert refused.returncode == 2
    assert "'one', 'two' and 'three' must share a pool" in refused.stdout
    assert "'one' is pinned to pool 'fast'" in refused.stdout


# Time outside the solver: reading, candidates, and one question of each kind that is in progress when the time ends.
GRACE_SECONDS = 8


@pytest.mark.parametrize("flags", [[], pytest.param(["--pareto=100"], marks=pytest.mark.slow)])
def test_long_loops_end_in_time(flags: list[str], tmp_path: pathlib.Path) -> None:
    """Loops of up to a thousand runs, and of up to a hundred thousand whose texts do not grow."""
    text = (AGENTS / "react.mlir").read_text().replace("p95_ms = 45000", "p95_ms = 8000000")
    text = text.replace("requests_per_second = 5", "requests_per_second = 0.05")
    grown = text.replace("runs <3.2, max = 7>", "runs <50, max = 1000>")
    fixed = text.replace("runs <3.2, max = 7>", "runs <3000, max = 100000>").replace(
        "%carried, %think, %search", "%think"
    )
    assert len({text, grown, fixed}) == 3
    for loop in (grown, fixed):
        agent = tmp_path / "agent.mlir"
        agent.write_text(
            loop.replace("requests_per_second = 0.05", "requests_per_second = 0.001") if loop == fixed else loop
        )
        begin = time.monotonic()
        done = run(agent, FLEET, "--time-limit=2", *flags)
        seconds = time.monotonic() - begin
        assert done.returncode in (0, 2, 3), done.stdout + done.stderr
        # A percentile of a hundred thousand runs takes some tenths of a second, and a question several of them.
        grace = GRACE_SECONDS if loop == grown else 4 * GRACE_SECONDS
        assert seconds < 2 * (2 + len(flags)) + grace, (seconds, done.stdout)


def test_texts_that_grow_without_end_are_refused(tmp_path: pathlib.Path) -> None:
    """A loop whose prompt has a hundred thousand parts is an error at its location."""
    agent = tmp_path / "agent.mlir"
    text = (AGENTS / "react.mlir").read_text()
    agent.write_text(text.replace("runs <3.2, max = 7>", "runs <3000, max = 100000>"))
    begin = time.monotonic()
    done = run(agent, FLEET, "--time-limit=2")
    assert time.monotonic() - begin < GRACE_SECONDS
    assert done.returncode == 1
    assert "react.py:30:1: error: the loops around this join texts of" in done.stderr


def test_conflicts_are_explained_in_time(tmp_path: pathlib.Path) -> None:
    """The limit covers all questions together, and the output says which ones stay open."""
    agent = tmp_path / "agent.mlir"
    text = (AGENTS / "coding_agent.mlir").read_text()
    agent.write_text(re.sub(r"p95_ms = \d+", "p95_ms = 100", text))
    begin = time.monotonic()
    # The proof that there is no plan has its part of the time.
    done = run(agent, FLEET, "--time-limit=4")
    assert time.monotonic() - begin < 4 + GRACE_SECONDS
    assert done.returncode == 2
    assert "end-to-end in 100.000 ms at most" in done.stdout


@pytest.mark.parametrize("limit", [1, 5])
def test_linear_programs_end_in_time(limit: int, tmp_path: pathlib.Path) -> None:
    """Plans of so many requests take as long as there is time for."""
    agent = tmp_path / "agent.mlir"
    text = (AGENTS / "debate.mlir").read_text()
    agent.write_text(text.replace("requests_per_second = 2>", "requests_per_second = 16>"))
    assert agent.read_text() != text
    begin = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(agent, FLEET, "--objective=latency", f"--time-limit={limit}")
    # Processor time does not depend on what else runs, nor do the tenths of a second that the program takes to start.
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5 * limit + 0.5
    assert time.monotonic() - begin < 4 * limit + 2
    assert done.returncode in (0, 3), done.stderr
    if done.returncode == 0:
        assert "out of time: another plan may be better by" in done.stdout
    else:
        assert "no plan was found in time; give more with --time-limit" in done.stdout


def test_a_front_agrees_with_the_plan(tools) -> None:
    """The first row is the plan itself and is proven as it is; too many points are refused."""
    for planned, points in (
        (tools.plan("speech_assistant", "--why=false", "--pareto=4", "--time-limit=20"), 4),
        (tools.plan("rag_chat", *tools.EVERYTHING), 3),
    ):
        assert "no plan of these candidates is better" in planned.printed.read_text()
        result = planned.figures()
        first = result["pareto"][0]
        assert first["proven"]
        dollars = result["totals"]["dollars_per_request"]
        assert first["dollars_per_request"] == pytest.approx(dollars, rel=2e-6)
        assert len(result["pareto"]) <= points + 1
    refused = run(AGENTS / "rag_chat.mlir", FLEET, "--pareto=1000")
    assert refused.returncode == 1
    assert "--pareto=1000: 100 at most" in refused.stderr


def test_a_place_from_python(tmp_path: pathlib.Path) -> None:
    """`place="dc::fast"` names a pool of the fleet that is in a file of its own."""
    small = agents.Model("small", parameters=1.0e8)

    @agents.graph(agents.text(60), sla=agents.Sla(p95_ms=12000, requests_per_second=2))
    def free(question: agents.Value) -> agents.Value:
        """Ask once."""
        return small.infer(question, tokens=3, label="once")

    @agents.graph(agents.text(60), sla=agents.Sla(p95_ms=12000, requests_per_second=2))
    def pinned(question: agents.Value) -> agents.Value:
        """Ask once, there."""
        return small.infer(question, tokens=3, label="once", place="dc::fast")

    pools = []
    for graph in (free, pinned):
        file, result = tmp_path / "ask.mlir", tmp_path / "plan.json"
        file.write_text(str(graph))
        done = run(file, FLEET, f"--json={result}")
        assert done.returncode == 0, done.stderr
        pools.append(json.loads(result.read_text())["pieces"][0]["pool"])
    assert pools[0] != "fast"
    assert pools[1] == "fast"


def test_long_agents_are_planned(tmp_path: pathlib.Path) -> None:
    """A chain of tasks each of which reads all texts before it, as message lists of graphs make them."""
    sizes = "{agent.size = #agent.amount<25 tokens, p95 = 50>}"
    for tasks in (10, 60, 200):
        lines = [
            'agent.model @model {shape = "llama-3.1-8b", precisions = ["bf16"]}',
            f"agent.graph @long(%q: !agent.text {sizes}) -> !agent.text "
            "attributes {sla = #agent.sla<p95_ms = 3600000, requests_per_second = 0.1>} {",
        ]
        read = "%q"
        for task in range(tasks):
            lines += [
                f"  %t{task} = agent.llm @model({read}) produces <20 tokens, p95 = 40> : (!agent.text) -> !agent.text",
                f"  %read{task} = agent.join {read}, %t{task} : !agent.text",
            ]
            read = f"%read{task}"
        agent, plan = tmp_path / "agent.mlir", tmp_path / "plan.json"
        agent.write_text("\n".join([*lines, f"  agent.return %t{tasks - 1} : !agent.text", "}"]))
        done = run(agent, FLEET, "--time-limit=5", f"--json={plan}")
        assert done.returncode == 0, (tasks, done.stderr)
        (found,) = json.loads(plan.read_text())["agents"]
        # One after another, which is no upper bound.
        assert found["exact"]
        assert len(found["critical_path"]) == 2 * tasks
        assert found["mean_ms"] < found["end_to_end_ms"] < 2 * found["mean_ms"]
