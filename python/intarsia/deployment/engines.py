# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start serving engines as a plan says: their commands, and manifests of Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.checks import check_form, read_json
from ..support.errors import InvalidArgumentError

#: The versions whose flags are written, and their images.
ENGINES = {
    "vllm": ("vLLM 0.10", "vllm/vllm-openai:v0.10.2"),
    "sglang": ("SGLang 0.5", "lmsysorg/sglang:v0.5.2"),
}
PORT = 8000
#: Resources of Kubernetes' device plugins, by the vendor of the device.
RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi"}
_COUNT = range(1, 1 << 31)
#: What is read of a plan (docs/plan.schema.json), and of its pieces that are language models.
_PLAN = {
    "pieces": [{"name": str, "kind": str | None, "aggregated": bool, "outside": bool}],
    "pools": [{"name": str, "device": str, "devices_per_node": _COUNT}],
}
_ENGINE = {
    "pool": str,
    "model": str,
    "precision": str | None,
    "cache": str | None,
    **dict.fromkeys(("tensor", "pipeline", "data", "expert", "batch", "replicas"), _COUNT),
    "most_context_tokens": int | None,
}
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


@dataclass(frozen=True)
class Engine:
    """One deployment of a model: replicas of one command."""

    name: str
    pool: str
    device: str
    per_node: int
    model: str
    role: str  # whole, prefill or decode
    pieces: tuple[str, ...]
    precision: str
    cache: str
    tensor: int
    pipeline: int
    data: int
    expert: int
    batch: int
    replicas: int
    context_tokens: int | None

    @property
    def devices(self) -> int:
        """Return the devices of a replica."""
        return self.tensor * self.pipeline * self.data


def read_plan(file: Path) -> tuple[list[Engine], list[str]]:
    """Read what ``intarsia-plan --json`` wrote.

    Returns
    -------
    list of Engine
        One for each language model on a pool: with prefill and decode in the same replicas, or apart.
    list of str
        The pieces that no engine runs, and why.

    Raises
    ------
    InvalidArgumentError
        The file is no plan, or has a deployment that no engine has flags for.

    """
    plan = read_json(file)
    if plan.get("version") != 1:
        raise InvalidArgumentError(
            f"{file}: has version {plan.get('version')} of the format of plans, must have 1; name a file that "
            "intarsia-plan --json wrote",
            "invalid argument",
        )
    where = f"{file}: is no plan, such as intarsia-plan --json writes: it"
    check_form(where, plan, _PLAN)
    for number, piece in enumerate(plan["pieces"]):
        if piece["kind"] in ("prefill", "decode"):
            check_form(f"{where}: pieces[{number}]", piece, _ENGINE)
            if not any(pool["name"] == piece["pool"] for pool in plan["pools"]):
                raise InvalidArgumentError(
                    f"{where} has no pool '{piece['pool']}' of {piece['name']}", "invalid argument"
                )
    pieces, pools = plan["pieces"], {pool["name"]: pool for pool in plan["pools"]}
    engines, others = [], []
    for piece in pieces:
        kind = piece["kind"]
        if kind == "prefill" and piece["aggregated"]:
            continue  # runs in the replicas of its decode
        if kind not in ("prefill", "decode"):
            why = "runs outside of the fleet" if piece["outside"] else f"is no language model ({kind})"
            others.append(f"{piece['name']}: {why}")
            continue
        role = "whole" if piece["aggregated"] else kind
        name = re.sub("[^a-z0-9]+", "-", f"{piece['model']}-{role}-{piece['pool']}".lower()).strip("-")
        while any(name == engine.name for engine in engines):
            name += "-2"
        engines.append(
            Engine(
                name=name,
                pool=piece["pool"],
                device=pools[piece["pool"]]["device"],
                per_node=pools[piece["pool"]]["devices_per_node"],
                model=piece["model"],
                role=role,
                pieces=tuple(
                    other["name"]
                    for other in pieces
                    if other is piece
                    or (role == "whole" and other["kind"] == "prefill" and other["aggregated"] and _same(other, piece))
                ),
                precision=piece["precision"],
                cache=piece["cache"],
                tensor=piece["tensor"],
                pipeline=piece["pipeline"],
                data=piece["data"],
                expert=piece["expert"],
                batch=piece["batch"],
                replicas=piece["replicas"],
                context_tokens=piece["most_context_tokens"],
            )
        )
    return engines, others


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[key] == other[key] for key in ("model", "pool", "precision", "tensor", "pipeline", "data"))


