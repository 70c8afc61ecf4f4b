# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs make_model.py's model, compiled to the given module or program, and compares with NumPy in f64."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from make_model import tensors

command, folder = sys.argv[2:], Path(sys.argv[1])
x = np.random.default_rng(3).standard_normal((5, 16)).astype(np.float32)
np.save(folder / "x.npy", x)
arguments = [f"--input=x=@{folder}/x.npy", f"--output=y=@{folder}/y.npy", f"--output=z=@{folder}/z.npy"]
subprocess.run([*command, *arguments], check=True)

weights, more = tensors()
wide = x.astype(np.float64)
normal = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weights["scale"]
y = normal @ np.concatenate([weights["a"], more["b"].reshape(32, 16)]).T + weights["bias"]
z = normal @ weights["c"]
# Sums of 16 products of values around 1 in f32.
np.testing.assert_allclose(np.load(folder / "y.npy"), y, atol=2e-5)
np.testing.assert_allclose(np.load(folder / "z.npy"), z, atol=2e-5)
