# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choose a format for every tensor and cache of a model by what it loses on a text or images, and quantize it so."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.compile import _run
from ..runtime.module import load, make_state
from ..support.errors import InvalidArgumentError
from ..support.work import WorkFolder, work_folder
from . import overlap
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
from .image_choice import CANDIDATES as OF_IMAGES
from .image_choice import MEASURED_IMAGES, choose_for_images
from .losses import Losses, may_be_chosen
from .quantize import Progress, _Calibration, _check_windows, _function, _pages, _round, _token_inputs
from .segments import Segments, Values, quietly

#: Formats of weights between 4 and 8.5 bits. Blocks of other lengths are between these in size and in loss.
CANDIDATES = ("int4-g128", "mxfp4", "int4", "nvfp4", "int5", "int6", "int8")
#: Formats of caches beside f16, which is their default.
CACHES = ("fp8", "int8", "int4")
#: Tokens that losses are measured on: two runs of examples/glossary on other tokens then give sums within 3 %.
MEASURED_TOKENS = 4096
#: Share of a short text that is measured on; the rest is for rounding weights.
MEASURED_SHARE = 0.25


def choose(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    windows: np.ndarray,
    budget: Budget,
    *,
    parts: Sequence[str] = ("linears", "lm_head", "embedding"),
    candidates: Sequence[str] = CANDIDATES,
    keep: Sequence[str] = (),
    proxy: bool = False,
    measured_tokens: int = MEASURED_TOKENS,
    measured_images: int = MEASURED_IMAGES,
    cache_tokens: int = 0,
    targets: Sequence[str] = ("cpu",),
    work: str | os.PathLike[str] | None = None,
    explain: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    progress: Progress = lambda text: None,
) -> Outcome:
    """Choose a format for every tensor of a model within a budget, and write a model directory with these.

    Parameters
    ----------
    model, output : path
        Hugging Face directories.
    windows : array of int64 [count, length]
        Calibration text as token ids. The last ones are those that losses are measured on; the others weights are
        rounded with. For models of images [count, channels, height, width] of f32, as the model's preprocessing makes
        them (image_choice.py).
    budget : Budget
        What is limited.
    parts : sequence of str
        What formats are chosen for: ``linears``, ``lm_head``, ``embedding``.
    candidates : sequence of str
        Formats, beside leaving a tensor as it is; ``int8`` is the one of models of images.
    keep : sequence of str
        ``GLOB=FORMAT``: what tensors and caches whose names match are to have; the last that matches holds.
    proxy : bool
        Measure each tensor in one format to the end of its layer, and of each layer one tensor to the end of the model;
        estimate the other formats by the errors of the tensor's outputs.
    measured_tokens, measured_images : int
        Tokens or images to measure losses on, at most a quarter of what is given.
    cache_tokens : int
        Caches of so many tokens count as a part of the model's size, and a format is chosen for each. 0: caches keep
        their default.
    targets : sequence of str
        What the model is compiled for later, as ``intarsia-compile --target`` has it: kernels and predicted times.
    work : path, optional
        A folder for what is measured, apart from `model` and `output`; by default ``<output>.work``. What is written
        there is removed at the end. A run that was ended goes on behind the last tensor.
    explain, report : path, optional
        Files to write: every alternative as JSON; a page of HTML.
    progress : callable
        Gets a text now and then.

    Raises
    ------
    InvalidArgumentError
        The budget cannot be met; the message names the smallest size and loss that can be. Or a pattern matches
        nothing, or a target has no kernel for a format that was asked for.
    """
    if not Path(model).is_dir():
        raise InvalidArgumentError(
            f"{model}: is no model directory (config.json and *.safetensors)", "invalid argument"
        )
    windows = np.asarray(windows)
    if windows.ndim == 4:
        _refuse_for_images(parts, proxy, cache_tokens)
        return choose_for_images(
            Path(model),
            Path(output),
            windows,
            budget,
            candidates=OF_IMAGES if tuple(candidates) == CANDIDATES else candidates,
            keep=keep,
            measured_images=measured_images,
            targets=targets,
            work=work,
            explain=explain,
            report=report,
            progress=progress,
        )
    if windows.ndim != 2:
        raise InvalidArgumentError(
            f"what is calibrated with is an array of rank {windows.ndim}, must be token ids [count, length] or images "
            "[count, channels, height, width]", "invalid argument",
        )  # fmt: skip
    _check_windows(Path(model), windows)
    with work_folder(work, Path(model), Path(output)) as folder:
        run = _Run(Path(model), Path(output), np.asarray(windows, np.int64), budget, folder)
        run.progress = progress
        run.list_candidates(parts, candidates, keep, targets)
        run.measure(proxy, measured_tokens, cache_tokens)
        outcome = run.choose()
        (Path(output) / overlap.FILE).write_text(overlap.describe(windows))
        if explain is not None:
            Path(explain).write_text(json.dumps(trace(outcome), indent=1) + "\n")
        if report is not None:
            write_report(Path(report), outcome, Path(model))
        folder.remove()
    return outcome


