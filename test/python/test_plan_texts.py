# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names and labels with any bytes: what the planner makes of them in JSON and on a terminal."""

from __future__ import annotations

import json
import os
import pathlib
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
    command = [TOOL, agent, f"--fleet={fleet}", f"--json={plan}", "--sensitivity", "--simulate=1000", "--time-limit=20"]
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


@pytest.mark.parametrize(("escaped", "byte"), [(r"\00", 0x00), (r"\09", 0x09), (r"\0A", 0x0A), (r"\1B", 0x1B)])
def test_control_characters(escaped: str, byte: int, tmp_path: pathlib.Path) -> None:
    """They do not reach the terminal, and the columns of the table stay under each other; in JSON they are themselves."""
    agent = labelled(tmp_path / "agent.mlir", f"an{escaped}er")
    plan = tmp_path / "plan.json"
    done = execute(agent, f"--json={plan}", "--why=false")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    (row,) = [line for line in lines if line.startswith(f"an{escaped}er.decode ")]
    assert row.index("@cheap") == lines[0].index("pool")
    assert all(char >= " " or char == "\n" for char in done.stdout.decode())
    assert f"critical path: find.embed > find.search > an{escaped}er.prefill > an{escaped}er.decode" in lines[8]
    assert f"an{chr(byte)}er.decode" in [piece["name"] for piece in json.loads(plan.read_text())["pieces"]]
