# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pip install .` gives a package that works by itself, in its form without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2]


def test_pip_install(minilm_artifact, minilm, build_dir, tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    settings = [
        "--config-settings=cmake.define.INTARSIA_COMPILER=OFF",
        f"--config-settings=build-dir={build_dir}/python-package",
    ]
    result = subprocess.run(
        [*command, tmp_path / "site", *settings, SOURCE], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr
    program = f"""
import intarsia, numpy
assert intarsia.__file__.startswith({str(tmp_path)!r}), intarsia.__file__
module = intarsia.load({str(minilm_artifact)!r})
numpy.save({str(tmp_path / "out.npy")!r}, module.embed([[101, 7592, 102]]))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), minilm.embed([[101, 7592, 102]]))
    runner = tmp_path / "site" / "intarsia" / "bin" / "intarsia-run"
    assert subprocess.run([runner, "--version"], capture_output=True).returncode == 0
