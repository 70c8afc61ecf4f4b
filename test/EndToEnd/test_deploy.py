# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plan of an agent becomes artifacts for its pools, which run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import intarsia
import numpy as np
import pytest
from ranks import results_of, run_world

pytestmark = pytest.mark.cpu_only

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parent.parent / "examples" / "glossary"
MODELS = {"writer": GLOSSARY, "embedder": HERE / "models" / "bert"}

AGENT = """
agent.model @embedder {parameters = 22700000.0}
agent.index @notes {chunk_tokens = 133, dimension = 384, embedder = @embedder, vectors = 100000, visited = 0.01}
agent.model @writer {context_tokens = 1024, precisions = ["int8"], shape = "SHAPE"}
agent.graph @chat(%question: !agent.text {agent.size = #agent.amount<60 tokens, p95 = 180>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 600000, ttft_ms = 30000, tbt_ms = 2000, requests_per_second = 0.05>} {
  %find = agent.retrieve @notes(%question) {label = "find", top_k = 4} : (!agent.text) -> !agent.text
  %answer = agent.llm @writer(%find, %question) produces <tokens, p50 = 129, p95 = 450, max = 1024>
      {instruction_tokens = 250, label = "answer", shared_instructions} : (!agent.text, !agent.text) -> !agent.text
  agent.return %answer : !agent.text
}
"""
FLEET = """
fleet.system @room {
  fleet.device @here {file = "here.yaml"}
  fleet.pool @big of @here count 4 per_node 2 price #fleet.rental<dollars_per_hour = 1.5>
  fleet.pool @small of @here count 4 per_node 2 price #fleet.rental<dollars_per_hour = 1.2>
  fleet.link @big to @small {gigabytes_per_second = 12.5, microseconds = 20.0}
}
"""
DEVICE = """
name: here/cpu
set: measured
generation: x86_64
target: cpu:x86-64-v3
efficiency_of: hopper
peak_tflops:
  f32: {value: 0.23, source: "for a test", date: "2026-11"}
  bf16: {value: 0.47, source: "for a test", date: "2026-11"}
  int8: {value: 0.94, source: "for a test", date: "2026-11"}
memory_gb: {value: 25, source: "for a test", date: "2026-11"}
memory_gbps: {value: 31, source: "for a test", date: "2026-11"}
"""


