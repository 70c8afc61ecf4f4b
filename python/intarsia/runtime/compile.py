# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the compiler, intarsia-compile."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import CompileError, InvalidArgumentError, NotFoundError
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
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, Any] | None = None,
    weights_dir: str | os.PathLike[str] | None = None,
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
    shapes : mapping of str to sequence of int and str, optional
        Sizes of inputs of an ONNX file, numbers and names of sizes: ``{"x": [1, 3, "height", "width"]}``. They fix or
        name sizes that the file leaves open, and give a shape to an input without one.
    values : mapping of str to array-like, optional
        Inputs of an ONNX file that become constants, which calls do not give then: ``{"axes": [1, 2]}``. An array must
        have the input's type; numbers and lists of them get it.
    weights_dir : path, optional
        Where an ONNX file may have data too, beside its own directory: links that it names are followed to files below
        this one, as those of a cache of downloads.
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
    for name, shape in (shapes or {}).items():
        flags.append(f"--shape={name}={','.join(map(str, shape))}{',' if len(shape) == 1 else ''}")
    if weights_dir is not None:
        flags.append(f"--weights-dir={os.fspath(weights_dir)}")
    folder = tempfile.TemporaryDirectory(prefix="intarsia-")
    for number, (name, value) in enumerate((values or {}).items()):
        flags.append(f"--set={name}={_value_text(value, Path(folder.name) / f'value{number}.npy')}")
    if output is not None:
        with folder:
            _run([os.fspath(path), "-o", os.fspath(output), *flags, *options])
        return load(output)
    artifact = Path(folder.name) / "module.itx"
    _run([os.fspath(path), "-o", str(artifact), *flags, *options])
    module = load(artifact)
    module._keep_alive = folder
    return module


def _value_text(value: Any, file: Path) -> str:
    """Return a value as --set takes it: arrays are written to a file."""
    if isinstance(value, np.generic):
        # Text has no NaN and no infinity.
        is_text = value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value))
        value = value.item() if is_text else np.asarray(value)
    if not hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                "a value is an array, numbers or lists of them, and NaN or infinity an array of the input's type, such "
                f"as np.float32('nan'): {error}", "invalid argument",
            ) from None  # fmt: skip
    array = np.asarray(value if hasattr(value, "__array__") else np.from_dlpack(value))
    # Floats that NumPy has no type of its own for are their bytes in files.
    if array.dtype.kind == "V":
        array = array.view(f"u{array.itemsize}")
    np.save(file, array)
    return f"@{file}"


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
