# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Output files of the planner: errors of writing, files that must not be replaced, and the output without a plan."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENT = ROOT / "examples" / "agents" / "rag_chat.mlir"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
OUTPUTS = ("--json", "--report", "--explain", "-o")


def execute(*flags: str | pathlib.Path, agent: pathlib.Path = AGENT) -> subprocess.CompletedProcess[str]:
    """Plan on the example fleet; the plan may fail."""
    command = [TOOL, agent, "--why=false", "--sensitivity=false", "--time-limit=20", *flags]
    if not any(str(flag).startswith("--fleet") for flag in flags):
        command.append(f"--fleet={FLEET}")
    return subprocess.run(command, capture_output=True, text=True, check=False)


def impossible(file: pathlib.Path) -> pathlib.Path:
    """Write an agent that needs a faster decode than any device on offer."""
    text = AGENT.read_text()
    assert "tbt_ms = 50" in text
    file.write_text(text.replace("tbt_ms = 50", "tbt_ms = 1"))
    return file


@pytest.mark.parametrize("flag", OUTPUTS)
def test_a_folder_that_is_not_there(flag: str, tmp_path: pathlib.Path) -> None:
    """A missing folder is reported before the plan is made."""
    done = execute(f"{flag}={tmp_path}/none/file")
    assert done.returncode == 1
    assert f"{tmp_path}/none/file: cannot be written: folder '{tmp_path}/none'" in done.stderr
    assert done.stdout == ""
    done = execute(f"{flag}={tmp_path}")
    assert done.returncode == 1
    assert f"{tmp_path}: cannot be written: it is a folder" in done.stderr


@pytest.mark.parametrize("flag", OUTPUTS)
def test_a_full_device(flag: str) -> None:
    """An output that cannot be written, or a closed standard output, is an error of one line, not an abort."""
    done = execute(f"{flag}=/dev/full")
    assert done.returncode == 1
    assert "/dev/full: cannot be written: No space left on device" in done.stderr
    with pathlib.Path("/dev/full").open("w") as full:
        command = [TOOL, AGENT, f"--fleet={FLEET}", "--why=false", "--sensitivity=false", f"{flag}=-"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "standard output cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("flag", OUTPUTS[1:])
def test_two_results_in_one_file(flag: str, tmp_path: pathlib.Path) -> None:
    """The same file is found by another spelling of its name, and on standard output."""
    for file in (f"{tmp_path}/same", "-"):
        other = file.replace("/same", "/./same")
        done = execute(f"--json={file}", f"{flag}={other}")
        assert done.returncode == 1
        assert f"{other}: two results would be written to this file, by --json and {flag}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", OUTPUTS)
def test_inputs_stay(flag: str, tmp_path: pathlib.Path) -> None:
    """No result replaces an input file: by name, by a link, and for each file that the options or the fleet name."""
    agent, fleet, device = (tmp_path / name for name in ("agent.mlir", "fleet.mlir", "gpu.yaml"))
    arrivals, plan = tmp_path / "log.csv", tmp_path / "plan.json"
    agent.write_text(AGENT.read_text())
    arrivals.write_text("agent,seconds\nchat,1\n")
    device.write_text((ROOT / "test" / "Tools" / "Inputs" / "small-processor.yaml").read_text())
    fleet.write_text(
        FLEET.read_text().replace("fleet.device @l4", 'fleet.device @mine {file = "gpu.yaml"}\n  fleet.device @l4')
    )
    (tmp_path / "link").symlink_to(fleet)
    assert execute(f"--json={plan}").returncode == 0
    before = {file: file.read_bytes() for file in (agent, fleet, device, arrivals, plan)}
    reads = (f"--fleet={fleet}", f"--arrivals={arrivals}", f"--previous={plan}")
    for file, what in (
        (agent, "the agents' file"),
        (fleet, "the fleet's file"),
        (tmp_path / "link", "the fleet's file"),
        (arrivals, "the file of --arrivals"),
        (plan, "the file of --previous"),
        (device, "the file of a device"),
    ):
        done = execute(f"{flag}={file}", *reads, agent=agent)
        assert done.returncode == 1, file
        assert f"{flag}={file}: {what} '" in done.stderr
        assert "would be overwritten; choose another name" in done.stderr
    assert before == {file: file.read_bytes() for file in before}


@pytest.mark.parametrize("flag", OUTPUTS)
def test_standard_output_is_the_file_alone(flag: str) -> None:
    """If a result goes to standard output, the table goes to standard error."""
    done = execute(f"{flag}=-")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("task ")
    begins = {"--report": "<!DOCTYPE html>", "-o": ""}.get(flag, "{")
    assert done.stdout.startswith(begins)
    assert done.stdout.endswith({"--report": "</html>\n"}.get(flag, "}\n"))
    # A page has the table for browsers that run no script.
    assert done.stdout.count("task            pool") == (flag == "--report")
    if flag == "--json":
        assert json.loads(done.stdout)["status"] == "optimal"


def test_what_is_not_written_without_a_plan(tmp_path: pathlib.Path) -> None:
    """Results that need a plan are named, and earlier files of them stay; the others are written."""
    agent, placed, why = (impossible(tmp_path / "agent.mlir"), tmp_path / "placed.mlir", tmp_path / "why.json")
    placed.write_text("of before")
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    done = execute(f"-o={placed}", f"--explain={why}", f"--json={plan}", f"--report={page}", agent=agent)
    assert done.returncode == 2
    assert f"-o={placed}: not written: there is no plan" in done.stderr
    assert f"--explain={why}: not written: there is no plan" in done.stderr
    assert placed.read_text() == "of before"
    assert not why.exists()
    assert "not written" not in done.stdout
    assert json.loads(plan.read_text())["status"] == "infeasible"
    assert page.exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--arrivals=/nowhere/log.csv", "cannot read '/nowhere/log.csv'"),
        ("--failures=8:never", "--failures=8:never: hours above zero are expected"),
        ("--previous=/nowhere/plan.json", "cannot read '/nowhere/plan.json'"),
        ("--without=@cheep:3", "the fleet has no pool @cheep; did you mean 'cheap'?"),
    ],
)
def test_inputs_are_checked_where_there_is_no_plan(flag: str, message: str, tmp_path: pathlib.Path) -> None:
    """Wrong outputs are reported with and without a plan."""
    done = execute(flag, agent=impossible(tmp_path / "agent.mlir"))
    assert done.returncode == 1
    assert message in done.stderr


def test_what_is_not_compiled_is_said_in_the_plan(tmp_path: pathlib.Path) -> None:
    """The reason is that of the compiler, which names the first of these pieces."""
    plan = tmp_path / "plan.json"
    done = execute(f"--json={plan}", "--time-limit=5")
    assert done.returncode == 0
    found = json.loads(plan.read_text())
    refused = {piece["name"]: piece["not_compiled"] for piece in found["pieces"] if piece["not_compiled"]}
    assert "answer.decode" in refused  # on several GPUs
    assert "find.search" not in refused  # runs no model
    command = [TOOL.with_name("intarsia-compile"), f"--plan={plan}", "--model=llama70b=x", "-o", tmp_path / "deploy"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 1
    name, reason = next(iter(refused.items()))
    assert f"'{name}' {reason}" in compiled.stderr
    head = "intarsia-compile --plan refuses this plan; intarsia engines starts other servers with it:\n"
    assert head + "".join(f"  {text}\n" for text in found["not_compiled"]) in done.stdout
    for reason in refused.values():
        assert sum(reason in text for text in found["not_compiled"]) == 1
