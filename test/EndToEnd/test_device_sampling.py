# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts sampled from the likeliest tokens, which a device finds: those that the host samples from all logits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia import _runtime
from programs import SCHEDULES

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary"
PROMPTS = [[1, 5, 9, 22, 31, 7], [3], [85, 76, 44]]
VOCABULARY = 4096

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def artifacts(tools) -> dict[str, Path]:
    """A trained model for several devices, and a small one, with 99 tokens, for emulated GPUs, which are slow."""
    models = {
        "emulated": (GLOSSARY, "emulated:sm_80"),
        "reference": (GLOSSARY, "reference"),
        "cpu": (GLOSSARY, "cpu"),
        "both": (GLOSSARY, "cpu,reference"),
        "small, sm_80": (HERE / "decoders" / "llama", "emulated:sm_80"),
        "small, gfx942": (HERE / "decoders" / "llama", "emulated:gfx942"),
    }

    class Compiled(dict[str, Path]):
        def __missing__(self, name: str) -> Path:
            model, target = models[name]
            self[name] = tools.artifact(model, *([f"--target={target}"] if target != "cpu" else []))
            return self[name]

    return Compiled()


#: A rule that changes nothing, and that all logits are needed for.
ON_THE_HOST = {"logit_bias": {0: 0.0}}


def copies(trace: Path) -> list[int]:
    """Return the bytes of each copy between the memories of host and device in a profile."""
    events = json.loads(trace.read_text())["traceEvents"]
    labels = [event["args"]["label"] for event in events if event.get("cat") == "copy"]
    return [int(label.split()[0]) for label in labels if label.endswith(" bytes")]


@contextmanager
def copied_rows(folder: Path, vocabulary: int = VOCABULARY) -> Iterator[list[int]]:
    """Give how many rows of logits are copied."""
    found: list[int] = []
    with intarsia.profile(folder / "copies.json"):
        yield found
    found.append(
        sum(size // (4 * vocabulary) for size in copies(folder / "copies.json") if size % (4 * vocabulary) == 0)
    )


RULES = {
    "greedy": {},
    "temperature": {"temperature": 0.7, "seed": 3},
    "hot": {"temperature": 1.5, "seed": 4},
    "top_k": {"temperature": 1.0, "top_k": 50, "seed": 5},
    "top_p": {"temperature": 0.9, "top_p": 0.9, "seed": 6},
    "min_p": {"temperature": 1.2, "min_p": 0.1, "seed": 7},
    "all": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.02, "seed": 8},
}


