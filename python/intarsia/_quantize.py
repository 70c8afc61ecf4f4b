# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantize a model with what it computes on a calibration text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._compile import compile, find_tool
from ._errors import CompileError, InvalidArgumentError
from ._module import Function, Module, make_state
from ._tokenizer import encode, open_tokenizer

#: Tokens of one call: enough that the matrix products of second moments take longer than reading the weights.
TOKENS_OF_A_CALL = 4096
#: Bytes of second moments that one pass over the text adds up; what is beyond them takes another pass.
MOMENTS_BYTES = 1 << 30
#: Seconds between two states of a pass that are kept, so that a pass which was ended goes on from there.
SECONDS_BETWEEN_STATES = 60.0
PREFIX = "second_moments."

Progress = Callable[[str], None]


def read_windows(ids: Sequence[int] | np.ndarray, length: int, tokens: int | None = None) -> np.ndarray:
    """Return token ids as windows [count, length], all of one text; a last, shorter one is left out.

    Raises
    ------
    InvalidArgumentError
        The text has fewer tokens than a window.
    """
    array = np.asarray(ids, np.int64)
    count = array.size // length
    if tokens is not None:
        count = min(count, -(-tokens // length))
    if count == 0:
        raise InvalidArgumentError(
            f"the calibration text has {array.size} tokens, a window needs {length}: give more text, or --window",
            "invalid argument",
        )
    return array[: count * length].reshape(count, length)


def encode_documents(
    model: str | os.PathLike[str], documents: Sequence[str], tokenizer: str | os.PathLike[str] | None = None
) -> list[int]:
    """Return the token ids of texts one after another, each with the tokens that begin and end it in the model.

    Parameters
    ----------
    model : path
        A Hugging Face directory.
    documents : sequence of str
        The texts.
    tokenizer : path, optional
        A ``tokenizer.json`` or the directory that holds it; by default the model's.
    """
    text = open_tokenizer(tokenizer or model)
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    begin, end = (_first_id(config, name) for name in ("bos_token_id", "eos_token_id"))
    if begin is None and end is None:  # encoders: their tokenizers know
        return [token for document in documents for token in encode(text.tokenizer, document)]
    before = [] if begin is None or not text.add_bos else [begin]
    after = [] if end is None else [end]
    return [
        token
        for document in documents
        for token in [*before, *encode(text.tokenizer, document, add_special_tokens=False), *after]
    ]


def _first_id(config: dict[str, Any], name: str) -> int | None:
    """Return a token of config.json, which may list several."""
    value = config.get(name)
    return (value[0] if value else None) if isinstance(value, list) else value


def second_moments(
    model: str | os.PathLike[str],
    windows: np.ndarray,
    file: str | os.PathLike[str],
    progress: Progress = lambda text: None,
) -> None:
    """Write the sums of ``x xᵀ`` over all rows ``x`` that each linear of a model multiplies on a text.

    Parameters
    ----------
    model : path
        A Hugging Face directory.
    windows : array of int64 [count, length]
        Token ids; each row is a text of its own.
    file : path
        The file of safetensors to write: ``second_moments.<name of the linear>`` in F32, the mean over all rows. If it
        exists and was made of the same model and windows, nothing is done. A pass that was ended goes on where its last
        state was kept, ``<file>.part``.
    progress : callable
        Gets a text now and then.
    """
    file = Path(file)
    digest = _digest(Path(model), windows)
    if file.exists() and _metadata(file).get("digest") == digest:
        progress(f"{file} was made of this model and text")
        return
    everything = _observed(model, "*")
    sizes = {name: int(np.prod(shape)) * 4 for name, shape in _results(everything).items()}
    done: dict[str, np.ndarray] = {}
    groups = list(_groups(sizes))
    for number, group in enumerate(groups):
        module = everything if len(groups) == 1 else _observed(model, _glob(group))
        which = "" if len(groups) == 1 else f", pass {number + 1} of {len(groups)}"
        done |= _add_up(module, windows, file.with_name(f"{file.name}.part"), f"{digest}.{number}", which, progress)
    _write(file, done, {"digest": digest, "tokens": str(windows.size)})
    file.with_name(f"{file.name}.part").unlink(missing_ok=True)


def quantize(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    format: str = "int4",
    windows: np.ndarray | None = None,
    *,
    parts: Sequence[str] = ("linears",),
    moments: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> str:
    """Quantize the linears of a model and write a model directory, which `compile` and other tools read.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    format : str
        ``"int4"``, ``"int4-g128"``, ``"int8"``, ``"mxfp4"``, ``"nvfp4"``, …
    windows : array of int64 [count, length], optional
        Calibration text as token ids. With it weights are rounded so that their errors cancel in the outputs of the
        linears; without it, and without `moments`, to nearest.
    parts : sequence of str
        What is quantized, each optionally with its own format: ``["linears", "lm_head=int8"]``.
    moments : path, optional
        The file of second moments: it is made of `windows`, or read where there are none. By default it lies in a
        temporary folder.
    progress : callable
        Gets a text now and then.

    Returns
    -------
    str
        A table: weights, bits and errors of each format.
    """
    with tempfile.TemporaryDirectory(prefix="intarsia-") as folder:
        if windows is not None:
            moments = moments or Path(folder) / "second_moments.safetensors"
            second_moments(model, windows, moments, progress)
        progress("rounding weights")
        command = [str(find_tool("intarsia-quantize")), os.fspath(model), "-o", os.fspath(output)]
        command += [f"--quantize={format}", f"--quantize-parts={','.join(parts)}"]
        if moments is not None:
            command.append(f"--second-moments={os.fspath(moments)}")
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CompileError(
            result.stderr.strip() or f"{command[0]} ended with code {result.returncode}", "invalid argument"
        )
    if result.stderr:  # remarks
        print(result.stderr, end="", file=sys.stderr)
    return result.stdout


def _observed(model: str | os.PathLike[str], linears: str) -> Module:
    return compile(model, options=[f"--observe={linears}"])


def _glob(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ",".join(names) + "}"


def _function(module: Module) -> Function:
    for name in ("step", "main"):
        if name in module.functions:
            return module[name]
    raise InvalidArgumentError(f"{module.path}: has no function 'step' or 'main'", "invalid argument")


def _results(module: Module) -> dict[str, tuple[int, ...]]:
    """Return the shapes of second moments by the names of their linears."""
    results = _function(module).signature.outputs
    return {value.name.removeprefix(PREFIX): value.shape for value in results if value.name.startswith(PREFIX)}


def _groups(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Divide linears, in their order, so that the moments of each group fit in MOMENTS_BYTES."""
    group: list[str] = []
    for name in sizes:
        if group and sum(sizes[other] for other in group) + sizes[name] > MOMENTS_BYTES:
            yield group
            group = []
        group.append(name)
    yield group


def _add_up(
    module: Module, windows: np.ndarray, part: Path, digest: str, which: str, progress: Progress
) -> dict[str, np.ndarray]:
    """Run all windows and return the means of the observed results."""
    call = _caller(module, windows.shape[1])
    at_once = max(1, TOKENS_OF_A_CALL // windows.shape[1])
    sums: dict[str, np.ndarray] = {}
    begin = 0
    if part.exists() and (kept := _metadata(part)).get("digest") == digest:
        sums = {name: array.copy() for name, array in _read(part).items()}
        begin = int(kept["windows"])
    kept_at = time.monotonic()
    for first in range(begin, len(windows), at_once):
        some = windows[first : first + at_once]
        for name, array in call(some).items():
            if name in sums:
                sums[name] += array
            else:
                sums[name] = array.copy()
        end = first + len(some)
        progress(f"calibration: {end * windows.shape[1]:,} of {windows.size:,} tokens{which}")
        if end < len(windows) and time.monotonic() - kept_at > SECONDS_BETWEEN_STATES:
            _write(part, sums, {"digest": digest, "windows": str(end)})
            kept_at = time.monotonic()
    for array in sums.values():
        array /= windows.size
    return sums


def _caller(module: Module, length: int) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return a function that runs windows [count, length] and returns the observed results."""
    function = _function(module)
    names = [value.name for value in function.signature.inputs if not value.state]
    outputs = [value.name for value in function.signature.outputs]

    def results(answer: Any) -> dict[str, np.ndarray]:
        # A model has results of its own beside those that are observed, so that there are several.
        return {name: array for name, array in zip(outputs, answer, strict=True) if name.startswith(PREFIX)}

    if "page_table" in names:  # a language model's step over paged caches
        page = next(entry["page_tokens"] for entry in module.manifest["functions"] if entry["name"] == "step")
        pages = -(-length // page)
        states: dict[int, dict[str, np.ndarray]] = {}

        def step(some: np.ndarray) -> dict[str, np.ndarray]:
            count = len(some)
            state = states.setdefault(count, make_state(function, pages=count * pages, sequences=count))
            return results(
                function(
                    input_ids=some.reshape(-1),
                    positions=np.tile(np.arange(length), count),
                    sequences=np.repeat(np.arange(count), length),
                    page_table=np.arange(count * pages).reshape(count, pages),
                    output_tokens=np.zeros(1, np.int64),
                    **state,
                )
            )

        return step
    known = {
        "input_ids": lambda some: some,
        "attention_mask": np.ones_like,
        "token_type_ids": np.zeros_like,
        "position_ids": lambda some: np.tile(np.arange(length), (len(some), 1)),
    }
    if "input_ids" not in names or not set(names) <= set(known):
        raise InvalidArgumentError(
            f"{module.path}: its inputs are {', '.join(names)}; models that read token ids can be calibrated",
            "invalid argument",
        )
    return lambda some: results(function(**{name: known[name](some) for name in names}))


def _digest(model: Path, windows: np.ndarray) -> str:
    """Return a hash of the windows, the model's settings and the sizes and times of its weights."""
    digest = hashlib.sha256(np.ascontiguousarray(windows).tobytes())
    digest.update(repr(windows.shape).encode())
    for file in sorted([*model.glob("*.json"), *model.glob("*.safetensors")]):
        state = file.stat()
        digest.update(f"{file.name}:{state.st_size}:{state.st_mtime_ns};".encode())
    return digest.hexdigest()


def _write(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write a file of safetensors, under its name when it is complete."""
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in tensors.values():
                file.write(np.ascontiguousarray(array, np.float32).data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(min(size, 1 << 27))), 8 + size


def _metadata(path: Path) -> dict[str, str]:
    try:
        return _header(path)[0].get("__metadata__", {})
    except (ValueError, AttributeError, OSError):
        return {}


def _read(path: Path) -> dict[str, np.ndarray]:
    header, data = _header(path)
    return {
        name: np.memmap(path, np.float32, "r", data + entry["data_offsets"][0], tuple(entry["shape"]))
        for name, entry in header.items()
        if name != "__metadata__"
    }
