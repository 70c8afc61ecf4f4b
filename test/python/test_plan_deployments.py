# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Placements of a language model's parts: prefill and decode together or apart."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())

AGENT = """agent.model @m {{shape = "{shape}", precisions = ["fp8"]}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<{prompt} tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 200000, ttft_ms = 6000, tbt_ms = {tbt}, requests_per_second = {rate}>}} {{
  %a = agent.llm @m(%q) produces <{answer} tokens, p95 = {long}> {{label = "answer"{place}}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
fleet.system @dc {{
  fleet.device @b200 {{catalogue = "nvidia/b200-sxm"}}
  fleet.device @gaudi {{catalogue = "intel/gaudi3"}}
  fleet.pool @one of @b200 count {ones} per_node 8 price #fleet.rental<dollars_per_hour = 14.0>
  fleet.pool @two of @gaudi count 256 per_node 8
  {link}
}}
"""
LINK = "fleet.link @one to @two {gigabytes_per_second = 1600.0, microseconds = 5.0}"


def text(**changes: object) -> str:
    """The agent on its fleet; without changes a long prompt to a large mixture of experts."""
    figures: dict[str, object] = {
        "shape": "deepseek-v3",
        "prompt": 8000,
        "answer": 1000,
        "tbt": 50,
        "rate": 60,
        "ones": 256,
        "place": "",
        "link": LINK,
    }
    figures |= changes
    return AGENT.format(**figures, long=2 * typing.cast("int", figures["answer"]))


def run(directory: pathlib.Path, agent: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the planner; its JSON is then in plan.json."""
    file = directory / "agent.mlir"
    file.write_text(agent)
    command = [str(TOOL), str(file), f"--json={directory / 'plan.json'}", "--why=false", "--headroom=0", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plan(directory: pathlib.Path, agent: str, *flags: str) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
    """Return the whole plan, and its pieces by kind: prefill and decode."""
    done = run(directory, agent, *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((directory / "plan.json").read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    return result, {piece["name"].rsplit(".", 1)[-1]: piece for piece in result["pieces"]}


def test_prefills_that_run_more_often_have_replicas_of_their_own(tmp_path: pathlib.Path) -> None:
    """A decode in a case of 0.02 has few slots to fill; the prompts before it are fifty times as many."""
    agent = """agent.model @m {shape = "llama-3.1-8b", precisions = ["fp8"]}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<4000 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 20000, ttft_ms = 6000, tbt_ms = 50, requests_per_second = 40>} {
  %kv, %first = agent.prefill @m(%q) {label = "p"} : (!agent.text) -> (!agent.kv, !agent.text)
  %a = agent.branch on(%first) {decide = "f"} : (!agent.text) -> !agent.text
    case 0.02 "write" {
      %d = agent.decode @m(%kv, %first) produces <400 tokens> {label = "d"} : (!agent.kv, !agent.text) -> !agent.text
      agent.yield %d : !agent.text
    }
    case 0.98 "stop" {
      agent.yield %first : !agent.text
    }
  agent.return %a : !agent.text
}
"""
    fleet = text().split("fleet.system")[1]
    result, pieces = plan(tmp_path, agent + "fleet.system" + fleet, "--simulate=30000")
    assert not pieces["prefill"]["aggregated"]
    assert pieces["prefill"]["devices"] > 0
    (agent_row,) = result["agents"]
    assert agent_row["end_to_end_ms"] == pytest.approx(agent_row["simulated"]["p95_ms"], rel=0.15)


def test_short_prompts_wait_behind_long_ones(tmp_path: pathlib.Path) -> None:
    """The wait for a turn is that of all prompts of the replicas, not a share of one's own."""
    head = 'agent.model @m {shape = "llama-3.1-8b", precisions = ["fp8"]}\n'
    graph = """agent.graph @{name}(%q: !agent.text {{agent.size = #agent.amount<{prompt} tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 60000, ttft_ms = {ttft}, tbt_ms = 50, requests_per_second = {rate}>}} {{
  %a = agent.llm @m(%q) produces <100 tokens> {{label = "{name}"}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
"""
    both = graph.format(name="short", prompt=300, ttft=200, rate=5) + graph.format(
        name="long", prompt=30000, ttft=6000, rate=0.3
    )
    fleet = text().split("fleet.system")[1]
    result, _ = plan(tmp_path, head + both + "fleet.system" + fleet, "--simulate=50000")
    for agent in result["agents"]:
        assert agent["simulated"]["first_token_p95_ms"] <= agent["bounds"]["first_token_ms"]