@pytest.fixture(scope="module")
def plan(tools, tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("plan")
    for name, text in (("chat.mlir", AGENT), ("fleet.mlir", FLEET), ("here.yaml", DEVICE)):
        (folder / name).write_text(text.lstrip().replace("SHAPE", str(GLOSSARY / "config.json")))
    tools.run("intarsia-plan", "chat.mlir", "--fleet=fleet.mlir", "--json=plan.json", cwd=folder)
    return json.loads((folder / "plan.json").read_text())


def deploy(tools, plan: dict, folder: Path, models: dict[str, Path] = MODELS, check: bool = True, **more: str):
    (folder / "plan.json").write_text(json.dumps(plan))
    flags = [f"--model={name}={path}" for name, path in models.items()]
    flags += [f"--{name}={value}" for name, value in more.items()]
    return tools.run("intarsia-compile", "--plan=plan.json", *flags, "-o", "deploy", cwd=folder, check=check)


def piece(plan: dict, name: str) -> dict:
    return next(each for each in plan["pieces"] if each["name"] == name)


def test_a_plan_is_carried_out(tools, plan: dict, tmp_path: Path) -> None:
    assert plan["not_compiled"] == []
    assert all(each["not_compiled"] is None for each in plan["pieces"])
    result = deploy(tools, plan, tmp_path)
    assert re.search(r"answer\.prefill x 1, answer\.decode x 1", result.stdout)
    assert "find.search: runs no artifact" in result.stdout
    manifest = json.loads((tmp_path / "deploy" / "deployment.json").read_text())
    assert manifest["without_artifact"] == ["find.search"]
    artifacts = {each["model"]: each for pool in manifest["pools"] for each in pool["artifacts"]}
    assert {each["name"] for each in artifacts["writer"]["pieces"]} == {"answer.prefill", "answer.decode"}
    assert artifacts["writer"]["precision"] == piece(plan, "answer.decode")["precision"]
    assert artifacts["writer"]["pieces"][1]["batch"] == piece(plan, "answer.decode")["batch"]
    generator = intarsia.Generator(tmp_path / "deploy" / artifacts["writer"]["file"])
    flags = generator.module.manifest["flags"]
    assert f"--quantize={artifacts['writer']['precision']}" in flags
    assert "--target=cpu:x86-64-v3" in flags
    assert generator.generate("The ", 4)
    embedder = intarsia.load(tmp_path / "deploy" / artifacts["embedder"]["file"])
    assert np.isfinite(
        embedder.main(input_ids=np.array([[5, 6, 7]]), attention_mask=np.ones((1, 3), np.int64))[0]
    ).all()


def test_prefill_and_decode_apart_and_split(tools, plan: dict, tmp_path: Path) -> None:
    plan = json.loads(json.dumps(plan))
    piece(plan, "answer.prefill").update(pool="big", precision="f32", tensor=2, pipeline=2, aggregated=False)
    piece(plan, "answer.decode").update(pool="small", precision="f32", aggregated=False)
    deploy(tools, plan, tmp_path)
    prefill = tmp_path / "deploy/big/writer-f32-tensor2-pipeline2.itx"
    decode = tmp_path / "deploy/small/writer-f32.itx"
    ids = np.random.default_rng(3).integers(5, 200, (2, 24))
    np.savez(tmp_path / "inputs.npz", ids=ids)
    expected = results_of(decode, {"ids": ids})["logits"]
    for results in run_world(prefill, tmp_path / "inputs.npz", tmp_path / "results", 4):
        assert np.abs(results["logits"] - expected).max() <= 1e-3 * np.abs(expected).max()  # caches of 16 bits


def test_a_deployment_is_replaced_as_a_whole(tools, plan: dict, tmp_path: Path) -> None:
    first = {"embedder": MODELS["embedder"]}
    small = json.loads(json.dumps(plan))
    small["pieces"] = [each for each in small["pieces"] if each["model"] != "writer"]
    deploy(tools, small, tmp_path, first)
    (tmp_path / "deploy" / "kept").write_text("")
    failed = deploy(tools, small, tmp_path, {"embedder": tmp_path / "nowhere"}, check=False)
    assert failed.returncode == 1
    assert (tmp_path / "deploy" / "kept").exists()
    assert not (tmp_path / "deploy.partial").exists()
    deploy(tools, small, tmp_path, first)
    assert not (tmp_path / "deploy" / "kept").exists()
    assert not (tmp_path / "deploy.old").exists()


def test_folders_of_others_stay(tools, plan: dict, tmp_path: Path) -> None:
    theirs = tmp_path / "deploy.partial" / "theirs"
    theirs.parent.mkdir()
    theirs.write_text("")
    failed = deploy(tools, plan, tmp_path, check=False)
    assert failed.returncode == 1
    assert "deploy.partial: is there already, and no deployment" in failed.stderr
    assert theirs.exists()
    theirs.rename(tmp_path / "deploy.partial" / "deployment.json")  # that of a call that was killed
    deploy(tools, plan, tmp_path)
    assert not theirs.parent.exists()


def without_target(plan: dict) -> None:
    for pool in plan["pools"]:
        pool.update(target=None, device="intel/gaudi3")


def on_gpus(plan: dict) -> None:
    for pool in plan["pools"]:
        pool.update(target="cuda:sm_90a", device="nvidia/h100-sxm")
    piece(plan, "answer.decode").update(tensor=2)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda plan: plan.update(version=0), r"is a plan of version 0, this compiler reads 1: plan again"),
        (lambda plan: plan.pop("pools"), r"does not say what its pools are made of"),
        (lambda plan: plan.pop("pieces"), r"has no plan, only reasons why there is none \(optimal\)"),
        (lambda plan: plan.pop("status"), r"is no plan: intarsia-plan --json=FILE writes one"),
        (lambda plan: piece(plan, "find.embed").pop("model"), r"does not say which model a piece runs"),
        (
            lambda plan: piece(plan, "find.embed").update(precision="fp6"),
            r"has the precision 'fp6'.*known are f32, f16",
        ),
        (lambda plan: piece(plan, "answer.decode").update(expert=4), r"'answer.decode' divides experts or copies"),
        (lambda plan: piece(plan, "find.embed").update(pool="lost"), r"is on the pool @lost, which is not among"),
        (lambda plan: piece(plan, "find.embed").update(pool="../other"), r"'../other' is no name of a pool or a model"),
        (without_target, r"is on @small, whose device intel/gaudi3 nothing can be compiled for"),
        (on_gpus, r"'answer.decode' is split over several devices of @small \(nvidia/h100-sxm\)"),
    ],
)
def test_plans_that_cannot_be_carried_out(
    tools, plan: dict, change: Callable[[dict], object], error: str, tmp_path: Path
) -> None:
    plan = json.loads(json.dumps(plan))
    change(plan)
    failed = deploy(tools, plan, tmp_path, check=False)
    assert failed.returncode == 1
    assert re.search(error, failed.stderr), failed.stderr
    assert not (tmp_path / "deploy").exists()


