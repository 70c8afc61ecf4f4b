# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a model loses on a text when one of its tensors or caches has another format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..support.work import WorkFolder
from .moments import Moments
from .quantize import TOKENS_OF_A_CALL, Progress, _round
from .safetensors import _header, read_tensors, write_tensors
from .segments import Segments, Values, quietly, split_calls

#: Elements of logits that one call may give: 256 MB in f32.
LOGITS_OF_A_CALL = 1 << 26
#: Tokens of the calibration text that second moments are summed over where losses are estimated.
TOKENS_OF_AN_ESTIMATE = 16384


def kl_divergence(exact: np.ndarray, logits: np.ndarray) -> float:
    """Return the sum over rows of the Kullback-Leibler divergence, in nats, of softmax(logits) from a distribution.

    Parameters
    ----------
    exact : array [rows, vocabulary]
        Logarithms of the probabilities of the model as it is.
    logits : array [rows, vocabulary]
        What the changed model computes.
    """
    total = 0.0
    for first in range(0, len(exact), 512):  # rows whose temporaries stay small
        p = exact[first : first + 512]
        d = p - log_softmax(logits[first : first + 512])
        # The sum of p (d + exp(-d) - 1) is that of p d, because both are distributions, and no term is negative: it is
        # exact where the sum of p d has nothing but rounding errors.
        total += float(np.sum(np.exp(p) * (d + np.expm1(-d)), dtype=np.float64))
    return total


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the logarithms of the probabilities of each row."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True, dtype=np.float64)).astype(np.float32)


def cosine_error(exact: np.ndarray, other: np.ndarray) -> float:
    """Return the sum over rows of 1 - the cosine between two rows of features."""
    left = np.asarray(exact, np.float64).reshape(-1, exact.shape[-1])
    right = np.asarray(other, np.float64).reshape(left.shape)
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return float((1 - (left * right).sum(-1) / np.maximum(lengths, 1e-300)).sum())


def class_rows(logits: np.ndarray) -> np.ndarray:
    """Return logits as [rows, classes]; those of the pixels of images are [images, classes, height, width]."""
    return np.moveaxis(logits, 1, -1).reshape(-1, logits.shape[1]) if logits.ndim == 4 else logits


def may_be_chosen(cache: str, form: str) -> bool:
    """Return false for quantized keys: beside queries and values in other formats their code is not compiled yet."""
    return not cache.endswith(".keys") or form not in ("int8", "int4")


