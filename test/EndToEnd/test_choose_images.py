# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and linears of models of images that are chosen to have 8 bits: losses, directories, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.__main__ import main
from intarsia.quantization.choice import Budget, Candidate, Item, Problem, choose_and_measure
from intarsia.quantization.choose import choose
from intarsia.quantization.image_choice import _split
from intarsia.quantization.safetensors import read_tensors, write_tensors
from PIL import Image

IMAGES = Path(__file__).resolve().parent / "images"
RESNET = IMAGES / "resnet-bottleneck"
#: It reads the three colours of a picture, so that it has no kernel in 8 bits.
STEM = "resnet.embedder.embedder.convolution"
KEPT = "resnet.encoder.stages.1.layers.0.layer.1.convolution"


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(20, 3, 40, 48)).astype(np.float32)


def outputs_of(directory: Path, images: np.ndarray, *flags: str) -> np.ndarray:
    return intarsia.compile(directory, options=list(flags)).main(pixel_values=images)


def kl_by_hand(exact: np.ndarray, other: np.ndarray, axis: int = -1) -> float:
    """The definition, in f64; classes are those of one axis."""
    x, y = (np.moveaxis(one.astype(np.float64), axis, -1) for one in (exact, other))
    p, q = (one - np.logaddexp.reduce(one, -1, keepdims=True) for one in (x, y))
    return float((np.exp(p) * (p - q)).sum(-1).mean())


@pytest.fixture(scope="module")
def chosen(images, tmp_path_factory):
    """A choice within half of the loss of 8 bits everywhere, its directory, what was decided, and its report."""
    folder = tmp_path_factory.mktemp("chosen")
    everywhere = choose(RESNET, folder / "all", images, Budget(bits=12), keep=["*=int8"])
    outcome = choose(
        RESNET, folder / "q", images, Budget(loss=everywhere.loss / 2), keep=[f"{KEPT}=none", f"{STEM}=none"],
        explain=folder / "trace.json", report=folder / "report.html",
    )  # fmt: skip
    trace = json.loads((folder / "trace.json").read_text())
    return outcome, folder / "q", trace, (folder / "report.html").read_text(), everywhere


def test_the_loss_of_the_whole_is_measured(chosen, images):
    """On a quarter of the images, which scales are not found on: against the definition."""
    outcome, directory, trace, _, everywhere = chosen
    measured = _split(images, 32)[1]
    assert len(measured) == 5
    exact, actual = (outputs_of(folder, measured) for folder in (RESNET, directory))
    assert outcome.loss == trace["loss"]
    assert outcome.loss == pytest.approx(kl_by_hand(exact, actual), rel=0.02)
    assert 0 < outcome.loss <= everywhere.loss / 2
    assert outcome.expected == pytest.approx(outcome.loss, rel=0.9)
    assert trace["unit"] == "nats"
    assert trace["same_class"] == (exact.argmax(-1) == actual.argmax(-1)).mean()


def test_products_are_chosen_by_what_they_lose_alone(chosen, images, tmp_path):
    """The loss of one convolution is that of a directory which has this one alone in 8 bits."""
    _, directory, trace, _, everywhere = chosen
    weights = {key: array for key, array in read_tensors(RESNET / "model.safetensors").items() if array.ndim > 1}
    items = {item["key"]: item for item in trace["items"]}
    assert set(items) == set(weights) - {f"{STEM}.weight"}
    formats = {key: item["chosen"] for key, item in items.items()}
    assert formats[f"{KEPT}.weight"] == "none"
    assert set(formats.values()) == {"int8", "none"}
    assert {one.format for item in everywhere.problem.items for one in item.candidates} == {"int8"}
    assert trace["bytes"] == sum(
        array.size + 4 * len(array) if formats.get(key) == "int8" else array.nbytes
        for key, array in read_tensors(RESNET / "model.safetensors").items()
    )
    key = next(key for key, form in formats.items() if form == "int8" and "layer.1" in key)
    choice = json.loads((directory / "intarsia-precision.json").read_text())
    assert choice["tensors"] == {name: "int8-channel" if f == "int8" else f for name, f in formats.items()}
    factors = next(one["factors"] for one in choice["static_inputs"] if key in one["weights"])
    choice |= {"tensors": {key: "int8-channel"}, "static_inputs": [{"weights": [key], "factors": factors}]}
    (tmp_path / "one.json").write_text(json.dumps(choice))
    measured = _split(images, 32)[1]
    exact, alone = outputs_of(RESNET, measured), outputs_of(RESNET, measured, f"--precision={tmp_path / 'one.json'}")
    loss = next(one["loss"] for one in items[key]["candidates"] if one["format"] == "int8")
    assert loss == pytest.approx(kl_by_hand(exact, alone), rel=0.02)


