# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of images of every architecture, with random weights, against what transformers computed for them.

images/NAME is a Hugging Face directory with golden.npz in it (written by make_images.py, and by make_more_images.py,
which leaves out matrices that a seed gives).
"""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest
from programs import one_of_each_family
from seeded_weights import complete

HERE = Path(__file__).resolve().parent
MODELS = sorted(path.name for path in (HERE / "images").iterdir())

# Outputs are up to 5; errors of PyTorch and of a correct import are below 3e-6.
TOLERANCE = 2e-5


@pytest.mark.parametrize(
    "name",
    one_of_each_family(
        MODELS,
        "convnext",
        "dpt-depth",
        "efficientnet",
        "mobilenet-v1",
        "mobilenet-v2-dilated",
        "mobilenet-v3-small",
        "mobilevit",
        "regnet-y",
        "resnet-bottleneck",
        "segformer",
        "swin",
        "swin-padded",
    ),
)
def test_model(tools, scratch, name):
    folder = HERE / "images" / name
    tools.compile(complete(folder, scratch / name), "-o", scratch / f"{name}.itx")
    module = intarsia.load(scratch / f"{name}.itx")
    with np.load(folder / "golden.npz") as arrays:
        golden = dict(arrays)
    pixels = golden.pop("pixel_values")
    result = module.main(pixel_values=pixels)
    results = [result] if isinstance(result, np.ndarray) else list(result)
    assert [value.name for value in module.signature("main").outputs] == list(golden)
    for expected, actual in zip(golden.values(), results, strict=True):
        assert actual.shape == expected.shape
        error = np.abs(actual - expected).max()
        assert error <= TOLERANCE, f"off by {error:.2e}"
    # Images are computed each for itself.
    alone = module.main(pixel_values=pixels[:1])
    first = alone if isinstance(alone, np.ndarray) else alone[0]
    np.testing.assert_allclose(first, results[0][:1], rtol=0, atol=TOLERANCE)
