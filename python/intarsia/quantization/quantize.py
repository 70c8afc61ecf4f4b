# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantize a model layer by layer with what it computes on a calibration text."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.compile import _run
from ..runtime.module import Function, Module, TensorType, load, make_state
from ..support.checks import read_json, whole_number
from ..support.errors import CompileError, InvalidArgumentError
from ..support.tools import find_tool
from ..support.work import OWN_FILES, WorkFolder, check_apart, locks, work_folder
from ..text.encoding import encode
from ..text.tokenizer import open_tokenizer
from . import overlap
from .moments import Moments
from .rotate import rotate_into
from .safetensors import ModelWeights, read_tensors, write_tensors

#: Tokens of one call: enough that the matrix products take longer than reading the weights.
TOKENS_OF_A_CALL = 4096
#: Patches of an image of the usual size (224 by 224 pixels in patches of 16), and one for all.
TOKENS_OF_AN_IMAGE = 197
#: Tokens that are read together.
WINDOW = 512
#: Tokens for each feature of an input, below which a text says too little of how features depend on each other.
TOKENS_OF_A_FEATURE = 10

#: Flags of the compiler for what is run while 4 bits are looked for: weights and inputs of linears in 8 bits, in blocks
#: of 32 in encoders too. Their own loss cannot be measured beside it (docs/quantization.md), and they take a third of
#: the time of f32.
RUNS_IN_8_BITS = ["--quantize=int8", "--quantize-parts=linears", "--quantize-activations=8"]

#: How much of the change that makes up for earlier layers is taken where weights become ternary. Their errors are so
#: large that the least squares for inputs with errors make outputs smaller: examples/glossary has a perplexity of 29.1
#: with none, 27.3 with half and 39.1 with all of it, and 36.8 with rounding to nearest (docs/decisions/0048).
SHARE_OF_CHANGE_IN_TERNARY = 0.5

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