def test_the_report_has_no_times(chosen):
    outcome, _, _, report, _ = chosen
    for text in (outcome.table, report):
        assert KEPT in text
        assert "tokens a second" not in text
    assert "nats" in outcome.table


def test_a_size_that_is_too_small_names_the_smallest(images, tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match=r"the smallest size that can be is .* kB, asked for are"):
        choose(RESNET, tmp_path / "q", images, Budget(size=1e3))


@pytest.mark.parametrize("name", ["segformer", "swin"])
def test_pixels_and_windows(images, tmp_path, name):
    """Classes of pixels are the second dimension. Linears are measured beside convolutions."""
    model = IMAGES / name
    with np.load(model / "golden.npz") as golden:
        shape = golden["pixel_values"].shape[1:]
    some = np.random.default_rng(1).normal(size=(8, *shape)).astype(np.float32)
    outcome = choose(model, tmp_path / "q", some, Budget(bits=12), keep=["*=int8"])
    exact, actual = (outputs_of(folder, _split(some, 32)[1]) for folder in (model, tmp_path / "q"))
    assert outcome.loss == pytest.approx(kl_by_hand(exact, actual, axis=1), rel=0.02)
    assert outcome.same_class == pytest.approx((exact.argmax(1) == actual.argmax(1)).mean())
    ranks = {array.ndim for key, array in read_tensors(model / "model.safetensors").items()
             if key in {item.key for item in outcome.problem.items}}  # fmt: skip
    assert 2 in ranks