def _refuse_for_images(parts: Sequence[str], proxy: bool, cache_tokens: int) -> None:
    """Refuse what models of images do not have."""
    if "linears" not in parts:
        raise InvalidArgumentError(
            f"--quantize-parts={','.join(parts)}: formats of models of images are those of linears, which convolutions "
            "are among: leave it out", "invalid argument",
        )  # fmt: skip
    if proxy or cache_tokens:
        raise InvalidArgumentError(
            f"{'--proxy' if proxy else '--cache-tokens'} is for texts: models of images have one format beside their "
            f"own, {'which is measured soon' if proxy else 'and no caches'}", "invalid argument",
        )  # fmt: skip


class _Run:
    """One choice, step by step."""

    progress: Progress

    def __init__(self, model: Path, output: Path, windows: np.ndarray, budget: Budget, work: WorkFolder) -> None:
        self.model, self.output, self.windows, self.budget, self.work = model, output, windows, budget, work

    def list_candidates(
        self, parts: Sequence[str], candidates: Sequence[str], keep: Sequence[str], targets: Sequence[str]
    ) -> None:
        """Find the tensors that formats are chosen for, and what each costs in each format."""
        self.keep = [read_pin(text) for text in keep]
        named = dict.fromkeys(
            [*candidates, *(form for _, form in self.keep if form not in ("none", *CACHES, "f16", "f32", "bf16"))]
        )
        known = [*named, *(form for _, form in self.keep if form in ("int8", "int4", "fp8") and form not in named)]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "candidates.json"
            with quietly():
                _round(self.model, file, [f"--candidates={','.join(known)}", f"--target={','.join(targets)}"])
            self.listed = json.loads(file.read_text())
        wanted = {"linears", "lm_head", "embedding"}
        if unknown := [part for part in parts if part not in wanted]:
            raise InvalidArgumentError(
                f"formats cannot be chosen for '{unknown[0]}': parts are {', '.join(sorted(wanted))}, without formats "
                "of their own; --keep=GLOB=FORMAT pins some",
                "invalid argument",
            )
        self.tensors = [one for one in self.listed["tensors"] if _part(one) & set(parts)]
        if not self.tensors:
            raise InvalidArgumentError(
                f"{self.model}: no matrix of a linear or a table is stored as one tensor of floats; formats are chosen "
                "for those", "invalid argument",
            )  # fmt: skip
        self.formats: dict[str, list[dict[str, Any]]] = {}
        explicit = tuple(candidates) != CANDIDATES
        for one in self.tensors:
            self.formats[one["key"]] = self._formats_of(one, candidates, explicit)

    def measure(self, proxy: bool, measured_tokens: int, cache_tokens: int) -> None:
        """Measure what each format loses."""
        calibration, measured = _split(self.windows, measured_tokens)
        self._open_work((measured_tokens, proxy, sorted(self.formats.items())))
        self.segments = Segments(self.model, self.work, self.progress)
        self.losses = Losses(self.segments, self.listed["model"], calibration, measured, self.work, self.progress)
        self.calibration, self.cache_tokens = calibration, cache_tokens
        self.losses.measure_exact()
        tensors = {
            key: {one["format"]: one["linear"] for one in formats if one["format"] != "none"}
            for key, formats in self.formats.items()
        }
        names = {one["key"]: one["name"] for one in self.tensors}
        caches = CACHES if cache_tokens else tuple(dict.fromkeys(form for _, form in self._cache_pins()))
        self.losses.measure({k: v for k, v in tensors.items() if v}, names, by_layer=proxy, caches=caches)
        unused = [
            glob for glob, _ in self.keep
            if not any(matches(glob, one["key"], one["name"]) for one in self.tensors)
            and not any(fnmatch.fnmatchcase(cache, glob) for cache in self._caches())
        ]  # fmt: skip
        if unused:
            raise InvalidArgumentError(
                f"--keep={unused[0]}=…: no tensor or cache is named so; the model has for instance "
                f"'{self.tensors[0]['name']}' and '{self.tensors[-1]['name']}'", "invalid argument",
            )  # fmt: skip

    def choose(self) -> Outcome:
        """Choose, quantize and measure the whole choice; correct a limit of the loss by what was measured."""
        problem = self._problem()
        chosen, expected, loss = choose_and_measure(problem, self.budget, lambda one: self._quantize(problem, one))
        pairs = [
            (one["layer"], one["loss"]) for key, forms in self.losses.tensors.items() for one in forms.values()
            if not self.losses._ends(key) and not one.get("estimated", False)
        ]  # fmt: skip
        correlation = rank_correlation([layer for layer, _ in pairs], [loss for _, loss in pairs])
        outcome = Outcome("", problem, chosen, loss, expected, correlation, self.budget)
        outcome.table = table(problem, chosen) + summary(outcome)
        return outcome

    # -- Steps ---------------------------------------------------------------------------------------------------------

    def _formats_of(self, tensor: dict[str, Any], candidates: Sequence[str], explicit: bool) -> list[dict[str, Any]]:
        pinned = [form for glob, form in self.keep if matches(glob, tensor["key"], tensor["name"])]
        wanted = [pinned[-1]] if pinned else ["none", *candidates]
        formats = [one for one in tensor["candidates"] if one["format"] in wanted]
        refused = [one for one in formats if one["why"]]
        if refused and (explicit or pinned):
            raise InvalidArgumentError(
                f"'{tensor['name']}' in {refused[0]['format']}: {refused[0]['why']}", "invalid argument"
            )
        if pinned and not formats:
            raise InvalidArgumentError(f"--keep: '{pinned[-1]}' is no format of a tensor", "invalid argument")
        return sorted((one for one in formats if not one["why"]), key=lambda one: one["bytes"])

    def _open_work(self, settings: object) -> None:
        digest = hashlib.sha256(np.ascontiguousarray(self.windows).tobytes())
        digest.update(repr((self.windows.shape, self.listed["model"], settings)).encode())
        if self.work.begin("choose", digest.hexdigest()):
            self.progress("going on with what was measured")

    def _caches(self) -> list[str]:
        return [name for number in range(len(self.segments)) for name in self.segments.caches(number)]

    def _cache_pins(self) -> list[tuple[str, str]]:
        """Return the pins of caches, by name."""
        pins = []
        for cache in self._caches():
            found = [form for glob, form in self.keep if fnmatch.fnmatchcase(cache, glob)]
            if found and not may_be_chosen(cache, found[-1]):
                raise InvalidArgumentError(
                    f"--keep: '{cache}' as {found[-1]}: keys in integers cannot be pinned here, because linears of a "
                    f"layer may get different formats; try fp8, or compile the result with --kv={cache}={found[-1]}",
                    "invalid argument",
                )
            if found and found[-1] != "f16":
                pins.append((cache, found[-1]))
        return pins

    def _problem(self) -> Problem:
        items = []
        for tensor in self.tensors:
            losses = self.losses.tensors.get(tensor["key"], {})
            choices = [
                Candidate(
                    one["format"],
                    losses[one["format"]]["loss"] if one["format"] != "none" else 0.0,
                    one["bytes"],
                    one["microseconds"],
                    losses[one["format"]]["layer"] if one["format"] != "none" else 0.0,
                    losses[one["format"]].get("output", 0.0) if one["format"] != "none" else 0.0,
                )
                for one in self.formats[tensor["key"]]
            ]
            weights = tensor["shape"][0] * tensor["shape"][1]
            pinned = any(matches(glob, tensor["key"], tensor["name"]) for glob, _ in self.keep)
            items.append(Item(tensor["key"], tensor["name"], weights, choices, pinned))
        stored = sum(one["bytes"] for tensor in self.tensors for one in tensor["candidates"] if one["format"] == "none")
        items += self._cache_items()
        return Problem(
            items,
            self.listed["bytes"] - stored,
            self.listed["microseconds"] + _rest_microseconds(self.listed["tensors"], self.tensors),
            unit="nats" if self.losses_are_of_logits else "1 - cosine",
        )

    @property
    def losses_are_of_logits(self) -> bool:
        """True if losses are KL divergences of logits."""
        outputs = self.segments.segment(len(self.segments) - 1).function.signature.outputs
        return any(value.name == "logits" for value in outputs)

    def _cache_items(self) -> list[Item]:
        pins = dict(self._cache_pins())
        items = []
        for number in range(len(self.segments)):
            for cache in self.segments.caches(number):
                if not self.cache_tokens and cache not in pins:
                    continue
                features = self.segments.cache_features(number, cache)
                heads = self.segments.cache_heads(number, cache)
                measured = self.losses.caches[cache]
                choices = [
                    Candidate(
                        form, measured.get(form, 0.0), self.cache_tokens * _cache_bytes(cache, form, features, heads)
                    )
                    for form in ([pins[cache]] if cache in pins else ["f16", *measured])
                ]  # fmt: skip
                items.append(Item(cache, cache, 0, sorted(choices, key=lambda one: one.bytes), cache in pins))
        return items

    def _quantize(self, problem: Problem, chosen: Sequence[int]) -> float:
        """Write the model directory of a choice, and return the loss that is measured of it."""
        formats = {item.key: item.candidates[at].format for item, at in zip(problem.items, chosen, strict=True)}
        tensors = {one["key"]: formats[one["key"]] for one in self.tensors}
        caches = {item.key: formats[item.key] for item in problem.items if not item.weights}
        text = json.dumps(
            {"intarsia_precision": 1, "model": self.listed["model"], "tensors": tensors, "caches": caches}
        )
        # The name tells choices apart for a calibration that goes on.
        file = self.work.file(f"choice-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json")
        file.write_text(text)
        flags = [f"--precision={file}"]
        self.segments.release()
        with quietly(), WorkFolder(self.work.folder("rounding")) as folder:
            pieces = []
            if any(
                one["linear"] and one["format"] == tensors[key] for key, some in self.formats.items() for one in some
            ):
                pieces = _Calibration(self.model, self.calibration, flags, folder, self.progress).run()
            self.progress("writing the model")
            _round(self.model, self.output, [*flags, *(f"--part={piece}" for piece in pieces)])
            folder.remove()
        return self.losses.loss_of_results(self._run_whole())

    def _run_whole(self) -> Iterator[Values]:
        artifact = self.work.artifact("whole.itx")
        with quietly():
            _run([str(self.output), "-o", str(artifact), "--quantize-activations=16"], shows_steps=False)
        module = load(artifact)
        function = _function(module)
        inputs = function.signature.inputs
        for number, some in enumerate(self.losses.calls):
            given = _token_inputs(some, inputs, module)
            state = {}
            if any(value.state for value in inputs):
                count, length = some.shape
                state = make_state(function, pages=count * _pages(module, length), sequences=count)
            answer = function(**{value.name: given[value.name] for value in inputs if not value.state}, **state)
            names = [value.name for value in function.signature.outputs]
            yield dict(zip(names, answer if isinstance(answer, tuple) else (answer,), strict=True))
            self.progress(f"the whole choice: {100 * (number + 1) // len(self.losses.calls)} %")


