#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times nests of loops that no kernel is made for beside PyTorch's inductor and OpenVINO, in one process, by turns.

Each nest is a function of MLIR as other compilers write it, and the same function of PyTorch, which inductor compiles
and OpenVINO converts. A round times all sides, one after another; a ratio is of one round, and the median of the ratios is
printed beside the medians of the times. Results are compared with PyTorch's first.

Usage (in an environment with torch and openvino, with PYTHONPATH at a build's python folder):

    bench/nests.py --compiler=build/release/bin/intarsia-compile [--only=NAME,…] [--pairs=7] [--threads=2]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness.clock import timed
from nest_programs import Nest, all_nests

os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")


def sides_of(nest: Nest, ours: Callable, peers: Sequence[str], threads: int) -> dict[str, Callable]:
    import torch

    tensors = [torch.from_numpy(value) for value in nest.arguments]
    expected = nest.function(*tensors)
    expected = [value.numpy() for value in (expected if isinstance(expected, tuple) else (expected,))]
    got = ours(*nest.arguments)
    for want, have in zip(expected, got if isinstance(got, (tuple, list)) else (got,), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5, err_msg=nest.name)
    result = {"ours": lambda: ours(*nest.arguments)}
    if "inductor" in peers:
        compiled = torch.compile(nest.function, dynamic=False)
        result["inductor"] = lambda: compiled(*tensors)
    if "openvino" in peers:
        import openvino as ov

        class Module(torch.nn.Module):
            def forward(self, *arguments: "torch.Tensor") -> "torch.Tensor":
                return nest.function(*arguments)

        exported = torch.export.export(Module(), tuple(tensors))
        model = ov.convert_model(exported)
        request = ov.Core().compile_model(
            model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        )
        request = request.create_infer_request()
        for i, value in enumerate(nest.arguments):
            request.set_input_tensor(i, ov.Tensor(value, shared_memory=True))
        result["openvino"] = request.infer
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="build/release/bin/intarsia-compile")
    parser.add_argument("--only", default="", help="names of nests, with commas")
    parser.add_argument("--pairs", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default="inductor,openvino")
    parser.add_argument("--keep", default="", help="folder for the MLIR file and the artifact")
    options = parser.parse_args()
    os.environ["ITX_THREADS"] = str(options.threads)
    import intarsia
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    nests = all_nests()
    if options.only:
        wanted = options.only.split(",")
        if unknown := set(wanted) - {nest.name for nest in nests}:
            sys.exit(
                f"no nest is named {', '.join(sorted(unknown))}; there are {', '.join(nest.name for nest in nests)}"
            )
        nests = [nest for nest in nests if nest.name in wanted]
    peers = [peer for peer in options.peers.split(",") if peer]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        (folder / "nests.mlir").write_text("\n".join(nest.text for nest in nests))
        subprocess.run([options.compiler, folder / "nests.mlir", "-o", folder / "nests.itx"], check=True)
        module = intarsia.load(folder / "nests.itx")
    print(
        f"{'nest':18}" + "".join(f"{side:>14}" for side in ["ours", *peers]) + f"{'best/ours':>12}  [least, most]",
        flush=True,
    )
    ratios = []
    for nest in nests:
        sides = sides_of(nest, getattr(module, nest.name), peers, options.threads)
        rounds = [
            {side: 1e3 * timed(call, options.seconds) for side, call in sides.items()} for _ in range(options.pairs)
        ]
        medians = {side: float(np.median([each[side] for each in rounds])) for side in sides}
        best = min(peers, key=medians.__getitem__, default="ours")
        of_rounds = [each[best] / each["ours"] for each in rounds]
        ratios.append(float(np.median(of_rounds)))
        print(
            f"{nest.name:18}"
            + "".join(f"{medians[side]:11.0f} us" for side in medians)
            + f"{ratios[-1]:12.2f}  [{min(of_rounds):.2f}, {max(of_rounds):.2f}]",
            flush=True,
        )
    print(f"{len(ratios)} nests: median {np.median(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
