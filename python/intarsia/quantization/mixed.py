# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choose which features of the inputs of linears have 8 bits and which have 4 (FMPQ: COMET, arXiv 2410.12168)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.errors import InvalidArgumentError
from ..support.work import WorkFolder, work_folder
from .input_choice import check_directories, check_finite, check_found, digest_of, write_choice
from .quantize import Progress, _Calibration, _Segment

#: Features of a block (dialects/Nn/MixedBlocks.h).
BLOCK = 128
#: What the largest magnitude of a block of 4 bits becomes.
LARGEST = 7
#: The default share of blocks with 4 bits: most of them, as FMPQ means it. What a model loses by it is to be measured.
NARROW = 0.85


@dataclass
class MixedInput:
    """The input of some linears.

    Attributes
    ----------
    weights : list of str
        The keys of the matrices that it is multiplied by.
    channels : array of int [features]
        The order in which features are cut into blocks.
    losses : array of f64 [blocks]
        For each block what 4 bits add to the squared error of the outputs, relative to the outputs' squares.
    wide_blocks : int
        The first so many blocks have 8 bits.
    """

    weights: list[str]
    channels: np.ndarray
    losses: np.ndarray
    wide_blocks: int = 0

    def ranked(self) -> np.ndarray:
        """Return losses in the order in which blocks get 8 bits; a shorter block at the end is the last to get them."""
        whole = self.channels.size // BLOCK
        return np.minimum.accumulate(np.concatenate([np.sort(self.losses[:whole])[::-1], self.losses[whole:]]))

    def widen(self, count: int) -> None:
        """Give 8 bits to the `count` blocks that lose most, and bring them to the front."""
        whole = self.channels.size // BLOCK
        ranks = np.argsort(-self.losses[:whole], kind="stable")
        order = np.concatenate([np.sort(ranks[:count]), np.sort(ranks[count:])])
        blocks = self.channels[: whole * BLOCK].reshape(whole, BLOCK)[order]
        self.channels = np.concatenate([blocks.reshape(-1), self.channels[whole * BLOCK :]])
        self.losses = np.concatenate([self.losses[:whole][order], self.losses[whole:]])
        self.wide_blocks = count


def _narrow_count(blocks: int, narrow: float) -> int:
    """Return how many of so many blocks are the share of `narrow`, or a part of a block more."""
    return int(np.ceil(narrow * blocks - 1e-9))


def better_order(orders: Sequence[MixedInput], narrow: float) -> MixedInput:
    """Return the first order of features that loses least if the share of `narrow` of its blocks has 4 bits."""

    def lost(one: MixedInput) -> float:
        return float(one.ranked()[one.losses.size - _narrow_count(one.losses.size, narrow) :].sum())

    return min(orders, key=lost)


def choose_wide_blocks(inputs: Sequence[MixedInput], narrow: float) -> None:
    """Give 8 bits to the blocks that lose most in 4, which a share of `narrow` keeps, or a part of a block more."""
    ranked = sorted(
        (-float(loss), number, block) for number, one in enumerate(inputs) for block, loss in enumerate(one.ranked())
    )
    counts = [0] * len(inputs)
    for _, number, _ in ranked[: len(ranked) - _narrow_count(len(ranked), narrow)]:
        counts[number] += 1
    for one, count in zip(inputs, counts, strict=True):
        one.widen(count)


