# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of every architecture, with random weights, against what transformers computed for them.

models/NAME is a Hugging Face directory, goldens/NAME.npz holds inputs and expected outputs by their names (written by
make_goldens.py). Every function of the model is called, and every array of the file must be used.
"""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest
from programs import one_of_each_family

HERE = Path(__file__).resolve().parent
MODELS = sorted(path.name for path in (HERE / "models").iterdir() if (path / "config.json").exists())

# The models have few layers and weights of size 0.02 to 1; PyTorch's own float32 rounding is below 3e-6 on them.
TOLERANCE = 2e-5


def test_there_are_models():
    assert len(MODELS) >= 4


@pytest.mark.parametrize(
    "name", one_of_each_family(MODELS, "bert", "distilbert", "roberta", "sentence-all-poolings", "vit", "xlm-roberta")
)
def test_model(tools, scratch, name):
    artifact = scratch / f"{name}.itx"
    tools.compile(HERE / "models" / name, "-o", artifact)
    module = intarsia.load(artifact)
    with np.load(HERE / "goldens" / f"{name}.npz") as arrays:
        golden = dict(arrays)
    used = set()
    for function in module.functions:
        signature = module.signature(function)
        inputs = {value.name: golden[value.name] for value in signature.inputs if value.name in golden}
        result = module[function](**inputs)
        results = [result] if isinstance(result, np.ndarray) else list(result)
        for value, actual in zip(signature.outputs, results, strict=True):
            if value.name not in golden:
                continue
            expected = golden[value.name]
            assert actual.shape == expected.shape, value.name
            error = np.abs(actual - expected)
            mask = golden.get("attention_mask")
            if mask is not None and error.ndim == 3 and error.shape[:2] == mask.shape:
                error = error[mask != 0]
            assert error.max() <= TOLERANCE, f"{function}: {value.name} is off by {error.max():.2e}"
            used.add(value.name)
        used |= inputs.keys()
    assert used == golden.keys(), f"{module} has no input or output for some of the golden arrays"
