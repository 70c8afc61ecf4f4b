# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How each side is started: models are made where they are missing, programs are where the options say."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from harness.program import NotMeasuredError

from serving import models
from serving.sides import InProcess, Server, Side

FOLDER = Path(os.environ.get("INTARSIA_PEERS", "build/bench/peers"))
IN_PROCESS = Path(__file__).with_name("in_process.py")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where the peers are; serving/setup-peers.sh puts them into the default places."""
    add = parser.add_argument_group("sides").add_argument
    add("--ours", help="command of our server, {port} stands for the port (default: intarsia serve of --build)")
    add("--ours-options", default="", help="more options of our server")
    add("--mock-options", default="", help="options of serving/mock_server.py, our server without a model")
    add("--quantize", default="int4", help="format of our weights")
    add("--artifact", type=Path, help="another model of `ours` and `generate`; its vocabulary: --set=vocabulary=…")
    add("--slots", type=int, default=8, help="requests that llama-server computes together (default: %(default)s)")
    add("--llama-bin", type=Path, default=FOLDER / "llama.cpp/bin", help="folder of llama-server and llama-quantize")
    add("--llama-options", default="", help="more options of llama-server")
    add("--gguf", default="q4_0", help="format of llama-server's weights")
    add("--openvino-python", type=Path, default=FOLDER / "openvino/bin/python")
    add("--openvino-options", default="", help="more options of serving/in_process.py openvino")
    add("--vllm-python", type=Path, default=FOLDER / "vllm/bin/python")
    add("--vllm-options", default="", help="more options of vllm serve")
    add("--generate-build", type=Path, help="build folder of `generate` (default: --build)")


def start(name: str, arguments: argparse.Namespace, cores: list[int] | None = None) -> Side:
    """Starts one side.

    Raises
    ------
    NotMeasuredError
        Its program is not there.
    """
    return SIDES[name](arguments, cores)


def _threads(arguments: argparse.Namespace) -> dict[str, str]:
    return {key: str(arguments.threads) for key in ("ITX_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def _log(arguments: argparse.Namespace, name: str) -> Path:
    return arguments.work / "log" / f"serve-{name}.log"


def _need(program: Path, option: str) -> Path:
    if not program.exists():
        raise NotMeasuredError(f"there is no {program} (bench/serving/setup-peers.sh makes it; {option})")
    return program.absolute()


def _artifact(arguments: argparse.Namespace) -> Path:
    if arguments.artifact and not arguments.artifact.exists():
        raise NotMeasuredError(f"there is no {arguments.artifact} (--artifact)")
    return arguments.artifact or models.make_artifact(
        arguments.cache, arguments.work, arguments.build, arguments.quantize
    )


def _ours(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    if arguments.ours:
        command = shlex.split(arguments.ours)
    else:
        artifact = _artifact(arguments)
        command = [arguments.python, "-m", "intarsia", "serve", str(artifact), "--port={port}"]
        command += [f"--threads={arguments.threads}"]
    command += shlex.split(arguments.ours_options)
    environment = _threads(arguments) | {"PYTHONPATH": str(arguments.build / "python")}
    return Server("ours", command, _log(arguments, "ours"), environment=environment, cores=cores)


def _mock(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    command = [arguments.python, Path(__file__).with_name("mock_server.py"), "--port={port}"]
    command += shlex.split(arguments.mock_options)
    environment = _threads(arguments) | {"PYTHONPATH": str(arguments.build / "python")}
    return Server("mock", command, _log(arguments, "mock"), environment=environment, cores=cores)


def _llama_server(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    program = _need(arguments.llama_bin / "llama-server", "--llama-bin")
    model = models.make_gguf(arguments.cache, arguments.gguf, arguments.llama_bin)
    context = max(16384, 2 * models.CONTEXT)  # one pool of keys and values for all slots
    command = [program, "-m", model, "-t", arguments.threads, "-np", arguments.slots, "-c", context, "-kvu"]
    command += ["--port", "{port}", "--no-ui", *shlex.split(arguments.llama_options)]
    log = _log(arguments, "llama-server")
    return Server("llama-server", [str(word) for word in command], log, environment=_threads(arguments), cores=cores)


def _openvino(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    python = _need(arguments.openvino_python, "--openvino-python")
    model = models.make_openvino(arguments.cache, python)
    command = [python, IN_PROCESS, "openvino", model, f"--threads={arguments.threads}"]
    command += shlex.split(arguments.openvino_options)
    return InProcess("openvino", command, _log(arguments, "openvino"), arguments.threads)


def _vllm(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    python = _need(arguments.vllm_python, "--vllm-python")
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", models.make_directory(arguments.cache)]
    command += ["--port", "{port}", "--dtype", "bfloat16", *shlex.split(arguments.vllm_options)]
    environment = _threads(arguments) | {"VLLM_CPU_KVCACHE_SPACE": "4", "HF_HUB_OFFLINE": "1"}
    # Without a list it leaves one core to its front end. Its documentation asks for Intel's OpenMP.
    environment["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, sorted(os.sched_getaffinity(0))[: arguments.threads]))
    environment["LD_PRELOAD"] = str(python.parent.parent / "lib/libiomp5.so")
    log = _log(arguments, "vllm")
    return Server("vllm", command, log, environment=environment, cores=cores, start_s=600)


def _generate(arguments: argparse.Namespace, cores: list[int] | None) -> Side:
    artifact = _artifact(arguments)
    build = arguments.generate_build or arguments.build
    command = [arguments.python, IN_PROCESS, "generate", artifact, f"--threads={arguments.threads}"]
    environment = {"PYTHONPATH": str(build / "python")}
    log = _log(arguments, "generate")
    return InProcess("generate", command, log, arguments.threads, environment=environment)


SIDES: dict[str, Callable[[argparse.Namespace, list[int] | None], Side]] = {
    "ours": _ours,
    "mock": _mock,
    "llama-server": _llama_server,
    "openvino": _openvino,
    "vllm": _vllm,
    "generate": _generate,
}
