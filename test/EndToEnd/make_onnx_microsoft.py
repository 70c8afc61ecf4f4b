#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes ONNX files of quantized ops and ops of com.microsoft, and what ONNX Runtime computes of them.

It needs the packages `onnx` and `onnxruntime`. Several ops are one model, so that it is compiled once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

FOLDER = Path(__file__).resolve().parent / "onnx"
MICROSOFT = "com.microsoft"


class Maker:
    """Nodes of one model. Tensors are inputs of the call, or stored in the file."""

    def __init__(self) -> None:
        """Begin a model."""
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.dims: dict[str, list[int | str]] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []
        self.undefined: dict[str, Any] = {}  # parts of outputs that an op says nothing of, which become NaN
        self.random = np.random.default_rng(0)

    def call(self, array: np.ndarray, dims: list[int | str] | None = None) -> str:
        """Return the name of a new input; dimensions with names are sizes of the call."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        self.dims[name] = dims or list(array.shape)
        return name

    def store(self, array: np.ndarray) -> str:
        """Return the name of a new tensor in the file."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def op(self, op: str, inputs: list[str], outputs: int = 1, domain: str = MICROSOFT, **attributes: Any) -> list[str]:
        """Add a node; returns the names of its outputs, which are outputs of the model."""
        names = [f"{op}.{len(self.nodes)}.{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}{len(self.nodes)}", domain=domain, **attributes))
        self.outputs += names
        return names

    def floats(self, *shape: int) -> np.ndarray:
        """Return numbers around 0."""
        return self.random.standard_normal(shape).astype(np.float32)

    def bytes(self, *shape: int, dtype: type = np.uint8) -> np.ndarray:
        """Return integers of all values."""
        limits = np.iinfo(dtype)
        return self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def scale(self, *shape: int) -> str:
        """Return the name of stored scales."""
        return self.store((self.random.random(shape) * 0.02 + 0.01).astype(np.float32))

    def zero(self, value: Any, dtype: type = np.uint8) -> str:
        """Return the name of a stored zero point."""
        return self.store(np.array(value, dtype))

    def model(self, opset: int = 21) -> onnx.ModelProto:
        """Return the model; its outputs have no stated shapes."""
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [
                helper.make_tensor_value_info(name, kind(array.dtype), self.dims[name])
                for name, array in self.inputs.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in self.outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def products() -> Maker:
    """Return convolutions and products of integers of 8 bits, whose sums are exact."""
    m = Maker()
    image, signed = m.call(m.bytes(2, 6, 9, 8), ["n", 6, "h", "w"]), m.call(m.bytes(2, 6, 9, 8, dtype=np.int8))
    windows = {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    w = m.store(m.bytes(4, 3, 3, 2, dtype=np.int8))
    m.op("ConvInteger", [image, w, m.zero(131)], domain="", group=2, **windows)
    m.op("ConvInteger", [signed, m.store(m.bytes(4, 6, 3, 3)), m.zero(-3, np.int8), m.zero(7)], domain="")
    conv = [
        image,
        m.scale(),
        m.zero(120),
        w,
        m.scale(4),
        m.zero([0] * 4, np.int8),
        m.store(np.float32(0.9)),
        m.zero(115),
    ]
    bias = m.store(m.random.integers(-3000, 3000, 4).astype(np.int32))
    m.op("QLinearConv", [*conv, bias], domain="", group=2, **windows)
    conv = [
        signed,
        m.scale(),
        m.zero(4, np.int8),
        m.store(m.bytes(5, 6, 3, 3, dtype=np.int8)),
        m.scale(),
        m.zero(2, np.int8),
    ]
    m.op("QLinearConv", [*conv, m.store(np.float32(0.8)), m.zero(-9, np.int8)], domain="", auto_pad="SAME_LOWER")
    nhwc = [m.call(m.bytes(1, 5, 6, 3)), m.scale(), m.zero(3), m.store(m.bytes(4, 3, 2, 2)), m.scale(), m.zero(99)]
    m.op("QLinearConv", [*nhwc, m.store(np.float32(0.5)), m.zero(128)], channels_last=1)
    # Sums of 900 products of this size are beyond 2^24.
    rows, wide = m.call(m.bytes(2, 3, 900), ["b", "s", 900]), m.store(np.full((900, 5), -128, np.int8))
    m.op("MatMulInteger", [rows, wide], domain="")
    computed = m.call(m.bytes(900, 4))
    m.op(
        "MatMulInteger",
        [m.call(m.bytes(3, 900, dtype=np.int8)), computed, m.zero(5, np.int8), m.zero([1, 2, 3, 255])],
        domain="",
    )
    linear = [
        rows,
        m.scale(),
        m.zero(17),
        m.store(m.bytes(900, 6, dtype=np.int8)),
        m.scale(6),
        m.zero([0] * 6, np.int8),
    ]
    m.op("QLinearMatMul", [*linear, m.store(np.float32(3)), m.zero(100)], domain="")
    m.op("MatMulInteger16", [m.call(np.array([[-32768, 5]], np.int16)), m.store(np.array([[32767], [-7]], np.int16))])
    gemm = [
        m.call(m.bytes(40, 7)),
        m.scale(),
        m.zero(9),
        m.store(m.bytes(5, 40, dtype=np.int8)),
        m.scale(5),
        m.zero([0] * 5, np.int8),
    ]
    added = m.store(m.random.integers(-9000, 9000, 5).astype(np.int32))
    m.op("QGemm", [*gemm, added, m.store(np.float32(0.9)), m.zero(130)], transA=1, transB=1, alpha=1.5)
    m.op("QGemm", gemm, transA=1, transB=1)
    x = m.call(m.floats(3, 7, 20), ["c", "t", 20])
    weight, scale = m.store(m.bytes(20, 6, dtype=np.int8)), m.scale(6)
    m.op("DynamicQuantizeMatMul", [x, weight, scale, "", m.store(m.floats(6))])
    quantized = m.op("DynamicQuantizeLinear", [x], 3, domain="")
    m.op("MatMulIntegerToFloat", [quantized[0], weight, quantized[1], scale, quantized[2]])
    return m


def elementwise() -> Maker:
    """Return ops that compute with the numbers which integers of 8 bits mean."""
    m = Maker()
    x, z = m.call(m.bytes(2, 4, 6, 6), ["n", 4, "h", "w"]), m.call(m.bytes(4, 1, 6))
    of_x, of_z = [m.scale(), m.zero(110)], [m.scale(), m.zero(140)]
    m.op("QLinearAdd", [x, *of_x, z, *of_z, m.store(np.float32(0.03)), m.zero(120)])
    m.op("QLinearMul", [x, *of_x, z, *of_z, m.store(np.float32(0.05)), m.zero(128)])
    m.op("QLinearSigmoid", [x, *of_x, m.store(np.float32(1 / 256)), m.zero(0)])
    m.op("QLinearLeakyRelu", [x, *of_x, m.scale(), m.zero(30)], alpha=0.2)
    m.op("QLinearSoftmax", [x, *of_x, m.store(np.float32(1 / 256)), m.zero(0)], opset=13, axis=1)
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    m.op("QLinearAveragePool", [x, *of_x, m.scale(), m.zero(100)], count_include_pad=1, **pool)
    m.op("QLinearGlobalAveragePool", [x, *of_x, m.scale(), m.zero(90)], channels_last=0)
    m.op("QLinearConcat", [m.scale(), m.zero(66), x, *of_x, x, *of_z], axis=1)
    m.op("QLinearWhere", [m.call(m.random.random((6, 6)) < 0.5), x, *of_x, z, *of_z, m.scale(), m.zero(1)])
    short = m.call(m.bytes(3, 4, dtype=np.int16))
    real = m.op("DequantizeLinear", [short, m.scale(4), m.zero([5, -7, 0, 1], np.int16)], axis=1)[0]
    m.op("QuantizeLinear", [real, m.scale(), m.zero(3000, np.uint16)])
    return m


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Return integers along the last dimension in bytes, the first in the lowest bits."""
    per_byte = 8 // bits
    fill = -values.shape[-1] % per_byte
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, fill)]).astype(np.uint8)
    values = values.reshape(*values.shape[:-1], -1, per_byte)
    return np.bitwise_or.reduce(values << (bits * np.arange(per_byte, dtype=np.uint8)), -1)


def blocks() -> Maker:
    """Return matrices with a scale for each block of features; some are small enough to be constants."""
    m = Maker()
    for bits, block, outputs, inputs, zeros, groups in [
        (4, 32, 24, 96, None, False), (4, 32, 24, 96, "packed", False), (4, 128, 40, 200, "packed", False),
        (4, 16, 24, 64, None, False), (4, 64, 20, 128, "floats", False), (8, 32, 24, 96, None, False),
        (8, 64, 24, 128, "packed", False), (2, 32, 40, 160, "packed", False), (2, 64, 40, 128, None, False),
        (4, 256, 24, 512, None, False), (4, 32, 5, 64, "packed", False), (4, 32, 24, 96, None, True),
    ]:  # fmt: skip
        count = -(-inputs // block)
        values = m.random.integers(0, 1 << bits, (outputs, count, block))
        scales = (m.random.random((outputs, count)) * 0.1 + 0.01).astype(np.float16).astype(np.float32)
        names = [m.call(m.floats(2, 3, inputs), ["b", "s", inputs]), m.store(packed(values, bits)), m.store(scales)]
        if zeros == "packed":
            names.append(m.store(packed(m.random.integers(0, 1 << bits, (outputs, count)), bits)))
        elif zeros == "floats":
            names.append(m.store((m.random.random((outputs, count)) * 15).astype(np.float32)))
        if groups:
            names += ["", m.store(m.random.integers(0, count, inputs).astype(np.int32))]
        elif bits == 4 and block == 32:
            names += [""] * (5 - len(names)) + [m.store(m.floats(outputs))]
        m.op("MatMulNBits", names, N=outputs, K=inputs, bits=bits, block_size=block)
    indices = m.call(np.array([[3, 0, -1], [7, 7, 12]]), ["b", "s"])
    for bits, zeros in [(4, True), (8, False), (2, True)]:
        table = m.random.integers(0, 1 << bits, (40, 64))
        names = [m.store(packed(table, bits)), indices, m.scale(40, 2)]
        if zeros:
            names.append(m.store(packed(m.random.integers(0, 1 << bits, (40, 2)), bits)))
        m.op("GatherBlockQuantized", names, bits=bits, block_size=32, gather_axis=0, quantize_axis=1)
    for kind in (0, 1):
        names = [m.call(m.floats(3, 48), ["r", 48]), m.store(m.bytes(20 * 48 // 2)), m.scale(15)]
        m.op("MatMulBnb4", names, N=20, K=48, block_size=64, quant_type=kind)
    return m


def norms() -> Maker:
    """Return normalisations, activations and products with what follows them."""
    m = Maker()
    x, skip = m.call(m.floats(2, 5, 8), ["b", "s", 8]), m.call(m.floats(5, 8), ["s", 8])
    gamma, beta, bias = (m.store(m.floats(8)) for _ in range(3))
    m.op("SkipLayerNormalization", [x, skip, gamma, beta, bias], 4, epsilon=1e-5)
    skips = m.op("SkipSimplifiedLayerNormalization", [x, x, gamma, bias], 4)
    for missing in (1, 2):  # which ONNX Runtime does not compute
        m.nodes[-1].output[missing] = ""
        m.outputs.remove(skips[missing])
    for missing in (1, 2):
        name = m.nodes[-2].output[missing]
        m.nodes[-2].output[missing] = ""
        m.outputs.remove(name)
    m.op("SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-6)
    ids, segments = (
        m.call(np.array([[1, 2, 8], [0, 5, 3]], np.int32)),
        m.call(np.array([[0, 0, 1], [1, 0, 0]], np.int32)),
    )
    tables = [m.store(m.floats(rows, 8)) for rows in (9, 40, 2)]
    mask = m.call(np.array([[1, 1, 0], [1, 1, 1]], np.int32))
    m.op("EmbedLayerNormalization", [ids, segments, *tables, gamma, beta, mask], 3)
    bytes_of = [m.store(m.bytes(*shape)) for shape in [(9, 8), (40, 8), (2, 8), (8,), (8,)]]
    quantization = [m.scale() for _ in range(5)] + [m.zero(zero) for zero in (128, 100, 120, 90, 140)]
    m.op("QEmbedLayerNormalization", [ids, segments, *bytes_of, mask, *quantization], 2)
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        m.op(op, [x])
    for op in ("BiasGelu", "FastGelu"):
        m.op(op, [x, bias])
    left, right = m.call(m.floats(3, 2, 4), [3, "k", 4]), m.call(m.floats(3, 4, 2))
    m.op("FusedMatMul", [left, right], alpha=0.5)
    m.op("FusedMatMul", [left, m.store(m.floats(6, 2))], transA=1, transB=1)
    m.op("FusedMatMul", [left, m.store(m.floats(2, 4, 5))], transBatchA=1)
    m.op(
        "FusedGemm",
        [m.call(m.floats(3, 8)), m.store(m.floats(5, 8)), m.store(m.floats(5))],
        transB=1,
        activation="Relu",
    )
    image, w = m.call(m.floats(2, 4, 7, 6), ["n", 4, 7, 6]), m.store(m.floats(6, 2, 3, 3))
    conv = {"pads": [1, 1, 1, 1], "group": 2}
    m.op("FusedConv", [image, w, m.store(m.floats(6))], activation="LeakyRelu", activation_params=[0.1], **conv)
    m.op("FusedConv", [image, w, "", m.call(m.floats(2, 6, 7, 6))], activation="Relu", **conv)
    m.op("FusedConv", [image, w], activation="HardSigmoid", activation_params=[0.2, 0.4], **conv)
    m.op("GridSample", [image, m.call(m.random.random((2, 3, 5, 2)).astype(np.float32) * 2 - 1)], padding_mode="border")
    m.op("Trilu", [left], upper=0)
    m.op("CDist", [m.call(m.floats(3, 8)), m.call(m.floats(4, 8))], metric="euclidean")
    m.op("NhwcMaxPool", [m.call(m.bytes(1, 5, 6, 3))], kernel_shape=[2, 3], strides=[2, 1])
    return m


def attention() -> Maker:
    """Return attention in its forms, and rotary positions."""
    m = Maker()
    batch, length, heads, size = 2, 5, 4, 8
    rows = [m.call(m.floats(batch, length, heads * size), ["b", "s", heads * size]) for _ in range(3)]
    bias = m.store(m.floats(3 * heads * size))
    mask = m.call(np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32), ["b", "s"])
    m.op("MultiHeadAttention", [*rows, bias, mask], num_heads=heads)
    lengths = m.call(np.array([5, 2], np.int32), ["b"])
    m.op("MultiHeadAttention", [*rows, "", lengths, m.call(m.floats(1, heads, length, length), [1, heads, "s", "s"])],
         num_heads=heads, scale=0.2, unidirectional=1)  # fmt: skip
    past = [m.call(m.floats(batch, heads, 3, size), ["b", heads, "p", size]) for _ in range(2)]
    m.op("MultiHeadAttention", [*rows, "", "", "", *past], 3, num_heads=heads)
    m.op("MultiHeadAttention", [rows[0], *past], num_heads=heads)
    x, weights = m.call(m.floats(batch, length, 24), ["b", "s", 24]), m.store(m.floats(24, 96) / 4)
    joint = m.call(m.floats(2, batch, heads, 3, size), [2, "b", heads, "p", size])
    m.op("Attention", [x, weights, bias, mask], num_heads=heads)
    m.op("Attention", [x, weights, bias, "", joint], 2, num_heads=heads, unidirectional=1)
    m.op(
        "Attention",
        [x, m.store(m.floats(24, 80) / 4), m.store(m.floats(80))],
        num_heads=heads,
        qkv_hidden_sizes=[32, 32, 16],
    )
    integers = [m.call(m.bytes(batch, length, 24)), m.store(m.bytes(24, 96, dtype=np.int8)), bias, m.scale(), m.scale()]
    m.op("QAttention", [*integers, mask, m.zero(99), m.zero(0, np.int8)], num_heads=heads)
    tables = [m.store(np.cos(m.floats(20, 4))), m.store(np.sin(m.floats(20, 4)))]
    positions = m.call(np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 19]]), ["b", "s"])
    m.op("RotaryEmbedding", [rows[0], positions, *tables])
    m.op("RotaryEmbedding", [rows[0], m.call(np.array([3])), *tables], interleaved=1)
    m.op("RotaryEmbedding", [past[0], m.call(np.array([[2, 3, 5]] * 2)), *(m.store(np.cos(m.floats(20, 2))) for _ in range(2))],
         rotary_embedding_dim=4, num_heads=heads)  # fmt: skip
    return m


def groups() -> Maker:
    """Return attention whose heads share keys, for prompts and for a token after others."""
    m = Maker()
    batch, heads, shared, size = 2, 4, 2, 16
    counts = {"num_heads": heads, "kv_num_heads": shared}
    tables = [m.store(np.cos(m.floats(20, 8))), m.store(np.sin(m.floats(20, 8)))]

    def rows(length: int, names: list[int | str], packed: bool = False) -> list[str]:
        widths = [heads + 2 * shared] if packed else [heads, shared, shared]
        made = [m.call(m.floats(batch, length, width * size), [*names, width * size]) for width in widths]
        return made + [""] * (3 - len(made))

    prompt, lengths, total = (
        rows(6, ["b", "s"]),
        m.call(np.array([5, 3], np.int32), ["b"]),
        m.call(np.array([6], np.int32)),
    )
    nothing = ["", ""]
    m.op("GroupQueryAttention", [*prompt, *nothing, lengths, total], 3, **counts)
    m.op(
        "GroupQueryAttention",
        [*rows(6, ["b", "s"], True), *nothing, lengths, total, *tables],
        3,
        do_rotary=1,
        softcap=2.0,
        **counts,
    )
    m.op("GroupQueryAttention", [*prompt, *nothing, lengths, total], 3, local_window_size=2, scale=0.5, **counts)
    past = [m.call(m.floats(batch, shared, 7, size), ["b", shared, "p", size]) for _ in range(2)]
    token, many = rows(1, ["b", 1]), m.call(np.array([8], np.int32))
    m.op("GroupQueryAttention", [*token, *past, m.call(np.array([7, 4], np.int32), ["b"]), many, *tables], 3, do_rotary=1,
         rotary_interleaved=1, local_window_size=4, **counts)  # fmt: skip
    buffer = [m.call(m.floats(batch, shared, 9, size)) for _ in range(2)]
    m.op(
        "GroupQueryAttention",
        [*token, *buffer, m.call(np.array([6, 4], np.int32), ["b"]), m.store(np.array([7], np.int32))],
        3,
        **counts,
    )
    extra = ["", "", m.call(m.floats(1, heads, 6, 6), [1, heads, "s", "s"])]
    m.op("GroupQueryAttention", [*prompt, *nothing, lengths, total, "", *extra], 3, **counts)
    m.op(
        "GroupQueryAttention",
        [*prompt, *nothing, lengths, total, "", "", "", "", m.store(m.floats(heads))],
        3,
        **counts,
    )
    m.op("GroupQueryAttention", [*prompt, *nothing, lengths, total], 3, smooth_softmax=1, **counts)
    # What a shorter prompt is filled up with has no result.
    for name in m.outputs:
        if name.endswith(".0") and not name.endswith((".3.0", ".4.0")):
            m.undefined[name] = np.s_[1, 4:]
    return m


def experts() -> Maker:
    """Return mixtures of experts."""
    m = Maker()
    count, hidden, inner = 4, 32, 32
    rows, logits = m.call(m.floats(2, 3, hidden), ["b", "s", hidden]), m.call(m.floats(6, count), ["t", count])
    first, second = m.store(m.floats(count, inner, hidden) / 6), m.store(m.floats(count, hidden, inner) / 6)
    biases = [m.store(m.floats(count, inner)), m.store(m.floats(count, hidden))]
    for kind in ("relu", "gelu", "silu"):
        m.op("MoE", [rows, logits, first, biases[0], second, biases[1]], k=2, activation_type=kind)
    fused = [m.store(m.floats(count, 2 * inner, hidden) / 6), m.store(m.floats(count, 2 * inner))]
    gated = {"activation_type": "swiglu", "normalize_routing_weights": 1, "k": 2}
    m.op(
        "MoE",
        [rows, logits, *fused, second, biases[1]],
        swiglu_fusion=1,
        activation_beta=1.0,
        swiglu_limit=1.5,
        **gated,
    )
    m.op(
        "MoE",
        [rows, logits, *fused, second, biases[1]],
        swiglu_fusion=1,
        activation_beta=0.5,
        activation_alpha=1.7,
        **gated,
    )
    m.op("MoE", [rows, logits, *fused, second], swiglu_fusion=1, **gated)
    for bits, block in [(4, 0), (8, 0), (4, 32)]:  # ONNX Runtime rounds inputs of blocks of 8 bits
        names = [rows, logits]
        for outputs, inputs in [(2 * inner, hidden), (hidden, inner)]:
            names.append(m.store(packed(m.random.integers(0, 1 << bits, (count, outputs, inputs)), bits)))
            scales = (m.random.random((count, outputs, inputs // block) if block else (count, outputs)) + 0.5) / (
                4 << bits
            )
            names += [m.store(scales.astype(np.float32)), m.store(m.floats(count, outputs))]
        sizes = {"block_size": block} if block else {}
        m.op("QMoE", names, expert_weight_bits=bits, swiglu_fusion=1, **sizes, **gated)
    return m


def main() -> None:
    """Write all files."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for make in (products, elementwise, blocks, norms, attention, groups, experts):
        made = make()
        data = made.model().SerializeToString()
        path = FOLDER / f"microsoft_{make.__name__}"
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        results = dict(zip(made.outputs, session.run(made.outputs, made.inputs), strict=True))
        for output, rows in made.undefined.items():
            results[output][rows] = np.nan
        path.with_suffix(".onnx").write_bytes(data)
        np.savez_compressed(path.with_suffix(".npz"), **made.inputs, **results)


if __name__ == "__main__":
    main()
