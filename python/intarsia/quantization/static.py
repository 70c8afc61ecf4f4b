# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Find scales of the inputs of linears on a text, and move ranges of features into weights (SmoothQuant)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.errors import InvalidArgumentError
from ..support.work import WorkFolder, work_folder
from .input_choice import check_directories, check_finite, check_found, digest_of, write_choice
from .quantize import Progress, _Calibration, _Segment
from .segments import split_calls

#: Largest integer that inputs and weights are rounded to.
LARGEST = 127
#: Weights that are multiplied by such inputs.
FORMAT = "int8-channel"
#: How much of a feature's range is moved to the weights (alpha of arXiv 2211.10438, equation 4), 0 is none and 1 all.
STRENGTHS = (0.0, *np.linspace(0.4, 1, 13).tolist())
#: Rows of each input that strengths are compared on.
SAMPLED_ROWS = 512


@dataclass
class StaticInput:
    """The input of some linears.

    Attributes
    ----------
    weights : list of str
        The keys of the matrices that it is multiplied by.
    factors : array of f32 [features]
        What features are divided by before they are rounded, and the columns of weights are multiplied by.
    strength : float
        How much of the range of features the weights have taken over.
    loss : float
        Squared error of the outputs on the sampled rows, relative to their squares.
    """

    weights: list[str]
    factors: np.ndarray
    strength: float
    loss: float


def factors_of(largest: np.ndarray, weight: np.ndarray, strength: float) -> np.ndarray:
    """Return factors [features] of f32 that bring the input with these largest magnitudes to -127 … 127.

    `weight` [outputs, features] are the matrices that the input is multiplied by. Features that are zero on the text
    count as the millionth part of the largest one, so that their factors are finite.
    """
    of_input = np.maximum(largest.astype(np.float64), largest.max(initial=0) * 1e-6 or 1.0)
    of_weight = np.abs(weight).max(0).astype(np.float64)
    of_weight = np.maximum(of_weight, of_weight.max(initial=0) * 1e-6 or 1.0)
    smooth = of_input**strength / of_weight ** (1 - strength) if strength else np.ones_like(of_input)
    return (smooth * ((of_input / smooth).max() / LARGEST)).astype(np.float32)


