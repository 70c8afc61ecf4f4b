#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""f32 GEMM by the oneDNN inside torch, as a worker of the harness (protocol: bench/common/Worker.h).

The weight is prepacked for M rows, as torch.compile with frozen weights does it, and called through the
same operator. ONEDNN_VERBOSE=1 shows that it runs brg_matmul on a blocked weight.

usage: gemm_torch.py M N K THREADS [COPIES]
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np


def test_values(count: int, seed: int) -> np.ndarray:
    """Returns the test matrix of bench/common/Worker.h (testValue)."""
    hashed = np.arange(count, dtype=np.uint32) + np.uint32((seed * 0x9E3779B9) % 2**32)
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (((hashed >> np.uint32(12)) % np.uint32(2001)).astype(np.int32) - 1000).astype(np.float32) / np.float32(1000)


def main() -> None:
    m, n, k, threads = (int(word) for word in sys.argv[1:5])
    copies = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    answers = os.dup(1)
    os.dup2(2, 1)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import torch

    torch.set_num_threads(threads)
    x = torch.from_numpy(test_values(m * k, 1).reshape(m, k))
    w = torch.from_numpy(test_values(n * k, 2).reshape(n, k))
    with torch.inference_mode():
        packed = [torch.ops.mkldnn._reorder_linear_weight(w.clone(), m) for _ in range(copies)]
        version = next(line for line in torch.__config__.show().splitlines() if "MKL-DNN" in line)
        answer = {
            "ready": True,
            "version": f"torch {torch.__version__}, oneDNN {version.split('MKL-DNN v')[1].split()[0]}",
            "settings": {"operator": "mkldnn::_linear_pointwise", "weights": "prepacked for M rows"},
        }
        os.write(answers, json.dumps(answer).encode() + b"\n")
        result = torch.ops.mkldnn._linear_pointwise(x, packed[0], None, "none", [], "")
        turn = 0
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "time":
                calls, warmup = (int(word) for word in rest.split())
                ms = []
                for index in range(warmup + calls):
                    start = time.perf_counter()
                    result = torch.ops.mkldnn._linear_pointwise(x, packed[turn], None, "none", [], "")
                    if index >= warmup:
                        ms.append((time.perf_counter() - start) * 1e3)
                    turn = (turn + 1) % copies
                answer = {"ms": ms}
            else:
                result.numpy().astype("<f4").tofile(rest)
                answer = {"saved": True}
            os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
