# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The segments of a model, run one after another with some weights replaced."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..runtime.compile import _run
from ..runtime.module import Module, load
from ..support.work import WorkFolder
from .quantize import RUNS_IN_8_BITS, Progress, _Segment
from .safetensors import ModelWeights

Values = dict[str, np.ndarray]

#: Images of one call: values between layers are large.
IMAGES_OF_A_CALL = 4
#: Bytes of weights in f32 up to which all segments stay in memory; those of larger models are read for each run.
RESIDENT_BYTES = 1 << 30


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Leave out remarks on the model, which the first run of a tool has printed."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


class _Weighted(_Segment):
    """A segment whose weights are arguments, in `weights` by the names of these."""

    def __init__(self, module: Module, weights: ModelWeights) -> None:
        super().__init__(module)
        self.weights = {
            value.name: weights.read(value.name.removeprefix("weight."), value.dtype)
            for value in self.function.signature.inputs
            if value.name.startswith("weight.")
        }

    def __call__(self, some: np.ndarray, values: Values) -> Values:
        return super().__call__(some, self.weights | values)


class Segments:
    """The segments of a model, compiled into a folder.

    Parameters
    ----------
    model : path
        A Hugging Face directory.
    work : WorkFolder
        Where artifacts are kept; those that are there already are not compiled again.
    """

    def __init__(self, model: Path, work: WorkFolder, progress: Progress = lambda text: None) -> None:
        self.model, self.work = model, work
        self.weights = ModelWeights(model)
        self.modules = [load(self._compile(0))]
        first = _Weighted(self.modules[0], self.weights)
        for number in range(1, int(first.function.signature.metadata["segments"])):
            progress(f"compiling layer {number + 1}")
            self.modules.append(load(self._compile(number)))
        work.save()
        self._segments: dict[int, _Weighted] = {}
        self.keys = [_keys(self.segment(number)) for number in range(len(self.modules))]
        self.is_resident = sum(_bytes(segment) for segment in self._segments.values()) <= RESIDENT_BYTES
        if not self.is_resident:
            self._segments.clear()

    def __len__(self) -> int:
        return len(self.modules)

    def segment(self, number: int) -> _Weighted:
        """Return a segment with its weights."""
        if number in self._segments:
            return self._segments[number]
        segment = _Weighted(self.modules[number], self.weights)
        if getattr(self, "is_resident", True):
            self._segments[number] = segment
        return segment

    def release(self) -> None:
        """Give back the memory of weights; the next use of a segment reads them again."""
        self._segments.clear()

    def with_caches(self, number: int, formats: str) -> _Weighted:
        """Return a segment whose caches have other formats, as ``--kv`` names them."""
        artifact = self._compile(number, f"--kv={formats}", name="caches")
        return _Weighted(load(artifact), self.weights)

    def with_product(self, number: int, precision: Path) -> _Weighted:
        """Return a segment in which the convolutions or linears that a file of precision names are in 8 bits.

        The file has the scales of their inputs, so that the segment computes what the quantized model will.
        """
        # Attention in 8 bits is no part of what a linear loses.
        artifact = self._compile(number, f"--precision={precision}", "--quantize-attention=16", name="product")
        return _Weighted(load(artifact), self.weights)

    def in_8_bits(self, number: int) -> _Segment:
        """Return a segment that holds its weights, in 8 bits, with inputs of linears in 8 bits.

        The next call replaces its files.
        """
        artifact = self.work.artifact("segments/in-8-bits.itx")
        with quietly():
            _run(
                [os.fspath(self.model), "-o", str(artifact), f"--segment={number}", *RUNS_IN_8_BITS], shows_steps=False
            )
        return _Segment(load(artifact))

    def run(
        self,
        first: int,
        some: np.ndarray,
        values: Values,
        changed: Mapping[str, np.ndarray] | None = None,
        *,
        end: int | None = None,
        replaced: _Weighted | None = None,
    ) -> tuple[list[Values], Values]:
        """Run segments from `first` on, and return what each passes on and the model's results.

        Parameters
        ----------
        first, end : int
            The first segment, and the one before which to stop.
        some : array of int64 [count, length]
            Token ids.
        values : dict
            What earlier segments pass on.
        changed : mapping
            Weights by their keys, in place of the model's.
        replaced : segment
            Taken in place of the first one.
        """
        passed, results = [], {}
        values = dict(values)
        for number in range(first, len(self) if end is None else end):
            segment = replaced if replaced is not None and number == first else self.segment(number)
            own = segment.weights
            try:
                # Tables are read in the model's own type; what bfloat16 takes off is small beside 8 bits or fewer.
                segment.weights = own | {
                    f"weight.{key}": array.astype(own[f"weight.{key}"].dtype, copy=False)
                    for key, array in (changed or {}).items()
                    if f"weight.{key}" in own
                }
                made = segment(some, values)
            finally:
                segment.weights = own
            states = {value.name for value in segment.function.signature.inputs if value.state}
            passed.append({name: array for name, array in made.items() if name.startswith("value.")})
            values = segment.pass_on(values, made)
            results |= {
                name: array
                for name, array in made.items()
                if not name.startswith(("value.", "input.")) and name not in states
            }
        return passed, results

    def pass_on(self, number: int, values: Values, made: Values) -> Values:
        """Return what segments behind one take of what it makes and of earlier values."""
        return _Segment(self.modules[number]).pass_on(values, made)

    def first_reader(self, key: str) -> int:
        """Return the first segment that reads a weight."""
        return next(number for number, keys in enumerate(self.keys) if key in keys)

    def caches(self, number: int) -> list[str]:
        """Return the names of the caches of a segment, those of their elements."""
        inputs = self.segment(number).function.signature.inputs
        return [value.name for value in inputs if value.state and value.name.endswith((".keys", ".values"))]

    def cache_features(self, number: int, name: str) -> int:
        """Return the elements that a token has in a cache."""
        inputs = self.segment(number).function.signature.inputs
        shape = next(value.shape for value in inputs if value.name == name)
        return int(np.prod([size for size in shape[1:] if isinstance(size, int) and size > 0]))

    def cache_heads(self, number: int, name: str) -> int:
        """Return the heads of a cache."""
        inputs = self.segment(number).function.signature.inputs
        return int(next(value.shape for value in inputs if value.name == name)[1])

    def _compile(self, number: int, *flags: str, name: str | None = None) -> Path:
        file = f"segments/{name or 'segment'}-{number}.itx"
        if self.work.is_kept(file):
            return self.work.path / file
        artifact = self.work.artifact(file)
        given = [f"--segment={number}", "--segment-arguments", *flags]
        with quietly() if number or name else contextlib.nullcontext():
            _run([os.fspath(self.model), "-o", str(artifact), *given], shows_steps=False)
        if name is None:
            self.work.keep(file)
        return artifact


def _keys(segment: _Weighted) -> list[str]:
    return [name.removeprefix("weight.") for name in segment.weights]


def _bytes(segment: _Weighted) -> int:
    return sum(array.nbytes for array in segment.weights.values())


def split_calls(windows: np.ndarray, tokens: int) -> Sequence[np.ndarray]:
    """Return windows [count, length] as calls of about so many tokens; images as calls of a few."""
    if windows.ndim == 4:
        return [windows[first : first + IMAGES_OF_A_CALL] for first in range(0, len(windows), IMAGES_OF_A_CALL)]
    at_once = max(1, tokens // windows.shape[1])
    return [windows[first : first + at_once] for first in range(0, len(windows), at_once)]