def rounded_input(rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return rows [tokens, features] as integers, as kernels compute them."""
    return np.clip(np.rint(rows * (np.float32(1) / factors)), -LARGEST, LARGEST)


def by_position(weight: np.ndarray) -> np.ndarray:
    """Return a weight [outputs, features, window…] as [outputs, positions of the window, features].

    That of a linear has one position. What each position adds to an output is compared apart.
    """
    return np.moveaxis(weight.reshape(*weight.shape[:2], -1), 1, 2)


def rounded_weight(weight: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return what stands for a weight [outputs, …, features] where inputs are integers."""
    scaled = weight * factors
    scales = np.abs(scaled).max(tuple(range(1, scaled.ndim)), keepdims=True) / np.float32(LARGEST)
    return np.rint(np.divide(scaled, scales, out=np.zeros_like(scaled), where=scales > 0)) * scales


def choose_factors(keys: list[str], largest: np.ndarray, rows: np.ndarray, weights: list[np.ndarray]) -> StaticInput:
    """Return the factors of an input that lose least on some rows [tokens, features].

    Each of the `weights` is [outputs, …, features].
    """
    features = rows.shape[-1]

    def matrix(parts: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([part.reshape(-1, features) for part in parts])

    weight = matrix(weights)
    exact = rows @ weight.T
    energy = float(np.square(exact, dtype=np.float64).sum()) or 1.0

    def tried(strength: float) -> StaticInput:
        factors = factors_of(largest, weight, strength)
        outputs = rounded_input(rows, factors) @ matrix(rounded_weight(part, factors) for part in weights).T
        loss = float(np.square(outputs - exact, dtype=np.float64).sum()) / energy
        return StaticInput(keys, factors, strength, loss)

    return min((tried(strength) for strength in STRENGTHS), key=lambda one: one.loss)


class _Inputs(_Calibration):
    """Runs the segments of a model over a text, and finds the factors of each input.

    What is found of a segment lies in ``inputs-<segment>.json`` of the folder `work`.
    """

    kind = "static"
    found = "inputs-{:05}.json"

    def __init__(self, model: Path, windows: np.ndarray, work: WorkFolder, progress: Progress) -> None:
        super().__init__(
            model, windows, [f"--quantize={FORMAT}", "--quantize-parts=linears", "static=1"], work, progress
        )
        self.runs_in = []  # inputs are those of the model as it is
        if windows.ndim == 4:  # what each convolution of a model reads is kept of a call
            self.calls = split_calls(windows, 0)

    def find(self) -> list[StaticInput]:
        """Return the inputs of all linears whose weights a model holds as floats, in the order of layers."""
        return [
            StaticInput(one["weights"], np.array(one["factors"], np.float32), one["strength"], one["loss"])
            for file in self.run()
            for one in json.loads(file.read_text())
        ]

    def _run_segment(self, number: int) -> int:
        segment = _Segment(self._compile(number))
        count = int(segment.function.signature.metadata["segments"])
        self.what = f"layer {number + 1} of {count}" if number + 1 < count else "what follows the layers"
        # Convolutions are among products, the channels of a position are a row.
        products = segment.function.signature.metadata.get("products", segment.linears)
        segment.linears = [linear for linear in products if linear != "lm_head"]
        ranges: dict[str, _Range] = {}
        for call, some in self._progressing("inputs"):
            exact = segment(some, self._values(number, "exact", call))
            self._keep(number, segment, "exact", call, exact)
            for name, rows in segment.inputs(exact).items():
                ranges.setdefault(name, _Range(name, -(-SAMPLED_ROWS // len(self.calls)))).add(rows)
        found = []
        for name, one in ranges.items():
            keys = [f"{linear}.weight" for linear in segment.readers(name)]
            if all(key in self.weights.names for key in keys):
                self.progress(f"{self.what}: factors of {name}")
                weights = [by_position(self.weights.read(key, "f32")) for key in keys]
                best = choose_factors(keys, one.checked(), np.concatenate(one.rows), weights)
                found.append(vars(best) | {"factors": best.factors.tolist()})
        self.work.file(self.found.format(number)).write_text(json.dumps(found))
        return count


class _Range:
    """The largest magnitudes of the features of an input, and some of its rows."""

    def __init__(self, name: str, rows_of_a_call: int) -> None:
        self.name, self.rows_of_a_call = name, rows_of_a_call
        self.largest = np.zeros(0, np.float32)
        self.rows: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Add tokens, [tokens, features] of f32."""
        largest = np.abs(rows).max(0)
        self.largest = np.maximum(self.largest, largest) if self.rows else largest
        self.rows.append(rows[:: max(1, len(rows) // self.rows_of_a_call)][: self.rows_of_a_call].copy())

    def checked(self) -> np.ndarray:
        """Return the largest magnitudes; refuse features that were not finite."""
        check_finite(self.name, self.largest)
        return self.largest


def find_inputs(model: Path, windows: np.ndarray, work: WorkFolder, progress: Progress) -> list[StaticInput]:
    """Return the inputs of a model's linears and convolutions, with the factors that lose least on some text or images.

    Parameters
    ----------
    model : path
        A Hugging Face directory.
    windows : array
        Token ids or images, as `quantize_static` takes them.
    work : WorkFolder
        What is between layers; a run that was ended goes on from the last layer that is there.
    progress : callable
        Gets a text now and then.
    """
    return _Inputs(model, windows, work, progress).find()


def quantize_static(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    windows: np.ndarray | None = None,
    *,
    work: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> str:
    """Find scales of the inputs of a model's linears, and write a model directory with them.

    Features of an input are divided by factors, and columns of weights multiplied by them, so that both can be rounded
    to integers of 8 bits with few scales (SmoothQuant: arXiv 2211.10438); the scale of the input is in its factors. How
    much of a feature's range weights take over is what loses least on some of the rows. The directory has the weights
    as they are; `compile` multiplies and rounds them.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    windows : array of int64 [count, length]
        Calibration text as token ids, or images, as `quantize` takes them.
    work : path, optional
        A folder for what is between layers, apart from `model` and `output`; by default ``<output>.work``. What is
        written there is removed at the end; a run that was ended goes on from the last layer that is there.
    progress : callable
        Gets a text now and then.

    Returns
    -------
    str
        A table: for each input how much of its range weights took over, and what is lost.

    Raises
    ------
    InvalidArgumentError
        There is no text, a feature is not finite on it, or the model has no linear that can be quantized so.
    """
    model, output = Path(model), Path(output)
    windows = None if windows is None else np.asarray(windows)
    check_directories(model, output, windows, "--quantize-activations=8-static", "finds ranges of inputs")
    with work_folder(work, model, output) as folder:
        digest = digest_of(model, FORMAT)
        inputs = find_inputs(model, windows, folder, progress)
        check_found(model, inputs)
        progress("writing the model")
        entries = [{"weights": one.weights, "factors": one.factors.tolist()} for one in inputs]
        formats = {key: FORMAT for one in inputs for key in one.weights}
        write_choice(model, output, windows, digest, formats, {"static_inputs": entries})
        folder.remove()
    return _table(inputs)


def check_format(format: str) -> None:
    """Refuse formats of weights that such inputs are not multiplied by."""
    if format not in ("int8", FORMAT):
        raise InvalidArgumentError(
            f"--quantize-activations=8-static multiplies weights in {FORMAT}, not in {format}: give --quantize=int8",
            "invalid argument",
        )


def _table(inputs: Sequence[StaticInput]) -> str:
    width = max(len(one.weights[0]) for one in inputs)
    lines = [f"{'input of':{width}}  range in weights  lost"]
    for one in inputs:
        lines.append(f"{one.weights[0]:{width}}  {100 * one.strength:14.0f} %  {100 * one.loss:.3f} %")
    lines.append(
        f"{len(inputs)} inputs have scales of the text; lost is the squared error of the outputs, relative to them"
    )
    return "\n".join(lines) + "\n"