class _Inputs(_Calibration):
    """Runs the segments of a model over a text, and finds orders of the features of each input, and what blocks lose.

    What is found of a segment lies in ``inputs-<segment>.json`` of the folder `work`.
    """

    kind = "mixed"
    found = "inputs-{:05}.json"

    def __init__(self, model: Path, windows: np.ndarray, work: WorkFolder, progress: Progress) -> None:
        super().__init__(model, windows, ["--quantize=int4", "--quantize-parts=linears", "fmpq=1"], work, progress)
        self.runs_in = []  # inputs are those of the model as it is

    def find(self, narrow: float) -> list[MixedInput]:
        """Return the inputs of all linears whose weights a model holds as floats, in the order of layers."""
        found = []
        for file in self.run():
            for entry in json.loads(file.read_text()):
                orders = [
                    MixedInput(entry["weights"], np.array(order["channels"]), np.array(order["losses"]))
                    for order in entry["orders"]
                ]
                found.append(better_order(orders, narrow))
        return found

    def _run_segment(self, number: int) -> int:
        segment = _Segment(self._compile(number))
        count = int(segment.function.signature.metadata["segments"])
        self.what = f"layer {number + 1} of {count}" if number + 1 < count else "what follows the layers"
        segment.linears = [linear for linear in segment.linears if linear != "lm_head"]
        sums: dict[str, _Ranges] = {}
        for call, some in self._progressing("inputs"):
            exact = segment(some, self._values(number, "exact", call))
            self._keep(number, segment, "exact", call, exact)
            for name, rows in segment.inputs(exact).items():
                sums.setdefault(name, _Ranges(name, rows.shape[1])).add(rows)
        blocks: dict[str, list[_Blocks]] = {}
        for name, ranges in sums.items():
            keys = [f"{linear}.weight" for linear in segment.readers(name)]
            if all(key in self.weights.names for key in keys):
                squares = sum(np.square(self.weights.read(key, "f32"), dtype=np.float64).sum(0) for key in keys)
                orders = [np.arange(squares.size), ranges.order()]
                blocks[name] = [_Blocks(keys, order, squares) for order in orders]
        for call, some in self._progressing("blocks") if blocks else ():
            inputs = segment.inputs(segment(some, self._values(number, "exact", call)))
            for name, orders in blocks.items():
                for one in orders:
                    one.add(inputs[name])
        found = [
            {
                "weights": orders[0].keys,
                "orders": [{"channels": one.order.tolist(), "losses": one.losses().tolist()} for one in orders],
            }
            for orders in blocks.values()
        ]
        self.work.file(self.found.format(number)).write_text(json.dumps(found))
        return count


class _Ranges:
    """Sums of squares of the features of an input over tokens."""

    def __init__(self, name: str, features: int) -> None:
        self.name = name
        self.squares = np.zeros(features)

    def add(self, rows: np.ndarray) -> None:
        with np.errstate(invalid="ignore", over="ignore"):  # order() says where
            self.squares += np.square(rows, dtype=np.float64).sum(0)

    def order(self) -> np.ndarray:
        """Return the features, the largest first.

        Raises
        ------
        InvalidArgumentError
            A feature was not finite.
        """
        check_finite(self.name, self.squares)
        return np.argsort(-self.squares, kind="stable")


