# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files that people use, from Python packages, against ONNX Runtime (make_onnx_files.py), at several sizes."""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest
from onnx_packages import FILES, thinned

EXPECTED = np.load(Path(__file__).parent / "onnx" / "packages.npz")
#: Values between layers of "turns" are integers of 8 bits. Sums in another order round some of them to a neighbour; ONNX
#: Runtime's results with and without optimizations are two steps of the last layer from each other, as ours may be.
TOLERANCES = {"turns": 3e-3}


@pytest.mark.parametrize("name", FILES)
def test_files_of_packages(tmp_path: Path, name: str) -> None:
    module = intarsia.compile(FILES[name].path(), output=tmp_path / "m.itx")
    for number, feed in enumerate(FILES[name].feeds()):
        results = module.main(**feed)
        for output, values in enumerate(results if isinstance(results, tuple) else (results,)):
            key = f"{name}/{number}/{output}"
            assert values.shape == tuple(EXPECTED[f"{key}/shape"]), key
            # In f32 through up to 100 layers.
            np.testing.assert_allclose(
                thinned(values), EXPECTED[key], rtol=1e-4, atol=TOLERANCES.get(name, 1e-4), err_msg=key
            )


def test_metadata(tmp_path: Path) -> None:
    """What a file has beside its graph is with the function: the characters that are recognised."""
    module = intarsia.compile(FILES["text-recognition"].path(), output=tmp_path / "m.itx")
    characters = module.signature("main").metadata["onnx"]["character"].splitlines()
    assert len(characters) == 6623
    assert {"A", "z", "0", "字"} <= set(characters)