def command(engine: Engine, kind: str, model: str) -> list[str]:
    """Return the command of one replica. `model` is a directory or the name of a repository."""
    vllm = kind == "vllm"
    words = ["vllm", "serve", model] if vllm else ["python3", "-m", "sglang.launch_server", "--model-path", model]
    words += ["--host", "0.0.0.0", "--port", str(PORT)]
    if vllm:
        degrees = {
            "--tensor-parallel-size": engine.tensor,
            "--pipeline-parallel-size": engine.pipeline,
            "--data-parallel-size": engine.data,
        }
    else:
        # Replicas of attention are parts of what SGLang calls tensor parallelism.
        degrees = {
            "--tp-size": engine.tensor * engine.data,
            "--pp-size": engine.pipeline,
            "--dp-size": engine.data,
            "--ep-size": engine.expert,
        }
    for flag, degree in degrees.items():
        if degree > 1:
            words += [flag, str(degree)]
    if engine.expert > 1 and vllm:
        words.append("--enable-expert-parallel")
    if engine.data > 1 and not vllm:
        words.append("--enable-dp-attention")
    # vLLM counts the sequences of each replica of attention, SGLang all.
    sequences = max(1, engine.batch // engine.data) if vllm else engine.batch
    words += ["--max-num-seqs" if vllm else "--max-running-requests", str(sequences)]
    # A checkpoint with fewer bits names its format; an engine can make FP8 when it loads one.
    words += ["--dtype", DTYPES.get(engine.precision, "bfloat16")]
    if engine.precision == "fp8":
        words += ["--quantization", "fp8"]
    if engine.cache == "fp8":
        words += ["--kv-cache-dtype", "fp8" if vllm else "fp8_e4m3"]
    if engine.context_tokens:
        words += ["--max-model-len" if vllm else "--context-length", str(engine.context_tokens)]
    if engine.role != "whole":
        transfer = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}, separators=(",", ":"))
        words += ["--kv-transfer-config", transfer] if vllm else ["--disaggregation-mode", engine.role]
    return words


def remarks(engine: Engine, kind: str) -> list[str]:
    """Return what the command needs that its flags do not say."""
    found = []
    if engine.precision in ("int8", "int4", "fp4"):
        found.append(
            f"the checkpoint must be quantized in {engine.precision}: no flag of {ENGINES[kind][0]} makes it so"
        )
    if engine.cache not in ("bf16", "f16", "fp8"):
        found.append(f"planned with a cache in {engine.cache}, for which no flag is written; the cache is in 16 bits")
    if engine.role != "whole":
        found.append("prefill and decode are apart: a router in front of both sends each request to one of each")
    return found


def manifest(engine: Engine, kind: str, words: list[str]) -> dict[str, Any]:
    """Return a Deployment of Kubernetes with the replicas of an engine on nodes with the label of its pool."""
    vendor = engine.device.split("/")[0]
    if vendor not in RESOURCES:
        raise InvalidArgumentError(
            f"{engine.name}: runs on {engine.device}, and no device plugin of Kubernetes is known for it; known are "
            f"devices of {', '.join(RESOURCES)}",
            "invalid argument",
        )
    if engine.devices > engine.per_node:
        raise InvalidArgumentError(
            f"{engine.name}: a replica takes {engine.devices} devices, and a node of @{engine.pool} has "
            f"{engine.per_node}; replicas over several nodes need a launcher of their own",
            "invalid argument",
        )
    labels = {"app": engine.name, "intarsia/pool": engine.pool}
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10, "failureThreshold": 180}
    container = {
        "name": "engine",
        "image": ENGINES[kind][1],
        "command": words,
        "ports": [{"containerPort": PORT}],
        "resources": {"limits": {RESOURCES[vendor]: engine.devices}},
        "readinessProbe": probe,
        # Processes of one replica exchange data in shared memory.
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": engine.name, "labels": labels},
        "spec": {
            "replicas": engine.replicas,
            "selector": {"matchLabels": {"app": engine.name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"intarsia/pool": engine.pool},
                    "containers": [container],
                    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    }


def service(engine: Engine) -> dict[str, Any]:
    """Return the Service in front of the replicas of an engine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": engine.name},
        "spec": {"selector": {"app": engine.name}, "ports": [{"port": PORT, "targetPort": PORT}]},
    }


def script(engine: Engine, kind: str, words: list[str]) -> str:
    """Return a script of the shell that starts one replica."""
    comments = [
        f"{ENGINES[kind][0]}, {engine.replicas} of these on @{engine.pool} ({engine.device}), each on "
        f"{engine.devices} of its devices: {', '.join(engine.pieces)}",
        *remarks(engine, kind),
    ]
    # A comment ends with its line: what comes behind would be run.
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    return "\n".join(["#!/bin/sh", *lines, f"exec {shlex.join(words)}"]) + "\n"


def write(plan: Path, kind: str, models: Mapping[str, str], folder: Path, manifests: bool = False) -> list[str]:
    """Write the commands of a plan's engines, and with `manifests` what Kubernetes needs to run them.

    Manifests are JSON, which is YAML too. Returns lines that say what was written, and what is left to do.
    """
    engines, others = read_plan(plan)
    if not engines:
        raise InvalidArgumentError(f"{plan}: has no language model: nothing for an engine to run", "invalid argument")
    names = {engine.model for engine in engines}
    for name in models:
        if name not in names:
            raise InvalidArgumentError(
                f"--model={name}=…: the plan has no such language model; it has {', '.join(sorted(names))}",
                "invalid argument",
            )
    for name in sorted(names):
        if name not in models:
            raise InvalidArgumentError(
                f"nothing says where the weights of '{name}' are; give --model={name}=DIRECTORY, or a repository",
                "invalid argument",
            )
    written = {}
    lines = [f"# {ENGINES[kind][0]}"]
    for engine in engines:
        words = command(engine, kind, models[engine.model])
        written[f"{engine.name}.sh"] = script(engine, kind, words)
        devices = "1 device" if engine.devices == 1 else f"{engine.devices} devices"
        lines.append(f"{engine.name}.sh: {engine.replicas} on @{engine.pool}, {devices} each")
        lines += [f"  {remark}" for remark in remarks(engine, kind)]
        if manifests:
            objects = [manifest(engine, kind, words), service(engine)]
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2)
            written[f"{engine.name}.json"] = text + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
    return lines + others