class _Blocks:
    """Errors of the blocks of an input in 4 bits over tokens, as far as they reach outputs."""

    def __init__(self, keys: list[str], order: np.ndarray, squares: np.ndarray) -> None:
        """Take the order of features and for each the sum of squares of the weights that multiply it."""
        self.keys, self.order, self.weights = keys, order, squares[order]
        self.errors = np.zeros(-(-order.size // BLOCK))
        self.energy = 0.0

    def add(self, rows: np.ndarray) -> None:
        """Add tokens, [tokens, features] of f32."""
        rows = rows[:, self.order]
        self.energy += float(np.square(rows, dtype=np.float64).sum(0) @ self.weights)
        for number in range(self.errors.size):
            part = slice(number * BLOCK, (number + 1) * BLOCK)
            block = rows[:, part]
            error = np.square(block - narrowed(block), dtype=np.float64).sum(0)
            self.errors[number] += float(error @ self.weights[part])

    def losses(self) -> np.ndarray:
        """Return errors of outputs relative to their squares, as if features were independent of each other."""
        return self.errors / self.energy if self.energy > 0 else np.zeros_like(self.errors)


def narrowed(block: np.ndarray) -> np.ndarray:
    """Return rows [tokens, features] rounded to -7 to 7 times a scale for each."""
    scales = np.abs(block).max(1, keepdims=True) / np.float32(LARGEST)
    return np.rint(np.divide(block, scales, out=np.zeros_like(block), where=scales > 0)) * scales


def quantize_mixed(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    format: str = "int4",
    windows: np.ndarray | None = None,
    *,
    narrow: float = NARROW,
    work: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> str:
    """Choose blocks of 8 and of 4 bits for inputs of a model's linears, and write a model directory with the choice.

    The features of each input are cut into blocks of 128: sorted by their root mean square on the text, so that
    outliers lie together, or in the order of the model where that loses less. Of all blocks of the model those that
    lose most in 4 bits get 8. The directory has the weights as they are; `compile` rounds them to the format, in the
    order of the features.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    format : str
        What the weights of linears become: integers, ``"mxfp4"`` or ``"nvfp4"``.
    windows : array of int64 [count, length]
        Calibration text as token ids, or images, as `quantize` takes them.
    narrow : float
        The share of blocks with 4 bits, 0 to 1.
    work : path, optional
        A folder for what is between layers, apart from `model` and `output`; by default ``<output>.work``. What is
        written there is removed at the end; a run that was ended goes on from the last layer that is there.
    progress : callable
        Gets a text now and then.

    Returns
    -------
    str
        A table: blocks of each input, and how many have 4 bits.

    Raises
    ------
    InvalidArgumentError
        There is no text, the share is out of range, or the model has no linear that can be quantized so.
    """
    model, output = Path(model), Path(output)
    if not 0 <= narrow <= 1:
        raise InvalidArgumentError(
            f"the share of blocks with 4 bits is {narrow:g}, it lies between 0 and 1: --narrow-blocks=85%",
            "invalid argument",
        )
    windows = None if windows is None else np.asarray(windows)
    check_directories(model, output, windows, "--quantize-activations=fmpq", "finds outliers of inputs")
    with work_folder(work, model, output) as folder:
        digest = _check_format(model, format)
        inputs = _Inputs(model, windows, folder, progress).find(narrow)
        check_found(model, inputs)
        choose_wide_blocks(inputs, narrow)
        progress("writing the model")
        entries = [
            {"weights": one.weights, "channels": one.channels.tolist(), "wide_blocks": one.wide_blocks}
            for one in inputs
        ]
        formats = {key: format for one in inputs for key in one.weights}
        write_choice(model, output, windows, digest, formats, {"inputs": entries})
        folder.remove()
    return _table(inputs)


def _check_format(model: Path, format: str) -> str:
    """Refuse a format without integers, and return the hash that intarsia-precision.json has of a model's weights."""
    if format in ("auto", "none", "fp8"):
        raise InvalidArgumentError(
            f"--quantize-activations=fmpq multiplies integers by weights, which {format} does not give: int4, int8, "
            "mxfp4 and nvfp4 do, among others",
            "invalid argument",
        )
    return digest_of(model, format)


def _table(inputs: Sequence[MixedInput]) -> str:
    width = max(len(one.weights[0]) for one in inputs)
    lines = [f"{'input of':{width}}  blocks  in 4 bits  lost by them"]
    for one in inputs:
        narrow = one.losses.size - one.wide_blocks
        lost = one.losses[one.wide_blocks :].sum()
        lines.append(f"{one.weights[0]:{width}}  {one.losses.size:6}  {narrow:9}  {100 * lost:10.3f} %")
    blocks = sum(one.losses.size for one in inputs)
    narrow = blocks - sum(one.wide_blocks for one in inputs)
    lines.append(f"{100 * narrow / blocks:.1f} % of {blocks} blocks of {BLOCK} features have 4 bits, the others 8")
    return "\n".join(lines) + "\n"
