# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/c/classify.c compiles as its README says, and finds the class that transformers found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2]
END_TO_END = SOURCE / "test" / "EndToEnd"
MODEL = "vit-image-classification"


def test_classify(tools, build_dir, tmp_path):
    program = tmp_path / "classify"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", f"-L{build_dir}/lib"]
    command = ["clang-22", SOURCE / "examples/c/classify.c", *flags, "-lintarsia_runtime", "-o", program]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

    tools.compile(END_TO_END / "models" / MODEL, "-o", tmp_path / "m.itx")
    with np.load(END_TO_END / "goldens" / f"{MODEL}.npz") as golden:
        np.save(tmp_path / "x.npy", golden["pixel_values"])
        classes = golden["logits"].argmax(-1)
    environment = {"LD_LIBRARY_PATH": f"{build_dir}/lib"}
    run = [program, tmp_path / "m.itx", tmp_path / "x.npy"]
    result = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "input pixel_values: f32, rank 4\n" in result.stdout
    for row, best in enumerate(classes[:4]):
        assert f"logits, row {row}: largest at {best}," in result.stdout

    result = subprocess.run(run[:2], env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "error: input 'pixel_values' of function 'main' is missing" in result.stderr
