#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a language model in ONNX whose weights have 4 bits (MatMulNBits), beside ONNX Runtime, in one process, by turns.

The file is as ONNX Runtime's tools write decoders: GroupQueryAttention over keys and values that calls pass on, skip
norms, weights beside the file. Sizes are those of a model with 1.1 billion weights (22 layers of 2048 features, 32 heads
on 4 pairs of keys and values); the weights are random. Both sides round inputs of linears to 8 bits, each in its own way:
with random weights a few positions of many layers differ by that. With --activations=16, and accuracy_level 1 in the file,
logits are equal.

Usage (in the environment .venv-bench, with PYTHONPATH at a build's python folder):

    bench/onnx_decoder.py --compiler=build/release/bin/intarsia-compile [--layers=22] [--prompt=128] [--pairs=5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
from harness.clock import timed
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
HIDDEN, INTERMEDIATE, HEADS, PAIRS, FEATURES, VOCABULARY = 2048, 5632, 32, 4, 64, 32000
BLOCK, LONGEST = 32, 2048


class Decoder:
    """A file with its weights beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)
        self.data = path.with_suffix(".data").open("wb")

    def weight(self, name: str, values: np.ndarray) -> str:
        """Writes a weight behind the others; small tensors stay in the graph."""
        if values.nbytes <= 64:
            self.initializers.append(numpy_helper.from_array(values, name))
            return name
        self.data.write(b"\0" * (-self.data.tell() % 64))
        tensor = TensorProto(name=name, dims=values.shape, data_type=helper.np_dtype_to_tensor_dtype(values.dtype))
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": Path(self.data.name).name, "offset": self.data.tell(), "length": values.nbytes}
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        self.data.write(np.ascontiguousarray(values).tobytes())
        self.initializers.append(tensor)
        return name

    def op(self, kind: str, inputs: list[str], outputs: list[str], domain: str = "com.microsoft", **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def linear(self, name: str, x: str, depth: int, columns: int) -> str:
        blocks = depth // BLOCK
        packed = self.random.integers(0, 256, (columns, blocks, BLOCK // 2), dtype=np.uint8)
        # Values of -8 to 7 have a deviation of 4.6: results have that of the input.
        scales = np.full((columns * blocks,), 1 / 4.6 / depth**0.5, np.float32)
        inputs = [x, self.weight(f"{name}.q", packed), self.weight(f"{name}.s", scales)]
        return self.op("MatMulNBits", inputs, [name], K=depth, N=columns, bits=4, block_size=BLOCK, accuracy_level=4)

    def norm(self, name: str) -> str:
        return self.weight(name, np.ones(HIDDEN, np.float32))

    def write(self, layers: int) -> None:
        """Writes the whole model."""
        # The last position of each row, and the number of all positions, from the mask.
        axis = self.weight("axis", np.array([1], np.int64))
        one = self.weight("one", np.array([1], np.int64))
        self.op("ReduceSum", ["attention_mask", axis], ["count"], "", keepdims=0)
        self.op("Sub", ["count", one], ["last"], "")
        self.op("Cast", ["last"], ["seqlens_k"], "", to=TensorProto.INT32)
        self.op("Shape", ["attention_mask"], ["shape"], "")
        self.op("Gather", ["shape", self.weight("second", np.array(1, np.int64))], ["total"], "", axis=0)
        self.op("Cast", ["total"], ["total_length"], "", to=TensorProto.INT32)
        angles = np.arange(LONGEST)[:, None] / 10000.0 ** (np.arange(FEATURES // 2) * 2 / FEATURES)
        tables = [self.weight(f.__name__, f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
        table = self.weight("embed", self.random.standard_normal((VOCABULARY, HIDDEN), dtype=np.float32))
        x = self.op("Gather", [table, "input_ids"], ["embedded"], "", axis=0)
        normed = self.op("SimplifiedLayerNormalization", [x, self.norm("first_norm")], ["normed"], "", axis=-1,
                         epsilon=1e-5, stash_type=1)  # fmt: skip
        outputs = []
        for layer in range(layers):
            of = f"layers.{layer}"
            q = self.linear(f"{of}.q", normed, HIDDEN, HEADS * FEATURES)
            k = self.linear(f"{of}.k", normed, HIDDEN, PAIRS * FEATURES)
            v = self.linear(f"{of}.v", normed, HIDDEN, PAIRS * FEATURES)
            past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
            present = [f"present.{layer}.{part}" for part in ("key", "value")]
            outputs += present
            inputs = [q, k, v, *past, "seqlens_k", "total_length", *tables]
            attention = self.op("GroupQueryAttention", inputs, [f"{of}.attention", *present], num_heads=HEADS,
                                kv_num_heads=PAIRS, do_rotary=1, scale=FEATURES**-0.5)  # fmt: skip
            o = self.linear(f"{of}.o", attention, HIDDEN, HIDDEN)
            self.skip([x, o, self.norm(f"{of}.norm")], f"{of}.normed", f"{of}.sum")
            gate = self.linear(f"{of}.gate", f"{of}.normed", HIDDEN, INTERMEDIATE)
            up = self.linear(f"{of}.up", f"{of}.normed", HIDDEN, INTERMEDIATE)
            self.op("Sigmoid", [gate], [f"{of}.sigmoid"], "")
            self.op("Mul", [gate, f"{of}.sigmoid"], [f"{of}.silu"], "")
            self.op("Mul", [f"{of}.silu", up], [f"{of}.product"], "")
            down = self.linear(f"{of}.down", f"{of}.product", INTERMEDIATE, HIDDEN)
            x, normed = f"{of}.result", f"{of}.result_normed"
            self.skip([f"{of}.sum", down, self.norm(f"{of}.last_norm")], normed, x)
        self.linear("logits", normed, HIDDEN, VOCABULARY)
        self.data.close()
        integers, floats = TensorProto.INT64, TensorProto.FLOAT
        inputs = [
            helper.make_tensor_value_info("input_ids", integers, ["batch", "tokens"]),
            helper.make_tensor_value_info("attention_mask", integers, ["batch", "total"]),
        ]
        results = [helper.make_tensor_value_info("logits", floats, ["batch", "tokens", VOCABULARY])]
        for layer in range(layers):
            for part in ("key", "value"):
                inputs.append(helper.make_tensor_value_info(f"past_key_values.{layer}.{part}", floats,
                                                            ["batch", PAIRS, "past", FEATURES]))  # fmt: skip
                results.append(helper.make_tensor_value_info(f"present.{layer}.{part}", floats,
                                                             ["batch", PAIRS, "total", FEATURES]))  # fmt: skip
        graph = helper.make_graph(self.nodes, "decoder", inputs, results, self.initializers)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        self.path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())

    def skip(self, inputs: list[str], normed: str, total: str) -> None:
        self.op("SkipSimplifiedLayerNormalization", inputs, [normed, "", "", total], epsilon=1e-5)


def inputs_of(layers: int, tokens: int, past: int) -> dict[str, np.ndarray]:
    """Returns the inputs of a call with `tokens` new tokens behind `past` ones."""
    random = np.random.default_rng(1)
    shape = (1, PAIRS, past, FEATURES)
    values = {
        "input_ids": random.integers(0, VOCABULARY, (1, tokens), dtype=np.int64),
        "attention_mask": np.ones((1, past + tokens), np.int64),
    }
    for layer in range(layers):
        for part in ("key", "value"):
            values[f"past_key_values.{layer}.{part}"] = random.standard_normal(shape, dtype=np.float32)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/release/bin/intarsia-compile")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the model is made")
    parser.add_argument("--activations", default="8", help="--quantize-activations of ours")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt, and before a token")
    parser.add_argument("--pairs", type=int, default=5, help="rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["ITX_THREADS"] = str(arguments.threads)
    import intarsia
    import onnxruntime

    arguments.cache.mkdir(parents=True, exist_ok=True)
    file = arguments.cache / f"decoder-{arguments.layers}.onnx"
    if not file.exists():
        Decoder(file).write(arguments.layers)
    artifact = file.with_suffix(".itx")
    begin = time.perf_counter()
    activations = f"--quantize-activations={arguments.activations}"
    subprocess.run([arguments.compiler, file, "-o", artifact, activations], check=True)
    print(f"compiled in {time.perf_counter() - begin:.1f} s")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    ours = intarsia.load(artifact)["main"]
    for what, tokens, past in (("prompt", arguments.prompt, 0), ("token", 1, arguments.prompt)):
        inputs = inputs_of(arguments.layers, tokens, past)
        sides = {
            "ours": lambda inputs=inputs: ours(**inputs),
            "onnxruntime": lambda inputs=inputs: session.run(None, inputs),
        }
        logits = [np.asarray(call()[0]) for call in sides.values()]
        error = np.abs(logits[0] - logits[1]).max() / np.abs(logits[1]).max()
        rounds = [
            {name: timed(call, arguments.seconds) for name, call in sides.items()} for _ in range(arguments.pairs)
        ]
        times = {name: statistics.median(one[name] for one in rounds) for name in sides}
        ratio = statistics.median(one["onnxruntime"] / one["ours"] for one in rounds)
        print(f"{what}: {tokens} tokens behind {past}; largest difference of logits {error:.1e} of the largest")
        for name, milliseconds in times.items():
            print(f"    {name:12} {milliseconds:9.2f} ms")
        print(f"    ONNX Runtime's time / ours: {ratio:.2f}")


if __name__ == "__main__":
    main()