@pytest.mark.parametrize("device", ["reference", "small, sm_80", "small, gfx942"])
def test_same_texts_as_on_the_host(artifacts, tmp_path, device: str) -> None:
    generator = intarsia.Generator(artifacts[device])
    # The small model is not trained: all of its tokens are likely.
    chosen = ("greedy", "top_k") if device.startswith("small") else RULES
    tokens = 2 if device.startswith("small") else 4
    results = {}
    for name in chosen:
        with copied_rows(tmp_path, generator.vocabulary) as copied:
            results[name] = generator.generate(PROMPTS, tokens, **RULES[name])
        # Without top_k unlikely tokens are drawn too, which are not among the candidates.
        some = len(PROMPTS) * tokens * 2 // 3 if name in ("temperature", "hot", "top_p", "min_p") else 0
        assert copied[0] <= some, name
    for name, ours_of_rule in results.items():
        with copied_rows(tmp_path, generator.vocabulary) as copied:
            texts = generator.generate(PROMPTS, tokens, **RULES[name], **ON_THE_HOST)
        assert copied[0] >= max(len(text.ids) for text in texts)
        for ours, wanted in zip(ours_of_rule, texts, strict=True):
            assert ours.ids == wanted.ids, name
            assert ours.finish_reason == wanted.finish_reason
            np.testing.assert_allclose(ours.logprobs, wanted.logprobs, rtol=1e-5, atol=2e-6)
    different = {tuple(result.ids) for texts in results.values() for result in texts}
    assert len(different) > len(chosen)  # the rules and the numbers matter


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(artifacts, monkeypatch, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    generator = intarsia.Generator(artifacts["small, sm_80"])
    rules = {"temperature": 1.0, "top_k": 30, "seed": 1}
    texts = [text.ids for text in generator.generate(PROMPTS, 2, **rules)]
    assert texts == [text.ids for text in generator.generate(PROMPTS, 2, **rules, **ON_THE_HOST)]


@pytest.mark.parametrize("device", ["emulated", "reference"])
def test_a_step_copies_hundreds_of_bytes(artifacts, tmp_path, device: str) -> None:
    """Inputs of a few words and candidates, where logits were copied before."""
    generator = intarsia.Generator(artifacts[device], kept_tokens=0)
    bytes_of = {}
    for name, rules in (("device", {}), ("host", ON_THE_HOST)):
        totals = []
        for count in (1, 2):  # the second token takes another step
            with intarsia.profile(tmp_path / f"{name}.json"):
                generator.generate(PROMPTS[0], count, **rules)
            totals.append(sum(copies(tmp_path / f"{name}.json")))
        bytes_of[name] = totals[1] - totals[0]
    logits, candidates = 4 * VOCABULARY, 64 * (4 + 4) + 2 * 4
    assert logits <= bytes_of["host"] < logits + 200
    assert candidates <= bytes_of["device"] < candidates + 200


def test_the_command_copies_no_logits(tools, artifacts, tmp_path) -> None:
    arguments = ("--ids=1,5,9,22,31,7", "--max-tokens=2")
    trace = tmp_path / "trace.json"
    tokens = tools.run("intarsia-run", artifacts["emulated"], *arguments, f"--profile={trace}").stdout
    assert tokens == tools.run("intarsia-run", artifacts["cpu"], *arguments).stdout
    events = json.loads(trace.read_text())["traceEvents"]
    labels = [event["args"]["label"] for event in events if event.get("cat") == "copy"]
    assert labels
    assert f"{4 * VOCABULARY} bytes" not in labels
    # Logits that are saved come from the device.
    saved = tmp_path / "logits.npy"
    again = tools.run("intarsia-run", artifacts["emulated"], *arguments, f"--output=@{saved}").stdout
    assert again == tokens
    assert np.load(saved)[-1].argmax() == int(tokens.split()[0])


def test_rules_that_need_all_logits(artifacts) -> None:
    """A penalty and a form of the text change logits on the host."""
    rules = {"temperature": 0.8, "repetition_penalty": 1.3, "seed": 2}
    texts = []
    for device in ("reference", "cpu"):
        generator = intarsia.Generator(artifacts[device], tokenizer=GLOSSARY)
        texts.append([text.ids for text in generator.generate(PROMPTS, 4, **rules)])
        assert generator.generate("violin (noun):", 3, regex="[0-9]+")[0].text.isdigit()
    assert texts[0] == texts[1]


def test_candidates_of_a_step(artifacts) -> None:
    """What a cache gives for chosen tokens: the logits of the same step, sorted."""
    module = intarsia.load(artifacts["reference"])
    cache = intarsia.Cache(module, sequences=2)
    assert cache.info["candidates"] == 64
    rows = cache.step_on_device([(cache.sequence(), ids, len(ids)) for ids in PROMPTS[:2]], 0.5)
    assert len(rows) == len(PROMPTS[0]) + len(PROMPTS[1])
    for row in rows:
        logits = row.logits().astype(np.float64)
        order = np.argsort(-logits, kind="stable")[:64]
        np.testing.assert_array_equal(row.likeliest.tokens, order)
        np.testing.assert_array_equal(row.likeliest.logits, logits[order])
        assert row.likeliest.total == pytest.approx(np.exp((logits - logits.max()) / 0.5).sum(), rel=1e-6)


def test_logits_in_memory_of_the_host(artifacts) -> None:
    cache = intarsia.Cache(intarsia.load(artifacts["cpu"]))
    assert cache.info["candidates"] == 0
    assert intarsia.load(artifacts["cpu"]).functions == ("step",)
    sequence = cache.sequence()
    with pytest.raises(intarsia.InvalidArgumentError, match="logits are in memory of the host"):
        cache.step_on_device([(sequence, [1, 2], 1)], 1.0)
    assert sequence.length == 0
    on_host = _runtime.Cache.step_on_device(cache, [(sequence, np.array([1, 2]), 1)])
    assert on_host.device is None
    with pytest.raises(intarsia.Error, match="no function finds the likeliest tokens of 'step' on a device"):
        cache.candidates(on_host, np.ones(1, np.float32))


def test_one_artifact_for_either_device(artifacts, tmp_path) -> None:
    texts = []
    for device, count in (("cpu", 0), ("reference", 64)):
        generator = intarsia.Generator(intarsia.load(artifacts["both"], devices=device))
        assert intarsia.Cache(generator.module).info["candidates"] == count
        with copied_rows(tmp_path) as copied:
            texts.append([text.ids for text in generator.generate(PROMPTS, 5, temperature=0.7, top_k=20, seed=1)])
        assert copied == [0]
    assert texts[0] == texts[1]


def test_temperatures_that_are_none(artifacts) -> None:
    cache = intarsia.Cache(intarsia.load(artifacts["reference"]))
    sequence = cache.sequence()
    logits = _runtime.Cache.step_on_device(cache, [(sequence, np.array([1, 2]), 2)])
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(intarsia.InvalidArgumentError, match=r"the temperature of row 1 is .*, must be above 0"):
            cache.candidates(logits, np.array([1.0, temperature], np.float32))
        with pytest.raises(intarsia.InvalidArgumentError, match=r"temperature is .*, must be above 0"):
            cache.step_on_device([(sequence, [1], 1)], temperature)
    assert sequence.length == 2


def test_a_function_of_that_name_is_refused(tools, tmp_path) -> None:
    shutil.copytree(GLOSSARY, tmp_path / "model")
    model = tmp_path / "model" / "m.mlir"
    tools.compile(GLOSSARY, "-o", model, "--stop-after=import")
    other = """
      func.func @step_candidates(%x: tensor<?x4xf32> {nn.name = "x", nn.sizes = ["rows", ""]})
          -> (tensor<?x4xf32> {nn.name = "y"}) {
        %y = nn.relu %x : tensor<?x4xf32>
        return %y : tensor<?x4xf32>
      }
    """
    text = model.read_text()
    end = text.rindex("\n}")  # of the module
    model.write_text(text[:end] + other + text[end:])
    tools.compile(model, "-o", tmp_path / "m.itx", "--target=reference")
    with pytest.raises(
        intarsia.InvalidArgumentError, match="function 'step_candidates' does not find the candidates of"
    ):
        intarsia.Cache(intarsia.load(tmp_path / "m.itx"))
