# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What end-to-end tests on several devices share: a folder, token ids, and what the CPU makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Give a folder that the tests of one file share."""
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2])


@pytest.fixture(scope="module")
def ids(folder: Path) -> Path:
    """Give token ids `[2, 17]` for the encoder in models/bert."""
    path = folder / "ids.npy"
    np.save(path, np.random.default_rng(0).integers(0, 99, (2, 17)))
    return path


@pytest.fixture(scope="module")
def on_cpu(tools, folder: Path, ids: Path) -> np.ndarray:
    """Give the hidden states `[2, 17, features]` that the CPU computes of the ids with models/bert."""
    tools.compile(Path(__file__).parent / "models" / "bert", "-o", folder / "cpu.itx", "--target=cpu")
    output = folder / "cpu.npy"
    tools.run("intarsia-run", folder / "cpu.itx", f"--input=input_ids=@{ids}", f"--output=@{output}")
    return np.load(output)
