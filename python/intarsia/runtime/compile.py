# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the compiler, intarsia-compile."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..support.errors import CompileError, NotFoundError
from ..support.tools import find_tool
from ..support.work import locks
from .module import Module, load

#: A line that intarsia-compile prints about its progress: a step with its time, or the file at the end.
_PROGRESS = re.compile(r"  \S+ +[\d.]+ s\n|wrote .*\n")


def compile(
    path: str | os.PathLike[str],
    target: str = "cpu",
    quantize: str | None = None,
    kv: str | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    quantize_parts: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Module:
    """Compile a model ahead of time and load the result.

    If standard error is a terminal, it shows each step of the compiler with its time.

    Parameters
    ----------
    path : path
        A model of a kind that ``intarsia-compile --help`` names: a Hugging Face directory (config.json and
        safetensors), a GGUF file, an ONNX file, ….
    target : str
        The target of the code: ``"cpu"`` (this machine), ``"cpu:znver5"``, ``"cpu:aarch64"``, …
    quantize : str, optional
        The format that weights are quantized to, as ``intarsia-compile --help`` lists them: ``"int4"``, … Without it,
        weights are kept as they are. If it has 4 bits, the head and the embedding have ``"int6"``.
    kv : str, optional
        The format of a language model's key/value cache, as ``intarsia-compile --help`` lists them: ``"int8"``, or
        ``"int8,cache.0=f16"`` with another one for some layers. Without it, that tool's default.
    output : path, optional
        The artifact to write (``.itx``; its weights lie beside it). Without it, the artifact is kept in a temporary
        folder while the module lives.
    quantize_parts : sequence of str
        The parts whose weights are quantized, each optionally with its own format: ``["linears", "lm_head=int4"]``.
        Without it, all parts.
    options : sequence of str
        More flags for intarsia-compile.

    Returns
    -------
    Module
        The loaded module. It can be given where a path is expected (``os.fspath(module)`` is the artifact's path). Code
        for another architecture cannot be loaded: run intarsia-compile for that.

    Raises
    ------
    CompileError
        The compiler refused the model; the message is its output.
    """
    flags = [f"--target={target}"]
    if quantize is not None:
        flags.append(f"--quantize={quantize}")
    if quantize_parts:
        flags.append(f"--quantize-parts={','.join(quantize_parts)}")
    if kv is not None:
        flags.append(f"--kv={kv}")
    if output is not None:
        _run([os.fspath(path), "-o", os.fspath(output), *flags, *options])
        return load(output)
    folder = tempfile.TemporaryDirectory(prefix="intarsia-")
    artifact = Path(folder.name) / "module.itx"
    _run([os.fspath(path), "-o", str(artifact), *flags, *options])
    module = load(artifact)
    module._keep_alive = folder
    return module


@functools.cache
def _kernels() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of the kernels that this process has compiled: other models with the same kernels take them."""
    return tempfile.TemporaryDirectory(prefix="intarsia-kernels-")


def _environment() -> dict[str, str]:
    if "INTARSIA_KERNEL_CACHE" in os.environ:
        return dict(os.environ)
    try:
        return os.environ | {"INTARSIA_KERNEL_CACHE": _kernels().name}
    except OSError:  # no folder for temporary files: kernels are not kept
        return dict(os.environ)


def _run(arguments: Sequence[str], *, shows_steps: bool = True, shows_remarks: bool = True) -> None:
    command = [str(find_tool("intarsia-compile")), *arguments]
    if shows_steps and "--verbose" not in command and sys.stderr is not None and sys.stderr.isatty():
        command.append("--verbose")
    message = ""
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
            text=True,
            errors="replace",
            pass_fds=tuple(locks),
        ) as process:
            try:
                for line in process.stderr:
                    if "--verbose" in command and _PROGRESS.fullmatch(line):
                        print(line, end="", file=sys.stderr, flush=True)
                    else:
                        message += line
            except BaseException:
                _end(process)
                raise
    except OSError as error:
        raise NotFoundError(f"cannot run {command[0]}: {error.strerror}", "not found") from error
    if process.returncode != 0:
        raise CompileError(
            message.strip() or f"{command[0]} ended with code {process.returncode} and no message", "invalid argument"
        )
    if message and shows_remarks:
        print(message, end="", file=sys.stderr)


def _end(process: subprocess.Popen[str]) -> None:
    """End the compiler, and give it time to remove incomplete files."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