def test_a_model_has_two_pieces(tmp_path: pathlib.Path) -> None:
    """A mixture of experts has its experts with its attention; where they are whole is in the decode's degrees."""
    for shape, rate in (("llama-3.1-70b", 5), ("deepseek-v3", 60)):
        result, pieces = plan(tmp_path, text(shape=shape, rate=rate))
        assert set(pieces) == {"prefill", "decode"}
        assert not [line for line in result["unsure"] if "experts apart" in line]


def test_together_where_one_device_does(tmp_path: pathlib.Path) -> None:
    """At a low rate one replica computes prompts and decodes; by hand it is the same, or apart for more dollars."""
    small = {"shape": "llama-3.1-8b", "prompt": 500, "answer": 100, "rate": 1}
    result, pieces = plan(tmp_path, text(**small), "--simulate=20000")
    assert pieces["prefill"]["aggregated"]
    assert pieces["decode"]["aggregated"]
    assert [pieces[name]["devices"] for name in ("prefill", "decode")] == [0, 1]
    (agent,) = result["agents"]
    assert agent["end_to_end_ms"] == pytest.approx(agent["simulated"]["p95_ms"], rel=0.05)
    # A prompt waits less than replicas are planned for that prompts keep busy for a quarter of the time.
    seen = agent["simulated"]["first_token_p95_ms"]
    assert seen * (1 - 1e-6) <= agent["first_token_ms"] <= 1.3 * seen
    pinned = text(
        **small, place=', place = #fleet.placement<@dc::@two, batch = 8, precision = "fp8", aggregated = true>'
    )
    by_hand, pieces = plan(tmp_path, pinned)
    assert pieces["decode"]["batch"] == 8
    assert pieces["prefill"]["aggregated"]
    assert pieces["decode"]["aggregated"]
    assert by_hand["totals"]["dollars_per_hour"] >= result["totals"]["dollars_per_hour"] * (1 - 1e-9)


def test_apart_where_prompts_would_slow_tokens(tmp_path: pathlib.Path) -> None:
    """With many long prompts a strict bound on the next token separates prefill and decode."""
    _, pieces = plan(tmp_path, text(shape="llama-3.1-70b", answer=50, tbt=20, rate=20))
    assert not pieces["prefill"]["aggregated"]
    assert not pieces["decode"]["aggregated"]
    assert pieces["prefill"]["devices"] > 0


def test_what_is_in_the_same_replicas_is_in_one_pool(tmp_path: pathlib.Path) -> None:
    """A placement in parts of a device is refused for prefill and decode together, which need whole devices."""
    done = run(tmp_path, text(place=", place = #fleet.placement<@dc::@two, parts = 2, aggregated = true>"))
    assert done.returncode == 1
    assert "prefill and decode in the same replicas take whole devices, and parts is 2" in done.stderr


def test_a_written_plan_of_shared_replicas_is_taken(tmp_path: pathlib.Path) -> None:
    """A prefill has the number of replicas of the decode that it runs in: in the table, in the JSON and in the IR."""
    placed = tmp_path / "placed.mlir"
    figures = {"shape": "llama-3.1-70b", "prompt": 500, "answer": 200, "rate": 22, "tbt": 100, "ones": 8}
    result, pieces = plan(tmp_path, text(**figures), "-o", str(placed))
    assert pieces["prefill"]["aggregated"]
    assert pieces["decode"]["replicas"] > 1
    assert pieces["prefill"]["replicas"] == pieces["decode"]["replicas"]
    (tmp_path / "plan.json").rename(tmp_path / "before.json")
    again, same = plan(tmp_path, placed.read_text())
    assert again["totals"] == result["totals"]
    assert {name: piece["replicas"] for name, piece in same.items()} == {
        name: piece["replicas"] for name, piece in pieces.items()
    }
    kept, _ = plan(tmp_path, text(**figures), f"--previous={tmp_path / 'before.json'}")
    assert kept["replan"]["changes"] == []