class Losses:
    """Measures losses, and keeps them in the state of a folder as they come.

    Parameters
    ----------
    segments : Segments
        The model.
    calibration, measured : arrays of int64 [count, length]
        The text that weights are rounded with, and the one that losses are measured on; or images.
    work : WorkFolder
        Its state has what is measured already.
    """

    def __init__(
        self,
        segments: Segments,
        model_hash: str,
        calibration: np.ndarray,
        measured: np.ndarray,
        work: WorkFolder,
        progress: Progress = lambda text: None,
    ) -> None:
        self.segments, self.hash, self.work, self.progress = segments, model_hash, work, progress
        self.calibration = split_calls(calibration, TOKENS_OF_A_CALL)
        self.calls = split_calls(measured, self._tokens_of_a_call(measured))
        self.has_images = measured.ndim == 4
        self.tensors: dict[str, dict[str, dict[str, float]]] = work.state.setdefault("tensors", {})
        self.caches: dict[str, dict[str, float]] = work.state.setdefault("caches", {})
        self.errors: dict[tuple[str, str], float] = {}  # of outputs of linears, by key and format

    def measure_exact(self) -> None:
        """Run the measured text through the model as it is, and keep what segments pass on and the results."""
        for call, some in enumerate(self.calls):
            if self.work.is_kept(_exact(len(self.segments), call)):
                continue
            values: Values = {}
            for number in range(len(self.segments)):
                passed, results = self.segments.run(number, some, values, end=number + 1)
                values = self.segments.pass_on(number, values, passed[0])
                self._add_results(call, results, is_new=number == 0)
                write_tensors(self.work.file(_exact(number + 1, call)), values)
                self.work.keep(_exact(number + 1, call))
            self.work.keep(_results(call))
            self.work.save()
            self.progress(f"the model as it is: {100 * (call + 1) // len(self.calls)} %")

    def measure(
        self,
        tensors: Mapping[str, Mapping[str, bool]],
        names: Mapping[str, str],
        *,
        by_layer: bool = False,
        caches: Sequence[str] = (),
    ) -> None:
        """Measure every tensor in every format.

        Parameters
        ----------
        tensors : mapping
            Formats by the tensor's key, with true where weights are rounded with second moments.
        names : mapping
            Names of linears by the keys of their weights.
        by_layer : bool
            Measure each tensor in one format, and what its layer then passes on; of each layer one tensor to the end.
            Losses of the other formats are estimated: they are to each other as the mean squares of the errors of the
            tensor's own outputs.
        caches : sequence of str
            Formats of caches to measure.
        """
        every = max(1, sum(call.size for call in self.calibration) // TOKENS_OF_AN_ESTIMATE) if by_layer else 1
        self.sampled = self.calibration[::every]
        count = len(self.segments)
        if all(self._is_measured(key, forms) for key, forms in tensors.items()):
            count = 0 if not caches else count
        for number in range(count):
            what = f"layer {number + 1} of {count}" if number + 1 < count else "what follows the layers"
            own = [key for key in tensors if self.segments.first_reader(key) == number]
            rounded = [key for key in own if any(tensors[key].values())]
            missing = [key for key in own if not self._is_measured(key, tensors[key])]
            moments = self.work.file("moments.safetensors")
            if not all(self._is_measured(key, forms) for key, forms in tensors.items()):
                self._pass_calibration(number, moments if rounded and missing else None, what)
            if missing and by_layer:
                errors = self._output_errors(missing, tensors, names, moments, what)
                largest = {key: max(forms, key=forms.__getitem__) for key, forms in errors.items()}
                measured = {
                    key: {form: r for form, r in tensors[key].items() if not r or form == largest[key]}
                    for key in missing
                }
                files = self._round(missing, measured, names, moments, what)
                self._measure_tensors(number, missing, measured, files, by_layer, what)
                self._scale_layer(number, missing, measured, files)
                self._estimate(errors, largest)
            elif missing:
                files = self._round(missing, tensors, names, moments, what)
                self._measure_tensors(number, missing, tensors, files, by_layer, what)
            for cache in self.segments.caches(number) if caches else ():
                self._measure_cache(number, cache, caches, what)
        self._forget("calibration")

    def measure_product(self, number: int, key: str, form: str, precision: Path) -> None:
        """Measure a segment that has a convolution or a linear in a format, as a file of precision says it."""
        if self._is_measured(key, [form]):
            return
        segment = self.segments.with_product(number, precision)
        self.tensors.setdefault(key, {})[form] = self._measure_change(number, {}, whole=True, replaced=segment)
        self.work.save()

    @property
    def are_of_logits(self) -> bool:
        """True if losses are KL divergences of what measure_exact() has kept."""
        return "logits" in self.exact(0)

    def exact(self, call: int) -> Values:
        """Return the results of the model as it is; of logits the logarithms of the probabilities, [rows, classes]."""
        return read_tensors(self.work.path / _results(call))

    def _is_measured(self, key: str, forms: Iterable[str]) -> bool:
        return all("loss" in self.tensors.get(key, {}).get(form, {}) for form in forms)

    def loss_of_results(self, results: Iterable[Values]) -> float:
        """Return the mean loss of what another program computes, by call, over rows of logits or of outputs."""
        total, rows = 0.0, 0
        for call, made in enumerate(results):
            loss, count = self._loss(call, made)
            total, rows = total + loss, rows + count
        return total / rows

    # -- One segment ---------------------------------------------------------------------------------------------------

    def _pass_calibration(self, number: int, moments: Path | None, what: str) -> None:
        """Run the calibration text through a segment; write the second moments of what its linears multiply."""
        following = [_calibrated(number + 1, call) for call in range(len(self.sampled))]
        if moments is None and all(self.work.is_kept(name) for name in following):
            return
        sums: dict[str, Moments] = {}
        segment = self.segments.in_8_bits(number)
        for call, some in enumerate(self.sampled):
            values = read_tensors(self.work.path / _calibrated(number, call)) if number else {}
            made = segment(some, values)
            for name, rows in segment.inputs(made).items() if moments else ():
                sums.setdefault(name, Moments(name, rows.shape[1])).add(rows)
            passed = {name: array for name, array in made.items() if name.startswith("value.")}
            write_tensors(self.work.file(following[call]), values | passed)
            self.progress(f"{what}: inputs, {100 * (call + 1) // len(self.sampled)} %")
        if moments:
            write_tensors(moments, {f"second_moments.{name}": total.mean() for name, total in sums.items()})
        self.work.keep(*following)
        self.work.save()
        if number:
            self._forget(f"calibration/{number - 1}")

    def _output_errors(
        self,
        keys: Sequence[str],
        tensors: Mapping[str, Mapping[str, bool]],
        names: Mapping[str, str],
        moments: Path,
        what: str,
    ) -> dict[str, dict[str, float]]:
        """Return how far the outputs of a segment's linears are off in each format that they are rounded to."""
        asked = {key: [form for form, is_rounded in tensors[key].items() if is_rounded] for key in keys}
        asked = {key: forms for key, forms in asked.items() if forms}
        if not asked:
            return {}
        self.progress(f"{what}: errors of outputs")
        formats = dict.fromkeys(form for forms in asked.values() for form in forms)
        file = self.work.file("errors.json")
        flags = [self._asked({key: forms[0] for key, forms in asked.items()}), "--linears=*"]
        with quietly():
            _round(self.segments.model, file, [*flags, f"--second-moments={moments}", f"--errors={','.join(formats)}"])
        found = json.loads(file.read_text())
        return {key: {form: found[names[key]][form] for form in forms} for key, forms in asked.items()}

    def _asked(self, formats: Mapping[str, str]) -> str:
        """Return the flag of intarsia-quantize that names the formats of linears by the keys of their weights."""
        file = self.work.file("asked.json")
        file.write_text(json.dumps({"intarsia_precision": 1, "model": self.hash, "tensors": formats}))
        return f"--precision={file}"

    def _round(
        self,
        keys: Sequence[str],
        tensors: Mapping[str, Mapping[str, bool]],
        names: Mapping[str, str],
        moments: Path,
        what: str,
    ) -> dict[str, tuple[Path, Path | None]]:
        """Write what the weights of a segment mean in each format, and return the files by format."""
        files: dict[str, tuple[Path, Path | None]] = {}
        for form in dict.fromkeys(form for key in keys for form in tensors[key]):
            self.progress(f"{what}: rounding weights to {form}")
            rounded = {key: form for key in keys if tensors[key].get(form)}
            nearest = [key for key in keys if tensors[key].get(form) is False]
            decoded, part = self.work.file(f"decoded-{form}"), self.work.file(f"part-{form}")
            if rounded:
                flags = [self._asked(rounded), "--linears=*", f"--decoded={decoded}"]
                with quietly():
                    _round(self.segments.model, part, [*flags, f"--second-moments={moments}"])
            others = self.work.file(f"nearest-{form}")
            if nearest:
                with quietly():
                    _round(self.segments.model, others, [f"--nearest={','.join(nearest)}", f"--quantize={form}"])
            files[form] = (decoded, part if rounded else None)
            files[f"{form} nearest"] = (others, None)
            if rounded:
                metadata = _header(part)[0].get("__metadata__", {})
                self.errors |= {(key, form): float(metadata.get(f"error.{names[key]}", 0)) for key in rounded}
        return files

    def _measure_tensors(
        self,
        number: int,
        keys: Sequence[str],
        tensors: Mapping[str, Mapping[str, bool]],
        files: Mapping[str, tuple[Path, Path | None]],
        by_layer: bool,
        what: str,
    ) -> None:
        for key in keys:
            found: dict[str, dict[str, float]] = {}
            for form, is_rounded in tensors[key].items():
                weights = read_tensors(files[form if is_rounded else f"{form} nearest"][0])
                found[form] = self._measure_change(number, {key: weights[key]}, whole=not by_layer or self._ends(key))
                if (key, form) in self.errors:
                    found[form]["output"] = self.errors[key, form]
                self.progress(f"{what}: {key.removesuffix('.weight')} in {form}")
            self.tensors[key] = found
            self.work.save()

    def _ends(self, key: str) -> bool:
        """Return true for what is read behind the layers, which has no error of a layer."""
        return key in self.segments.keys[-1]

    def _scale_layer(
        self,
        number: int,
        keys: Sequence[str],
        tensors: Mapping[str, Mapping[str, bool]],
        files: Mapping[str, tuple[Path, Path | None]],
    ) -> None:
        """Turn a layer's errors to losses by the ratio of the tensor with the largest error, measured on one call."""
        inside = [key for key in keys if not self._ends(key)]
        pairs = [(one["layer"], key, form) for key in inside for form, one in self.tensors[key].items()]
        if not pairs:
            return
        _, key, form = max(pairs)
        weights = read_tensors(files[form if tensors[key][form] else f"{form} nearest"][0])
        whole = self._measure_change(number, {key: weights[key]}, whole=True, calls=1)
        ratio = whole["loss"] / whole["layer"] if whole["layer"] > 0 else 0.0
        for other in inside:
            for name, one in self.tensors[other].items():
                one["loss"] = one["layer"] * ratio
                one["estimated"] = (other, name) != (key, form)
        self.work.save()

    def _estimate(self, errors: Mapping[str, Mapping[str, float]], measured: Mapping[str, str]) -> None:
        """Add the formats of linears that were not measured, by the squares of the errors of outputs."""
        for key, forms in errors.items():
            one, error = self.tensors[key][measured[key]], forms[measured[key]]
            for form, other in forms.items():
                ratio = (other / error) ** 2 if error > 0 else 0.0
                scaled = {"layer": one["layer"] * ratio, "loss": one["loss"] * ratio, "estimated": True}
                self.tensors[key][form] = (one if form == measured[key] else scaled) | {"output": other}
        self.work.save()

    def _measure_cache(self, number: int, cache: str, formats: Sequence[str], what: str) -> None:
        for form in formats:
            if form in self.caches.get(cache, {}) or not may_be_chosen(cache, form):
                continue
            segment = self.segments.with_caches(number, f"{cache}={form}")
            found = self._measure_change(number, {}, whole=True, replaced=segment)
            self.caches.setdefault(cache, {})[form] = found["loss"]
            self.work.save()
            self.progress(f"{what}: {cache} in {form}")

    def _measure_change(
        self,
        number: int,
        changed: Mapping[str, np.ndarray],
        *,
        whole: bool,
        replaced: Any = None,
        calls: int | None = None,
    ) -> dict[str, float]:
        """Return the loss of a change in a segment, over the first calls, and the error of what it passes on."""
        loss, rows, error, passed_rows = 0.0, 0, 0.0, 0
        for call, some in enumerate(self.calls[:calls]):
            values = read_tensors(self.work.path / _exact(number, call)) if number else {}
            end = None if whole else number + 1
            passed, results = self.segments.run(number, some, values, changed, end=end, replaced=replaced)
            exact = read_tensors(self.work.path / _exact(number + 1, call))
            for name, array in passed[0].items():
                left = np.asarray(exact[name], np.float32).reshape(-1, exact[name].shape[-1])
                right = np.asarray(array, np.float32).reshape(left.shape)
                squares = np.maximum((left**2).sum(-1, dtype=np.float64), 1e-300)
                error += float((((right - left) ** 2).sum(-1, dtype=np.float64) / squares).sum())
                passed_rows += len(left)
            if whole:
                one, count = self._loss(call, results)
                loss, rows = loss + one, rows + count
        found = {"layer": error / passed_rows if passed_rows else 0.0}
        return found | ({"loss": loss / rows} if whole else {})

    # -- Results -------------------------------------------------------------------------------------------------------

    def _loss(self, call: int, results: Values) -> tuple[float, int]:
        """Return the sum of a call's losses, and of how many rows."""
        exact = self.exact(call)
        if "logits" in exact:
            return kl_divergence(exact["logits"], class_rows(results["logits"])), len(exact["logits"])
        if self.has_images:
            flat = [(exact[name].reshape(len(exact[name]), -1), results[name]) for name in exact if name in results]
            return sum(cosine_error(left, right) for left, right in flat), sum(len(left) for left, _ in flat)
        both = [(exact[name], results[name]) for name in exact if name in results]
        # Each result counts as much as another, however many rows it has.
        return sum(cosine_error(left, right) / (left.size // left.shape[-1]) for left, right in both), len(both)

    def _add_results(self, call: int, results: Values, *, is_new: bool) -> None:
        file = self.work.file(_results(call))
        kept = {} if is_new or not file.exists() else {name: array.copy() for name, array in read_tensors(file).items()}
        for name, array in results.items():
            if name == "logits":
                kept[name] = log_softmax(class_rows(array))
            elif array.dtype == np.float32:
                kept[name] = array
        write_tensors(file, kept)

    def _tokens_of_a_call(self, measured: np.ndarray) -> int:
        if measured.ndim == 4:
            return 0  # images have calls of their own
        outputs = self.segments.segment(len(self.segments) - 1).function.signature.outputs
        vocabulary = next((value.shape[-1] for value in outputs if value.name == "logits"), 0)
        return min(TOKENS_OF_A_CALL, LOGITS_OF_A_CALL // vocabulary if vocabulary else TOKENS_OF_A_CALL)

    def _forget(self, folder: str) -> None:
        self.work.forget(folder)
        self.work.save()
        self.work.delete(folder)


def _exact(number: int, call: int) -> str:
    return f"exact/{number}.{call}.safetensors"


def _results(call: int) -> str:
    return f"exact/results.{call}.safetensors"


def _calibrated(number: int, call: int) -> str:
    return f"calibration/{number}/{call}.safetensors"