def _part(tensor: dict[str, Any]) -> set[str]:
    """Return the parts that a tensor is, as ``--quantize-parts`` names them."""
    found = {"embedding"} if tensor["table"] else set()
    if tensor["linear"]:
        found.add("lm_head" if tensor["table"] or tensor["name"].rpartition(".")[2] == "lm_head" else "linears")
    return found


def _split(windows: np.ndarray, measured_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows that weights are rounded with, and those that losses are measured on."""
    if len(windows) < 2:
        raise InvalidArgumentError(
            f"the calibration text has {windows.size} tokens in one window; weights are rounded with some windows, "
            "losses measured on others: give more text, or a smaller --window", "invalid argument",
        )  # fmt: skip
    count = max(1, min(int(len(windows) * MEASURED_SHARE), -(-measured_tokens // windows.shape[1])))
    return windows[:-count], windows[-count:]


def _rest_microseconds(listed: Sequence[dict[str, Any]], chosen: Sequence[dict[str, Any]]) -> float:
    """Return the time of linears that keep their weights."""
    keys = {one["key"] for one in chosen}
    return sum(
        one["microseconds"]
        for tensor in listed
        if tensor["key"] not in keys
        for one in tensor["candidates"]
        if one["format"] == "none"
    )


def _cache_bytes(cache: str, form: str, features: int, heads: int) -> float:
    """Return the bytes of a token in a cache (docs/quantization.md): quantized ones have two bytes for each group."""
    bits = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}[form]
    groups = 0.0
    if form in ("int8", "int4"):
        # A group is the row of a head for values, a feature in the 32 tokens of a page for keys.
        groups = features / 32 if cache.endswith(".keys") else heads
    return features * bits / 8 + 2 * groups