def test_outputs_without_classes_lose_cosine(images, tmp_path):
    """Each output of a picture is one vector."""
    model, gray = IMAGES / "resnet-model", images[:, :1]
    outcome = choose(model, tmp_path / "q", gray, Budget(bits=12), keep=["*=int8"])
    cosines = [
        1 - (x * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
        for left, right in zip(*(outputs_of(folder, _split(gray, 32)[1]) for folder in (model, tmp_path / "q")),
                               strict=True)
        for x, y in zip(left.astype(np.float64), right.astype(np.float64), strict=True)
    ]  # fmt: skip
    assert outcome.loss == pytest.approx(np.mean(cosines), rel=0.02)
    assert "1 - cosine" in outcome.table


def test_a_run_that_was_ended_goes_on(images, tmp_path):
    said: list[str] = []

    def end(text: str) -> None:
        said.append(text)
        if text.startswith(f"{KEPT} in int8"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choose(RESNET, tmp_path / "q", images, Budget(bits=20), progress=end)
    said.clear()
    outcome = choose(RESNET, tmp_path / "q", images, Budget(bits=20), progress=said.append)
    assert said[0] == "going on with what was measured"
    assert not any("inputs" in text for text in said)
    assert not (tmp_path / "q.work").exists()
    assert 8 < outcome.problem.bits(outcome.chosen) <= 20


def test_measured_images_are_spread_over_all():
    """Folders are often sorted by what pictures show."""
    numbers = np.arange(100).reshape(100, 1, 1, 1)
    calibration, measured = _split(numbers, 10)
    np.testing.assert_array_equal(np.diff(measured.reshape(-1)), [10] * 9)
    assert sorted([*calibration.reshape(-1), *measured.reshape(-1)]) == list(range(100))
    for count in range(2, 40):
        calibration, measured = _split(numbers[:count], 5)
        assert len(measured) == min(5, max(1, count // 4))
        assert len(calibration) + len(measured) == count


def test_a_correction_that_goes_too_far_is_taken_back():
    """Where the whole of the larger choice loses more than the limit, the one before holds."""
    items = [Item(name, name, 1, [Candidate("int8", loss, 1), Candidate("none", 0, 4)]) for name, loss in
             (("a", 1.0), ("b", 4.0))]  # fmt: skip
    measured = {(0, 0): 9.0, (0, 1): 0.5, (1, 0): 3.9, (1, 1): 0.0}
    chosen, expected, loss = choose_and_measure(Problem(items), Budget(loss=4.5), lambda one: measured[tuple(one)])
    assert (tuple(chosen), expected, loss) in {((0, 1), 1.0, 0.5), ((1, 0), 4.0, 3.9)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "measures what formats lose on a text: give --calibration=FILE; a folder of pictures for a model of"),
        (["--calibration=empty"], "empty: has no pictures"),
        (["--calibration=broken"], "is no picture that Pillow reads"),
        (["--calibration=text.txt"], "is taken for a text, and"),
        (["--calibration=ids.npy"], "token ids, the model reads 'pixel_values': give a folder of pictures"),
        (["--calibration=one.npy"], "1 image is given; scales are found on some, and losses measured on others"),
        (["--calibration=channels.npy"], "dimension 1 must be 3"),
        (["--calibration=nan.npy"], "the calibration images have NaN or infinity"),
        (["--calibration=images.npy", "--candidates=int8,int4"],
         "--candidates=int4: convolutions and linears of models of images have int8"),
        (["--calibration=images.npy", "--keep=*=int4"], "--keep=*=int4: convolutions and linears of models of images"),
        (["--calibration=images.npy", "--keep=absent=none"], "--keep=absent=…: no convolution or linear is named so"),
        (["--calibration=images.npy", f"--keep={STEM}=int8"], f"'{STEM}' as int8: it stays as it is, as convolutions"),
        (["--calibration=images.npy", "--faster-than=9"], "predicts tokens a second, which models of images do not"),
        (["--calibration=images.npy", "--proxy"], "--proxy is for texts"),
        (["--calibration=images.npy", "--quantize-parts=embedding"], "are those of linears, which convolutions are"),
        (["--calibration=images.npy", "--target=cuda:sm_90a"], "target 'cuda:sm_90a' has no kernels for inputs in 8"),
    ],
)  # fmt: skip
def test_what_is_refused(images, tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).symlink_to(RESNET / name)
    (model / "preprocessor_config.json").write_text('{"size": {"height": 32, "width": 32}}')
    for name in ("empty", "broken"):
        Path(name).mkdir()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save("broken/a.png")
    Path("broken/b.png").write_text("no picture")
    Path("text.txt").write_text("a text")
    np.save("ids.npy", np.arange(32).reshape(4, 8))
    np.save("images.npy", images[:4])
    np.save("one.npy", images[:1])
    np.save("channels.npy", np.zeros((4, 4, 32, 32), np.float32))
    np.save("nan.npy", np.where(images[:4] > 3, np.nan, images[:4]))
    assert main(["quantize", str(model), "-o", "q", "--quantize=auto", "--max-loss=1%", *flags]) == 1
    assert message in capsys.readouterr().err
    assert not Path("q").exists()


def test_pictures_for_a_model_of_texts(tmp_path, capsys):
    (tmp_path / "pictures").mkdir()
    text = IMAGES.parent / "models" / "bert"
    given = ["quantize", str(text), "-o", str(tmp_path / "q"), "--quantize=auto", "--max-loss=1%"]
    assert main([*given, f"--calibration={tmp_path / 'pictures'}"]) == 1
    assert "is a folder, of pictures, and" in capsys.readouterr().err
    np.save(tmp_path / "images.npy", np.zeros((4, 3, 8, 8), np.float32))
    assert main([*given, f"--calibration={tmp_path / 'images.npy'}"]) == 1
    assert "give a text" in capsys.readouterr().err


def test_weights_that_are_no_numbers(images, tmp_path):
    """Scales of inputs are refused where a feature is not finite."""
    tensors = dict(read_tensors(RESNET / "model.safetensors"))
    name = f"{STEM}.weight"
    weight = tensors[name].copy()
    weight[1] = np.nan
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes((RESNET / "config.json").read_bytes())
    write_tensors(tmp_path / "model" / "model.safetensors", tensors | {name: weight})
    with pytest.raises(intarsia.InvalidArgumentError, match="has NaN or infinity in feature 1 on the calibration"):
        choose(tmp_path / "model", tmp_path / "q", images[:4], Budget(bits=12))