def test_another_model_than_planned(tools, plan: dict, tmp_path: Path) -> None:
    """The planner counted with the layers of a shape: a directory with others is refused."""
    other = tmp_path / "other"
    shutil.copytree(GLOSSARY, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    failed = deploy(tools, plan, tmp_path, {**MODELS, "writer": other}, check=False)
    assert failed.returncode == 1
    assert re.search(r"--model=writer=.* is another model than '.*config.json', which was planned", failed.stderr)
    assert "layers 5, planned 6" in failed.stderr
    assert not (tmp_path / "deploy").exists()


def test_planned_and_measured_times(tools, plan: dict, tmp_path: Path) -> None:
    """`intarsia bench deployment` measures every piece that runs an artifact; the plan's times stand beside them."""
    deploy(tools, plan, tmp_path)
    file = tmp_path / "deploy" / "deployment.json"
    manifest = json.loads(file.read_text())
    for pool in manifest["pools"]:
        for each in pool["artifacts"]:
            if each["model"] == "embedder":  # the small model takes 40 tokens at most
                each["pieces"][0]["work"]["input_units"] = 30
    file.write_text(json.dumps(manifest))
    command = [sys.executable, "-m", "intarsia", "bench", "deployment", "deploy", "-o", "profile.json"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    profile = json.loads((tmp_path / "profile.json").read_text())
    figures = {(entry["piece"], entry["figure"]) for entry in profile["entries"]}
    assert {("answer.prefill", "first_token"), ("answer.decode", "next_token"), ("find.embed", "execution")} <= figures
    table = tools.run("intarsia-plan", "plan.json", "--compare=profile.json", cwd=tmp_path).stdout
    row = re.search(r"answer\.decode +@\w+ +next token, batch 1 +([\d.]+) +([\d.]+) +([+-][\d.]+)%", table)
    assert row, table
    decode = piece(plan, "answer.decode")
    planned = decode["alone_ms"] / (decode["work"]["written_tokens"] - 1)
    (measured,) = [
        entry["milliseconds"] for entry in profile["entries"] if entry["figure"] == "next_token" and entry["batch"] == 1
    ]
    assert float(row[1]) == pytest.approx(planned, abs=1e-3)
    assert float(row[2]) == pytest.approx(measured, abs=1e-3)
    assert float(row[3]) == pytest.approx((planned / measured - 1) * 100, abs=1)

    def refused(change: Callable[[dict], object]) -> str:
        damaged = json.loads(json.dumps(profile))
        change(damaged)
        (tmp_path / "damaged.json").write_text(json.dumps(damaged))
        failed = tools.run("intarsia-plan", "plan.json", "--compare=damaged.json", cwd=tmp_path, check=False)
        assert failed.returncode == 1
        return failed.stderr

    assert "was measured for another plan" in refused(lambda all: all["plan"].update(hash="0"))
    assert "is no profile of this version" in refused(lambda all: all.update(version=2))
    assert "has no time for 'nobody'" in refused(lambda all: all["entries"][0].update(piece="nobody"))
    assert "without a piece, a figure or its milliseconds" in refused(lambda all: all["entries"][0].pop("milliseconds"))


def test_flags_that_do_not_fit(tools, plan: dict, tmp_path: Path) -> None:
    def stderr(*arguments: object, **more: object) -> str:
        failed = deploy(tools, plan, tmp_path, *arguments, check=False, **more)
        assert failed.returncode == 1
        return failed.stderr

    assert "give --model=embedder=DIRECTORY and --model=writer=DIRECTORY" in stderr({})
    assert "no device of the plan runs a model of this name; it has embedder, writer" in stderr({**MODELS, "x": HERE})
    assert "--quantize and --plan: the plan decides this" in stderr(MODELS, quantize="int4")
    (tmp_path / "deploy").mkdir()
    assert "is there already, and no deployment that could be replaced" in stderr()
    failed = tools.run("intarsia-compile", "--model=a=b", check=False)
    assert "--model says where a model of a plan is" in failed.stderr
    failed = tools.run("intarsia-compile", check=False)
    assert "there is no MODEL" in failed.stderr
