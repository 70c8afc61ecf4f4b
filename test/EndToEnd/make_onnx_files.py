#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what ONNX Runtime computes of ONNX files of Python packages to onnx/packages.npz: elements of each result.

It does not optimize the graphs: those of integers mean what the file says, and its optimizations round elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from onnx_packages import FILES, thinned


def main() -> None:
    results = {}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, file in FILES.items():
        session = onnxruntime.InferenceSession(file.path(), options, providers=["CPUExecutionProvider"])
        for number, feed in enumerate(file.feeds()):
            for output, values in enumerate(session.run(None, feed)):
                results[f"{name}/{number}/{output}"] = thinned(values)
                results[f"{name}/{number}/{output}/shape"] = np.array(values.shape, np.int32)
    np.savez_compressed(Path(__file__).resolve().parent / "onnx" / "packages.npz", **results)


if __name__ == "__main__":
    main()