def usual_window(model: str | os.PathLike[str], tokens: int, documents: int) -> int:
    """Return how many tokens are read together where the user does not say it.

    An encoder reads texts of some length, to which ranges of its features belong: windows are as long as the texts of
    the calibration are on average. Language models read a long text.

    Parameters
    ----------
    model : path
        A Hugging Face directory.
    tokens, documents : int
        The size of the calibration text, and how many texts it has.
    """
    config = read_json(Path(model) / "config.json")
    if documents < 2 or not _is_encoder(config):
        return WINDOW
    return min(max(tokens // documents, 2), WINDOW)


def _is_encoder(config: dict[str, object]) -> bool:
    """Return true if a model has no tokens of its own that begin and end a text: its tokenizer adds them."""
    return _first_id(config, "bos_token_id") is None and _first_id(config, "eos_token_id") is None


def encode_documents(
    model: str | os.PathLike[str], documents: Sequence[str], tokenizer: str | os.PathLike[str] | None = None
) -> list[int]:
    """Return the token ids of texts one after another, each with what the tokenizer puts around it and its end.

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
    config = read_json(Path(model) / "config.json")
    end = _first_id(config, "eos_token_id")  # encoders have none
    ids: list[int] = []
    for document in documents:
        ids += encode(text.tokenizer, document)
        if end is not None and ids[-1:] != [end]:
            ids.append(end)
    return ids


def quantize(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    format: str = "int4",
    windows: np.ndarray | None = None,
    *,
    parts: Sequence[str] = ("linears",),
    rotations: Sequence[str] = (),
    search_scales: bool = False,
    work: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> str:
    """Quantize the linears of a model and write a model directory, which `compile` and other tools read.

    With a calibration text the model is computed layer by layer, as it is and with the layers before quantized. The
    weights of a layer are rounded so that the outputs of its linears, given what the quantized layers make, are near
    those of the model as it is.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    format : str
        ``"int4"``, ``"int4-g128"``, ``"int8"``, ``"mxfp4"``, ``"nvfp4"``, …
    windows : array of int64 [count, length], optional
        Calibration text as token ids; each row is a text of its own. For models of images [count, channels, height,
        width] of f32, as the model's preprocessing makes them. Without it weights are rounded to nearest.
    parts : sequence of str
        What is quantized, each optionally with its own format: ``["linears", "lm_head=int8"]``.
    rotations : sequence of str
        What is multiplied by Hadamard matrices before, ``"residual"`` and ``"values"``: outliers of weights become
        smaller. The embedding, the head and norms are then written in f32; ``<output>.rotated`` holds the rotated model
        while it is quantized.
    search_scales : bool
        Without a text: try some 50 scales for each block, and take the one with the least squared error of its weights.
    work : path, optional
        A folder for what is between layers, apart from `model` and `output`; by default ``<output>.work``. What is
        written there is removed at the end. A run that was ended goes on from the last layer that is there, if model,
        text and formats are the same.
    progress : callable
        Gets a text now and then.

    Returns
    -------
    str
        A table: weights and bits of each format.
    """
    if not Path(model).is_dir():
        raise InvalidArgumentError(
            f"{model}: is no model directory (config.json and *.safetensors)", "invalid argument"
        )
    if rotations:
        if work is not None:
            check_apart(Path(work), model=Path(model), output=Path(output))
        with WorkFolder(f"{Path(output)}.rotated", model=Path(model), output=Path(output)) as rotated:
            rotate_into(Path(model), rotated, rotations, "rotated", progress=progress)
            others = {"parts": parts, "search_scales": search_scales, "work": work, "progress": progress}
            table = quantize(rotated.path, output, format, windows, **others)
            rotated.remove()
        return table
    flags = [f"--quantize={format}", f"--quantize-parts={','.join(parts)}"]
    if windows is None:
        return _round(model, output, [*flags, "--search-scales"] if search_scales else flags)
    if search_scales:
        raise InvalidArgumentError(
            "with a calibration text scales are always searched for, by what inputs the weights get: leave out "
            "--search-scales",
            "invalid argument",
        )
    _check_windows(Path(model), np.asarray(windows))
    with work_folder(work, Path(model), Path(output)) as folder:
        pieces = _Calibration(Path(model), np.asarray(windows), flags, folder, progress).run()
        progress("writing the model")
        table = _round(model, output, [*flags, *(f"--part={piece}" for piece in pieces)])
        if windows.ndim == 2:
            (Path(output) / overlap.FILE).write_text(overlap.describe(windows))
        folder.remove()
    return table


def _round(model: str | os.PathLike[str], output: str | os.PathLike[str], flags: Sequence[str]) -> str:
    command = [str(find_tool("intarsia-quantize")), os.fspath(model), "-o", os.fspath(output), *flags]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, pass_fds=tuple(locks)
    )
    if result.returncode != 0:
        message = result.stderr.strip() or f"{command[0]} ended with code {result.returncode}"
        raise CompileError(message.removeprefix("error: "), "invalid argument")
    if result.stderr:  # remarks
        print(result.stderr, end="", file=sys.stderr)
    return result.stdout


def _check_windows(model: Path, windows: np.ndarray) -> None:
    """Refuse token ids that a model does not know, and images that are no numbers."""
    if windows.ndim == 4:
        if not np.isfinite(windows).all():
            raise InvalidArgumentError("the calibration images have NaN or infinity", "invalid argument")
        return
    size = read_json(model / "config.json").get("vocab_size")
    wrong = np.argwhere((windows < 0) | (windows >= size)) if isinstance(size, int) else np.zeros((0, 2), int)
    if len(wrong):
        window, token = wrong[0]
        raise InvalidArgumentError(
            f"token {token} of window {window} of the calibration text has the id {windows[window, token]}, the "
            f"vocabulary of {model} has {size}: was the text encoded by the tokenizer of another model?",
            "invalid argument",
        )


class _Calibration:
    """Runs the segments of a model over a text, one after another, and quantizes each.

    What segments take from earlier ones lies in files of the folder `work`, for each call: ``<segment>/exact.<call>``
    as the model computes it, ``<segment>/quantized.<call>`` as the quantized one does. What a segment gives is in a
    file `found`, if it gives something.
    """

    #: Whose run it is, in the mark of the folder.
    kind = "quantize"
    #: The name of what a segment gives.
    found = "quantized-{:05}.safetensors"

    def __init__(
        self, model: Path, windows: np.ndarray, flags: list[str], work: WorkFolder, progress: Progress
    ) -> None:
        self.model, self.windows, self.flags, self.work, self.progress = model, windows, flags, work, progress
        self.weights = ModelWeights(model)
        self.has_head, formats = _formats_of(flags)
        # Formats of 6 bits and more err as little as runs in 8 bits do, which would hide what they lose.
        self.runs_in = [] if any(name.startswith(("int6", "int8", "fp8")) for name in formats) else RUNS_IN_8_BITS
        self.share = SHARE_OF_CHANGE_IN_TERNARY if any(name.startswith("ternary") for name in formats) else 1.0
        self.warned = False
        #: Tokens of a text, or patches of images: roughly what they are computed as.
        length = windows.shape[1] if windows.ndim == 2 else TOKENS_OF_AN_IMAGE
        at_once = max(1, TOKENS_OF_A_CALL // length)
        self.calls = [windows[first : first + at_once] for first in range(0, len(windows), at_once)]

    def run(self) -> list[Path]:
        """Return the files that segments have given, in their order.

        The state says how many segments are finished, and how many there are: a run that was ended behind the last one
        has none left. It is written with the hashes of what the next segments and the end take.
        """
        digest = self._digest()
        if self.work.begin(self.kind, digest):
            self.progress(f"going on behind {self.work.state.get('segments', 0)} layers")
        segment, count = self.work.state.get("segments", 0), self.work.state.get("of")
        while count is None or segment < count:
            count = self._run_segment(segment)
            if self._digest() != digest:
                raise InvalidArgumentError(
                    f"{self.model}: its files were written to while they were read, so that the result would be of no "
                    "version of the model: try again when nothing writes to it (is a download still at work?)",
                    "invalid argument",
                )
            if segment + 1 < count:
                self.work.keep(*self.work.written(f"{segment + 1}"))
            if (self.work.path / self.found.format(segment)).exists():
                self.work.keep(self.found.format(segment))
            self.work.forget(f"{segment}")
            self.work.state = {"segments": segment + 1, "of": count}
            self.work.save()
            self.work.delete(f"{segment}")
            segment += 1
        names = [self.found.format(number) for number in range(count)]
        return [self.work.path / name for name in names if self.work.is_kept(name)]

    def _run_segment(self, number: int) -> int:
        """Quantize a segment and compute what the next ones take; return the number of segments."""
        segment = _Segment(self._compile(number))
        count = int(segment.function.signature.metadata["segments"])
        self.what = f"layer {number + 1} of {count}" if number + 1 < count else "what follows the layers"
        # The head is taken only if it is asked for: it is large, and often the embedding.
        if not self.has_head:
            segment.linears = [linear for linear in segment.linears if linear != "lm_head"]
        if segment.linears:
            moments = self._moments(number, segment)
            self.progress(f"{self.what}: rounding weights")
            summed = self.work.file("moments.safetensors")
            write_tensors(summed, moments)
            del moments
            names = segment.linears
            glob = names[0] if len(names) == 1 else "{" + ",".join(names) + "}"
            decoded = self.work.file("weights-of-a-layer.safetensors")
            flags = [f"--linears={glob}", f"--decoded={decoded}", f"--second-moments={summed}"]
            _round(self.model, self.work.file(self.found.format(number)), [*self.flags, *flags])
            if number + 1 < count:
                self._add_kept(decoded, segment.linears)
                segment = _Segment(self._compile(number, decoded))
        if number + 1 < count:
            for call, some in self._progressing("the quantized layer"):
                results = segment(some, self._values(number, "quantized", call))
                self._keep(number, segment, "quantized", call, results)
        return count

    def _compile(self, number: int, decoded: Path | None = None) -> Module:
        """Return a segment, with weights of the model or decoded ones. The next call replaces its files."""
        model = self.model
        flags = [f"--segment={number}", *self.runs_in]
        if decoded is not None:
            model = self._model_beside(decoded)
            flags.append(f"--segment-weights={decoded.name}")
        artifact = self.work.artifact("segment.itx")
        _run([os.fspath(model), "-o", str(artifact), *flags], shows_steps=False, shows_remarks=False)
        return load(artifact)

    def _add_kept(self, decoded: Path, linears: Sequence[str]) -> None:
        """Add the weights of linears that stay as they are to a file of decoded ones, which names all of a layer."""
        tensors = read_tensors(decoded)
        keys = [f"{linear}.weight" for linear in linears]
        kept = {key: self.weights.read(key, "f32") for key in keys if key not in tensors}
        if kept:
            write_tensors(decoded, tensors | kept)

    def _model_beside(self, decoded: Path) -> Path:
        """Return a folder that shows the files of the model and one of decoded weights: archives lie below a model."""
        self.work.delete("decoded")
        entries = [entry for entry in self.model.iterdir() if entry.name not in OWN_FILES]  # a rotated model has them
        for entry in [*entries, decoded]:
            self.work.file(f"decoded/{entry.name}").symlink_to(entry.resolve())
        return self.work.path / "decoded"

    def _moments(self, number: int, segment: _Segment) -> dict[str, np.ndarray]:
        """Return the second moments of inputs with layers before quantized, and what weights are to be rounded."""
        sums: dict[str, Moments] = {}
        for call, some in self._progressing("inputs"):
            exact = segment(some, self._values(number, "exact", call))
            self._keep(number, segment, "exact", call, exact)
            inputs = segment.inputs(exact)
            changed = inputs if number == 0 else segment.inputs(segment(some, self._values(number, "quantized", call)))
            for name, rows in changed.items():
                moments = sums.setdefault(name, Moments(name, rows.shape[1]))
                moments.add(rows, inputs[name] if number > 0 else None)
        self._check_length(sums)
        tensors = {}
        for name in list(sums):
            moments = sums.pop(name)
            tensors[f"second_moments.{name}"] = moments.mean()
            if number > 0:
                linears = [linear for linear in segment.readers(name) if f"{linear}.weight" in self.weights.names]
                if not linears:
                    continue
                weights = [self.weights.read(f"{linear}.weight", "f32") for linear in linears]
                for linear, weight, change in zip(linears, weights, moments.change(weights), strict=True):
                    tensors[f"target.{linear}"] = weight + np.float32(self.share) * change
        return tensors

    def _check_length(self, sums: dict[str, Moments]) -> None:
        """Warn once if the text is short for a linear."""
        longest = max(sums.values(), key=lambda moments: moments.features)
        if not self.warned and longest.tokens < TOKENS_OF_A_FEATURE * longest.features:
            self.warned = True
            print(
                f"warning: the input of {longest.name} has {longest.features} features, the text {longest.tokens} "
                f"tokens: fewer than {TOKENS_OF_A_FEATURE} for each may lose more than rounding to nearest",
                file=sys.stderr,
            )

    def _progressing(self, what: str) -> Iterator[tuple[int, np.ndarray]]:
        for call, some in enumerate(self.calls):
            yield call, some
            self.progress(f"{self.what}: {what}, {100 * (call + 1) // len(self.calls)} %")

    def _values(self, segment: int, kind: str, call: int) -> dict[str, np.ndarray]:
        return read_tensors(self.work.path / f"{segment}/{kind}.{call}.safetensors") if segment else {}

    def _keep(self, number: int, segment: _Segment, kind: str, call: int, results: dict[str, np.ndarray]) -> None:
        """Keep what later segments take."""
        values = segment.pass_on(self._values(number, kind, call), results)
        write_tensors(self.work.file(f"{number + 1}/{kind}.{call}.safetensors"), values)

    def _digest(self) -> str:
        """Return a hash of the windows, the formats, the model's settings, and the sizes and times of its weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.windows).tobytes())
        digest.update(repr((self.windows.shape, self.flags)).encode())
        for file in sorted([*self.model.glob("*.json"), *self.model.glob("*.safetensors")]):
            state = file.stat()
            digest.update(f"{file.name}:{state.st_size}:{state.st_mtime_ns};".encode())
        return digest.hexdigest()


class _Segment:
    """One segment of a model."""

    def __init__(self, module: Module) -> None:
        self.module = module  # lives as long as its function
        self.function = _function(module)
        self.linears: list[str] = list(self.function.signature.metadata["linears"])

    def __call__(self, some: np.ndarray, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run windows [count, length] and return the results by name."""
        inputs = self.function.signature.inputs
        given = {**_token_inputs(some, inputs, self.module), **values}
        arguments = {value.name: given[value.name] for value in inputs if not value.state}
        answer = self.function(**arguments, **self._state(*some.shape[:2]))
        names = [value.name for value in self.function.signature.outputs]
        return dict(zip(names, answer if isinstance(answer, tuple) else (answer,), strict=True))

    def pass_on(self, values: dict[str, np.ndarray], results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what later segments take: results of this one, and of earlier values those that are still read."""
        still_read = {name: values[name] for name in self.function.signature.metadata["passed"]}
        return still_read | {name: array for name, array in results.items() if name.startswith("value.")}

    def inputs(self, results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what linears multiply, [rows, features] of f32, by the name of the first linear that does."""
        return {
            linear: np.asarray(results[name], np.float32).reshape(-1, results[name].shape[-1])
            for linear in self.linears
            if (name := f"input.{linear}") in results
        }

    def readers(self, name: str) -> list[str]:
        """Return the linears that multiply one value, whose first one has this name."""
        first = self.linears.index(name)
        heads = {value.name.removeprefix("input.") for value in self.function.signature.outputs}
        last = first + 1
        while last < len(self.linears) and self.linears[last] not in heads:
            last += 1
        return self.linears[first:last]

    def _state(self, count: int, length: int) -> dict[str, np.ndarray]:
        if not any(value.state for value in self.function.signature.inputs):
            return {}
        return make_state(self.function, pages=count * _pages(self.module, length), sequences=count)


def _function(module: Module) -> Function:
    for name in ("step", "main"):
        if name in module.functions:
            return module[name]
    raise InvalidArgumentError(f"{module.path}: has no function 'step' or 'main'", "invalid argument")


def _pages(module: Module, length: int) -> int:
    pages = [entry["page_tokens"] for entry in module.manifest["functions"] if entry.get("page_tokens")]
    return -(-length // pages[0]) if pages else 1


def _token_inputs(some: np.ndarray, inputs: Sequence[TensorType], module: Module) -> dict[str, np.ndarray]:
    """Return what a model is given for windows [count, length] of token ids or for images, by name."""
    names = {value.name for value in inputs}
    if some.ndim == 4:
        images = {"pixel_values": np.asarray(some, np.float32)}
        if other := [name for name in names if name not in images and not name.startswith(("value.", "weight."))]:
            raise InvalidArgumentError(
                f"the calibration images are {list(some.shape[1:])}, the model reads '{other[0]}': give a text",
                "invalid argument",
            )
        return images
    count, length = some.shape
    if any(value.state for value in inputs) or "page_table" in names or "output_tokens" in names:
        pages = _pages(module, length)
        return {
            "input_ids": some.reshape(-1),
            "positions": np.tile(np.arange(length), count),
            "sequences": np.repeat(np.arange(count), length),
            "page_table": np.arange(count * pages).reshape(count, pages),
            "output_tokens": np.arange(some.size),
        }
    known = {
        "input_ids": some,
        "attention_mask": np.ones_like(some),
        "token_type_ids": np.zeros_like(some),
        "position_ids": np.tile(np.arange(length), (count, 1)),
    }
    others = [name for name in names if name not in known and not name.startswith(("value.", "weight."))]
    if others == ["pixel_values"]:
        raise InvalidArgumentError(
            "the calibration text is token ids, the model reads 'pixel_values': give a folder of pictures, or an array "
            "of pixel_values (.npy)",
            "invalid argument",
        )
    if others:
        raise InvalidArgumentError(
            f"{module.path}: has an input '{others[0]}'; models that read token ids, or images (pixel_values, given as "
            "an array of rank 4), can be calibrated",
            "invalid argument",
        )
    return known


def _formats_of(flags: Sequence[str]) -> tuple[bool, list[str]]:
    """Return true if flags of intarsia-quantize ask for the head, and the formats that they name."""
    given = dict(flag.split("=", 1) for flag in flags)
    if "--precision" in given:  # of which the tool takes the head if it is a linear that the file names
        return True, list(read_json(Path(given["--precision"]))["tensors"].values())
    parts = [part.partition("=") for part in given["--quantize-parts"].split(",")]
    return any(name == "lm_head" for name, _, _ in parts), [given["--quantize"], *(form for _, _, form in parts)]


def _first_id(config: dict[str, Any], name: str) -> int | None:
    """Return a token of config.json, which may list several."""
    value = config.get(name)
    value = (value[0] if value else None) if isinstance(value, list) else value
    return None if value is None else whole_number(f"config.json: {name}", value, 0)
