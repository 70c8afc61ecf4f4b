#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times ONNX files of Python packages beside ONNX Runtime and OpenVINO, in one process, by turns.

The files are those of test/EndToEnd/onnx_packages.py, called with sizes that they are used with. A round times all sides,
one after another, for a while each; a ratio is the peer's time over ours in one round, and the median over the rounds is
printed beside the medians of the times. Results are compared with those of ONNX Runtime first.

Usage (in the environment .venv-bench, with PYTHONPATH at a build's python folder):

    bench/onnx_files.py [--only=speech,turns] [--rounds=5] [--seconds=0.3] [--threads=2]
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness.clock import timed

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "EndToEnd"))
from onnx_packages import FILES, MAKERS, Feed, OnnxFile  # noqa: E402 (it is found there)

#: Sizes of calls by the files' names; the others are called with the first size of their tests.
SIZES: dict[str, list[tuple[int, ...]]] = {
    "text-detection": [(1, 320, 256), (1, 736, 736)],
    "text-recognition": [(1, 48, 320), (6, 48, 320)],
    "text-direction": [(1, 48, 192), (6, 48, 192)],
    "speech": [(1, 576, 16000), (1, 288, 8000)],
    "speech-ifless": [(1, 576, 16000), (1, 288, 8000)],
    "speech-sequence": [(40,)],
}


def sides_of(file: OnnxFile, feed: Feed, ours: Callable[..., object], threads: int) -> dict[str, Callable[[], object]]:
    """Return a call of each side. Ours is called first, so that its threads are there before a peer places its own."""
    import onnxruntime
    import openvino

    results = ours(**feed)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(file.path(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feed)
    difference = max(
        float(np.abs(np.asarray(result) - other).max())
        for result, other in zip(results if isinstance(results, tuple) else (results,), expected, strict=True)
    )
    print(f"    largest difference of results: {difference:.1e}", flush=True)
    # One thread of the process is asked for by all sides, which must not be bound to a core.
    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    hints["INFERENCE_PRECISION_HINT"] = "f32"
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(**feed),
        "onnxruntime": lambda: session.run(None, feed),
    }
    try:
        compiled = openvino.Core().compile_model(file.path(), "CPU", hints)
    except RuntimeError as error:
        # Branches whose results have different ranks.
        print(f"    OpenVINO does not take the file: {str(error).strip().splitlines()[-1]}", flush=True)
        return sides
    request = compiled.create_infer_request()
    inputs = [feed[value.get_any_name()] for value in compiled.inputs]
    return sides | {"openvino": lambda: request.infer(inputs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(FILES), help="names of files, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ.setdefault("ITX_THREADS", str(arguments.threads))
    import intarsia

    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only.split(","):
            file = FILES[name]
            ours = intarsia.compile(file.path(), output=Path(folder) / f"{name}.itx").main
            for sizes in SIZES.get(name, file.sizes[:1]):
                label = f"{name}, {'x'.join(map(str, sizes))}"
                print(label, flush=True)
                sides = sides_of(file, MAKERS[file.kind](*sizes), ours, arguments.threads)
                rounds = [
                    {side: timed(call, arguments.seconds) for side, call in sides.items()}
                    for _ in range(arguments.rounds)
                ]
                ratios = {
                    side: statistics.median(times[side] / times["ours"] for times in rounds)
                    for side in sides
                }  # fmt: skip
                for side, ratio in ratios.items():
                    median = statistics.median(times[side] for times in rounds)
                    print(f"    {side:12} {median:9.3f} ms, {ratio:.2f} times ours", flush=True)
                best[label] = min(ratio for side, ratio in ratios.items() if side != "ours")
    worst = min(best, key=lambda label: best[label])
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in best.values()))
    print(f"best peer over ours: geometric mean {mean:.2f}, least {best[worst]:.2f} ({worst})")


if __name__ == "__main__":
    main()
