# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choose which convolutions and linears of a model of images have 8 bits, by what each loses on images."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..runtime.compile import _run
from ..runtime.module import load
from ..support.errors import InvalidArgumentError
from ..support.work import WorkFolder, work_folder
from .choice import (
    Budget,
    Candidate,
    Item,
    Outcome,
    Problem,
    choose_and_measure,
    matches,
    rank_correlation,
    read_pin,
    summary,
    table,
    trace,
)
from .choice_report import write_report
from .input_choice import check_directories, check_found, write_choice
from .losses import Losses, class_rows
from .quantize import Progress, _function, _round, _token_inputs
from .safetensors import ModelWeights
from .segments import Segments, Values, quietly
from .static import FORMAT, StaticInput, find_inputs

#: What a convolution or a linear of a model of images may have: its input and its weight in 8 bits with known scales.
CANDIDATES = ("int8",)
#: Images that losses are measured on.
MEASURED_IMAGES = 32
#: Share of few images that is measured on; scales are found on the others.
MEASURED_SHARE = 0.25
#: Bytes of the scale of an output channel.
SCALE_BYTES = 4


def choose_for_images(
    model: Path,
    output: Path,
    images: np.ndarray,
    budget: Budget,
    *,
    candidates: Sequence[str] = CANDIDATES,
    keep: Sequence[str] = (),
    measured_images: int = MEASURED_IMAGES,
    targets: Sequence[str] = ("cpu",),
    work: str | os.PathLike[str] | None = None,
    explain: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> Outcome:
    """Choose 8 bits for convolutions and linears of a model of images within a budget, and write a model directory.

    Scales of inputs are found on most of the images as `quantize_static` does it. What each convolution and linear
    loses alone in 8 bits is measured on the others, by the code that will run.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    images : array of f32 [count, channels, height, width]
        As the model's preprocessing makes them.
    budget : Budget
        What is limited.
    candidates : sequence of str
        ``int8``, beside leaving a product as it is.
    keep : sequence of str
        ``GLOB=none`` or ``GLOB=int8``; the last that matches holds.
    measured_images : int
        Images to measure losses on, at most a quarter of all.
    targets, work, explain, report, progress
        As `choose` has them.

    Raises
    ------
    InvalidArgumentError
        The budget cannot be met; the message names the smallest size and loss that can be. Or a pattern matches
        nothing, or a format or a target has no kernels for such products.
    """
    check_directories(model, output, images, "--quantize=auto", "measures what formats lose")
    pins = _read_pins(keep)
    _check_wanted(budget, candidates, targets)
    calibration, measured = _split(images, measured_images)
    with work_folder(work, model, output) as folder:
        run = _ImageRun(model, output, budget, folder, progress)
        run.find_products(calibration, pins, _digest(images, measured_images))
        run.measure(calibration, measured)
        outcome = run.choose()
        if explain is not None:
            Path(explain).write_text(json.dumps(trace(outcome), indent=1) + "\n")
        if report is not None:
            write_report(Path(report), outcome, model)
        folder.remove()
    return outcome


class _ImageRun:
    """One choice, step by step."""

    def __init__(self, model: Path, output: Path, budget: Budget, work: WorkFolder, progress: Progress) -> None:
        self.model, self.output, self.budget, self.work, self.progress = model, output, budget, work, progress
        self.weights = ModelWeights(model)

    def find_products(self, calibration: np.ndarray, pins: Sequence[tuple[str, str]], digest: str) -> None:
        """Find the convolutions and linears that have kernels in 8 bits, and scales of their inputs.

        `digest` is one of what is measured: another run goes on if it has the same one and the same model.
        """
        with tempfile.TemporaryDirectory() as folder, quietly():
            file = Path(folder) / "candidates.json"
            _round(self.model, file, [f"--candidates={FORMAT}", "--target=cpu"])
            listed = json.loads(file.read_text())
        self.hash, self.bytes = listed["model"], listed["bytes"]
        if self.work.begin("choose", f"{digest} {self.hash}"):
            self.progress("going on with what was measured")
        self.inputs = self._find_inputs(calibration)
        check_found(self.model, self.inputs)
        self.input_of = {key: one for one in self.inputs for key in one.weights}
        self.pins = {key: found[-1] for key in self.input_of if (found := [f for g, f in pins if _matches(g, key)])}
        for glob, form in pins:
            self._check_pin(glob, form)

    def measure(self, calibration: np.ndarray, measured: np.ndarray) -> None:
        """Measure what each product loses in 8 bits while all others are as they are."""
        self.segments = Segments(self.model, self.work, self.progress)
        self.losses = Losses(self.segments, self.hash, calibration, measured, self.work, self.progress)
        self.losses.measure_exact()
        wanted = [key for key in self.input_of if self.pins.get(key) != "none"]
        for done, key in enumerate(wanted):
            file = self.work.file("product.json")
            file.write_text(self._precision([key]))
            self.losses.measure_product(self.segments.first_reader(key), key, "int8", file)
            self.progress(f"{_name(key)} in int8, {100 * (done + 1) // len(wanted)} %")
            if not np.isfinite(self.losses.tensors[key]["int8"]["loss"]):
                raise InvalidArgumentError(
                    f"what the model computes on the images is not finite with {_name(key)} in int8 or without: is the "
                    "model damaged?", "invalid argument",
                )  # fmt: skip

    def choose(self) -> Outcome:
        """Choose, quantize and measure the whole choice; correct a limit of the loss by what was measured."""
        problem = self._problem()
        chosen, expected, loss = choose_and_measure(problem, self.budget, lambda one: self._quantize(problem, one))
        pairs = [(one["layer"], one["loss"]) for forms in self.losses.tensors.values() for one in forms.values()]
        pairs = [pair for pair in pairs if pair[0] > 0]  # what follows the layers passes nothing on
        correlation = rank_correlation([layer for layer, _ in pairs], [loss for _, loss in pairs])
        same = float(np.concatenate(self.same_classes).mean()) if self.same_classes else None
        outcome = Outcome("", problem, chosen, loss, expected, correlation, self.budget, same)
        outcome.table = table(problem, chosen) + summary(outcome)
        return outcome

    # -- Steps ---------------------------------------------------------------------------------------------------------

    def _find_inputs(self, calibration: np.ndarray) -> list[StaticInput]:
        file = "inputs.json"
        if not self.work.is_kept(file):
            with WorkFolder(self.work.folder("static")) as folder:
                found = find_inputs(self.model, calibration, folder, self.progress)
                folder.remove()
            entries = [vars(one) | {"factors": one.factors.tolist()} for one in found]
            self.work.file(file).write_text(json.dumps(entries))
            self.work.keep(file)
            self.work.save()
        entries = json.loads((self.work.path / file).read_text())
        return [StaticInput(**one | {"factors": np.array(one["factors"], np.float32)}) for one in entries]

    def _check_pin(self, glob: str, form: str) -> None:
        """Refuse a pattern that matches nothing, and 8 bits for what has no kernel in 8 bits."""
        if any(_matches(glob, key) for key in self.input_of):
            return
        others = [key for key in self.weights.names if key.endswith(".weight") and _matches(glob, key)]
        others = [key for key in others if len(self.weights.shape(key)) > 1]
        if not others:
            some = list(self.input_of)
            raise InvalidArgumentError(
                f"--keep={glob}=…: no convolution or linear is named so; the model has for instance '{_name(some[0])}' "
                f"and '{_name(some[-1])}'", "invalid argument",
            )  # fmt: skip
        if form != "none":
            raise InvalidArgumentError(
                f"--keep: '{_name(others[0])}' as {form}: it stays as it is, as convolutions with groups, transposed "
                "ones and those with a number of input channels that 4 does not divide do, such as the first one of a "
                "picture: give none, or leave the pattern out",
                "invalid argument",
            )

    def _problem(self) -> Problem:
        items = []
        for key in self.input_of:
            shape = self.weights.shape(key)
            weights = int(np.prod(shape))
            stored = self.weights.bytes(key)
            pinned = self.pins.get(key)
            choices = []
            if pinned != "none":
                found = self.losses.tensors[key]["int8"]
                choices.append(Candidate("int8", found["loss"], weights + SCALE_BYTES * shape[0], 0.0, found["layer"]))
            if pinned != "int8":
                choices.append(Candidate("none", 0.0, stored))
            choices.sort(key=lambda one: one.bytes)
            items.append(Item(key, _name(key), weights, choices, pinned is not None))
        others = self.bytes - sum(self.weights.bytes(key) for key in self.input_of)
        return Problem(items, others, unit="nats" if self.losses.are_of_logits else "1 - cosine")

    def _precision(self, keys: Sequence[str]) -> str:
        """Return a file in which some products are in 8 bits."""
        choice = {"intarsia_precision": 1, "model": self.hash, "tensors": dict.fromkeys(keys, FORMAT), "caches": {}}
        return json.dumps(choice | self._static_inputs(keys)) + "\n"

    def _static_inputs(self, keys: Sequence[str]) -> dict[str, list]:
        """Return the scales of the inputs of some products; those of one input stay together."""
        entries = [
            {"weights": named, "factors": one.factors.tolist()}
            for one in self.inputs
            if (named := [key for key in one.weights if key in keys])
        ]
        return {"static_inputs": entries} if entries else {}

    def _quantize(self, problem: Problem, chosen: Sequence[int]) -> float:
        """Write the model directory of a choice, and return the loss that is measured of it."""
        formats = {item.key: item.candidates[at].format for item, at in zip(problem.items, chosen, strict=True)}
        in_8_bits = [key for key, form in formats.items() if form == "int8"]
        tensors = {key: FORMAT if form == "int8" else form for key, form in formats.items()}
        self.segments.release()
        self.progress("writing the model")
        write_choice(self.model, self.output, self.losses.calls[0], self.hash, tensors, self._static_inputs(in_8_bits))
        self.same_classes: list[np.ndarray] = []
        return self.losses.loss_of_results(self._run_whole())

    def _run_whole(self) -> Iterator[Values]:
        """Run what intarsia-compile makes of the directory where nothing else is said."""
        artifact = self.work.artifact("whole.itx")
        with quietly():
            _run([str(self.output), "-o", str(artifact)], shows_steps=False)
        module = load(artifact)
        function = _function(module)
        names = [value.name for value in function.signature.outputs]
        for number, some in enumerate(self.losses.calls):
            answer = function(**_token_inputs(some, function.signature.inputs, module))
            made = dict(zip(names, answer if isinstance(answer, tuple) else (answer,), strict=True))
            if "logits" in made:
                exact = self.losses.exact(number)["logits"]
                self.same_classes.append(
                    class_rows(made["logits"]).argmax(-1).reshape(-1) == exact.argmax(-1).reshape(-1)
                )
            yield made
            self.progress(f"the whole choice: {100 * (number + 1) // len(self.losses.calls)} %")


def _digest(images: np.ndarray, measured_images: int) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(images).tobytes())
    digest.update(repr((images.shape, images.dtype.str, measured_images)).encode())
    return digest.hexdigest()


