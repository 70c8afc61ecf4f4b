# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names and labels with any bytes: what the planner makes of them in JSON and on a terminal."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENT = ROOT / "examples" / "agents" / "rag_chat.mlir"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())


def execute(agent: pathlib.Path, *flags: str | bytes) -> subprocess.CompletedProcess[bytes]:
    """Plan on the example fleet; the plan may fail."""
    command = [str(TOOL), str(agent), f"--fleet={FLEET}", "--time-limit=20", *flags]
    return subprocess.run(command, capture_output=True, check=False)


def labelled(file: pathlib.Path, label: str) -> pathlib.Path:
    """Write the example's agent with another label, as MLIR writes texts."""
    text = AGENT.read_text()
    assert '"answer"' in text
    file.write_text(text.replace('"answer"', f'"{label}"'))
    return file


def test_a_label_that_is_not_utf8(tmp_path: pathlib.Path) -> None:
    """An invalid byte is U+FFFD in JSON and is escaped on a terminal as in the file; valid UTF-8 stays."""
    agent = labelled(tmp_path / "agent.mlir", r"a\FFb\C3\A9")
    plan, decisions = tmp_path / "plan.json", tmp_path / "why.json"
    done = execute(agent, f"--json={plan}", f"--explain={decisions}", "--simulate=1000", "--without=@cheap:60")
    assert done.returncode == 0, done.stderr
    assert r"a\FFbé.decode" in done.stdout.decode()
    result = json.loads(plan.read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    assert "a\ufffdbé.decode" in [piece["name"] for piece in result["pieces"]]
    assert "a\ufffdbé.decode" in {entry["root"] for entry in json.loads(decisions.read_text())["decisions"]}


def test_names_that_are_not_utf8(tmp_path: pathlib.Path) -> None:
    """Agents, pools and files may have such names, too."""
    agent, fleet, plan = (tmp_path / name for name in ("agent.mlir", "fleet.mlir", "plan.json"))
    agent.write_text(AGENT.read_text().replace("@chat", r'@"ch\FFat"'))
    fleet.write_text(FLEET.read_text().replace("@cheap", r'@"ch\FEap"'))
    command = [TOOL, agent, f"--fleet={fleet}", f"--json={plan}", "--sensitivity", "--simulate=1000", "--time-limit=5"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert r"@ch\FFat: p95" in done.stdout.decode()
    result = json.loads(plan.read_text())
    assert result["agents"][0]["name"] == "ch\ufffdat"
    assert "ch\ufffdap" in {piece["pool"] for piece in result["pieces"]}
    before = os.fsencode(tmp_path) + b"/pl\xff.json"
    pathlib.Path(os.fsdecode(before)).write_bytes(plan.read_bytes())
    command = [TOOL, AGENT, f"--fleet={FLEET}", f"--json={plan}", b"--previous=" + before, "--why=false"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(plan.read_text())["replan"]["since"] == f"'{tmp_path}/pl\ufffd.json'"


@pytest.mark.parametrize(("escaped", "named"), [(r"\00", "U+0000"), (r"\0A", "U+000A"), (r"\C2\9B", "U+009B")])
def test_control_characters(escaped: str, named: str, tmp_path: pathlib.Path) -> None:
    """They are refused at the label: a line end would begin a line of its own in what is written from a plan."""
    agent = labelled(tmp_path / "agent.mlir", f"an{escaped}er")
    plan = tmp_path / "plan.json"
    done = execute(agent, f"--json={plan}", "--why=false")
    assert done.returncode == 1
    assert re.search(rf"agent.llm' op label has the control character {re.escape(named)}", done.stderr.decode())
    assert not plan.exists()


CASES = """agent.tool @human takes <3000 ms>
agent.model @llama {shape = "llama-3.1-8b"}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<500 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000, requests_per_second = 2>} {
  %r = agent.llm @llama(%q) produces <5 tokens> {label = "route"} : (!agent.text) -> !agent.text
  %a = agent.branch on(%r) {decide = "f"} : (!agent.text) -> !agent.text
    case 0.7 "easy" {
      %e = agent.llm @llama(%q) produces <200 tokens> {label = "answer"} : (!agent.text) -> !agent.text
      agent.yield %e : !agent.text
    }
    case 0.3 "hard" {
      %h = agent.invoke @human(%q) produces <50 tokens> {label = "approve"} : (!agent.text) -> !agent.text
      agent.yield %h : !agent.text
    }
  agent.return %a : !agent.text
}
"""


def test_cases_and_tasks_that_share_a_row(tmp_path: pathlib.Path) -> None:
    """Of exclusive cases one is on the way of a request; a task of 5 tokens takes 4 steps, one of 200 takes 199."""
    agent, plan = tmp_path / "agent.mlir", tmp_path / "plan.json"
    agent.write_text(CASES)
    done = execute(agent, f"--json={plan}", "--why=false")
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode()
    assert "critical path: route.prefill > route.decode > (answer.prefill > answer.decode | approve)" in printed
    result = json.loads(plan.read_text())
    (decode,) = (piece for piece in result["pieces"] if piece["kind"] == "decode")
    ms = {task["task"]: task["milliseconds"] for task in decode["tasks"]}
    assert ms["answer.decode"] / ms["route.decode"] == pytest.approx(199 / 4)
    # The row has the mean over executions: each request is routed, 0.7 are answered.
    assert decode["milliseconds"] == pytest.approx((ms["route.decode"] + 0.7 * ms["answer.decode"]) / 1.7)
    (line,) = (line for line in printed.splitlines() if line.startswith("  route.decode "))
    assert line.split() == ["route.decode", f"{ms['route.decode']:.1f}"]


def test_figures_of_devices_that_are_not_used(tmp_path: pathlib.Path) -> None:
    """What a plan rests on is what it uses."""
    agent, fleet, plan = (tmp_path / name for name in ("agent.mlir", "fleet.mlir", "plan.json"))
    agent.write_text(CASES)
    fleet.write_text("""fleet.system @dc {
  fleet.device @l4 {catalogue = "nvidia/l4"}
  fleet.device @mi300 {catalogue = "amd/mi300x"}
  fleet.pool @small of @l4 count 16 per_node 4
  fleet.pool @dear of @mi300 count 16 per_node 8 price #fleet.rental<dollars_per_hour = 500.0>
}
""")
    command = [TOOL, agent, f"--fleet={fleet}", f"--json={plan}", "--why=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(plan.read_text())
    assert {piece["pool"] for piece in result["pieces"]} == {"small", None}
    assert not [line for line in result["unsure"] if line.startswith("amd/mi300x")]
    assert "amd/mi300x" not in done.stdout
    assert result["unsure"]