def _name(key: str) -> str:
    return key.removesuffix(".weight")


def _matches(glob: str, key: str) -> bool:
    return matches(glob, key, _name(key))


def _read_pins(keep: Sequence[str]) -> list[tuple[str, str]]:
    pins = [read_pin(text) for text in keep]
    for glob, form in pins:
        if form not in ("none", *CANDIDATES):
            raise InvalidArgumentError(
                f"--keep={glob}={form}: convolutions and linears of models of images have int8, or stay as they are: "
                "give none or int8", "invalid argument",
            )  # fmt: skip
    return pins


def _check_wanted(budget: Budget, candidates: Sequence[str], targets: Sequence[str]) -> None:
    """Refuse limits, formats and targets that models of images do not have."""
    if budget.microseconds is not None:
        raise InvalidArgumentError(
            "--faster-than predicts tokens a second, which models of images do not have: give --max-loss, --size or "
            "--bits", "invalid argument",
        )  # fmt: skip
    if unknown := [form for form in candidates if form not in CANDIDATES]:
        raise InvalidArgumentError(
            f"--candidates={unknown[0]}: convolutions and linears of models of images have int8 with scales of the "
            f"images, or stay as they are; --quantize={unknown[0]} quantizes the linears only, and leaves convolutions "
            "as they are", "invalid argument",
        )  # fmt: skip
    if other := [name for name in targets if name.split(":")[0] not in ("cpu", "reference")]:
        raise InvalidArgumentError(
            f"target '{other[0]}' has no kernels for inputs in 8 bits with scales of images: give --target=cpu",
            "invalid argument",
        )


def _split(images: np.ndarray, measured_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the images that scales are found on, and those that losses are measured on.

    The latter are spread over all: folders of pictures are often sorted by what they show.
    """
    if len(images) < 2:
        raise InvalidArgumentError(
            f"{len(images)} image{'s are' if len(images) != 1 else ' is'} given; scales are found on some, and losses "
            "measured on others: give some dozens", "invalid argument",
        )  # fmt: skip
    count = max(1, min(int(len(images) * MEASURED_SHARE), measured_images))
    is_measured = np.zeros(len(images), bool)
    is_measured[(np.arange(count) * len(images) + len(images) - 1) // count] = True
    return images[~is_measured], images[is_measured]
